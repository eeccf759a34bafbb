"""One network on two GPUs, kind by kind: ratios and shares of a roof, against arithmetic by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from measure.cache.trace_records import TraceDevice, TraceOperator, TraceStep
from measure.cache.traces import StoredTrace
from report import facts
from report.chapters.gpus import facts as chapter
from report.chapters.gpus import figures, traced
from report.paper import Paper, load

GB = 10**9
LINEAR, POINTWISE, SOFTMAX = ("linear", "addmm"), ("pointwise", "mul"), ("attention", "_softmax")


def operator(kind: tuple[str, str], time_s: float, flop: int = 0, byte: int = 1) -> TraceOperator:
    counts: dict[str, Any] = {"flop": flop, "other_flop": 0, "recompute_flop": 0, "byte": byte, "kernel": "k"}
    times: dict[str, Any] = {"calls": 1, "kernels": 1, "time_s": time_s, "copy_s": 0.0, "gap_s": 0.0}
    place: dict[str, Any] = {"rank": 0, "device": 0, "step": 1, "stage": "inference", "shape": "2x2", "reason": None}
    return TraceOperator(layer_kind=kind[0], operator=kind[1], precision="bf16", **place, **times, **counts)


def trace(network: str, chip: str, host_s: float, busy_s: float, *operators: TraceOperator) -> StoredTrace:
    known: dict[str, Any] = dict.fromkeys(TraceDevice.__annotations__) | {"rank": 0, "device": 0, "world_size": 1}
    device = TraceDevice(**known | {"network": network, "chip": chip, "fingerprint": chip + network})
    return StoredTrace(network + chip, [device], [TraceStep(0, 0, 1, host_s, busy_s, busy_s)], list(operators))


@pytest.fixture(scope="module")
def paper() -> Paper:
    """Of datasheets 989.4e12 and 1307.4e12 FLOP/s at bf16, 3.35e12 and 5.3e12 B/s (``data/chips.csv``)."""
    first, second = traced.GPUS
    slow = operator(LINEAR, 2, int(989.4e12)), operator(POINTWISE, 4, 0, 6700 * GB), operator(SOFTMAX, 6, 0, 3350 * GB)
    fast = operator(LINEAR, 4, int(1307.4e12)), operator(POINTWISE, 2, 0, 5300 * GB), operator(SOFTMAX, 3, 0, 1325 * GB)
    traces = (
        trace(traced.VIDEO, first, 20.0, 12.0, *slow),
        trace(traced.VIDEO, second, 20.0, 9.0, *fast),
        trace(traced.IMAGES, first, 10.0, 2.0, operator(LINEAR, 2.0)),
        trace(traced.IMAGES, second, 8.0, 4.0, operator(LINEAR, 4.0)),
    )
    return replace(load(Path("data"), chosen=()), traces=traces)


def test_kinds_are_compared_in_time_and_with_their_roofs(paper):
    found = {key: value.number for key, value, _ in facts.entries("", chapter.of(paper).traces.video)}
    # Kernels: 4 + 2 + 3 s over 2 + 4 + 6 s. Linear: 1 s of arithmetic in 2 s and in 4 s. Pointwise: 6.7 TB are 2 s of
    # 4 s, 5.3 TB 1 s of 2 s. Softmax: 3.35 TB are 1 s of 6 s, a quarter of 5.3 TB is 0.25 s of 3 s.
    assert found == pytest.approx(
        {
            ".kernels": 9 / 12, ".linear": 2, ".linear_first": 1 / 2, ".linear_second": 1 / 4, ".pointwise": 1 / 2,
            ".pointwise_first": 1 / 2, ".pointwise_second": 1 / 2, ".softmax": 1 / 2, ".softmax_part": 6 / 12,
            ".softmax_roof": 1 / 6,
        }
    )  # fmt: skip


def test_a_step_with_idle_gpus_is_the_hosts(paper):
    found = chapter.of(paper).traces.images
    # Kernels 4 s over 2 s, steps 8 s over 10 s; 2 of 10 s and 4 of 8 s are busy
    assert [value.number for value in (found.kernels, found.step)] == [2, 0.8]
    assert [value.number for value in (found.idle_first, found.idle_second)] == pytest.approx([0.8, 0.5])


def test_the_second_has_more_of_both_rates(paper):
    found = chapter.of(paper).traces
    assert [value.number for value in (found.peak, found.bandwidth)] == pytest.approx([1307.4 / 989.4, 5.3 / 3.35])


def test_figures_hold_the_same_ratios_and_shares(paper):
    assert figures.kinds(paper).specification
    assert figures.traced_roofs(paper).specification
    rows = traced.ratios(paper)
    assert rows[rows.network == traced.VIDEO].set_index("kind").ratio.to_dict() == {
        "linear": 2, "pointwise": 0.5, "softmax": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize("kept", [slice(0, 0), slice(0, 1), slice(0, 3)], ids=["none", "one GPU", "one network whole"])
def test_without_both_gpus_nothing_is_said(paper, kept):
    few = replace(paper, traces=paper.traces[kept])
    assert all(value.is_missing for _, value, _ in facts.entries("", chapter.of(few).traces))


def test_without_pairs_there_are_no_figures(paper):
    for draw in (figures.kinds, figures.traced_roofs):
        assert draw(replace(paper, traces=())).specification is None
