"""A cache of more networks than a figure or a list has room for: how many are shown, and that the caption says so."""

import re
from dataclasses import replace

import pandas as pd
import pytest
import scale
from helpers.places import ROOT

from measure.domain.names import model_name
from report import display, facts
from report.chapters.latency import figures as latency
from report.chapters.latency import tables as latencies
from report.chapters.networks import figures as networks
from report.chapters.networks import tables as counts
from report.chapters.networks.facts import ROWS
from report.chapters.prediction import chooser
from report.chapters.training import figures as training
from report.chapters.utilisation import figures as utilisation
from report.charts.panels import specified
from report.engine.project import read_project
from report.engine.source import CodeCell, read_source
from report.facts import of_chapter
from report.paper import load
from report.paper.frames import spread

pytestmark = pytest.mark.slow

MODELS, DETAILED = 132, 3  # of three models one has steps and profiles: more than a figure with a row for each draws
NUMBERS = {10: "ten", 12: "twelve", display.DRAWN: "thirty", display.LISTED: "a hundred"}


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scale")
    scale.write(folder, MODELS, machines=1, rows=0, detailed=DETAILED)
    return load(folder / "data", ROOT / "bib" / "references.bib")


def drawn(chart, field="network"):
    """Return the values of a field in the data of a figure."""
    rows = (row for table in specified(chart)["datasets"].values() for row in table)
    return {row[field] for row in rows if field in row}


CAPTIONS = {
    part.options["label"]: str(part.options.get("fig-cap", part.options.get("tbl-cap")))
    for part in read_source(read_project(ROOT)) if isinstance(part, CodeCell) and "label" in part.options
}  # fmt: skip


def of_processor(paper, show, **how):
    """Return a figure of the paper's processor alone."""
    return show.__wrapped__(replace(paper, machines=(paper.machine("cpu"),)), **how)


LISTS = {"tbl-latencies": latencies.latencies}


@pytest.mark.parametrize("label", LISTS)
def test_a_list_has_as_many_rows_as_its_caption_says(paper, label):
    # A head and a line below it
    assert LISTS[label].__wrapped__(paper).count("\n") - 2 == display.LISTED
    assert NUMBERS[display.LISTED] in CAPTIONS[label]


FIGURES = {
    "fig-training-memory": (training.memory.__wrapped__, "network", display.LISTED),
    "fig-gap": (lambda paper: of_processor(paper, utilisation.gap), "network", 10),
    "fig-gap-all": (lambda paper: of_processor(paper, utilisation.gap, everything=True), "network", display.DRAWN),
    "fig-training-steps": (training.steps.__wrapped__, "network", 12),
    "fig-training-networks": (training.networks.__wrapped__, "network", display.DRAWN),
    "fig-training-strip": (training.strip.__wrapped__, "network", display.DRAWN),
    "fig-training-kernels": (training.kernels.__wrapped__, "network", display.DRAWN),
}  # fmt: skip


@pytest.mark.parametrize("label", FIGURES)
def test_a_figure_draws_as_many_as_its_caption_says(paper, label):
    show, field, most = FIGURES[label]
    assert most <= len(drawn(show(paper), field)) <= most + 2  # those that the text names stay
    assert NUMBERS[most] in CAPTIONS[label]


@pytest.mark.parametrize("show", [utilisation.roofs, utilisation.throughput])
def test_the_text_says_how_many_networks_of_a_processor_are_drawn(paper, show):
    assert display.DRAWN <= len(drawn(of_processor(paper, show), "network")) <= display.DRAWN + 2
    assert facts.of_chapter("utilisation", paper).is_thinned
    text = (ROOT / "report" / "chapters" / "utilisation" / "utilisation.qmd").read_text("utf-8")
    block = text.partition('when-meta="utilisation.is_thinned"}')[2].partition(":::")[0]
    assert NUMBERS[display.DRAWN] in block


def test_a_cloud_has_some_of_the_points_and_those_it_names(paper, monkeypatch):
    monkeypatch.setattr(latency, "MEASURED", 50)
    made = latency.here.__wrapped__(paper)
    assert 50 <= len(drawn(made, "name")) <= 50 + 2 * 2 * 3  # two a trend and panel
    assert specified(made)["concat"][0]["title"].endswith(f": 50 of {MODELS} networks")


def test_the_text_says_how_many_of_all_networks_are_listed(paper):
    for figure in (networks.demands.__wrapped__(paper), networks.kinds.__wrapped__(paper, everything=True)):
        assert len(drawn(figure, "name")) == display.LISTED
    assert counts.everything.__wrapped__(paper).count("\n") - 2 == display.LISTED  # a head and a line below it
    assert len(drawn(networks.roofs.__wrapped__(paper, everything=True), "name")) == ROWS == 40
    text = (ROOT / "report" / "chapters" / "networks" / "networks.qmd").read_text("utf-8")
    for condition, number in (("is_thinned", NUMBERS[display.LISTED]), ("is_sampled", "forty")):
        assert getattr(of_chapter("networks", paper), condition)
        block = text.partition(f'when-meta="networks.{condition}"}}')[2].partition(":::")[0]
        assert number in block


def test_every_network_has_its_card(paper):
    _, *cards = chooser.choices(paper)["cards"].split('<div class="card"')
    assert len(cards) == paper.workloads.model.nunique() > MODELS
    timed = [card for card in cards if "<p>Batch" in card]
    assert len(timed) == MODELS
    identifier, name = re.match(r' id="card-([^"]+)" data-card="([^"]+)"', timed[0]).groups()
    assert name == model_name(identifier)


@pytest.mark.parametrize(
    ("count", "found"), [(2, [0, 1]), (4, [0, 1, 2, 3]), (5, [0, 1, 3, 4]), (100, [0, 33, 66, 99])]
)
def test_of_many_rows_the_ends_and_even_steps_stay(count, found):
    # Of 5 rows 4 stand at 0, 4/3, 8/3 and 4
    assert spread(pd.DataFrame({"at": range(count)}), 4)["at"].tolist() == found
