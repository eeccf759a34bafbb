"""Helpers of the counting tests: tensors without memory, cases of one operator, and small networks recorded."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from measure.counting import formulas, recording
from measure.counting.count import count
from measure.counting.formulas import Work, formula_of
from measure.counting.memory import Overload, tensors_in
from measure.counting.recorder import ModuleTotals
from measure.domain.models import OWN, Model
from measure.domain.workload_records import Workload

# The operators of the package flash-attn, as far as their arguments are used (flash_attn/flash_attn_interface.py).
FLASH_ATTN = torch.library.Library("flash_attn", "FRAGMENT")
JOINED_LENGTHS = "Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k"
BACKWARD = (
    "Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, Tensor? dq, Tensor? dk, Tensor? dv"
)
for schema in (
    "_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal)",
    f"_flash_attn_varlen_forward(Tensor q, Tensor k, Tensor v, {JOINED_LENGTHS}, float dropout_p, float softmax_scale, "
    "bool causal)",
    f"_flash_attn_backward({BACKWARD}, float dropout_p)",
    f"_flash_attn_varlen_backward({BACKWARD}, {JOINED_LENGTHS})",
):
    FLASH_ATTN.define(f"{schema} -> ()")


def meta(*shape: int, dtype: Any = None, requires_grad: bool = False) -> "torch.Tensor":
    return torch.empty(shape, dtype=dtype, device="meta", requires_grad=requires_grad)


class Own(nn.Module):
    """A network of these parts. Its forward pass is a function of itself and its inputs."""

    def __init__(self, forward: Any, **parts: Any) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)
        self._function = forward

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        return self._function(self, *inputs, **keywords)


def on(forward: Any, *shape: int, **parts: Any) -> Any:
    """A function of the batch size, as a user writes it: a network with these parts, and one input."""
    return lambda batch: (Own(forward, **parts), rows(batch, *shape))


def linear(inputs: int, outputs: int, **options: Any) -> "nn.Linear":
    return nn.Linear(inputs, outputs, bias=False, **options)


def rows(batch: int, *shape: int) -> "torch.Tensor":
    return torch.ones(batch, *shape)


def counted(function: Any, batch: int = 2, precision: str = "fp32") -> Workload:
    """Counts the network and inputs that a function of the batch size returns, found by its name as a user's is."""
    globals()["network"] = function
    return count(Model(f"{__name__}:network", OWN, OWN, (1,)), batch, precision).workload


class Reported(NamedTuple):
    """A function of the batch size that makes a network and its inputs, and columns that its workload should have."""

    make: Any
    batch: int
    precision: str
    expected: dict[str, Any]


def reported(name: str, make: Any, batch: int = 2, precision: str = "fp32", **expected: Any) -> Any:
    return pytest.param(Reported(make, batch, precision, expected), id=name)


class Case(NamedTuple):
    """One call of an operator and the work that it should be counted to take."""

    operator: str
    args: tuple
    kwargs: dict[str, Any]
    work: Work
    out: Any

    def counted(self) -> Work | None:
        assert formula_of(self.operator) is not None, self.operator
        namespace, _, name = self.operator.partition("::")
        packet = getattr(getattr(torch.ops, namespace), name)
        out = packet(*self.args, **self.kwargs) if self.out is None else self.out
        overload = next(iter(packet.overloads()))
        with suppress(RuntimeError):  # a case may leave out arguments that its formula does not need
            overload = torch._C._jit_resolve_packet(self.operator, *self.args, **self.kwargs)
        tensors = tensors_in([self.args, self.kwargs, out])
        # Not the cached one, which keeps what an earlier test's formulas were
        return Overload(getattr(packet, overload)).work(self.args, self.kwargs, out, tensors)


def case(
    operator: str, *args: Any, flop: int = 0, other: int = 0, recompute: int = 0, out: Any = None, **kwargs: Any
) -> Case:
    """A call of ``aten::operator``; ``out`` is its result if torch cannot compute it on the meta device."""
    name = operator if "::" in operator else f"aten::{operator}"
    return Case(name, args, kwargs, Work(flop, other, recompute), out)


def named(cases: list[Case]) -> dict[str, Any]:
    """The arguments of pytest.mark.parametrize for a test of one case."""
    return {"argnames": "case", "argvalues": cases, "ids": [case.operator.partition("::")[2] for case in cases]}


def by_hand(cases: list[Case]) -> Any:
    """A test that each case is counted to take its work."""

    @pytest.mark.parametrize(**named(cases))
    def test(case: Case) -> None:
        assert case.counted() == case.work

    return test


def registered_anew(cases: list[Case], register: Callable[[], None]) -> Any:
    """A test that formulas count the same if ``register`` makes them again, as they are made at import only."""

    def test(monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(formulas, "FORMULAS", {})
        register()
        found = [case for case in cases if case.operator in formulas.FORMULAS]
        assert {case.operator for case in found} == set(formulas.FORMULAS)
        assert [(case.operator, case.counted()) for case in found] == [(case.operator, case.work) for case in found]

    return test


def trained(network: "nn.Module", *inputs: Any) -> "tuple[dict[str, ModuleTotals], dict[str, ModuleTotals]]":
    """The parts of a forward and a backward pass in training, by the module's path, the network's own under ``""``.

    On the meta device. Every operator has a formula.
    """
    record = recording.record_training(network.to("meta"), inputs)
    assert not record.forward.uncounted
    assert not record.backward.uncounted
    paths = {module: path for path, module in network.named_modules()}
    forward, backward = record.forward, record.backward
    return tuple({paths[module]: part for module, part in p.modules.items()} for p in (forward, backward))


def total(parts: "dict[str, ModuleTotals]", column: str) -> int:
    return sum(getattr(part, column) for part in parts.values())
