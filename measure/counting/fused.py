"""FLOP of operators that are a whole part of a network or of its training: normalisations, losses, recurrent layers,
steps of optimisers. ``formulas`` explains the letters in the comments.
"""

from collections.abc import Callable, Sequence
from typing import Any

from measure.counting.formulas import Work, formula, register_other_flop

# Normalisations take the mean (n: a sum, a division), the variance (3n: differences, squares, their mean) and the
# inverse deviation (2r: a small constant added, an inverse square root), and then scale and shift. A mask says which
# gradients are asked for: of the input, of scale and of shift.


def _batch_norm(input: Any, training: bool = True, running_mean: Any = None) -> int:
    """Scale and shift (2n) are folded: deviation (2), scale (1), shift (2) a channel. Training adds statistics (4n).

    Both running statistics take two products and an addition a channel.
    """
    elements, channels = input.numel(), input.shape[1]
    statistics = 4 * elements + (0 if running_mean is None else 6 * channels)
    return int(2 * elements + 5 * channels + (statistics if training else 0))


def _batch_norm_backward(input: Any, train: bool = True, output_mask: Sequence[bool] = (True, True, True)) -> int:
    """Normalised input x (2n), sum of g (n - r), sum of g x (2n - r). Input: g w/s less both means (4n + 3r).

    In inference the statistics are constants: the gradient of the input is g times a folded scale (n + r), and only the
    gradients of scale and shift need the sums.
    """
    elements, channels = input.numel(), input.shape[1]
    sums = 5 * elements - 2 * channels
    if train:
        return int(sums + (4 * elements + 3 * channels) * output_mask[0])
    return int((elements + channels) * output_mask[0] + sums * any(output_mask[1:]))


def _row_norm(input: Any, weight: Any, bias: Any, out: Any) -> int:
    """Statistics (4n + 2r), a product of the differences (n), scale (n) and shift (n) unless None."""
    return int((5 + (weight is not None) + (bias is not None)) * input.numel() + 2 * out[1].numel())


def _row_norm_backward(input: Any, mean: Any, weight: Any, output_mask: Sequence[bool], c: int | None = None) -> int:
    """Normalised input x (2n). Input: h, the gradient by scale (n), sums of h and h x (3n - 2r), their means (2r), and
    s (h - mean - x mean) (4n). Scale: sums of g x (2n - c). Shift: sums of g (n - c). A layer normalisation
    has as many parameters of each kind as elements in a row.
    """
    elements, (for_input, for_scale, for_shift) = input.numel(), output_mask
    channels = c or elements // max(1, mean.numel())
    flop = (7 + (weight is not None)) * elements * for_input + 2 * elements * (for_input or for_scale)
    return int(flop + (2 * elements - channels) * for_scale + (elements - channels) * for_shift)


def _rms_norm_backward(input: Any, rstd: Any, weight: Any, output_mask: Sequence[bool]) -> int:
    """As ``_row_norm_backward``, without the mean: x (n), scale (n), a sum and its mean (2n), input (3n)."""
    elements = input.numel()
    channels = elements // max(1, rstd.numel())
    for_input = elements * (5 + (weight is not None)) * output_mask[0]
    return int(elements + for_input + (2 * elements - channels) * output_mask[1])


register_other_flop(
    {
        "native_batch_norm _native_batch_norm_legit cudnn_batch_norm miopen_batch_norm": _batch_norm,
        "_native_batch_norm_legit_functional": _batch_norm,
        "_batch_norm_with_update _batch_norm_with_update_functional": _batch_norm,
        "_native_batch_norm_legit_no_training _batch_norm_no_update": lambda input: _batch_norm(input, False),
        "native_batch_norm_backward batch_norm_backward": _batch_norm_backward,
        "cudnn_batch_norm_backward miopen_batch_norm_backward": _batch_norm_backward,
        # The same in parts, which several devices join: statistics, then scale and shift; sums, then the input.
        "batch_norm_stats": lambda input: 4 * input.numel() + 2 * input.shape[1],
        "batch_norm_elemt": lambda input: 2 * input.numel() + 3 * input.shape[1],
        "batch_norm_backward_reduce": lambda input: 5 * input.numel() - 2 * input.shape[1],
        "batch_norm_backward_elemt": lambda input: 4 * input.numel() + 3 * input.shape[1],
        "native_layer_norm native_group_norm": _row_norm,
        "native_layer_norm_backward native_group_norm_backward": _row_norm_backward,
        # Squares and their mean (2n), deviation (2r), product (n), scale (n).
        "_fused_rms_norm": lambda input, weight, out: input.numel() * (3 + (weight is not None)) + 2 * out[1].numel(),
        "_fused_rms_norm_backward": _rms_norm_backward,
        # Rows of weights scaled to given lengths: squares (n), sums (n - r), roots (r), ratios (r), products (n).
        "_weight_norm_interface": lambda v, out: 3 * v.numel() + out[1].numel(),
        # Lengths: sums of g v / norm (2n); weights: length / norm (g - v sum / norm) (3n + 2r).
        "_weight_norm_interface_backward": lambda saved_v, saved_norms: 5 * saved_v.numel() + 2 * saved_norms.numel(),
    }
)


