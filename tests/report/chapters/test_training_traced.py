"""A training step that a GPU ran: which trace is drawn, and its kinds of layer against arithmetic by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.cache.trace_records import TraceDevice, TraceOperator, TraceStep
from measure.cache.traces import StoredTrace
from report import facts
from report.chapters.training import facts as chapter
from report.chapters.training import figures, traced
from report.paper import Paper, load

PEAK, BANDWIDTH = 1307.4e12, 5.3e12  # of the MI300X's datasheet at bf16 (data/chips.csv)


def row(stage: str, kind: str, time_s: float, flop: float = 0, byte: float = 1, **more: Any) -> TraceOperator:
    known: dict[str, Any] = dict.fromkeys(TraceOperator.__annotations__) | {"rank": 0, "device": 0, "step": 1}
    times = {"calls": 1, "kernels": 2, "time_s": time_s, "copy_s": 0.0, "gap_s": 0.0}
    counts = {"flop": int(flop), "other_flop": 0, "recompute_flop": 0, "byte": int(byte)}
    return TraceOperator(**known | times | counts | {"stage": stage, "layer_kind": kind, "precision": "bf16"} | more)


def trace(name: str, host_s: float, source: str | None, *rows: TraceOperator) -> StoredTrace:
    known: dict[str, Any] = dict.fromkeys(TraceDevice.__annotations__) | {"rank": 0, "device": 0, "world_size": 1}
    device = TraceDevice(**known | {"network": name, "chip": "AMD Instinct MI300X", "source": source})
    return StoredTrace(name, [device], [TraceStep(0, 0, 1, host_s, host_s, host_s)], list(rows))


# A second at the peak takes 4 s; half a second at the bandwidth takes 1 s; backward twice the FLOP and half again.
ROWS = (
    row("forward", "convolution", 4.0, PEAK),
    row("forward", "normalisation", 1.0, 0, BANDWIDTH / 2),
    row("backward", "convolution", 8.0, 2 * PEAK, recompute_flop=int(PEAK / 2)),
    row("backward", "normalisation", 3.0, 0, BANDWIDTH / 2),
    row("backward", "communication", 48.0),
    row("update", "optimiser", 1.0, flop=0),
)


@pytest.fixture(scope="module")
def paper() -> Paper:
    traces = (
        trace("short", 1.0, "https://example.org", *ROWS),
        trace("long", 9.0, "https://example.org", *ROWS),
        trace("inference", 99.0, None, row("inference", "convolution", 1.0, PEAK)),
    )
    return replace(load(Path("data"), chosen=()), traces=traces)


def test_a_step_measured_here_comes_before_the_longest_imported_one(paper):
    own = replace(paper, traces=(*paper.traces, trace("own", 0.1, "machines/mine", *ROWS)))
    assert [traced.recorded(each).trace.name for each in (paper, own)] == ["long", "own"]
    assert traced.recorded(own, published=True).trace.name == "long"
    assert traced.recorded(replace(paper, traces=paper.traces[2:])) is None
    assert traced.recorded(replace(paper, chips=paper.chips.iloc[:0])) is None


def test_facts_are_shares_of_the_datasheets_rates(paper):
    found = chapter.of(paper)
    recorded = {key: value.number for key, value, _ in facts.entries("", found.recorded) if hasattr(value, "number")}
    # Convolutions: 3.5 s of arithmetic in 12 s. Normalisations: a second of bytes in 4 s, the first half in 1 s.
    assert recorded == pytest.approx(
        {".kernels": 8, ".kernel_time": 16 / 8, ".convolution": 3.5 / 12, ".normalisation": 1 / 4, ".closest": 1 / 2}
    )
    assert str(found.recorded.closest.name) == "normalisation, forward"
    published = found.reference.recorded
    # The published trace of the project: backward twice the forward pass's FLOP and what lies between checkpoints
    assert found.claims["checkpoints_compute_again"]
    assert published.chip.text == "Instinct MI300X"


def test_passes_are_compared_in_flop_and_time(paper):
    found = chapter._published(traced.recorded(paper))
    values = [value.number for value in (found.flop_ratio, found.time_ratio, found.waiting)]
    assert values == pytest.approx([2.5, 11 / 5, 48 / 65])  # of 65 s of kernels in all


def test_marks_are_the_kinds_of_both_passes(paper):
    rows = [each for data in figures.recorded.__wrapped__(paper)["datasets"].values() for each in data]
    marks = sorted((each["layer_kind"], each["share"]) for each in rows if "share" in each)
    assert marks == [("convolution", pytest.approx(4 / 16)), ("convolution", pytest.approx(8 / 16))]  # others: no FLOP
