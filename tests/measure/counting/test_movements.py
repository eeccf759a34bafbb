import pytest
from helpers.counting import case, meta, named, torch

from measure.counting.formulas import NOTHING
from measure.counting.memory import Overload

# None of them computes, whatever it is called with: an output's shape is enough.
CASES = [
    *(case(name, meta(3, 5), out=meta(3, 5)) for name in (
        "_efficientzerotensor", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
        "new_empty_strided",
        "_cudnn_init_dropout_state", "_philox_normal", "_philox_uniform", "arange", "bartlett_window", "bernoulli",
        "blackman_window", "cauchy", "exponential", "eye", "fft_fftfreq", "fft_rfftfreq", "fill", "full", "full_like",
        "geometric", "hamming_window", "hann_window", "kaiser_window", "linspace", "log_normal", "logspace", "new_full",
        "new_ones", "new_zeros", "normal", "normal_functional", "ones", "ones_like", "rand", "rand_like", "randint",
        "randint_like", "randn", "randn_like", "random", "randperm", "range", "scalar_tensor", "tril_indices",
        "triu_indices", "uniform", "zero", "zeros", "zeros_like",
        "embedding", "gather", "index", "index_select", "masked_select", "take",
        "copy", "_foreach_copy",
        "_chunk_cat", "_conj_copy", "_conj_physical", "_convert_weight_to_int4pack",
        "_convert_weight_to_int4pack_for_cpu", "_copy_from", "_copy_from_and_resize", "_cudnn_rnn_flatten_weight",
        "_dyn_quant_pack_4bit_weight", "_fw_primal_copy", "_jagged_to_padded_dense_forward", "_lazy_clone",
        "_local_scalar_dense", "_make_dual_copy", "_mkldnn_reshape", "_mkldnn_transpose", "_neg_view_copy",
        "_nested_from_padded_tensor", "_pack_padded_sequence", "_padded_dense_to_jagged_forward", "_pin_memory",
        "_reshape_alias_copy", "_reshape_copy", "_resize_output", "_sample_dirichlet", "_stack", "_standard_gamma",
        "_to_copy", "_to_dense", "_unsafe_index", "_unsafe_masked_index", "_upsample_nearest_exact1d",
        "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "alias_copy", "as_strided_copy", "as_strided_scatter",
        "binomial", "block_diag", "cat", "channel_shuffle", "clone", "complex", "conj_physical", "constant_pad_nd",
        "detach_copy", "diag_embed", "diagonal_backward", "diagonal_copy", "diagonal_scatter", "expand_copy", "flip",
        "im2col", "index_copy", "index_fill", "int_repr", "lift", "lift_fresh_copy", "lu_unpack", "masked_fill",
        "masked_scatter", "masked_scatter_backward", "max_unpool2d", "max_unpool3d", "mkldnn_reorder_conv2d_weight",
        "mkldnn_reorder_conv3d_weight", "multinomial", "narrow_copy", "native_channel_shuffle", "permute_copy",
        "pixel_shuffle", "pixel_unshuffle", "poisson", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d",
        "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d", "replication_pad3d", "resize",
        "resize_as", "roll", "rot90", "select_backward", "select_copy", "select_scatter", "shallow_copy_data",
        "slice_backward", "slice_copy", "slice_scatter", "split_copy", "split_with_sizes_copy", "squeeze_copy", "stack",
        "t_copy", "to_mkldnn", "to_padded_tensor", "transpose_copy", "tril", "triu", "unbind_copy", "unfold_copy",
        "unsqueeze_copy", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "view_as_complex_copy",
        "view_as_real_copy", "view_copy", "where",
    )),
    case("scatter", meta(3, 5), 0, meta(2, 5, dtype=torch.int64), meta(2, 5)),
    case("put", meta(3, 5), meta(4, dtype=torch.int64), meta(4)),
]  # fmt: skip


@pytest.mark.parametrize(**named(CASES))
def test_nothing_is_computed_by_an_operator_that_is_no_view(case):
    """A view is left out before any formula is asked."""
    assert case.counted() == NOTHING
    name = case.operator.partition("::")[2]
    packet = getattr(torch.ops.aten, name, None) or getattr(torch.ops.aten, f"{name}_")
    overloads = [getattr(packet, overload) for overload in packet.overloads() if "hacked" not in overload]
    assert not all(Overload(overload).is_ignored for overload in overloads)