# A loss is a number of operations an element, and then their sum or mean.
NONE, MEAN, SUM = 0, 1, 2  # torch's numbers of how a loss is reduced


def _reduced_flop(elements: int, reduction: int) -> int:
    """Count the sum of all elements, and the division of a mean."""
    return {NONE: 0, MEAN: elements, SUM: elements - 1}[reduction]


def _loss(cost: int) -> Callable[..., int]:
    """Make the count of a loss with ``cost`` operations an element. A weight adds a product."""

    def flop(input: Any, reduction: int, weight: Any = None) -> int:
        elements = input.numel()
        return int(elements * (cost + (weight is not None)) + _reduced_flop(elements, reduction))

    return flop


def _cross_entropy_of_logits(input: Any, weight: Any, pos_weight: Any, reduction: int) -> int:
    """``(1 - y) x - log sigmoid x``: 3, and the 5 of the logarithm. The weight of positives is 3 more: its product with
    the logarithm of ``(w - 1) y + 1``.
    """
    return _loss(8 + 3 * (pos_weight is not None))(input, reduction, weight)


def _likelihood(target: Any, weight: Any, reduction: int) -> int:
    """Count a change of sign per target, and a product with its weight. A mean also divides by the sum of weights."""
    targets, is_weighted = target.numel(), weight is not None
    return int(targets * (1 + is_weighted) + _reduced_flop(targets, reduction) + is_weighted * (targets - 1))


def _margin(input: Any, target: Any, p: float, weight: Any, reduction: int) -> int:
    """Count ``max(0, margin - x_y + x)`` (3 an element) or its square (4), a weight, and the mean over classes (1)."""
    return int(input.numel() * (4 + (p == 2) + (weight is not None)) + _reduced_flop(target.numel(), reduction))


# Connectionist temporal classification (Graves et al. 2006) has a state for each step and each place of the targets and
# the blanks between them. A state joins three earlier ones by their logarithms: the largest (2), differences and
# exponentials (6), sums (2), a logarithm, the largest and the likelihood added (3). The gradient takes the same in the
# other direction; a sum and a joining of two for each state (6); for each likelihood exp p - exp(s + n - p), by g (6).
STATE_FLOP = 13

