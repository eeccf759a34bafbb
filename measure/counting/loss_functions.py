"""FLOP of losses, forward and backward. A loss is a number of operations an element, and then their sum or mean."""

from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula, register_other_flop

NONE, MEAN, SUM = 0, 1, 2  # torch's numbers of how a loss is reduced


def _option(args: Args, place: int, default: Any) -> Any:
    return args[place] if len(args) > place else default


def _reduced_flop(elements: int, reduction: int) -> int:
    """Count the sum of all elements, and the division of a mean."""
    return {NONE: 0, MEAN: elements, SUM: elements - 1}[reduction]


def _register(name: str, cost: int, reduction_place: int, weight_place: int | None = None) -> None:
    """Register a loss of ``cost`` operations an element. A weight, if any, is a product more."""

    def flop(args: Args, _out: Any) -> int:
        elements = args[0].numel()
        is_weighted = weight_place is not None and _option(args, weight_place, None) is not None
        return int(elements * (cost + is_weighted) + _reduced_flop(elements, _option(args, reduction_place, MEAN)))

    register_other_flop({name: flop})


_register("mse_loss", 2, 2)  # d d
_register("smooth_l1_loss", 6, 2)  # d, its size, a comparison, d d / 2 b
_register("huber_loss", 5, 2)  # d, its size, a comparison, d d / 2
_register("soft_margin_loss", 5, 2)  # log(1 + exp(-x y))
_register("binary_cross_entropy", 8, 3, 2)  # -(y log x + (1 - y) log(1 - x))


@formula("binary_cross_entropy_with_logits")
def cross_entropy_of_logits(args: Args, kwargs: Kwargs, _out: Any) -> Work:
    """``(1 - y) x - log sigmoid x``: 3, and the 5 of the logarithm. The weight of positives is 3 more: its product with
    the logarithm of ``(w - 1) y + 1``.
    """
    weight, positive = (kwargs.get(name, _option(args, 2 + i, None)) for i, name in enumerate(("weight", "pos_weight")))
    elements = args[0].numel()
    each = 8 + (weight is not None) + 3 * (positive is not None)
    return Work(0, elements * each + _reduced_flop(elements, kwargs.get("reduction", _option(args, 4, MEAN))))


def _likelihood_flop(args: Args, _out: Any) -> int:
    """Count a change of sign a target, and a product with its weight. A mean also divides by the sum of weights."""
    targets, is_weighted, reduction = args[1].numel(), args[2] is not None, args[3]
    return int(targets * (1 + is_weighted) + _reduced_flop(targets, reduction) + is_weighted * (targets - 1))


def _margin_flop(args: Args, _out: Any) -> int:
    """Count ``max(0, margin - x_y + x)`` (3 an element) or its square (4), a weight, and the mean over classes (1)."""
    elements, targets = args[0].numel(), args[1].numel()
    each = 4 + (_option(args, 2, 1) == 2) + (_option(args, 4, None) is not None)
    return int(elements * each + _reduced_flop(targets, _option(args, 5, MEAN)))


def _margins_flop(args: Args, _out: Any) -> int:
    """Count the same with one target a row. How many there are depends on values."""
    elements = args[0].numel()
    return int(4 * elements + _reduced_flop(elements // args[0].shape[-1], args[2]))


# Connectionist temporal classification (Graves et al. 2006) has a state for each step and each place of the targets and
# the blanks between them. A state joins three earlier ones by their logarithms: the largest (2), differences and
# exponentials (6), sums (2), a logarithm, the largest and the likelihood added (3). The gradient takes the same in the
# other direction; a sum and a joining of two for each state (6); for each likelihood exp p - exp(s + n - p), by g (6).
STATE_FLOP = 13

register_other_flop(
    {
        "nll_loss_forward nll_loss2d_forward": _likelihood_flop,
        # A change of sign and a product of its weight for each target.
        "nll_loss_backward nll_loss2d_backward": lambda a, _o: a[2].numel() * (1 + (a[3] is not None)),
        "multi_margin_loss": _margin_flop,
        "multilabel_margin_loss_forward": _margins_flop,
        # The margin (2), compared, and added to the target's gradient; a square and a weight are a product each.
        "multi_margin_loss_backward": lambda a, _o: (
            a[1].numel() * (4 + (a[3] == 2) + (_option(a, 5, None) is not None))
        ),
        "multilabel_margin_loss_backward": lambda a, _o: 4 * a[1].numel(),
        # 2 d, by g unless all share it.
        "mse_loss_backward": lambda a, _o: a[1].numel() * (2 + (a[3] == NONE)),
        # d, two comparisons, d / b, by g.
        "smooth_l1_loss_backward": lambda a, _o: 5 * a[1].numel(),
        "huber_loss_backward": lambda a, _o: 4 * a[1].numel(),
        # z = exp(-x y) (3); z / (1 + z) (2); by -y and g (2).
        "soft_margin_loss_backward": lambda a, _o: 7 * a[1].numel(),
        # g (x - y) / (x (1 - x)), by the weight.
        "binary_cross_entropy_backward": lambda a, _o: a[1].numel() * (5 + (_option(a, 3, None) is not None)),
        "_ctc_loss": lambda _a, o: STATE_FLOP * o[1].numel(),
        "_ctc_loss_backward": lambda a, _o: (STATE_FLOP + 6) * a[6].numel() + 6 * a[1].numel(),
    }
)


def transcription_output(
    likelihoods: Any, targets: Any, _lengths: Any, _target_lengths: Any, *_options: Any
) -> tuple[Any, Any]:
    """Return the outputs of ``_ctc_loss`` on tensors without memory. Targets without lengths count as the longest.

    Targets behind one another are split evenly.
    """
    steps, batch = likelihoods.shape[:2] if likelihoods.dim() == 3 else (len(likelihoods), 1)
    longest = targets.shape[1] if targets.dim() == 2 else -(-targets.numel() // batch)
    return likelihoods.new_empty(batch), likelihoods.new_empty(batch, steps, 2 * longest + 1)
