"""Operators that compute nothing: they allocate, copy, choose or rearrange. Their work is bytes.

Random numbers are among them: the cost of a generator is not a property of the model.
"""

from typing import Any

from measure.counting.flops import NOTHING, Args, Kwargs, Work, formula

ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""They touch no memory: what is written into it later is counted there."""

FILLS = (
    "arange", "bernoulli", "eye", "fill", "full", "full_like", "linspace", "new_full", "new_ones", "new_zeros",
    "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "scalar_tensor", "uniform", "zero", "zeros", "zeros_like",
)  # fmt: skip
"""They write and read nothing: in place, what stood there before is not looked at."""

CHOICES = ("embedding", "gather", "index", "index_select", "masked_select", "take")
"""They read as much of their first tensor as they write, and their indices."""

COPIES = ("copy", "_foreach_copy")
"""In place, their first tensor is written and not read."""

REARRANGEMENTS = (
    "_conj_physical", "_local_scalar_dense", "_to_copy", "_unsafe_index", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "as_strided_scatter", "cat", "channel_shuffle",
    "clone", "constant_pad_nd", "complex", "diagonal_backward", "flip", "im2col", "index_copy", "lift_fresh_copy",
    "masked_fill", "masked_scatter", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "resize", "roll", "scatter", "select_backward", "select_scatter",
    "slice_backward", "slice_scatter", "stack", "tril", "triu", "unfold_copy", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "view_as_complex_copy", "view_as_real_copy", "where",
)  # fmt: skip
"""They read what they are given and write what they give; a view does neither, and is not among them."""


@formula(*(f"aten::{name}" for name in (*ALLOCATIONS, *FILLS, *CHOICES, *COPIES, *REARRANGEMENTS)))
def no_work(_args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return NOTHING
