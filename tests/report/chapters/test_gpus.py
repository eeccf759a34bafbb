"""The chapter on GPUs that others timed: both rooflines and the gains, against arithmetic by hand."""

from pathlib import Path

import pytest

from report import facts
from report.chapters.gpus import facts as chapter
from report.chapters.gpus import figures, tables
from report.charts import theme
from report.display import Missing
from report.paper import Paper, load
from report.stats import published
from tests.helpers import timed_networks
from tests.helpers.timed_networks import NETWORKS, NEWER, OLDER, kinds, timing


@pytest.fixture
def paper(tmp_path: Path) -> Paper:
    return timed_networks.two_gpus(tmp_path)


def number(value: object) -> float:
    return round(float(value.number), 4)  # type: ignore[attr-defined]


def test_bounds_count_bytes_of_the_whole_network_and_layer_by_layer(paper):
    rows = published.timed(paper)
    eager = rows[(rows.compiler == "") & (rows.model == NETWORKS[0])].set_index("device")
    assert eager.whole_byte.to_dict() == {OLDER: 11, NEWER: 11}
    assert eager.layers_byte.to_dict() == {OLDER: 13 + 40, NEWER: 13 + 40}
    assert eager.whole_s.to_dict() == pytest.approx({OLDER: 2, NEWER: 1.1})
    assert eager.layers_s.to_dict() == pytest.approx({OLDER: 6, NEWER: 5.3})


def test_the_best_timed_gpu_is_in_eager_mode_and_never_a_processor(tmp_path):
    few = [timing(model) for model in NETWORKS[:-1]]
    assert published.best_timed(timed_networks.paper_of(tmp_path, few)) is None  # 19 of 20 networks
    compiled = [timing(model, NEWER, published.COMPILED) for model in NETWORKS]
    best = published.best_timed(timed_networks.paper_of(tmp_path, [*few, *compiled, timing(NETWORKS[-1])]))
    assert best is not None
    assert best.device == OLDER


def test_of_several_versions_the_newest_is_taken(tmp_path):
    timings = [
        timing(model, torch=torch, latency_s=s) for model in NETWORKS for torch, s in (("2.9", 9.0), ("2.10", 8.0))
    ]
    paper = timed_networks.paper_of(tmp_path, timings)
    best = published.best_timed(paper)
    assert best is not None
    assert set(best.rows.latency_s) == {8.0}


def test_shares_are_those_of_eager_mode(paper):
    shares = chapter.of(paper).shares
    assert (shares.device.text, shares.precision.text, shares.networks.number) == ("Newer", "fp16", 20)
    # 200 FLOP in 6.4 s of 200 FLOP/s; 1.1 and 5.3 of 6.4 s; compiled 5.3 of 4 s
    assert [number(value) for value in (shares.peak, shares.whole, shares.layers)] == [0.1562, 0.1719, 0.8281]
    assert number(shares.left) == 1.2075
    assert number(shares.compiled) == 1.325


def test_a_step_to_a_higher_peak_and_what_both_bounds_promise(paper):
    step = chapter.of(paper).first
    assert (step.older.text, step.newer.text) == ("Older", "Newer")
    assert [number(value) for value in (step.peak, step.bandwidth)] == [2, 1]
    assert number(step.speed) == 1.25  # 8 s over 6.4 s
    assert number(step.whole) == 1.8182  # 2 s over 1.1 s
    assert number(step.layers) == 1.1321  # 6 s over 5.3 s
    assert chapter.of(paper).second.speed.is_missing


def test_rows_that_differ_in_more_than_one_condition_are_no_pair(tmp_path):
    timings = [timing(model) for model in NETWORKS] + [timing(model, NEWER, torch="2.8") for model in NETWORKS]
    paper = timed_networks.paper_of(tmp_path, timings)
    assert published.steps(paper) == []
    assert chapter.of(paper).first.speed.is_missing


def test_compiling_and_its_exceptions(tmp_path):
    timings = [timing(model) for model in NETWORKS]
    # Gains of 2 for ten networks, 1.6 for nine, and one that is slower compiled
    after = [4.0] * 10 + [5.0] * 9 + [10.0]
    timings += [timing(model, OLDER, published.COMPILED, latency_s=s) for model, s in zip(NETWORKS, after, strict=True)]
    kind_rows = [row for at, model in enumerate(NETWORKS) for row in kinds(model, 80 if at < 10 else 20)]
    paper = timed_networks.paper_of(tmp_path, timings, kind_rows=kind_rows)
    found = chapter.of(paper)
    assert number(found.compiled.speed) == 1.8  # between 1.6 and 2
    assert number(found.compiled.slower) == 0.05
    assert number(found.fused.most) == 2  # networks whose normalisations move most
    assert number(found.fused.least) == 1.6
    assert found.together.both.is_missing


def test_the_compiler_and_the_next_gpu_together(paper):
    # The newer of both is the best-timed by its name, and has no next one
    assert chapter.of(paper).together.both.is_missing
    older = published.best_timed(paper)._replace(device=OLDER, rows=published.newest(paper).query("device == @OLDER"))
    following = published.of_best(published.steps(paper), older)
    found = chapter._together(paper, older, following)
    assert [number(value) for value in (found.both, found.over_next)] == [2, 1.28]


def test_the_gain_chart_has_diamonds_for_another_card_alone(paper):
    chart = figures.gains.__wrapped__(paper)  # type: ignore[attr-defined]
    rows = chapter.changes(paper).set_index("name")
    assert rows.whole.notna().to_dict() == {
        "compiled on Newer": False, "compiled on Older": False, "Older to Newer": True,
    }  # fmt: skip
    assert "Older to Newer: 1.25 times as fast" in chart["description"]


def test_both_rooflines_have_their_own_colours(paper):
    chart = str(figures.roofs.__wrapped__(paper))  # type: ignore[attr-defined]
    assert all(color in chart for color in theme.BOUND_COLORS.values())


def test_tables_print_a_row_for_each_device_and_change(paper):
    assert "| Older | fp16 | 20 |" in tables.devices(paper).markdown
    assert "| Older to Newer | 20 | 1\\.25 |" in tables.gains(paper).markdown


def test_nothing_timed_is_missing_and_never_fails(tmp_path):
    empty = load(tmp_path)
    found = dict(facts.conditions.__globals__["_conditions"](chapter.of(empty)))
    assert not any(
        found[name] for name in ("shares", "first", "second", "compiled", "fused", "together", "calculation")
    )
    for make in (figures.roofs, figures.gains, figures.lowered, figures.by_size, figures.delivered, tables.devices):
        with pytest.raises(Missing):
            make.__wrapped__(empty)  # type: ignore[attr-defined]


def test_claims_of_the_published_data_hold():
    claims = chapter.of(timed_networks.project()).claims
    assert [name for name, holds in claims.items() if not holds] == []


def test_every_fact_has_a_meaning_and_a_source():
    found = list(facts.entries("gpus", facts.of_chapter("gpus", timed_networks.project())))
    assert [key for key, _, meaning in found if not meaning] == []
    assert [key for key, value, _ in found if value.source is None] == []
