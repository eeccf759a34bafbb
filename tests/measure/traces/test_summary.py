"""Traces written by hand; FLOP and bytes from hand arithmetic in comments."""

import pytest
from helpers import traces
from helpers.traces import addmm, event, kernel, launch, operator, relu, step, trace, write

from measure.traces import matching, reading
from measure.traces.summary import NO_FORMULA, summarise

BF16 = "c10::BFloat16"
NODE = "autograd::engine::evaluate_function: "


@pytest.fixture
def summary(tmp_path):
    return lambda document: summarise(reading.read(write(tmp_path / "t.json", document)))


def rows(found):
    return {row.operator or row.reason: row for row in found.operators}


def test_the_outermost_operator_with_a_formula_carries_the_counts(summary):
    found = summary(traces.linear_step())
    linear, activation = found.operators
    assert (linear.operator, linear.layer_kind, linear.stage) == ("addmm", "linear", "inference")
    assert (linear.shape, linear.precision, linear.reason) == ("32 8x64 64x32", "bf16", None)
    assert linear.flop == 2 * 8 * 64 * 32
    assert linear.other_flop == 8 * 32  # the bias
    # bias 32, rows 8 x 64, weights 64 x 32 and results 8 x 32, of 2 bytes each
    assert linear.byte == 2 * (32 + 8 * 64 + 64 * 32 + 8 * 32)
    assert (linear.calls, linear.kernels, linear.time_s, linear.gap_s, linear.kernel) == (1, 1, 10e-6, 0.0, "gemm")
    assert (activation.operator, activation.layer_kind, activation.flop) == ("relu", "activation", 0)
    assert activation.other_flop == 8 * 32
    assert activation.byte == 2 * 2 * 8 * 32  # read and written
    assert activation.gap_s == 15e-6
    (only,) = found.steps
    assert (only.step, only.host_s, only.span_s, only.busy_s) == (3, 200e-6, 30e-6, 15e-6)
    assert (found.kernels, found.step_count, found.operator_share, found.counted_share) == (2, 1, 1.0, 1.0)
    assert found.kernel_time_s == pytest.approx(15e-6)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([kernel("late", 30, 5, 9)], matching.UNRECORDED),
        ([kernel("early", 1, 5, 0)], matching.BEFORE),
        ([launch(300, 9), kernel("lone", 310, 5, 9)], matching.OUTSIDE),
        ([launch(300, 9, "cudaGraphLaunch"), kernel("graph", 310, 5, 9)], matching.GRAPH),
    ],
)
def test_kernels_without_an_operator_have_a_reason(summary, events, reason):
    found = summary(trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5), *events))
    row = rows(found)[reason]
    assert (row.operator, row.kernels, row.flop, row.byte, row.layer_kind) == (None, 1, None, None, "other")
    assert (found.operator_share, found.counted_share) == (0.5, 0.5)


def test_without_a_launch_the_external_id_leads_to_the_operator(summary):
    found = summary(trace(addmm(10, number=77), kernel("gemm", 50, 5, 3, **{"External id": 77})))
    assert [row.operator for row in found.operators] == ["addmm"]


def test_a_launch_on_another_thread_is_not_in_an_operator(summary):
    found = summary(trace(addmm(10), launch(15, 5, thread=(100, 101)), kernel("gemm", 20, 5, 5)))
    assert [row.reason for row in found.operators] == [matching.OUTSIDE]


def test_equal_calls_of_a_step_are_one_group_and_a_step_is_a_median(summary):
    events = []
    for number, calls in enumerate((1, 3, 3)):
        start = 1000 * number
        events.append(step(number, start, 900))
        for call in range(calls):
            at, correlation = start + 100 * call + 10, 10 * number + call
            events += [addmm(at), launch(at + 5, correlation), kernel("gemm", at + 30, 5, correlation)]
    found = summary(trace(*events))
    assert [(row.step, row.calls, row.kernels) for row in found.operators] == [(0, 1, 1), (1, 3, 3), (2, 3, 3)]
    assert found.of_a_step("flop") == 3 * 2 * 8 * 64 * 32
    assert found.step_count == 3


def test_an_operator_outside_the_steps_has_no_step(summary):
    found = summary(trace(step(1, 100, 50), addmm(10), launch(15, 5), kernel("gemm", 120, 5, 5)))
    assert [row.step for row in found.operators] == [None]
    assert found.steps == []
    assert found.of_a_step("flop") == 0


