"""Traces written by hand; FLOP and bytes from hand arithmetic in comments."""

from itertools import chain

import pytest
from helpers import traces
from helpers.traces import BIAS_FLOP, LINEAR_FLOP, addmm, call, event, kernel, launch, only, operator, ran, relu, step

from measure.domain.trace_records import TRACE_KINDS
from measure.traces import matching
from measure.traces.counts import NO_FORMULA, NO_LIST, NO_NUMBERS, NO_SHAPES, CallCounts
from measure.traces.kinds import kind_of
from measure.traces.matching import NODE, STAGE, covered

BACK = (100, 200)  # the thread of a backward pass


def pair(start, correlation):
    """A launch, and its kernel of 5 us."""
    return launch(start, correlation), kernel("k", start + 5, 5, correlation)


def rows(found):
    return {row.operator or row.reason: row for row in found.operators}


def test_the_outermost_operator_with_a_formula_is_counted(summary):
    found = summary(*traces.linear_step()["traceEvents"])
    linear, activation = found.operators
    assert (linear.operator, linear.layer_kind, linear.stage) == ("addmm", "linear", "inference")
    assert (linear.shape, linear.precision, linear.reason) == ("32 8x64 64x32", "bf16", None)
    assert (linear.flop, linear.other_flop) == (LINEAR_FLOP, BIAS_FLOP)
    # bias 32, rows 8 x 64, weights 64 x 32 and results 8 x 32, of 2 bytes each
    assert linear.byte == 2 * (32 + 8 * 64 + 64 * 32 + 8 * 32)
    assert (linear.calls, linear.kernels, linear.time_s, linear.gap_s, linear.kernel) == (1, 1, 10e-6, 0.0, "gemm")
    assert (activation.operator, activation.layer_kind, activation.flop) == ("relu", "activation", 0)
    assert (activation.other_flop, activation.byte) == (8 * 32, 2 * 2 * 8 * 32)  # read and written
    assert activation.gap_s == 15e-6
    (step_row,) = found.steps
    assert (step_row.step, step_row.host_s, step_row.span_s, step_row.busy_s) == (3, 200e-6, 30e-6, 15e-6)
    assert (found.kernels, found.step_count, found.operator_share, found.counted_share) == (2, 1, 1.0, 1.0)


def test_overlapping_spans_count_once():
    spans = {(): 0, ((0, 2), (1, 3)): 3, ((5, 6), (0, 10)): 10, ((0, 1), (4, 6)): 3}
    assert {each: covered(each) for each in spans} == spans


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([kernel("late", 30, 5, 9)], matching.UNRECORDED),
        ([kernel("early", 1, 5, 0)], matching.BEFORE),
        ([launch(16, 9, thread=BACK), kernel("elsewhere", 310, 5, 9)], matching.OUTSIDE),
        # The operator around the launch, or with the kernel's external id, is not the kernel's.
        ([launch(16, 9, "hipGraphLaunch"), kernel("graph", 310, 5, 9, **{"External id": 77})], matching.GRAPH),
    ],
)
def test_kernels_without_operator_are_a_group_with_a_reason(summary, events, reason):
    found = summary(*ran(addmm(10, number=77)), *events)
    row = rows(found)[reason]
    assert (row.operator, row.kernels, row.flop, row.byte, row.layer_kind) == (None, 1, None, None, "other")
    assert row.kernel == events[-1]["name"]
    assert (found.operator_share, found.counted_share) == (0.5, 0.5)
    assert found.left_out() == {reason: 5e-6}


