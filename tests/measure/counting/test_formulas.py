import runpy

import pytest
from helpers.places import TESTS

from measure.counting import formulas
from measure.counting.formulas import NOTHING, Work, formula, formula_of

pytest.importorskip("torch", reason="cases are tensors")

FORMULAS = (
    "attention", "factorisations", "loss_functions", "movements", "normalisations", "optimisers", "products",
    "recurrent", "samplings", "scalars", "windows",
)  # fmt: skip
"""The files that register formulas; the test of each has cases worked out by hand."""


def test_every_formula_has_a_case_by_hand():
    files = [TESTS / f"measure/counting/test_{name}.py" for name in FORMULAS]
    cases = [case for file in files for case in runpy.run_path(str(file))["CASES"]]
    assert {case.operator for case in cases} == set(formulas.FORMULAS)


def test_names_share_formulas():
    for name in ("add", "_index_put_impl"):  # an operation in place has that of its twin
        assert formula_of(f"aten::{name}_") is formula_of(f"aten::{name}") is not None
    for name in ("aten::add__", "aten::linalg_eig", "aten::_foreach_linalg_eig", "torchvision::nms"):
        assert formula_of(name) is None


INTEGERS = {
    "__ilshift__", "__irshift__", "__lshift__", "__rshift__", "bitwise_and", "bitwise_left_shift", "bitwise_not",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "gcd", "lcm",
}  # fmt: skip


def test_every_operator_that_torch_calls_pointwise_or_a_reduction_has_a_formula():
    memory = pytest.importorskip("measure.counting.memory")
    torch = memory.torch
    tags = {torch.Tag.pointwise, getattr(torch.Tag, "reduction", torch.Tag.pointwise)}
    missing = set()
    for schema in torch._C._jit_get_all_schemas():
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        if not schema.name.startswith("aten::") or schema.overload_name not in getattr(packet, "overloads", list)():
            continue
        try:
            operator = getattr(packet, schema.overload_name or "default")
        except AttributeError:  # of plain numbers
            continue
        if tags.intersection(operator.tags) and not memory.overload_of(operator).is_composite:
            missing |= {schema.name.removeprefix("aten::")} if formula_of(schema.name) is None else set()
    assert {name if name.startswith("__") else name.rstrip("_") for name in missing} <= INTEGERS


def test_two_formulas_for_one_operator_are_refused(monkeypatch):
    monkeypatch.setattr(formulas, "FORMULAS", {})
    formula("a", "b")(lambda _args, _kwargs, _out: Work(2))
    with pytest.raises(ValueError, match="two formulas for b"):
        formula("b")(lambda _args, _kwargs, _out: NOTHING)
