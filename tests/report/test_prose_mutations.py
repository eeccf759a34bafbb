"""What the paper says follows its cache: where that is changed the sentences change, or say what is missing.

A mutation changes a small cache that has every section (``whole_cache``); then the chapters are asked again.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest
from helpers.paper_text import COSTS, EVERYTHING, STEPS, told
from helpers.papers import REFERENCES, empty, tiny
from helpers.places import ROOT
from helpers.published_papers import printed
from helpers.sentences import check_no_gap, plain
from helpers.whole_cache import (
    MACHINES,
    MORE,
    SWAP,
    renamed,
    slower,
    swapped_latencies,
    without_files,
    without_machine,
    without_phases,
    without_products,
    write_whole,
)

from measure.domain.words import INFERENCE, STAGES, STEP
from report import failures
from report.load.paper import load

pytestmark = pytest.mark.long
COMMAND = re.compile(r"python (?:-m measure|benchmarks/counting_programs\.py)|add rows|restore")
"""What fills a gap: a command, or a table of the project that is to be restored."""

NAMES = {"example-cpu": "Example CPU", "example-gpu": "Example GPU"}


def by_code(texts):
    return {each.code: plain(each.text) for each in texts}


def unchanged(before, after):
    """The code that says the same of both."""
    return {code for code in after if before[code] == after[code]}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Asks what a mutation makes of the whole cache for the texts of the code that is wanted."""
    whole = tmp_path_factory.mktemp("whole") / "data"
    write_whole(whole)

    def ask(mutation=None, wanted=EVERYTHING):
        data = tmp_path_factory.mktemp("mutated") / "data"
        shutil.copytree(whole, data)
        if mutation:
            mutation(data)
        return told(load(data, REFERENCES), wanted)

    return ask


@pytest.fixture(scope="module")
def before(asked):
    """The texts of the whole cache, by the code that gives them."""
    return by_code(asked())


@dataclass(frozen=True)
class Section:
    """A part of the cache: how it goes, and patterns of the code that speaks of it.

    Without it what ``needs`` it says which command brings it back; what ``uses`` it says something else than before.
    """

    gone: Callable[[Path], None]
    needs: str
    uses: str = r"(?!)"


SECTIONS = {
    "machines": Section(
        without_files("machines/*/machine.csv"),
        r"findings\.(machines|benchmarks|predictors|roofs|utilisation|speed_ups|waterfall)\.|"
        rf"findings\.({STEPS}|{COSTS})|"
        r"findings\.(answers\.(benchmarks|roofs|utilisation|training|kernels)|discussion\.(kept_memory|lower_precision))|"
        r"tables\.(machines\.|roofs\.(measured_roofs|datasheet_roofs)|benchmarks\.latencies)",
        r"findings\.conclusions\.(?!advice)",
    ),
    "inference": Section(
        without_phases(INFERENCE),
        r"findings\.(benchmarks|predictors|speed_ups|waterfall)\.|findings\.utilisation\.attained|"
        r"findings\.(answers\.(benchmarks|utilisation)|discussion\.(kept_memory|lower_precision))|findings\.machines\.(measured|shown)|tables\.benchmarks\.(ranking|saturations)|"
        r"tables\.benchmarks\.latencies|tables\.utilisation\.",
        r"tables\.benchmarks\.speed_ups|findings\.conclusions\.(?!advice)",
    ),
    "training": Section(
        without_phases(*STAGES, STEP),
        rf"findings\.({STEPS}|{COSTS}|training\.peaks|answers\.training)|tables\.training\.",
    ),
    "operators": Section(
        without_files("machines/*/profiles.csv", "machines/*/operators.csv", "machines/*/kernels.csv"),
        rf"findings\.waterfall\.(gaps|profiled|system|largest)|findings\.({COSTS}|training\.reasons)|"
        r"findings\.(kernels\.(spent|gaps|launched|waiting)|answers\.kernels)|tables\.utilisation\.(terms|remedy)",
    ),
    "kernels": Section(without_files("machines/*/kernels.csv"), r"findings\.kernels\.launched"),
    "hardware counters": Section(
        without_files("machines/*/hardware_counter_profiles.csv", "machines/*/hardware_counters.csv"),
        r"findings\.kernels\.counted|tables\.kernels\.flop",
    ),
    "roofs": Section(
        without_files("machines/*/roofs.csv"),
        r"findings\.(roofs|utilisation|answers\.(roofs|utilisation))\b|findings\.waterfall\.(waiting|gaps|largest)|"
        r"findings\.training\.(rates|estimates)|findings\.kernels\.waiting|"
        r"findings\.(machines\.measured|speed_ups\.of_machines|predictors\.best)|tables\.roofs\.(?!datasheet)|"
        r"tables\.utilisation\.(shares|terms|remedy)",
        r"findings\.bounds\.on_roofs|tables\.roofs\.datasheet_roofs",
    ),
    "workload": Section(
        without_files("workload/models.csv", "workload/layers.csv", "workload/operators.csv"),
        r"findings\.(workload|layers|bounds|predictors|training)\.|findings\.(answers\.workload|cards\.)|tables\.workload\.(models|bounds|training)",
    ),
    "counting programs": Section(
        without_files("workload/counting_programs.csv"), r"findings\.counting_programs\.|tables\.counting_programs\."
    ),
    "measurements of others": Section(
        without_files("published/measurements/*.csv"),
        r"findings\.(elsewhere[a-z_]*|answers\.published|discussion\.(fusing|compile_or_buy))\b|tables\.elsewhere\.",
    ),
    "predictions": Section(
        without_files("prediction/*.csv"), r"findings\.prediction\.|tables\.prediction\.(?!typical)"
    ),
    "chips": Section(
        without_files("chips.csv"),
        r"findings\.(chips|comparisons|answers\.chips)\b|findings\.workload\.scope|tables\.chips\.",
        r"findings\.conclusions\.(?!others|advice)",
    ),
}

