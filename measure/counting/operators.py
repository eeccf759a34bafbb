"""torch's operators whatever their arguments: name, formula, and use of memory."""

from functools import cache
from typing import Any

from measure.counting import movements, normalisations, products, recurrent, scalars, windows  # noqa: F401 - each registers its formulas
from measure.counting.flops import FORMULAS, NOTHING, Formula, Work
from measure.counting.traffic import Signature, tensors_in


def formula_of(name: str) -> Formula | None:
    """Return the formula of an operator, or None. An operation in place has that of its twin."""
    return FORMULAS.get(name) or FORMULAS.get(name.removesuffix("_"))


class Operator:
    def __init__(self, operator: Any) -> None:
        name = operator._schema.name
        self.name = name.removeprefix("aten::").replace("::", ".")
        self.signature = Signature(operator)
        self.formula = formula_of(name)
        self.is_pure = not self.signature.aliases
        self.is_ignored = self.signature.is_view or name.startswith("prim::")

    def work(self, args: Any, kwargs: Any, output: Any) -> Work | None:
        """Return what one call computes; None for arithmetic without a formula."""
        if self.formula is not None:
            try:
                return self.formula(args, kwargs, output)
            except LookupError:  # a formula, but not for complex numbers
                return None
        floating = (tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in([args, output]))
        return None if any(floating) else NOTHING


@cache
def operator_of(overload: Any) -> Operator:
    """Return the operator of an overload such as ``torch.ops.aten.add.Tensor``."""
    return Operator(overload)
