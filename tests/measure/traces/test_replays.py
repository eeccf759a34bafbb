"""Replays of CUDA graphs with the operators of their captures, and attention counted from a step's annotation."""

import pytest
from helpers.traces import LINEAR_FLOP, addmm, call, event, kernel, launch, relu, step, trace, write

from measure.errors import UserError
from measure.traces import matching, paged
from measure.traces.reading import read
from measure.traces.replays import join
from measure.traces.summary import summarise


def runtime(name, start, correlation, kernel=None):
    return event("cuda_runtime", name, start, 1, {"correlation": correlation} | ({"kernel": kernel} if kernel else {}))


def captured(*inside, begin=1):
    return [runtime("hipStreamBeginCapture", begin, 900 + begin), *inside, runtime("hipStreamEndCapture", 990, 990)]


def linear_graph(rows=8, kernels=("gemm", "relu_kernel")):
    """A linear layer with its activation, whose kernels are named as they are launched; a copy of the result."""
    product = call("addmm", "bf16 32", f"bf16 {rows}x64", "bf16 64x32", 1, 1, start=10)
    names = [(15, 11, kernels[0]), (65, 12, kernels[1])]
    launches = [runtime("hipLaunchKernel", start, number, name) for start, number, name in names]
    return trace(*captured(product, relu(60), *launches, runtime("hipMemcpyAsync", 80, 13)))


def replayed(*numbers, names=("relu_kernel", "gemm")):
    """A step that launches the graph; two streams start its kernels in another order than they were captured in."""
    events = [step(1, 0, 900)]
    for number in numbers:
        start = 100 * number
        events.append(launch(start, number, "hipGraphLaunch"))
        events += [kernel(name, start + 10 + 10 * place, 5, number) for place, name in enumerate(names)]
        events.append(kernel("Memcpy DtoD", start + 40, 2, number, category="gpu_memcpy"))
    return trace(*events)


@pytest.fixture
def joined(tmp_path):
    """Summarise a trace with its captures."""

    def joined(document, *captures):
        (found,) = read(write(tmp_path / "replay.json", document))
        paths = [write(tmp_path / f"capture{number}.json", each) for number, each in enumerate(captures)]
        join(found, [capture for path in paths for capture in read(path)])
        return summarise(found)

    return joined


def test_replayed_kernels_have_the_operators_of_their_capture(joined):
    rows = {row.operator: row for row in joined(replayed(1, 2), linear_graph()).operators}
    assert (rows["addmm"].calls, rows["addmm"].kernels, rows["addmm"].flop) == (2, 2, 2 * LINEAR_FLOP)
    assert (rows["addmm"].kernel, rows["addmm"].time_s) == ("gemm", pytest.approx(10e-6))
    assert (rows["relu"].kernel, rows["relu"].calls, rows["relu"].step) == ("relu_kernel", 2, 1)
    assert {row.reason for row in rows.values()} == {None, matching.GRAPH}  # no operator copied
    assert rows[None].copy_s == pytest.approx(4e-6)


def test_the_capture_of_another_size_is_told_by_its_kernels(joined):
    other = linear_graph(16, ("large_gemm", "relu_kernel"))
    rows = {row.operator: row for row in joined(replayed(1), other, linear_graph()).operators}
    assert rows["addmm"].flop == LINEAR_FLOP


@pytest.mark.parametrize(
    ("document", "captures", "complaint"),
    [
        (replayed(1), [linear_graph(8), linear_graph(16)], "several batch sizes have the kernels"),
        (replayed(1), [linear_graph(8, ("other", "relu_kernel"))], "no captured graph has the kernels"),
        (replayed(1), [trace(*captured(addmm(10), launch(15, 11)))], "CUDA's does not"),
        (trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5)), [linear_graph()], "replays no CUDA graph"),
        (replayed(1), [linear_graph() | {"distributedInfo": {"rank": 1, "world_size": 2}}], "no capture is of rank 0"),
    ],
)
def test_a_capture_that_does_not_fit_is_refused(joined, document, captures, complaint):
    with pytest.raises(UserError, match=complaint):
        joined(document, *captures)


def test_equal_captures_of_equal_layers_are_one(joined):
    rows = {row.operator: row for row in joined(replayed(1), linear_graph(), linear_graph()).operators}
    assert (rows["addmm"].calls, rows["addmm"].flop) == (1, LINEAR_FLOP)


CONTEXT, GENERATION = "context_1(sq6sk10sqsq36sqsk60)", "generation_2(sq2sk30sqsq2sqsk30)"
ATTENTION = ("bf16 8x4x16", "bf16 8x2x16", "bf16 8x2x16", "bf16 8x4x16")  # 4 heads of queries, 2 of keys


def attention_step(annotation, *durations):
    events = [event("user_annotation", annotation, 5, 600, {})]
    for number, duration in enumerate(durations):
        start = 10 + 100 * number
        events += [call("vllm::unified_attention_with_output", *ATTENTION, start=start), launch(start + 5, number + 1)]
        events.append(kernel("attention", start + 20, duration, number + 1))
    return events


def test_paged_attention_is_counted_from_the_steps_requests(summary):
    found = summary(*attention_step(f"execute_8_{CONTEXT}_{GENERATION}", 10, 10))
    (row,) = found.operators
    # Each of two calls: 4 heads x 16 x (60 + 30) scores, twice 2 FLOP. Queries and results of 8 tokens with 4 heads,
    # keys and values of 10 + 30 tokens with 2 heads, of 16 numbers of 2 bytes.
    assert (row.layer_kind, row.calls) == ("attention", 2)
    assert (row.flop, row.byte) == (2 * 4 * 4 * 16 * 90, 2 * 2 * 2 * 16 * (8 * 4 + 40 * 2))


def test_a_shorter_call_has_a_window_that_is_not_recorded(summary):
    rows = summary(*attention_step(f"execute_8_{CONTEXT}_{GENERATION}", 30, 12, 31)).operators
    assert sorted((row.calls, row.flop is None, row.reason) for row in rows) == [
        (1, True, paged.WINDOW),
        (2, False, None),
    ]


@pytest.mark.parametrize(
    "annotation",
    [
        "execute_context_1(6)_generation_2(2)",  # without the sums
        f"execute_8_{CONTEXT}_{GENERATION} of /home/me",
    ],
)
def test_without_the_sums_paged_attention_is_not_counted(summary, annotation):
    (row,) = summary(*attention_step(annotation, 10)).operators
    assert (row.flop, row.reason) == (None, "no formula")