def test_conversions_inside_a_convolution_are_a_kind_of_their_own(summary):
    """A convolution of 10 µs between two conversions of 2 µs, twice: its calls, FLOP and bytes count once."""
    images, weights, numbers = "bf16 2x3x8x8", "bf16 4x3x3x3", ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    names = ("cudnn::ops::nchwToNhwcKernel<bf16>", "xmma_fprop_nhwc", "cudnn::ops::nhwcToNchwKernel<bf16>")
    events = []
    for start in (10, 110):
        events.append(call("convolution", images, weights, None, *numbers, start=start))
        for place, name in enumerate(names):
            events += [launch(start + place, start + place)]
            events += [kernel(name, start + 30 + 20 * place, 10 if place == 1 else 2, start + place)]
    found = summary(*events)
    convolution, conversion = sorted(found.operators, key=lambda row: row.kernels)
    flop = 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)  # each of 2 calls has 2 x 4 x 6 x 6 results of 27 multiply-adds
    assert (convolution.layer_kind, convolution.calls, convolution.flop) == ("convolution", 2, 2 * flop)
    assert (conversion.layer_kind, conversion.operator) == ("layout conversion", "convolution")
    assert (conversion.calls, conversion.kernels, conversion.flop, conversion.byte) == (0, 4, 0, 0)
    assert (convolution.time_s, conversion.time_s) == pytest.approx((20e-6, 8e-6))
    assert found.by_kind() == pytest.approx({"convolution": 20e-6, "layout conversion": 8e-6})
    assert found.counted_share == 1.0
    # Without shapes nothing is counted, and the conversions are no exception
    bare = summary(operator("aten::convolution", 10, 50), launch(12, 2), kernel(names[0], 42, 2, 2))
    assert (only(bare).layer_kind, only(bare).flop, bare.counted_share) == ("layout conversion", None, 0.0)


@pytest.mark.parametrize(
    ("name", "longest", "kind"),
    [
        ("convolution", "fft2d_r2c_32x32", "convolution by FFT"),
        ("convolution", "sm80_xmma_gemm_f32f32", "convolution"),
        ("mm", "sm80_xmma_gemm_cf32cf32", "linear"),  # a product of complex numbers is no convolution
    ],
)
def test_a_convolutions_algorithm_is_part_of_its_kind(summary, name, longest, kind):
    numbers = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1) if name == "convolution" else ()
    tensors = ("fp32 2x3x8x8", "fp32 4x3x3x3", None) if numbers else ("fp32 8x8", "fp32 8x8")
    found = summary(call(name, *tensors, *numbers), launch(12, 1), launch(14, 2),
                    kernel(longest, 40, 9, 1), kernel("rest", 60, 3, 2))  # fmt: skip
    assert only(found).kind == kind
    assert found.by_kind() == pytest.approx({kind: 12e-6})


def test_equal_calls_of_a_step_are_a_group_and_a_step_a_median(summary):
    events = []
    for number, calls in enumerate((1, 3, 3)):
        start = 1000 * number
        events.append(step(number, start, 900))
        for place in range(calls):
            at, correlation = start + 100 * place + 10, 10 * number + place
            events += [addmm(at), launch(at + 5, correlation), kernel("gemm", at + 30, 5, correlation)]
    found = summary(*events)
    assert [(row.step, row.calls, row.kernels) for row in found.operators] == [(0, 1, 1), (1, 3, 3), (2, 3, 3)]
    assert (found.of_a_step("flop"), found.step_count) == (3 * LINEAR_FLOP, 3)


def test_an_operator_outside_the_steps_has_no_step(summary):
    found = summary(step(1, 100, 50), addmm(10, number=77), kernel("gemm", 50, 5, 3, **{"External id": 77}))
    assert (only(found).operator, only(found).step, found.steps, found.of_a_step("flop")) == ("addmm", None, [], 0)


def backward(*events):
    """A forward pass with its node 40, and a backward pass with these events inside the node on another thread."""
    inside = [each if each["cat"] == "kernel" else dict(each, pid=100, tid=200) for each in events]
    linear = call("linear", "bf16 8x64", duration=30, sequence=40)
    node = operator(f"{NODE}AddmmBackward0", 100, 100, sequence=40, thread=BACK)
    return [linear, addmm(15, 20, sequence=40), launch(20, 1), kernel("gemm", 25, 5, 1), node, *inside]


def scaling(start):
    return call("mul", "bf16 8x32", "fp64", start=start)


