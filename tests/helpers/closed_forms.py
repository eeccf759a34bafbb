"""A second count of FLOP, forward and backward, for the tests: closed formulas over the modules that a network runs.

It shares nothing with ``measure``, which counts operators: here hooks see each module's input, and formulas give its
products. A product has two factors, and the gradient of each takes as many multiply-adds as the product itself; it
is computed where that factor requires a gradient. So a convolution costs twice its forward in the backward pass, and
once where its input requires no gradient or its weights are frozen. Biases and elementwise work are no products. The
network's mode decides what runs; all that runs has to lead to the output.

Howard et al. 2017, equations 2 and 3, print the formula of a convolution and of a depthwise one; Liu et al. 2021,
equations 1 and 2, those of attention and of attention in windows.
"""

import inspect
from collections.abc import Iterator
from contextlib import ExitStack
from functools import singledispatch
from math import ceil
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch", reason="counting needs torch")
maxvit = pytest.importorskip("torchvision.models.maxvit", reason="counting needs torchvision")
swin = pytest.importorskip("torchvision.models.swin_transformer", reason="counting needs torchvision")
nn = torch.nn


class Product(NamedTuple):
    """The multiply-adds of a convolution or a matrix product, and how many of its factors get a gradient (0 to 2)."""

    multiply_adds: int
    gradients: int


def forward_and_backward_flop(network: "nn.Module", *inputs: Any) -> tuple[int, int]:
    """FLOP of one forward pass of ``network(*inputs)`` and of the backward pass from its output's gradient.

    Two FLOP a multiply-add. The hooks are removed again.
    """
    products: list[Product] = []

    def collect(module: "nn.Module", args: Any, kwargs: Any, output: Any) -> None:
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).args
        products.extend(products_of(module, arguments, output))

    with ExitStack() as hooks, torch.enable_grad():
        for module in network.modules():
            hooks.enter_context(module.register_forward_hook(collect, with_kwargs=True))
        network(*inputs)
    forward = sum(2 * product.multiply_adds for product in products)
    backward = sum(2 * product.multiply_adds * product.gradients for product in products)
    return forward, backward


@singledispatch
def products_of(module: "nn.Module", arguments: Any, output: Any) -> Iterator[Product]:
    """The products of a call of the module itself; those of modules that it calls are theirs."""
    yield from ()


@products_of.register
def _(module: nn.Conv1d | nn.Conv2d | nn.Conv3d, arguments: Any, output: Any) -> Iterator[Product]:
    # weight: (outputs, inputs / groups, *kernel); each output is a sum over one filter.
    yield _product(output.numel() * module.weight[0].numel(), arguments[0], module.weight)


@products_of.register
def _(
    module: nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d, arguments: Any, output: Any
) -> Iterator[Product]:
    # weight: (inputs, outputs / groups, *kernel); each input is spread over one filter.
    yield _product(arguments[0].numel() * module.weight[0].numel(), arguments[0], module.weight)


@products_of.register
def _(module: nn.Linear, arguments: Any, output: Any) -> Iterator[Product]:
    yield _product(arguments[0].numel() * module.out_features, arguments[0], module.weight)


@products_of.register
def _(module: nn.MultiheadAttention, arguments: Any, output: Any) -> Iterator[Product]:
    query, key, value = arguments[:3]
    if module.in_proj_weight is None:
        weights = (module.q_proj_weight, module.k_proj_weight, module.v_proj_weight)
    else:
        weights = (module.in_proj_weight,) * 3
    for factor, weight in zip((query, key, value), weights, strict=True):
        yield _product(factor.numel() * module.embed_dim, factor, weight)
    source_length = key.shape[1 if module.batch_first and key.dim() == 3 else 0]
    source_length += (module.bias_k is not None) + module.add_zero_attn
    yield from _attention(module, query.numel() * source_length, query, key, value)
    yield _product(query.numel() * module.embed_dim, output[0], module.out_proj.weight)


@products_of.register
def _(module: swin.ShiftedWindowAttention, arguments: Any, output: Any) -> Iterator[Product]:
    # Version 2 is a subclass; the network that makes its position bias calls its own linear layers.
    (image,) = arguments
    batch, height, width, channels = image.shape
    window_height, window_width = module.window_size
    windows = batch * ceil(height / window_height) * ceil(width / window_width)  # padded to whole windows
    tokens = window_height * window_width
    yield _product(windows * tokens * channels * 3 * channels, image, module.qkv.weight)
    yield from _attention(module, windows * tokens * tokens * channels, image)
    yield _product(windows * tokens * channels * channels, output, module.proj.weight)


@products_of.register
def _(module: maxvit.RelativePositionalMultiHeadAttention, arguments: Any, output: Any) -> Iterator[Product]:
    (groups,) = arguments  # (batch, groups, tokens, channels); the projections are linear layers that it calls
    yield from _attention(module, groups.numel() * groups.shape[2], groups)


def _attention(module: "nn.Module", multiply_adds: int, *inputs: Any) -> Iterator[Product]:
    """Scores (queries by keys) and outputs (scores by values), without recomputation in the backward pass.

    Both factors of both count as in need of a gradient where an input or any parameter of the module is: a module
    is trained or frozen as a whole.
    """
    gradients = 2 * any(tensor.requires_grad for tensor in (*inputs, *module.parameters()))
    yield Product(multiply_adds, gradients)
    yield Product(multiply_adds, gradients)


def _product(multiply_adds: int, *factors: Any) -> Product:
    return Product(multiply_adds, sum(factor.requires_grad for factor in factors))