def backward(*events):
    """A forward pass with its node 40, and a backward pass with these events inside the node on another thread."""
    thread = (100, 200)
    inside = [dict(each, pid=100, tid=200) for each in events]
    return trace(
        operator("aten::linear", 10, 30, [[8, 64]], BF16, sequence=40),
        addmm(15, 20, sequence=40),
        launch(20, 1),
        kernel("gemm", 25, 5, 1),
        operator(f"{NODE}AddmmBackward0", 100, 100, sequence=40, thread=thread),
        *inside,
    )


def test_a_backward_operator_has_its_stage_and_its_forward_kind(summary):
    product = operator("aten::mm", 120, 20, [[64, 8], [8, 32]], BF16, strides=[[1, 64], [32, 1]])
    scaling = operator("aten::mul", 150, 20, [[8, 32], []], [BF16, "double"])
    found = summary(
        backward(product, launch(125, 2), scaling, launch(155, 3))
        | {
            "traceEvents": [
                *backward(product, launch(125, 2), scaling, launch(155, 3))["traceEvents"],
                kernel("gemm", 130, 5, 2),
                kernel("mul_kernel", 160, 5, 3),
            ]
        }
    )
    by_name = rows(found)
    assert (by_name["addmm"].stage, by_name["mm"].stage) == ("forward", "backward")
    assert by_name["mm"].flop == 2 * 64 * 8 * 32
    assert by_name["mm"].recompute_flop == 0
    assert (by_name["mul"].layer_kind, by_name["mul"].stage) == ("linear", "backward")


def test_a_forward_operator_in_a_backward_pass_is_recomputation(summary):
    events = backward(addmm(120, sequence=41), launch(125, 2))
    found = summary(events | {"traceEvents": [*events["traceEvents"], kernel("gemm", 130, 5, 2)]})
    again = next(row for row in found.operators if row.stage == "backward")
    assert (again.flop, again.other_flop) == (0, 0)
    assert again.recompute_flop == 2 * 8 * 64 * 32 + 8 * 32


def test_a_node_that_a_recomputation_made_has_its_forward_kind(summary):
    thread = (100, 200)
    again = operator("aten::linear", 110, 20, [[8, 64]], BF16, sequence=50)
    document = backward(again, addmm(112, 10, sequence=50), launch(115, 2))
    document["traceEvents"] += [
        operator(f"{NODE}AddmmBackward0", 300, 100, sequence=50, thread=thread),
        operator("AddmmBackward0", 305, 90, [[8, 32]], BF16, sequence=50, thread=thread),
        operator("aten::mul", 310, 20, [[8, 32], []], [BF16, "double"], thread=thread),
        launch(315, 3, thread=thread),
        kernel("mul_kernel", 330, 5, 3),
    ]
    assert rows(summary(document))["mul"].layer_kind == "linear"


def test_equal_calls_are_one_row_whether_they_run_again_or_not(summary):
    events = [addmm(120, sequence=41), launch(125, 2), addmm(150), launch(155, 3)]
    document = backward(*events)
    document["traceEvents"] += [kernel("gemm", 160, 5, 2), kernel("gemm", 170, 5, 3)]
    (both,) = (row for row in summary(document).operators if row.stage == "backward")
    assert (both.calls, both.flop, both.recompute_flop) == (2, 2 * 8 * 64 * 32, 2 * 8 * 64 * 32 + 8 * 32)


def test_what_an_optimiser_launches_is_its_own_kind(summary):
    update = event("user_annotation", "Optimizer.step#SGD.step", 5, 100, {})
    found = summary(trace(update, relu(10), launch(15, 5), kernel("k", 20, 5, 5)))
    assert [(row.stage, row.layer_kind) for row in found.operators] == [("update", "optimiser")]


CONVOLUTION = ["ScalarList"] * 3 + ["Scalar", "ScalarList", "Scalar"]