AGAIN = [call("linear", "bf16 8x64", start=110, sequence=50), addmm(112, 10, sequence=50), launch(115, 2)]
ITS_NODE = [
    operator(f"{NODE}AddmmBackward0", 300, 100, sequence=50),
    operator("AddmmBackward0", 305, 90, [[8, 32]], "float", sequence=50),
]
GRADIENT = call("mm", "bf16 64x8", "bf16 8x32", strides=[[1, 64], [32, 1]], start=120)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        # A gradient's product has its own FLOP; an operator without a kind of its own has the forward operator's.
        (
            [GRADIENT, *pair(125, 2), scaling(150), *pair(155, 3)],
            {"mm": ("linear", 1, 2 * 64 * 8 * 32, 0, 0), "mul": ("linear", 1, 0, 8 * 32, 0)},
        ),
        # A forward operator that numbers a node again is recomputation,
        ([addmm(120, sequence=41), *pair(125, 2)], {"addmm": ("linear", 1, 0, 0, LINEAR_FLOP + BIAS_FLOP)}),
        # and one row with an equal call that is none.
        (
            [addmm(120, sequence=41), *pair(125, 2), addmm(150), *pair(155, 3)],
            {"addmm": ("linear", 2, LINEAR_FLOP, BIAS_FLOP, LINEAR_FLOP + BIAS_FLOP)},
        ),
        # A node that a recomputation made has its forward kind.
        ([*AGAIN, *ITS_NODE, scaling(310), *pair(315, 3)], {"mul": ("linear", 1, 0, 8 * 32, 0)}),
    ],
    ids=["gradients", "recomputed", "both", "made again"],
)  # fmt: skip
def test_backward_operators_have_their_stage_and_forward_kind(summary, events, expected):
    found = summary(*backward(*events)).operators
    assert [row.operator for row in found if row.stage == "forward"] == ["addmm"]
    back = [row for row in found if row.stage == "backward"]
    columns = ("layer_kind", "calls", "flop", "other_flop", "recompute_flop")
    assert {row.operator: tuple(getattr(row, name) for name in columns) for row in back} == expected


@pytest.mark.parametrize(
    "update", [event("user_annotation", "Optimizer.step#SGD.step", 5, 100, {}), operator(f"{STAGE}update", 5, 100)]
)
def test_an_optimisers_work_is_its_own_kind(summary, update):
    row = only(summary(update, *ran(relu(10))))
    assert (row.stage, row.layer_kind) == ("update", "optimiser")


def convolution(groups):
    """8 channels of 6 x 6, 3 x 3 weights, without padding: 4 x 4 results."""
    weight, pairs = f"bf16 8x{8 // groups}x3x3", ([1, 1], [0, 0], [1, 1], False, [0, 0])
    return call("convolution", "bf16 2x8x6x6", weight, None, *pairs, groups)


def flash(heads_of_keys, causal, scale):
    """2 batches, 4 heads, 10 x 10 scores, 16 wide."""
    keys = f"bf16 2x{heads_of_keys}x10x16"
    return call("_scaled_dot_product_flash_attention", "bf16 2x4x10x16", keys, keys, 0.0, causal, False, scale)


ATTENTION = 2 * 2 * 2 * 4 * 10 * 10 * 16  # products of queries and keys, and of scores and values


