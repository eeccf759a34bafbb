"""FLOP of recurrent layers that run as one fused operator: LSTM, GRU and plain RNN, on CPU and CUDA.

Where torch runs them step by step instead (on the meta device), their products and scalars are counted as such, which
gives the same numbers but for two things of the backward pass: gradients of an initial state are computed only where
they are asked for, and each step's gradient of a weight is added to the others', which a product over all steps does
in its multiply-adds. A gate takes, a hidden unit and step, an addition of its two products and one for each bias, and
its activation as ``scalars`` has it: a sigmoid is 4 operations, tanh 1.
"""

from collections.abc import Sequence
from typing import Any

from measure.counting.formulas import Args, Kwargs, Work, formula

CUDNN_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")
"""The meaning of cuDNN's numbers for the kinds of cell."""

SCALARS = {
    # four gates added (4); i, f and o sigmoids (12), g tanh (1); c = f c + i g (3); h = o tanh(c) (2)
    "lstm": (22, 8),
    # r and z added (2), r times its product (1), n added (1); two sigmoids (8), tanh (1); (n - z n) + z h as
    # (h - n) z + n (3)
    "gru": (16, 6),
    # the products added (1), the activation (1)
    "rnn_tanh": (2, 2),
    "rnn_relu": (2, 2),
}
"""Scalar operations a hidden unit and step in the forward pass, and those of the two biases."""

SCALARS_BACKWARD = {
    # h = o tanh(c) (2), tanh's backward (3); c = f c + i g (4); three sigmoids' (9), tanh's (3); the gradients of c
    # and h from the next step added (2)
    "lstm": (23, 8),
    # of z (1), h (1) and n (1); tanh's backward (3); of r and of n's product (2); two sigmoids' (6); the gradient of h
    # added twice (2)
    "gru": (16, 6),
    # tanh's backward (3), or ReLU's (1); the gradient of h from the next step added (1)
    "rnn_tanh": (4, 2),
    "rnn_relu": (2, 2),
}
"""The same in the backward pass, where a bias's gradient is a sum over all steps: an addition less."""


def _matrices(weights: Sequence[Any]) -> int:
    """Multiply-adds of one step of one sequence: an element of a weight matrix takes part in one."""
    return sum(weight.numel() for weight in weights if weight.dim() == 2)


def _scalars(mode: str, units: int, biased: bool) -> int:
    """Scalar operations of so many hidden units, each over all steps and sequences."""
    cell, biases = SCALARS[mode]
    return units * (cell + (biases if biased else 0))


def _scalars_backward(mode: str, units: int, steps: int, biased: bool) -> int:
    cell, biases = SCALARS_BACKWARD[mode]
    return units * cell + (biases * (units - units // max(1, steps)) if biased else 0)


def _steps(inputs: Any) -> int:
    """Steps of all sequences together, whatever the layout: padded, batch first or packed."""
    return int(inputs.numel() // inputs.shape[-1])


@formula("aten::mkldnn_rnn_layer")
def mkldnn_layer(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count one layer and direction."""
    inputs, weights, mode, hidden, biased = args[0], args[1:3], CUDNN_MODES[args[9]], args[10], args[12]
    steps = _steps(inputs)
    return Work(2 * steps * _matrices(weights), _scalars(mode, steps * hidden, biased))


@formula("aten::mkldnn_rnn_layer_backward")
def mkldnn_layer_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the gradients of input and weights, both always."""
    inputs, weights, mode, hidden, biased = args[0], args[1:3], CUDNN_MODES[args[14]], args[15], args[17]
    steps = _steps(inputs)
    return Work(4 * steps * _matrices(weights), _scalars_backward(mode, steps * hidden, steps, biased))


def _cudnn_units(inputs: Any, hidden: int, layers: int, bidirectional: bool) -> int:
    return _steps(inputs) * hidden * layers * (2 if bidirectional else 1)


@formula("aten::_cudnn_rnn")
def cudnn(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    inputs, weights, stride, mode, hidden = args[0], args[1], args[2], CUDNN_MODES[args[6]], args[7]
    units = _cudnn_units(inputs, hidden, args[9], args[13])
    return Work(2 * _steps(inputs) * _matrices(weights), _scalars(mode, units, stride >= 4))


@formula("aten::_cudnn_rnn_backward")
def cudnn_backward(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """Count the gradients that are asked for: without the input's, the first layer's product for it is not done.

    Where two directions meet, their gradients of a layer's input are added.
    """
    inputs, weights, stride, mode, hidden = args[0], args[1], args[2], CUDNN_MODES[args[10]], args[11]
    layers, bidirectional, mask = args[13], args[17], args[21]
    matrices, steps = _matrices(weights), _steps(inputs)
    directions = 2 if bidirectional else 1
    first = sum(weights[direction * stride].numel() for direction in range(directions))
    products = matrices - (0 if mask[0] else first) + (matrices if mask[3] else 0)
    units = _cudnn_units(inputs, hidden, layers, bidirectional)
    handed_on = sum(weights[layer * directions * stride].shape[1] for layer in range(0 if mask[0] else 1, layers))
    other = _scalars_backward(mode, units, steps, stride >= 4) + (steps * handed_on if bidirectional else 0)
    return Work(2 * steps * products, other)


@formula("aten::_thnn_fused_lstm_cell", "aten::_thnn_fused_gru_cell")
def fused_cell(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count one step's gates; its products are operators of their own. The first gates are those of the input."""
    mode = "lstm" if args[0].shape[-1] == 4 * out[0].shape[-1] else "gru"
    return Work(0, _scalars(mode, out[0].numel(), len(args) > 3 and args[3] is not None))


@formula("aten::_thnn_fused_lstm_cell_backward_impl", "aten::_thnn_fused_gru_cell_backward")
def fused_cell_backward(args: Args, _kwargs: Kwargs, out: Any) -> Work:
    """Count one step's gradients of the gates; the biases' gradients are the gates' sums, as the last argument says."""
    mode, state = ("lstm", out[1]) if len(args) == 6 else ("gru", out[2])
    return Work(0, _scalars_backward(mode, state.numel(), _steps(state), bool(args[-1])))