PRINTED = (
    r"published\.(findings|claims)\.|findings\.kernels\.(printed|candidates)|tables\.published\.|"
    r"tables\.kernels\.steps"
)
"""What speaks of the printed tables. They are held against models that the whole cache does not have."""

ADVICE = r"findings\.conclusions\.advice"
"""What may have nothing to say before as after; what it says is that of ``effects`` and ``margins``."""

NOT_THERE = r"tables\.prediction\.typical|(findings|tables)\.(fleet|language)\.|tables\.machines\.fleets"
"""What speaks of typical models, language models or many machines, none of which the whole cache has; their own tests
change their data."""


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_that_is_gone_is_said_to_be_missing(asked, before, name):
    section = SECTIONS[name]
    after = by_code(asked(section.gone, f"{section.needs}|{section.uses}"))
    assert after
    assert not unchanged(before, after)
    silent = [
        (code, text) for code, text in after.items() if re.search(section.needs, code) and not COMMAND.search(text)
    ]
    assert silent == []


def test_printed_tables_that_are_gone_are_said_to_be_missing():
    without = replace(printed(), published=empty().published, training_steps=empty().training_steps)
    after = by_code(told(without, PRINTED))
    assert not unchanged(by_code(told(printed(), PRINTED)), after)
    silent = {code for code, text in after.items() if not COMMAND.search(text)}
    assert silent == {"published.findings.misprint(data)"}  # there is none then


def test_every_text_says_which_data_it_follows(before):
    """What is asked for with data speaks of one of the sections; the rest are constants of the method."""
    speaks = "|".join([PRINTED, NOT_THERE, ADVICE, *(f"{each.needs}|{each.uses}" for each in SECTIONS.values())])
    assert {code for code in before if "data" in code and not re.search(speaks, code)} == set()
    rest = {code for code in before if "data" not in code}
    fixed = r"findings\.method\.[A-Z_]+|show\.show\(tables\.workload\.(costs|formulas)\(\)\)"
    assert {code for code in rest if not re.fullmatch(fixed, code)} == set()


@pytest.mark.parametrize("machine", MACHINES)
def test_slower_latencies_are_told(asked, before, machine):
    after = by_code(
        asked(
            partial(slower, machine),
            r"findings\.(machines\.measured|benchmarks\.(latency|throughput)|utilisation\.attained)|"
            r"findings\.(speed_ups\.of_machines|waterfall\.gaps|training\.(rates|estimates))|tables\.benchmarks\.latencies|"
            r"tables\.benchmarks\.(saturations|speed_ups)|tables\.utilisation\.(shares|terms)|tables\.training\.|"
            r"findings\.conclusions\.margins",
        )
    )
    assert unchanged(before, after) == set()
    # What models ask for and chips promise does not hang on it.
    others = by_code(
        asked(partial(slower, machine), r"findings\.(workload|layers\.(kinds|par|dep)|bounds|roofs|chips)")
    )
    assert unchanged(before, others) == set(others)