@pytest.mark.parametrize(
    ("called", "kind", "flop", "byte"),
    [
        # 2 a multiply-add: 2 images, 8 outputs of 4 x 4, each of 8 / groups channels of 3 x 3
        (convolution(1), "convolution", 2 * 2 * 8 * 16 * 8 * 9, None),
        (convolution(2), "convolution", 2 * 2 * 8 * 16 * 4 * 9, None),
        (convolution(8), "depthwise convolution", 2 * 2 * 8 * 16 * 9, None),
        (flash(4, True, 0.25), "attention", ATTENTION, None),  # a causal mask saves nothing
        (flash(2, False, None), "attention", ATTENTION, None),  # grouped queries: 4 heads share 2 of keys
        (call("bmm", "fp32 6x4x8", "fp32 6x8x5"), "attention", 2 * 6 * 4 * 8 * 5, None),
        # A copy reads 4 bytes and writes 2 of each of 8 x 32 elements.
        (call("copy_", "bf16 8x32", "fp32 8x32", False), "copy", 0, 6 * 8 * 32),
        (call("_to_copy", "bf16 8x32", 6, None, None, None, False, None), "copy", 0, (2 + 4) * 8 * 32),
        # 5 indices of 8 bytes; as many rows of 16 elements are read and written.
        (call("embedding", "bf16 100x16", "int64 5", -1, False, False), "embedding", 0, 5 * 8 + 2 * 5 * 16 * 2),
        (call("add", "bf16 8x32", "bf16 1x32", 1), "pointwise", 0, 2 * (512 + 32)),
        # An expanded tensor is read once.
        (call("add", *["bf16 8x32"] * 2, 1, strides=[[32, 1], [0, 1], []]), "pointwise", 0, 2 * (256 + 32 + 256)),
        # Two tensors of 32 elements of 2 bytes are read, and all 64 are written.
        (call("cat", ["4x8"] * 2, -1), "copy", 0, 2 * 64 * 2),
        (call("_softmax", "bf16 2x4x10x10", -1, False), "attention", 0, 2 * 2 * 800),
        (call("_softmax", "bf16 10x80", -1, False), "activation", 0, 2 * 2 * 800),  # of classes
        # 2 bytes an element, read and written
        (call("c10d::allreduce_", ["1000"], None), "communication", 0, 2 * 2 * 1000),
    ],
)
def test_counts_and_kinds(summary, called, kind, flop, byte):
    most = call("relu", "bf16 4", "bf16 4", start=100)  # tensors in lists have the most frequent type
    row = only(summary(most, *ran(called)))
    assert (row.layer_kind, row.flop) == (kind, flop)
    assert byte is None or row.byte == byte


@pytest.mark.parametrize(
    ("called", "name", "reason"),
    [
        (call("vllm::moe_forward", "bf16 8x64"), "vllm.moe_forward", NO_FORMULA),
        (call("mm", "bf16 4x8", "bf16 9x5"), "mm", NO_FORMULA),  # sizes that do not fit
        (call("triton_tem_fused_x_0", "fp32 100"), "triton_tem_fused_x_0", NO_FORMULA),
        # As torch 2.14 records x[i], x[i] = 0, lists of over 30 tensors, and an all-reduce of one
        (call("index", "fp32 4x3", None), "index", NO_LIST),
        (call("_index_put_impl_", "fp32 4x3", None, "fp32", False, False), "_index_put_impl_", NO_LIST),
        (call("cat", [], 0), "cat", NO_LIST),
        (call("_foreach_add_", [], [], 1), "_foreach_add_", NO_LIST),
        (call("c10d::allreduce_", [], None), "c10d.allreduce_", NO_LIST),
    ],
)
def test_the_uncounted_is_a_group_with_its_name_and_reason(summary, called, name, reason):
    found = summary(*ran(called))
    row = only(found)
    assert (row.operator, row.reason, row.flop, row.other_flop) == (name, reason, None, None)
    assert row.byte is None or name.startswith("triton")
    assert found.left_out() == {name: 5e-6}
    assert (found.operator_share, found.counted_share) == (1.0, 0.0)


def test_an_operator_without_a_formula_is_counted_by_its_parts(summary):
    inner = call("miopen_convolution", "bf16 2x8x6x6", start=12, duration=15)
    assert only(summary(*ran(convolution(1), inner))).operator == "convolution"
    outer = call("vllm::moe_forward", "bf16 8x64", duration=60)
    found = summary(outer, *pair(12, 4), addmm(20), *pair(25, 5))
    assert [row.operator for row in found.operators] == ["vllm.moe_forward", "addmm"]


STATED = {"kernel_flop": LINEAR_FLOP, "kernel_num_gb": 11.264e-6, "kernel_file": "/home/me/x.py"}
FUSED = call("triton_poi_fused_add_0", "fp32 100", "bf16 100", 1)
PRODUCT = call("triton_tem_fused_mm_0", "fp32 8x64", "fp32 64x32", "fp32 8x32")


