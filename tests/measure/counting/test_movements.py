import pytest
from helpers.counting import Case, case, meta, named, torch

from measure.counting.formulas import NOTHING
from measure.counting.memory import Overload

# None of them computes, whatever it is called with: an output's shape is enough.
CASES = [
    *(case(name, meta(3, 5), out=meta(3, 5)) for name in (
        "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided",
        "arange", "bernoulli", "eye", "fill", "full", "full_like", "linspace", "new_full", "new_ones", "new_zeros",
        "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
        "scalar_tensor", "uniform", "zero", "zeros", "zeros_like",
        "embedding", "gather", "index", "index_select", "masked_select", "take",
        "copy", "_foreach_copy",
        "_conj_physical", "_local_scalar_dense", "_to_copy", "_unsafe_index", "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "as_strided_scatter", "cat", "channel_shuffle",
        "clone", "constant_pad_nd", "complex", "diagonal_backward", "flip", "im2col", "index_copy",
        "lift_fresh_copy", "masked_fill", "masked_scatter", "native_channel_shuffle", "pixel_shuffle",
        "pixel_unshuffle", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat",
        "repeat_interleave", "replication_pad1d", "replication_pad2d", "replication_pad3d", "resize", "roll",
        "scatter", "select_backward", "select_scatter", "slice_backward", "slice_scatter", "stack", "tril", "triu",
        "unfold_copy", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "view_as_complex_copy",
        "view_as_real_copy", "where",
    )),
]  # fmt: skip


@pytest.mark.parametrize(**named(CASES))
def test_nothing_is_computed(case: Case):
    assert case.counted() == NOTHING


@pytest.mark.parametrize(**named(CASES))
def test_it_is_an_operator_and_no_view(case: Case):
    """A view is left out before any formula is asked."""
    namespace, _, name = case.operator.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None) or getattr(torch.ops.aten, f"{name}_")
    overloads = [getattr(packet, overload) for overload in packet.overloads() if "hacked" not in overload]
    assert not all(Overload(overload).is_ignored for overload in overloads)