def test_two_models_that_swap_latencies_are_told(asked, before):
    after = by_code(
        asked(
            swapped_latencies,
            # The sentence on latencies takes the models that have all batch sizes, which these two have not.
            r"findings\.utilisation\.attained|findings\.predictors\.|"
            r"findings\.(waterfall\.gaps|speed_ups\.of_machines)|tables\.benchmarks\.latencies",
        )
    )
    assert unchanged(before, after) == set()


def test_two_models_that_swap_names_swap_them_in_every_sentence(asked, before):
    after = by_code(asked(renamed, r"^findings\.(?!elsewhere)"))  # what others timed keeps its names
    wrong = []
    for code, text in after.items():
        names = {name for name in SWAP if re.search(rf"\b{name}\b", before[code])}
        if len(names) == 1 and {name for name in SWAP if re.search(rf"\b{name}\b", text)} & names:
            wrong.append((code, before[code], text))
    assert wrong == []


@pytest.mark.parametrize("machine", MACHINES)
def test_a_machine_that_is_gone_is_spoken_of_no_more(asked, before, machine):
    texts = asked(partial(without_machine, machine), rf"{EVERYTHING}|figures\.predictors\.")
    check_said_once(texts)
    after = by_code(texts)
    spoke = {code for code, text in before.items() if NAMES[machine] in text}
    assert len(spoke) > 20
    assert {code for code in spoke if NAMES[machine] in after[code]} == set()
    assert any("has been measured yet; to add one, run" in text for text in after.values())


def check_said_once(texts):
    """That no device of a kind was measured stands in a chapter in one text at most, its figures' places included.

    The same text is printed once, by ``selection.lua``.
    """
    for chapter in {each.chapter for each in texts}:
        said = {
            each.text
            for each in texts
            if each.chapter == chapter and not each.code.startswith("show.show(tables.published.claim")
            if re.search(r"No [CG]PU has been measured yet", each.text)
        }
        assert len(said) <= 1, (chapter, said)


def test_a_frozen_network_leaves_every_text_whole(asked, before):
    after = by_code(asked(without_products("lean", columns=("backward_flop",))))
    assert after.keys() == before.keys()
    for text in after.values():
        check_no_gap(text)


@pytest.mark.parametrize("models", [("lean",), (*MORE, "lean", "broad", "deep", "tokens")])
def test_of_models_without_products_each_text_is_there_or_its_failure_is_said(asked, before, monkeypatch, models):
    """Embeddings, one among other models and such alone."""
    monkeypatch.delenv(failures.STRICT)
    after = by_code(asked(without_products(*models)))
    assert after.keys() == before.keys()
    assert {code for code, text in after.items() if before[code] and not text} == set()


def test_the_committed_cache_makes_whole_sentences():
    texts = told(load(ROOT / "data", REFERENCES), r"^findings\.(?!method)|findings\.conclusions")
    check_said_once(texts)
    for each in texts:
        words = set(plain(each.text).replace(",", " ").replace(".", " ").split())
        assert not {"nan", "None", "inf"} & words, each
        assert each.text.rstrip().removesuffix(":::").rstrip().endswith("."), each


def test_a_sentence_that_does_not_follow_the_data_is_noticed(tmp_path):
    """The check itself, on a chapter with one sentence that is computed and one that only looks so."""
    cell = "```{python}\n#| include: false\nfrom report.load import paper\n\ndata = paper.load()\n```\n"
    text = f"{cell}\n`{{python}} f'{{len(data.machines)}} machines.'`\n\n`{{python}} 'The GPU is faster.' or data`\n"
    (tmp_path / "_quarto.yml").write_text("project:\n  type: default\n  render:\n    - index.qmd\n")
    (tmp_path / "index.qmd").write_text(text)
    with_two, with_none = (by_code(told(paper, "data", tmp_path)) for paper in (tiny(), empty()))
    assert list(with_two.values()) == ["2 machines.", "The GPU is faster."]
    assert unchanged(with_two, with_none) == {"'The GPU is faster.' or data"}