@pytest.mark.parametrize(
    ("called", "stated", "kinds", "flop", "byte", "reason"),
    [
        # 4 and 2 bytes for each of 100 elements. An elementwise kernel multiplies no matrices.
        (FUSED, {}, ["pointwise"], 0, 600, None),
        (call("triton_poi_fused_convolution_relu_0", "fp32 100"), {}, ["pointwise"], 0, 400, None),
        (call("triton_red_fused_mean_0", "fp32 100"), {}, ["reduction"], 0, 400, None),
        (PRODUCT, STATED, TRACE_KINDS, LINEAR_FLOP, 11264, None),  # the counts that Inductor states
    ],
)
def test_triton_kernels(summary, called, stated, kinds, flop, byte, reason):
    called = called | {"args": called["args"] | stated}
    row = only(summary(called, launch(15, 5, "cuLaunchKernel"), kernel(called["name"], 20, 5, 5)))
    assert (row.operator, row.flop, row.byte, row.reason) == (called["name"], flop, byte, reason)
    assert (row.other_flop is None) == (called["name"] != PRODUCT["name"])  # unknown for a fused kernel
    assert row.layer_kind in kinds


def test_kernels_of_a_compiled_region_have_their_own_names(summary):
    region = operator("Torch-Compiled Region: 0/0", 10, 60)
    called = [launch(15, 5), kernel("triton_own", 20, 5, 5), launch(16, 6), kernel("void f<int>(int)", 30, 5, 6)]
    assert {*rows(summary(relu(200), region, *called))} == {"triton_own", "region"}


@pytest.mark.parametrize(
    ("names", "precision"),
    [
        (["ampere_sgemm_128x64_tn"], "fp32"),
        (["cutlass_80_tensorop_s1688gemm_128x128", "splitKreduce_kernel"], "tf32"),  # one call, which counts once
    ],
)
def test_tf32_shows_in_the_name_of_a_kernel(summary, names, precision):
    events = [[launch(15 + n, n), kernel(name, 20 + 10 * n, 5, n)] for n, name in enumerate(names)]
    row = only(summary(addmm(10, dtype="fp32"), *chain(*events)))
    assert (row.precision, row.calls, row.kernels, row.flop) == (precision, 1, len(names), LINEAR_FLOP)


def test_copies_and_fills_are_timed_apart_from_kernels(summary):
    fill = [launch(16, 6, "cudaMemsetAsync"), kernel("Memset (Device)", 30, 2, 6, "gpu_memset")]
    found = summary(*ran(addmm(10)), *fill)
    row = only(found)
    assert (row.kernels, row.time_s, row.copy_s, found.kernels) == (1, 5e-6, 2e-6, 1)
    found = summary(launch(15, 5), kernel("Memcpy HtoD", 20, 5, 5, "gpu_memcpy"))
    assert (found.kernels, found.kernel_time_s, found.operator_share, found.step_count) == (0, 0.0, None, 1)
    assert only(found).copy_s == 5e-6


def test_a_trace_of_the_host_alone_has_the_hosts_times(summary):
    outer = call("linear", "fp32 8x64", "fp32 32x64", "fp32 32", duration=40)
    found = summary(outer, addmm(15, 30, "fp32"), relu(60))
    linear, around = rows(found)["addmm"], rows(found)["host time around the operators"]
    assert (linear.time_s, linear.calls, linear.kernels, linear.flop) == (30e-6, 1, 0, LINEAR_FLOP)
    assert around.time_s == 10e-6  # 40 of the linear layer less 30 of the product
    assert (found.kernels, found.kernel_time_s, found.operator_share) == (0, 0.0, None)


def without(events, *keys):
    """The same events without some of their arguments."""
    return [each | {"args": {k: v for k, v in each["args"].items() if k not in keys}} for each in events]


def test_a_trace_without_shapes_has_its_times(summary):
    events = without(
        traces.linear_step()["traceEvents"], "Input Dims", "Input type", "Input Strides", "Concrete Inputs"
    )
    found = summary(*events)
    times = [(row.operator, row.layer_kind, row.time_s, row.gap_s) for row in found.operators]
    assert times == [("addmm", "linear", 10e-6, 0.0), ("relu", "activation", 5e-6, 15e-6)]
    assert {(row.flop, row.byte, row.shape, row.reason) for row in found.operators} == {(None, None, None, NO_SHAPES)}
    assert (found.counted_share, [step.busy_s for step in found.steps]) == (0.0, [15e-6])


