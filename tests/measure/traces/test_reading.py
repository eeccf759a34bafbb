"""Which events are read of traces of other exporters, of merged ranks and of damaged files."""

import pytest
import torch
from helpers import traces
from helpers.traces import LINEAR_FLOP, addmm, call, event, kernel, launch, only, ran, relu, step, trace, write

from measure.errors import UserError
from measure.traces import reading
from measure.traces.arguments import NUMBERS
from measure.traces.summary import summarise

RANKS = [("TP00", 0, 1024), ("TP01", 1, 512)]


def merged(process):
    """Two ranks in one file, one product on each: they have the same correlation and external ids."""
    events = []
    for label, device, size in RANKS:
        product = call("mm", *[f"fp32 {size}x{size}"] * 2, number=2)
        rank = [step(1, 0, 900), product, launch(15, 5), kernel(f"gemm_{size}", 20, 5, 5, device=device)]
        events += [each | {"pid": process(label, each["pid"])} for each in rank]
    return trace(*events)


@pytest.mark.parametrize(
    ("second", "sizes"), [("TP11", [1024, 512]), ("TP9", [512, 1024]), (f"TP{'9' * 5000}", [1024, 512])]
)
def test_each_rank_of_a_merged_file_is_a_trace_by_its_number(tmp_path, second, sizes):
    labels = {"TP00": "TP10", "TP01": second}
    path = write(tmp_path / "t.json", merged(lambda label, number: f"[{labels[label]}] {number}"))
    found = [summarise(each) for each in reading.read(path)]
    assert [only(each).flop for each in found] == [2 * size**3 for size in sizes]
    assert [(each.trace.rank, each.trace.world_size) for each in found] == [(0, 2), (1, 2)]
    assert [only(each).kernel for each in found] == [f"gemm_{size}" for size in sizes]


def test_indistinguishable_ranks_are_refused(tmp_path):
    path = write(tmp_path / "t.json", merged(lambda label, number: f"{number}{label[-1]}"))
    with pytest.raises(UserError, match=r"t\.json: holds several processes.*import the file of each rank"):
        reading.read(path)


def test_a_device_of_another_name_is_no_rank(tmp_path):
    events = [each | {"pid": "GPU 0"} if each["cat"] == "kernel" else each for each in ran(addmm(10))]
    (found,) = reading.read(write(tmp_path / "t.json", trace(*events)))
    assert only(summarise(found)).flop == LINEAR_FLOP


DIALECTS = {
    "times as text": lambda each: each | {"ts": str(each["ts"]), "dur": str(each["dur"])},
    "no categories": lambda each: {key: value for key, value in each.items() if key != "cat"},
}


@pytest.mark.parametrize("change", DIALECTS.values(), ids=DIALECTS)
def test_dialects_of_other_exporters(summary, change):
    found = summary(*map(change, traces.linear_step()["traceEvents"]))
    assert (found.kernels, found.of_a_step("flop"), found.step_count) == (2, LINEAR_FLOP, 1)
    assert found.kernel_time_s == pytest.approx(15e-6)


def test_a_trace_of_2021(summary):
    """Kineto of torch 1.9 writes categories with capitals, other names of fields, and no strides or values."""
    shapes = {"Input dims": [[4, 8], [8, 5]], "Input type": ["float", "float"], "External id": 3}
    found = summary(
        event("Operator", "ProfilerStep#1", 0, 90, {"External id": 1}),
        event("Operator", "aten::mm", 10, 20, shapes),
        event("Runtime", "cudaLaunchKernel", 15, 1, {"cbid": 211, "correlation": 5, "external id": 3}),
        event("Kernel", "volta_sgemm", 20, 5, {"device": 0, "correlation": 5, "external id": 3}),
        deviceProperties=[],
    )
    row = only(found)
    assert (row.operator, row.step, row.flop) == ("mm", 1, 2 * 4 * 8 * 5)


ODD = 10**400


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("load_library::__func__", {}), ("__class__::mro", {}), ("__dict__::clear", {}), ("aten::__name__", {}),
        ("loaded_libraries::add", {}), ("mine::op", {"deviceProperties": "{[]: 1}"}), ("mine::op", {"x": ODD}),
    ],
)  # fmt: skip
def test_odd_names_and_headers_are_only_names(summary, name, header):
    row = only(summary(*ran(call(name, "fp32 4x4")), **header))
    assert (row.operator, row.flop, row.time_s) == (name.removeprefix("aten::").replace("::", "."), None, 5e-6)


def test_odd_events_are_left_out_and_counted(summary):
    odd = [
        relu(100) | {"ts": ODD},
        step("9" * 5000, 0, 900),
        relu(200) | {"name": "aten::\ud800x"},
        relu(300) | {"name": "aten::\x1b[31mx"},
    ]
    found = summary(*ran(addmm(10)), *odd)
    assert sum(found.trace.left_out.values()) == 3
    assert only(found).flop == LINEAR_FLOP


def test_an_odd_dimension_or_count_is_not_used(summary):
    called = call("mm", "fp32 4x8", "fp32 8x5")
    called["args"]["Input Dims"] = [[True, 8], [8, 5]]
    assert only(summary(*ran(called))).flop is None
    called = call("triton_poi_fused_x_0", "fp32 100")
    called["args"]["kernel_num_gb"] = 1e300
    assert only(summary(*ran(called))).byte == 400  # of its tensor


def test_events_that_are_left_out_are_named(summary):
    untimed = [kernel("back", 300, -5, 9), kernel("never", None, 5, 10)]
    others = [event("python_function", "secret.py(3)", 0, 5, {}), {"ph": "M", "name": "process_name"}]
    found = summary(*traces.linear_step()["traceEvents"], *untimed, *others)
    left_out = {"events with a clock that steps back or is missing": 2, "events of category 'python_function'": 1}
    assert (found.kernels, found.trace.left_out) == (2, left_out)


@pytest.mark.parametrize("field", ["ts", "dur", "pid", "tid", "args", "name", "cat"])
@pytest.mark.parametrize("value", [None, -1, 1e300, float("nan"), "x", [], {}, [[None]], 10**30, True])
def test_a_damaged_field_spoils_only_its_event(summary, field, value):
    events = traces.linear_step()["traceEvents"]
    for each in events[1::2]:
        each[field] = value
    assert 0 <= summary(*events).kernels <= 2


@pytest.mark.parametrize("key", ["Input Dims", "Input type", "Input Strides", "Concrete Inputs"])
@pytest.mark.parametrize("value", [None, 7, [7], [[["x"]]], [[-1], [-1], [-1], [], []], ["x"] * 9, [[2**70]] * 5, {}])
def test_damaged_arguments_leave_an_operator_uncounted(summary, key, value):
    called = addmm(10)
    called["args"][key] = value
    found = summary(relu(60), *ran(called)).operators
    assert found[0].operator == "addmm"
    assert found[0].flop in (None, LINEAR_FLOP)


def test_only_complete_events_are_read(summary):
    others = [relu(60) | {"ph": phase} for phase in ("i", "B", "M")]  # instants, starts without an end, names
    found = summary(*ran(addmm(10)), *others, None, 7, ["X"])
    assert (only(found).flop, found.trace.left_out) == (LINEAR_FLOP, {})


def test_types_have_the_numbers_of_torch():
    """TorchScript returns a tensor's type as its number (c10/core/ScalarType.h)."""
    assert {torch.ops.prim.dtype(torch.empty(0, dtype=dtype)): dtype for dtype in NUMBERS.values()} == NUMBERS