def convolution(name, groups, **more):
    """8 channels of 6 x 6, 3 x 3 weights, without padding: 4 x 4 results."""
    shapes = [[2, 8, 6, 6], [8, 8 // groups, 3, 3], [], [], [], [], [], [], []]
    values = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", str(groups)]
    return operator(name, 10, 20, shapes, [BF16, BF16, "", *CONVOLUTION], values, **more)


@pytest.mark.parametrize(
    ("called", "kind", "flop"),
    [
        # 2 a multiply-add: 2 images, 8 outputs of 4 x 4, each of 8 / groups channels of 3 x 3
        (convolution("aten::convolution", 1), "convolution", 2 * 2 * 8 * 16 * 8 * 9),
        (convolution("aten::convolution", 2), "convolution", 2 * 2 * 8 * 16 * 4 * 9),
        (convolution("aten::convolution", 8), "depthwise convolution", 2 * 2 * 8 * 16 * 9),
        # Two products of queries and keys: 2 batches, 4 heads, 10 x 10 scores, 16 wide
        (
            operator(
                "aten::_scaled_dot_product_flash_attention",
                10,
                20,
                [[2, 4, 10, 16]] * 3 + [[]] * 4,
                [BF16] * 3 + ["Scalar"] * 4,
                ["", "", "", "0.", "True", "False", "0.25"],
            ),
            "attention",
            2 * 2 * 2 * 4 * 10 * 10 * 16,
        ),
        # Grouped queries: 4 heads share 2 of keys
        (
            operator(
                "aten::_scaled_dot_product_flash_attention",
                10,
                20,
                [[2, 4, 10, 16], [2, 2, 10, 16], [2, 2, 10, 16], [], [], [], []],
                [BF16] * 3 + ["Scalar"] * 4,
                ["", "", "", "0.", "False", "False", ""],
            ),
            "attention",
            2 * 2 * 2 * 4 * 10 * 10 * 16,
        ),
        (operator("aten::bmm", 10, 20, [[6, 4, 8], [6, 8, 5]], "float"), "attention", 2 * 6 * 4 * 8 * 5),
        (operator("aten::mm", 10, 20, [[4, 8], [8, 5]], "c10::Half"), "linear", 2 * 4 * 8 * 5),
    ],
)
def test_products_convolutions_and_attention(summary, called, kind, flop):
    (row,) = summary(trace(called, launch(15, 5), kernel("k", 20, 5, 5))).operators
    assert (row.layer_kind, row.flop) == (kind, flop)


@pytest.mark.parametrize(
    ("called", "kind", "byte"),
    [
        # A copy reads 4 bytes and writes 2 of each of 8 x 32 elements.
        (operator("aten::copy_", 10, 20, [[8, 32], [8, 32], []], [BF16, "float", "Scalar"]), "copy", 6 * 8 * 32),
        (
            operator(
                "aten::_to_copy", 10, 20, [[8, 32]] + [[]] * 6, [BF16, "Scalar", "", "", "", "Scalar", ""],
                ["", "6", "", "", "", "False", ""],
            ),
            "copy",
            (2 + 4) * 8 * 32,
        ),
        # 5 indices of 8 bytes; as many rows of 16 elements are read and written.
        (
            operator(
                "aten::embedding", 10, 20, [[100, 16], [5], [], [], []],
                [BF16, "long int", "Scalar", "Scalar", "Scalar"], ["", "", "-1", "False", "False"],
            ),
            "embedding",
            5 * 8 + 2 * 5 * 16 * 2,
        ),
        (operator("aten::add", 10, 20, [[8, 32], [1, 32], []], [BF16, BF16, "Scalar"]), "pointwise", 2 * (512 + 32)),
        # Two tensors of 32 elements of 2 bytes are read, and all 64 are written.
        (operator("aten::cat", 10, 20, [[[4, 8]] * 2, []], ["TensorList", "Scalar"], ["", "-1"]), "copy", 2 * 64 * 2),
        (operator("aten::_softmax", 10, 20, [[2, 4, 10, 10], [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "False"]),
         "attention", 2 * 2 * 800),
        (operator("aten::_softmax", 10, 20, [[10, 80], [], []], [BF16, "Scalar", "Scalar"], ["", "-1", "False"]),
         "activation", 2 * 2 * 800),
        # 4 bytes an element, read and written
        (operator("c10d::allreduce_", 10, 20, [[[1000]], []], ["TensorList", ""]), "communication", 2 * 4 * 1000),
    ],
)  # fmt: skip
def test_bytes_and_kinds(summary, called, kind, byte):
    document = trace(called, launch(15, 5), kernel("k", 20, 5, 5))
    if "TensorList" in called["args"]["Input type"]:  # the type of tensors in lists is that of most others
        other = "float" if byte == 8000 else BF16
        document["traceEvents"].append(operator("aten::relu", 100, 5, [[4]], other))
    (row,) = summary(document).operators
    assert (row.layer_kind, row.byte, row.flop) == (kind, byte, 0)


def test_a_convolution_of_miopen_with_strides_given(summary):
    outer = convolution("aten::convolution", 1, strides=[[288, 36, 6, 1], [72, 9, 3, 1], [], [], [], [], [], [], []])
    inner = operator("aten::miopen_convolution", 12, 15, [[2, 8, 6, 6]], BF16)
    found = summary(trace(outer, inner, launch(15, 5, "hipLaunchKernel"), kernel("igemm", 20, 5, 5)))
    assert [row.operator for row in found.operators] == ["convolution"]


def test_an_expanded_tensor_is_read_once(summary):
    added = operator("aten::add", 10, 20, [[8, 32], [8, 32], []], [BF16, BF16, "Scalar"], strides=[[32, 1], [0, 1], []])
    (row,) = summary(trace(added, launch(15, 5), kernel("k", 20, 5, 5))).operators
    assert row.byte == 2 * (256 + 32 + 256)


@pytest.mark.parametrize(
    ("called", "name"),
    [
        (operator("vllm::moe_forward", 10, 20, [[8, 64]], BF16), "vllm.moe_forward"),
        (operator("aten::topk", 10, 20, [[400]], BF16), "topk"),
        (operator("aten::mm", 10, 20, [[4, 8], [9, 5]], BF16), "mm"),  # sizes that do not fit
        (operator("aten::mm", 10, 20, [[4, -8], [-8, 5]], BF16), "mm"),
        (
            operator("aten::_foreach_add_", 10, 20, [[], [], []], ["TensorList", "TensorList", "Scalar"]),
            "_foreach_add_",
        ),
    ],
)
def test_what_has_no_counts_is_listed_with_its_time(summary, called, name):
    found = summary(trace(called, launch(15, 5), kernel("k", 20, 5, 5)))
    (row,) = found.operators
    assert (row.operator, row.reason, row.flop, row.other_flop, row.byte) == (name, NO_FORMULA, None, None, None)
    assert found.left_out() == {name: 5e-6}
    assert (found.operator_share, found.counted_share) == (1.0, 0.0)


def test_a_custom_operator_leaves_counted_parts_to_them(summary):
    outer = operator("vllm::moe_forward", 10, 60, [[8, 64]], BF16)
    found = summary(
        trace(outer, launch(12, 4), addmm(20), launch(25, 5), kernel("own", 20, 5, 4), kernel("gemm", 30, 5, 5))
    )
    assert [row.operator for row in found.operators] == ["vllm.moe_forward", "addmm"]


def test_a_triton_kernel_has_the_bytes_of_its_tensors(summary):
    fused = operator("triton_poi_fused_add_0", 10, 20, [[100], [100], []], ["float", BF16, "Scalar"])
    (row,) = summary(trace(fused, launch(15, 5, "cuLaunchKernel"), kernel(fused["name"], 20, 5, 5))).operators
    assert (row.operator, row.layer_kind, row.flop, row.byte) == ("triton_poi_fused_add_0", "pointwise", None, 600)


def test_a_triton_kernel_carries_the_counts_that_inductor_states(summary):
    product = operator("triton_tem_fused_mm_0", 10, 20, [[8, 64], [64, 32], [8, 32]], "float")
    product["args"] |= {"kernel_flop": 2 * 8 * 64 * 32, "kernel_num_gb": 11.264e-6, "kernel_file": "/home/me/x.py"}
    (row,) = summary(trace(product, launch(15, 5), kernel("triton_tem_fused_mm_0", 20, 5, 5))).operators
    assert (row.flop, row.byte, row.reason) == (2 * 8 * 64 * 32, 11264, None)


def test_kernels_of_a_compiled_region_have_their_own_names(summary):
    region = operator("Torch-Compiled Region: 0/0", 10, 60)
    called = [launch(15, 5), kernel("triton_own", 20, 5, 5), launch(16, 6), kernel("void f<int>(int)", 30, 5, 6)]
    found = summary(trace(relu(200), region, *called))
    assert [(row.operator, row.reason) for row in found.operators] == [
        ("triton_own", NO_FORMULA),
        ("region", NO_FORMULA),
    ]


def test_tf32_shows_in_the_name_of_the_kernel(summary):
    called = addmm(10, dtype="float")
    for name, precision in (("sm80_xmma_gemm_f32f32_tf32f32_f32", "tf32"), ("ampere_sgemm_128x64_tn", "fp32")):
        (row,) = summary(trace(called, launch(15, 5), kernel(name, 20, 5, 5))).operators
        assert row.precision == precision


def test_a_call_with_several_kernels_counts_once(summary):
    names = ("cutlass_80_tensorop_s1688gemm_128x128", "splitKreduce_kernel")
    events = [each for n, name in enumerate(names) for each in (launch(15 + n, n), kernel(name, 20 + 10 * n, 5, n))]
    (row,) = summary(trace(addmm(10, dtype="float"), *events)).operators
    assert (row.precision, row.calls, row.kernels, row.flop) == ("tf32", 1, 2, 2 * 8 * 64 * 32)


def test_copies_and_fills_are_timed_apart_from_kernels(summary):
    found = summary(
        trace(addmm(10), launch(15, 5), launch(16, 6, "cudaMemsetAsync"), kernel("gemm", 20, 5, 5),
              kernel("Memset (Device)", 30, 2, 6, "gpu_memset"))
    )  # fmt: skip
    (row,) = found.operators
    assert (row.kernels, row.time_s, row.copy_s) == (1, 5e-6, 2e-6)
    assert found.kernels == 1


def test_memory_copies_alone(summary):
    found = summary(trace(launch(15, 5), kernel("Memcpy HtoD", 20, 5, 5, "gpu_memcpy")))
    assert (found.kernels, found.kernel_time_s, found.operator_share, found.step_count) == (0, 0.0, None, 1)
    assert [row.copy_s for row in found.operators] == [5e-6]


def test_a_trace_of_the_host_alone_has_the_hosts_times(summary):
    outer = operator("aten::linear", 10, 40, [[8, 64], [32, 64], [32]], "float")
    found = summary(trace(outer, addmm(15, 30, "float"), relu(60)))
    linear, around = rows(found)["addmm"], rows(found)["host time around the operators"]
    assert (linear.time_s, linear.calls, linear.kernels, linear.flop) == (30e-6, 1, 0, 2 * 8 * 64 * 32)
    assert around.time_s == 10e-6  # 40 of the linear layer less 30 of the product
    assert (found.kernels, found.kernel_time_s, found.operator_share) == (0, 0.0, None)


def test_a_trace_of_2021(summary):
    """Kineto of torch 1.9: categories with capitals, no strides, no values, other names of fields."""
    shapes = {"Input dims": [[4, 8], [8, 5]], "Input type": ["float", "float"], "External id": 3}
    found = summary(
        {
            "schemaVersion": 1,
            "traceEvents": [
                event("Operator", "ProfilerStep#1", 0, 90, {"External id": 1}),
                event("Operator", "aten::mm", 10, 20, shapes),
                event("Runtime", "cudaLaunchKernel", 15, 1, {"cbid": 211, "correlation": 5, "external id": 3}),
                event("Kernel", "volta_sgemm", 20, 5, {"device": 0, "correlation": 5, "external id": 3}),
            ],
        }
    )
    (row,) = found.operators
    assert (row.operator, row.step, row.flop) == ("mm", 1, 2 * 4 * 8 * 5)


def test_events_whose_clock_steps_back_are_left_out_and_named(summary):
    document = traces.linear_step()
    document["traceEvents"] += [kernel("back", 300, -5, 9), kernel("never", None, 5, 10)]
    found = summary(document)
    assert found.kernels == 2
    assert found.trace.left_out == {"events whose clock steps back or is missing": 2}


def test_other_categories_are_named(summary):
    document = traces.linear_step()
    document["traceEvents"] += [event("python_function", "secret.py(3)", 0, 5, {}), {"ph": "M", "name": "process_name"}]
    assert summary(document).trace.left_out == {"events of category 'python_function'": 1}


def test_two_devices_have_steps_and_gaps_of_their_own(summary):
    found = summary(
        trace(addmm(10), launch(15, 5), launch(16, 6), kernel("k", 20, 5, 5), kernel("k", 40, 5, 6, device=1))
    )
    assert [(row.device, row.gap_s) for row in found.operators] == [(0, 0.0), (1, 0.0)]
    assert [(row.device, row.busy_s) for row in found.steps] == [(0, 5e-6), (1, 5e-6)]


@pytest.mark.parametrize("field", ["ts", "dur", "pid", "tid", "args", "name", "cat"])
@pytest.mark.parametrize("value", [None, -1, 1e300, float("nan"), "x", [], {}, [[None]], 10**30, True])
def test_a_damaged_field_spoils_only_its_event(summary, field, value):
    document = traces.linear_step()
    for each in document["traceEvents"][1::2]:
        each[field] = value
    found = summary(document)
    assert 0 <= found.kernels <= 2


@pytest.mark.parametrize("key", ["Input Dims", "Input type", "Input Strides", "Concrete Inputs"])
@pytest.mark.parametrize("value", [None, 7, [7], [[["x"]]], [[-1], [-1], [-1], [], []], ["x"] * 9, [[2**70]] * 5, {}])
def test_damaged_arguments_leave_the_operator_without_counts_or_unread(summary, key, value):
    called = addmm(10)
    called["args"][key] = value
    found = summary(trace(called, relu(60), launch(15, 5), kernel("gemm", 20, 5, 5)))
    assert found.operators[0].operator == "addmm"
    assert found.operators[0].flop in (None, 2 * 8 * 64 * 32)
