"""FLOP of recurrent layers that run as one fused operator: LSTM, GRU and plain RNN, on CPU and CUDA.

On the meta device torch runs the layers step by step, and their products and scalars are counted as such. That gives
the same numbers except twice in the backward pass: gradients of an initial state exist only on request, and the steps'
gradients of a weight are added one by one, which one product over all steps does in its multiply-adds.

A gate takes, per hidden unit and step, an addition of its two products, one for each bias, and its activation as in
``formulas``: 4 operations for a sigmoid, 1 for tanh. The equations are those of ``torch.nn.LSTM``, ``GRU`` and ``RNN``.
"""

from collections.abc import Sequence
from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula

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
    """Return the multiply-adds of one step of one sequence: one for each element of a weight matrix."""
    return sum(weight.numel() for weight in weights if weight.dim() == 2)


def _scalars(mode: str, units: int, has_bias: bool, backward_steps: int | None = None) -> int:
    """Return the scalar operations of ``units`` hidden units, counted over all steps and sequences.

    Backward, the gradient of a bias is a sum over all steps: one addition less.
    """
    forward, backward, biases = SCALARS[mode]
    if backward_steps is None:
        return units * (forward + biases * has_bias)
    return units * backward + biases * has_bias * (units - units // max(1, backward_steps))


def _steps(inputs: Any) -> int:
    """Return the steps of all sequences together, in any layout: padded, batch first or packed."""
    return int(inputs.numel() // inputs.shape[-1])


@formula("mkldnn_rnn_layer")
def mkldnn_layer(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    weights, mode, hidden, has_bias = args[1:3], CUDNN_MODES[args[9]], args[10], args[12]
    steps = _steps(args[0])
    return Work(2 * steps * _matrices(weights), _scalars(mode, steps * hidden, has_bias))


@formula("mkldnn_rnn_layer_backward")
def mkldnn_layer_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    weights, mode, hidden, has_bias = args[1:3], CUDNN_MODES[args[14]], args[15], args[17]
    steps = _steps(args[0])
    return Work(4 * steps * _matrices(weights), _scalars(mode, steps * hidden, has_bias, steps))


@formula("_cudnn_rnn")
def cudnn(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    weights, stride, mode, hidden, layers = args[1], args[2], CUDNN_MODES[args[6]], args[7], args[9]
    steps, directions = _steps(args[0]), 2 if args[13] else 1
    units = steps * hidden * layers * directions
    return Work(2 * steps * _matrices(weights), _scalars(mode, units, stride >= 4))


@formula("_cudnn_rnn_backward")
def cudnn_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the requested gradients. Without the input's, the first layer skips the product for it.

    The two directions of a layer add their gradients of the layer's input.
    """
    weights, stride, mode, hidden = args[1], args[2], CUDNN_MODES[args[10]], args[11]
    layers, is_bidirectional, mask = args[13], args[17], args[21]
    matrices, steps, directions = _matrices(weights), _steps(args[0]), 2 if is_bidirectional else 1
    first = sum(weights[direction * stride].numel() for direction in range(directions))
    products = matrices - (0 if mask[0] else first) + (matrices if mask[3] else 0)
    other = _scalars(mode, steps * hidden * layers * directions, stride >= 4, steps)
    if is_bidirectional:
        from_layer = 0 if mask[0] else 1
        other += steps * sum(weights[layer * directions * stride].shape[1] for layer in range(from_layer, layers))
    return Work(2 * steps * products, other)


@formula("miopen_rnn")
def miopen(args: Args, kwargs: Kwargs, out: Any) -> Work:
    """Count as cuDNN's, which has a buffer for weights and a projection more."""
    return cudnn([*args[:3], None, *args[3:7], 0, *args[7:]], kwargs, out)


@formula("miopen_rnn_backward")
def miopen_backward(args: Args, kwargs: Kwargs, out: Any) -> Work:
    return cudnn_backward([*args[:12], 0, *args[12:]], kwargs, out)


@formula("_thnn_fused_lstm_cell", "_thnn_fused_gru_cell")
def fused_cell(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count one step's gates. Their products are separate operators. The first argument is the input's gates."""
    mode = "lstm" if args[0].shape[-1] == 4 * out[0].shape[-1] else "gru"
    return Work(0, _scalars(mode, out[0].numel(), len(args) > 3 and args[3] is not None))


@formula("_thnn_fused_lstm_cell_backward_impl", "_thnn_fused_gru_cell_backward")
def fused_cell_backward(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count one step's gradients of the gates, and of the biases, their sums, if the last argument asks for them."""
    mode, state = ("lstm", out[1]) if len(args) == 6 else ("gru", out[2])
    return Work(0, _scalars(mode, state.numel(), bool(args[-1]), _steps(state)))
