from helpers.counting import meta, torch

from measure.counting.formulas import NOTHING, Work
from measure.counting.memory import overload_of

aten = torch.ops.aten
WHOLE = meta(3, 5, dtype=torch.int64)


def test_names_are_short_where_they_are_torchs_own():
    assert overload_of(aten.add.Tensor).name == "add"
    assert overload_of(torch.ops.prims.mul.default).name == "prims.mul"
    assert overload_of(aten.add.Tensor) is overload_of(aten.add.Tensor)


def test_views_are_ignored_and_only_operators_without_memory_of_their_arguments_are_pure():
    view, in_place, new = (overload_of(aten.view.default), overload_of(aten.add_.Tensor), overload_of(aten.add.Tensor))
    assert [operator.is_ignored for operator in (view, in_place, new)] == [True, False, False]
    assert [operator.is_pure for operator in (view, in_place, new)] == [False, False, True]
    assert overload_of(aten.detach.default).is_ignored
    assert overload_of(aten._unsafe_view.default).is_ignored


def test_work():
    assert overload_of(aten.add_.Tensor).work((meta(3, 5), meta(5)), {}, meta(3, 5)) == Work(0, 15)
    # No formula: nothing for integers, unknown as soon as a floating-point number takes part.
    sort = overload_of(aten.sort.default)
    assert sort.work((WHOLE,), {}, (WHOLE, WHOLE)) == NOTHING
    assert sort.work((meta(3, 5),), {}, (meta(3, 5), WHOLE)) is None
    # A formula that knows no complex numbers.
    exponential = meta(3, 5, dtype=torch.complex64)
    assert overload_of(aten.exp.default).work((exponential,), {}, exponential) is None