def test_without_shapes_the_outermost_counted_operator_is_named(summary):
    events = [convolution(1), call("cudnn_convolution", "bf16 2x8x6x6", start=12, duration=15)]
    assert only(summary(*without(ran(*events), "Input Dims"))).operator == "convolution"


@pytest.mark.parametrize(
    ("called", "flop", "other_flop", "reason"),
    [
        (call("mm", "fp32 4x8", "fp32 8x5"), 2 * 4 * 8 * 5, 0, None),
        (addmm(10, dtype="fp32"), LINEAR_FLOP, BIAS_FLOP, None),  # whatever the factors of its terms
        (relu(10), 0, 8 * 32, None),
        # Rows of 16 or columns of 256: 3,840 or 4,080 additions
        (call("sum", "fp32 16x256", [0], False, None), None, None, NO_NUMBERS),
        (convolution(1), None, None, NO_NUMBERS),
        (call("_softmax", "bf16 10x80", -1, False), None, None, NO_NUMBERS),
        (call("vllm::moe_forward", "bf16 8x64"), None, None, NO_FORMULA),
    ],
)
@pytest.mark.parametrize("types", [["Scalar", "ScalarList"], ["", ""]])
def test_without_recorded_numbers_nothing_is_guessed(summary, called, flop, other_flop, reason, types):
    """PyTorch before 2.0 recorded no numbers, and some versions not even their types."""
    arguments = {key: value for key, value in called["args"].items() if key != "Concrete Inputs"}
    names = dict(zip(["Scalar", "ScalarList"], types, strict=True))
    arguments["Input type"] = [names.get(each, each) for each in arguments["Input type"]]
    row = only(summary(*ran(called | {"args": arguments})))
    assert (row.flop, row.other_flop, row.reason) == (flop, other_flop, reason)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::upsample_bilinear2d", "other"), ("aten::upsample_linear1d", "other"), ("aten::linear", "linear"),
        ("aten::baddbmm", "attention"), ("aten::_scaled_mm", "linear"), ("mine::shard_rows", "other"),
        ("aten::hardswish", "activation"), ("aten::softshrink", "activation"), ("aten::prelu", "activation"),
        ("aten::_adaptive_avg_pool2d", "pooling"),
        ("torchvision::deform_conv2d", "convolution"), ("vllm::unified_attention_with_output", "attention"),
        ("_C::rms_norm", "normalisation"), ("_C::rotary_embedding", "other"), ("aten::nll_loss2d_forward", "other"),
        ("sglang_profiler::memory_pool__set_kv_buffer", "other"),
        ("aten::_thnn_fused_lstm_cell", "recurrent"), ("nccl::all_reduce", "communication"),
    ],
)  # fmt: skip
def test_the_kind_of_an_operator_is_by_whole_words_of_its_name(name, kind):
    assert kind_of([name], CallCounts(None, None, None, ""), "inference") == kind


def test_the_softmax_of_a_loss_is_no_attention():
    images = CallCounts(None, None, None, "8x21x64x64")
    assert kind_of(["aten::_log_softmax", "aten::log_softmax"], images, "forward") == "activation"
    assert kind_of(["aten::_log_softmax", "aten::cross_entropy_loss"], images, "forward") == "other"


def test_a_gap_shorter_than_the_clock_counts_is_none(summary):
    start = 2.0**42  # µs, as since 1970: numbers here are 2^-10 µs apart, 977 ps
    events = [addmm(start), launch(start + 1, 1), launch(start + 2, 2)]
    found = summary(*events, kernel("a", start + 5, 5, 1), kernel("b", start + 10 + 2**-10, 5, 2))
    assert only(found).gap_s == 0.0


def test_two_devices_have_steps_and_gaps_of_their_own(summary):
    found = summary(*ran(addmm(10)), launch(16, 6), kernel("k", 40, 5, 6, device=1))
    assert [(row.device, row.gap_s) for row in found.operators] == [(0, 0.0), (1, 0.0)]
    assert [(row.device, row.busy_s) for row in found.steps] == [(0, 5e-6), (1, 5e-6)]