register_other_flop(
    {
        "mse_loss": _loss(2),  # d d
        "smooth_l1_loss": _loss(6),  # d, its size, a comparison, d d / 2 b
        "huber_loss": _loss(5),  # d, its size, a comparison, d d / 2
        "soft_margin_loss": _loss(5),  # log(1 + exp(-x y))
        "binary_cross_entropy": _loss(8),  # -(y log x + (1 - y) log(1 - x))
        "binary_cross_entropy_with_logits": _cross_entropy_of_logits,
        "nll_loss_forward nll_loss2d_forward": _likelihood,
        # A change of sign and a product of its weight for each target.
        "nll_loss_backward nll_loss2d_backward": lambda target, weight: target.numel() * (1 + (weight is not None)),
        "multi_margin_loss": _margin,
        # The same with one target a row; how many there are depends on values.
        "multilabel_margin_loss_forward": lambda input, reduction: (
            4 * input.numel() + _reduced_flop(input.numel() // input.shape[-1], reduction)
        ),
        # The margin (2), compared, and added to the target's gradient; a product for a square and for a weight.
        "multi_margin_loss_backward": lambda input, p, weight: input.numel() * (4 + (p == 2) + (weight is not None)),
        "multilabel_margin_loss_backward": lambda input: 4 * input.numel(),
        # 2 d, by g unless all share it.
        "mse_loss_backward": lambda input, reduction: input.numel() * (2 + (reduction == NONE)),
        # d, two comparisons, d / b, by g.
        "smooth_l1_loss_backward": lambda input: 5 * input.numel(),
        "huber_loss_backward": lambda input: 4 * input.numel(),
        # z = exp(-x y) (3); z / (1 + z) (2); by -y and g (2).
        "soft_margin_loss_backward": lambda input: 7 * input.numel(),
        # g (x - y) / (x (1 - x)), by the weight.
        "binary_cross_entropy_backward": lambda input, weight: input.numel() * (5 + (weight is not None)),
        "_ctc_loss": lambda out: STATE_FLOP * out[1].numel(),
        "_ctc_loss_backward": lambda log_probs, log_alpha: (STATE_FLOP + 6) * log_alpha.numel() + 6 * log_probs.numel(),
    }
)


def transcription_output(
    likelihoods: Any, targets: Any, _lengths: Any, _target_lengths: Any, *_options: Any
) -> tuple[Any, Any]:
    """Make the outputs of ``_ctc_loss`` without memory. Targets count as the longest; joined ones are split evenly."""
    steps, batch = likelihoods.shape[:2] if likelihoods.dim() == 3 else (len(likelihoods), 1)
    longest = targets.shape[1] if targets.dim() == 2 else -(-targets.numel() // batch)
    return likelihoods.new_empty(batch), likelihoods.new_empty(batch, steps, 2 * longest + 1)


# Recurrent layers that run as one operator. On the meta device torch runs the layers step by step, and their products
# and scalars are counted as such. That gives the same numbers except twice in the backward pass: gradients of an
# initial state exist only on request, and the steps' gradients of a weight are added one by one, which one product over
# all steps does in its multiply-adds.
#
# A gate takes, per hidden unit and step, an addition of its two products, one for each bias, and its activation as in
# ``formulas``: 4 operations for a sigmoid, 1 for tanh. ``torch.nn.LSTM``, ``GRU`` and ``RNN`` give the equations.

CUDNN_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")  # by cuDNN's numbers

# Scalar operations per hidden unit and step: of the cell forward and backward, of its two biases in each.
SCALARS = {
    # Four gates added (4); i, f and o sigmoids (12), g tanh (1); c = f c + i g (3); h = o tanh(c) (2).
    # Backward: h = o tanh(c) (2), tanh (3); c = f c + i g (4); three sigmoids (9), tanh (3); the gradients of c and h
    # from the next step added (2).
    "lstm": (22, 23, 8),
    # r and z added (2), r times its product (1), n added (1); two sigmoids (8), tanh (1); (n - z n) + z h as
    # (h - n) z + n (3). Backward: z (1), h (1) and n (1); tanh (3); r and n's product (2); two sigmoids (6); the
    # gradient of h added twice (2).
    "gru": (16, 16, 6),
    # The products added (1), the activation (1). Backward: tanh (3) or ReLU (1); the gradient of h from the next step
    # added (1).
    "rnn_tanh": (2, 4, 2),
    "rnn_relu": (2, 2, 2),
}


def _matrices(weights: Sequence[Any]) -> int:
    """Count the multiply-adds of one step of one sequence: one for each element of a weight matrix."""
    return sum(weight.numel() for weight in weights if weight.dim() == 2)


def _scalars(mode: str, units: int, has_bias: bool, backward_steps: int | None = None) -> int:
    """Count the scalar operations of ``units`` hidden units, summed over all steps and sequences.

    Backward, the gradient of a bias is a sum over all steps: one addition less.
    """
    forward, backward, biases = SCALARS[mode]
    if backward_steps is None:
        return units * (forward + biases * has_bias)
    return units * backward + biases * has_bias * (units - units // max(1, backward_steps))


def _steps(inputs: Any) -> int:
    """Count the steps of all sequences together, in any layout: padded, batch first or packed."""
    return int(inputs.numel() // inputs.shape[-1])


@formula("_cudnn_rnn", "miopen_rnn")
def recurrent(
    input: Any, weight: Any, weight_stride0: int, mode: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Work:
    steps, directions = _steps(input), 2 if bidirectional else 1
    units = steps * hidden_size * num_layers * directions
    return Work(2 * steps * _matrices(weight), _scalars(CUDNN_MODES[mode], units, weight_stride0 >= 4))


@formula("_cudnn_rnn_backward", "miopen_rnn_backward")
def recurrent_backward(
    input: Any, weight: Any, weight_stride0: int, mode: int, hidden_size: int, num_layers: int, bidirectional: bool,
    output_mask: Sequence[bool],
) -> Work:  # fmt: skip
    """Count the requested gradients. Without the input's, the first layer skips the product for it.

    The two directions of a layer add their gradients of the layer's input.
    """
    matrices, steps, directions = _matrices(weight), _steps(input), 2 if bidirectional else 1
    for_input, for_weights = output_mask[0], output_mask[3]
    first = sum(weight[direction * weight_stride0].numel() for direction in range(directions))
    products = matrices - (0 if for_input else first) + (matrices if for_weights else 0)
    units = steps * hidden_size * num_layers * directions
    other = _scalars(CUDNN_MODES[mode], units, weight_stride0 >= 4, steps)
    if bidirectional:
        layers = range(0 if for_input else 1, num_layers)
        other += steps * sum(weight[layer * directions * weight_stride0].shape[1] for layer in layers)
    return Work(2 * steps * products, other)


@formula("mkldnn_rnn_layer")
def mkldnn_layer(input: Any, weight0: Any, weight1: Any, mode: int, hidden_size: int, has_biases: bool) -> Work:
    return recurrent(input, (weight0, weight1), 4 if has_biases else 2, mode, hidden_size, 1, False)


@formula("mkldnn_rnn_layer_backward")
def mkldnn_layer_backward(
    input: Any, weight1: Any, weight2: Any, mode: int, hidden_size: int, has_biases: bool
) -> Work:
    layer = (input, (weight1, weight2), 4 if has_biases else 2, mode, hidden_size, 1, False)
    return recurrent_backward(*layer, output_mask=(True,) * 4)


@formula("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell")
def fused_cell(input_gates: Any, input_bias: Any, out: Any) -> Work:
    """Count one step's gates. Their products are separate operators."""
    mode = "lstm" if input_gates.shape[-1] == 4 * out[0].shape[-1] else "gru"
    return Work(0, _scalars(mode, out[0].numel(), input_bias is not None))


@formula("_thnn_fused_lstm_cell_backward_impl")
def fused_lstm_backward(has_bias: bool, out: Any) -> Work:
    """Count one step's gradients of the gates, and of the biases, their sums."""
    return Work(0, _scalars("lstm", out[1].numel(), has_bias, _steps(out[1])))


@formula("_thnn_fused_gru_cell_backward")
def fused_gru_backward(has_bias: bool, out: Any) -> Work:
    return Work(0, _scalars("gru", out[2].numel(), has_bias, _steps(out[2])))


# Optimisers that update all parameters in one operator, and the scaling of gradients before them. Numbers that all
# elements share, such as corrections of the bias by the step, are left out.


def _updated(input: Any, each: int, weight_decay: float, maximize: bool, grad_scale: Any) -> Work:
    """Count ``each`` operations per element; gradient + decay * weight (2), a sign and a factor if they are set."""
    elements = sum(parameter.numel() for parameter in input)
    return Work(0, elements * (each + 2 * bool(weight_decay) + maximize + (grad_scale is not None)))


@formula("_fused_adam")
def adam(input: Any, weight_decay: float, amsgrad: bool, maximize: bool, grad_scale: Any) -> Work:
    """Moments m + (1 - b) (g - m) and b v + (1 - b) g g take 3 and 4; sqrt(v) / c + e and w - r m / that 3 each."""
    return _updated(input, 13 + amsgrad, weight_decay, maximize, grad_scale)


@formula("_fused_adamw")
def adamw(input: Any, weight_decay: float, amsgrad: bool, maximize: bool, grad_scale: Any) -> Work:
    """The decay is one product: of the weight by a number."""
    return _updated(input, 13 + amsgrad + bool(weight_decay), 0, maximize, grad_scale)


@formula("_fused_sgd")
def sgd(
    input: Any, weight_decay: float, momentum: float, dampening: float, nesterov: bool, maximize: bool,
    is_first_step: bool, grad_scale: Any,
) -> Work:  # fmt: skip
    """The update w - r g takes 2. The momentum b m + (1 - d) g takes 2, 3 with a damping d; at the first step it is g.

    Nesterov's g + b m takes 2.
    """
    momentum_flop = (0 if is_first_step else 2 + bool(dampening)) + 2 * nesterov
    return _updated(input, 2 + bool(momentum) * momentum_flop, weight_decay, maximize, grad_scale)


@formula("_fused_adagrad")
def adagrad(input: Any, weight_decay: float, maximize: bool, grad_scale: Any) -> Work:
    """``s + g g`` is 2 operations; ``w - r g / (sqrt(s) + e)`` is 5."""
    return _updated(input, 7, weight_decay, maximize, grad_scale)


register_other_flop(
    {  # Compare, and scale: each gradient, and the scale itself.
        "_amp_foreach_non_finite_check_and_unscale": lambda input: 2 * sum(gradient.numel() for gradient in input),
        "_amp_update_scale": lambda input: 2 * input.numel(),
    }
)
