"""FLOP of optimisers that update all parameters in one operator, and of the scaling of gradients before them.

Numbers that all elements share, such as corrections of the bias by the step, are left out.
"""

from collections.abc import Callable, Iterable
from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula


def _decay(options: Kwargs) -> int:
    """Gradient + decay times weight, if there is a decay."""
    return 2 * bool(options["weight_decay"])


def _adam(options: Kwargs) -> int:
    """Moments m + (1 - b) (g - m) and b v + (1 - b) g g take 3 and 4; sqrt(v) / c + e and w - r m / that 3 each."""
    return 13 + bool(options["amsgrad"])


def _momentum(options: Kwargs) -> int:
    """The update w - r g takes 2. The momentum b m + (1 - d) g takes 2, 3 with a damping d; at the first step it is g.

    Nesterov's g + b m takes 2.
    """
    each = 2
    if options["momentum"]:
        each += 0 if options["is_first_step"] else 2 + bool(options["dampening"])
        each += 2 * bool(options["nesterov"])
    return each


COSTS: dict[str, Callable[[Kwargs], int]] = {
    "_fused_adam": lambda options: _adam(options) + _decay(options),
    "_fused_adamw": lambda options: _adam(options) + bool(options["weight_decay"]),  # w by a number
    "_fused_sgd": lambda options: _momentum(options) + _decay(options),
    # s + g g is 2 operations; w - r g / (sqrt(s) + e) is 5.
    "_fused_adagrad": lambda options: 7 + _decay(options),
}


def _elements(tensors: Iterable[Any]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _update(cost: Callable[[Kwargs], int]) -> Callable[[Args, Kwargs, Any], Work]:
    def work(args: Args, kwargs: Kwargs, _out: Any) -> Work:
        is_scaled = kwargs.get("grad_scale") is not None
        return Work(0, _elements(args[0]) * (cost(kwargs) + bool(kwargs["maximize"]) + is_scaled))

    return work


for _name, _cost in COSTS.items():
    formula(_name)(_update(_cost))


@formula("_amp_foreach_non_finite_check_and_unscale")
def unscale(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Compare each gradient, and scale it."""
    return Work(0, 2 * _elements(args[0]))


@formula("_amp_update_scale")
def update_scale(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Compare, and scale."""
    return Work(0, 2 * args[0].numel())
