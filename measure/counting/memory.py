"""Bytes: the memory that is alive while operators run, and the bytes that each operator reads and writes.

Memory needs no knowledge of the framework. A storage counts from its first tensor until it is freed; on the meta device
the program frees a tensor when its last reference goes, as on any other.

Traffic assumes that nothing is fused and nothing stays in a cache: an operator reads each input once and writes each
output once. It reads and writes a tensor that it changes in place. A view moves nothing. Of a table, only the rows that
an index names are touched, at most all of them.
"""

import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from measure.counting.formulas import (
    FORMULAS,
    NOTHING,
    Args,
    Bound,
    Formula,
    Kwargs,
    Work,
    bind,
    formula,
    formula_of,
    work_of,
)  # fmt: skip

STRIDED = torch.strided  # the layout of tensors with one block of memory

# Operators without arithmetic, by the memory that they touch.
# None: the operator that writes into it later is charged.
ALLOCATIONS = (
    "_efficientzerotensor", "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"
)  # fmt: skip
# They write and read nothing, also in place. Random numbers are no work: their cost belongs to the generator.
FILLS = (
    "_cudnn_init_dropout_state", "_philox_normal", "_philox_uniform", "arange", "bartlett_window", "bernoulli",
    "blackman_window", "cauchy", "exponential", "eye", "fft_fftfreq", "fft_rfftfreq", "fill", "full", "full_like",
    "geometric", "hamming_window", "hann_window", "kaiser_window", "linspace", "log_normal", "logspace", "new_full",
    "new_ones", "new_zeros", "normal", "normal_functional", "ones", "ones_like", "rand", "rand_like", "randint",
    "randint_like", "randn", "randn_like", "random", "randperm", "range", "scalar_tensor", "tril_indices",
    "triu_indices", "uniform", "zero", "zeros", "zeros_like",
)  # fmt: skip
# They read as much of their first tensor as they write, at most all of it, and their indices.
LOOKUPS = ("embedding", "gather", "index", "index_select", "masked_select", "take")
# In place, they write their first tensor and do not read it.
COPIES = ("copy", "_foreach_copy")
# They read their inputs and write their outputs.
REARRANGEMENTS = (
    "_chunk_cat", "_conj_copy", "_conj_physical", "_convert_weight_to_int4pack", "_convert_weight_to_int4pack_for_cpu",
    "_copy_from", "_copy_from_and_resize", "_cudnn_rnn_flatten_weight", "_dyn_quant_pack_4bit_weight",
    "_fw_primal_copy", "_jagged_to_padded_dense_forward", "_lazy_clone", "_local_scalar_dense", "_make_dual_copy",
    "_mkldnn_reshape", "_mkldnn_transpose", "_neg_view_copy", "_nested_from_padded_tensor", "_pack_padded_sequence",
    "_padded_dense_to_jagged_forward", "_pin_memory", "_reshape_alias_copy", "_reshape_copy", "_resize_output",
    "_sample_dirichlet", "_stack", "_standard_gamma", "_to_copy", "_to_dense", "_unsafe_index", "_unsafe_masked_index",
    "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "alias_copy",
    "as_strided_copy", "as_strided_scatter", "binomial", "block_diag", "cat", "channel_shuffle", "clone", "complex",
    "conj_physical", "constant_pad_nd", "detach_copy", "diag_embed", "diagonal_backward", "diagonal_copy",
    "diagonal_scatter", "expand_copy", "flip", "im2col", "index_copy", "index_fill", "int_repr", "lift",
    "lift_fresh_copy", "lu_unpack", "masked_fill", "masked_scatter", "masked_scatter_backward", "max_unpool2d",
    "max_unpool3d", "mkldnn_reorder_conv2d_weight", "mkldnn_reorder_conv3d_weight", "multinomial", "narrow_copy",
    "native_channel_shuffle", "permute_copy", "pixel_shuffle", "pixel_unshuffle", "poisson", "reflection_pad1d",
    "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "resize", "resize_as", "roll", "rot90", "select_backward", "select_copy", "select_scatter",
    "shallow_copy_data", "slice_backward", "slice_copy", "slice_scatter", "split_copy", "split_with_sizes_copy",
    "squeeze_copy", "stack", "t_copy", "to_mkldnn", "to_padded_tensor", "transpose_copy", "tril", "triu", "unbind_copy",
    "unfold_copy", "unsqueeze_copy", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "view_as_complex_copy", "view_as_real_copy", "view_copy", "where",
)  # fmt: skip
# In place, they write the elements of their first tensor that an index names, and read them if they add to them.
INDEX_WRITES = (
    "_index_put_impl", "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "put", "scatter",
    "scatter_add", "scatter_reduce",
)  # fmt: skip
ADDING = ("index_add", "index_reduce", "scatter_add", "scatter_reduce")
# Views that torch's schemas call new tensors.
UNDECLARED_VIEWS = (
    "_sparse_coo_tensor_with_dims_and_tensors", "_unsafe_view", "unsafe_split", "unsafe_split_with_sizes"
)  # fmt: skip
# They ask about tensors, and read none of their elements.
QUESTIONS = (
    "_assert_tensor_metadata", "_functional_sym_constrain_range", "_functional_sym_constrain_range_for_size",
    "_fused_sdp_choice", "_has_same_storage_numel", "_nested_get_jagged_dummy", "_nested_get_lengths",
    "_nested_get_max_seqlen", "_nested_get_min_seqlen", "_nested_get_offsets", "_nested_get_ragged_idx", "_nnz",
    "_use_cudnn_ctc_loss", "_use_miopen_ctc_loss", "dense_dim", "is_coalesced", "is_pinned", "is_same_size",
    "is_set_to", "record_stream", "sparse_dim",
)  # fmt: skip


@formula(*ALLOCATIONS, *FILLS, *LOOKUPS, *COPIES, *REARRANGEMENTS)
def no_work() -> Work:
    return NOTHING


@formula("scatter", "put")
def write_by_index(index: Any, reduce: str | None = None, accumulate: bool = False) -> Work:
    """Writing moves elements. Adding to them, or multiplying them, is an operation for each index."""
    return Work(0, index.numel()) if accumulate or reduce is not None else NOTHING


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the indices and, last, the values of a sparse tensor. A tensor of another layout is its only part."""
    with unset_fake_temporarily():  # which would take a sparse tensor for an empty one
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


PLAIN = (int, float, bool, type(None))  # most arguments that are no tensors


def tensors_in(value: Any) -> list[Any]:
    """Find the tensors in a value: a tensor, or tuples, lists and dictionaries of them. Sparse ones come as parts."""
    if isinstance(value, torch.Tensor):
        return [value] if value.layout is STRIDED else parts_of(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value if type(part) not in PLAIN for tensor in tensors_in(part)]
    return []


def stored_tensors(tensors: Iterable[Any]) -> list[Any]:
    """Replace tensors that wrap others, as torchao's quantised weights do, by the tensors in memory."""
    stored = []
    for tensor in tensors:
        if is_traceable_wrapper_subclass(tensor):
            stored += stored_tensors(getattr(tensor, name) for name in tensor.__tensor_flatten__()[0])
        else:
            stored.append(tensor)
    return stored


def stored_shares(network: torch.nn.Module) -> dict[int, float]:
    """Return the part of their bytes that quantised weights take where they are stored, by storage.

    ``stored_bits`` of a module names them, with their bits (``measure/models/hugging_face.py``).
    """
    noted = ((module, *each) for module in network.modules() for each in vars(module).get("stored_bits", {}).items())
    weights = ((getattr(module, name), bit) for module, name, bit in noted)
    return {storage_key(weight): bit / (8 * weight.element_size()) for weight, bit in weights}


def stored_byte(tensors: Iterable[Any], shares: dict[int, float] | None = None) -> int:
    """Return the bytes of tensors, with the ``shares`` of quantised weights."""
    shares = shares or {}
    return round(
        sum(tensor.nbytes * (shares.get(storage_key(tensor), 1) if shares else 1) for tensor in stored_tensors(tensors))
    )


def adam_byte(trained: Sequence[Any]) -> int:
    """Return the bytes of Adam's state: two averages of each trained parameter, and the number of its step.

    The averages are dense, also where a gradient is sparse.
    """
    return 2 * stored_byte(trained) + 4 * len(trained)


def tensor_byte(tensor: Any) -> int:
    """Count the bytes of distinct elements: an expanded dimension once, overlapping windows share theirs."""
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return min(elements * tensor.element_size(), tensor.untyped_storage().nbytes())


def storage_key(tensor: Any) -> int:
    """Identify the memory behind a tensor, as long as it is alive."""
    return int(tensor.untyped_storage()._cdata)


class LiveMemory:
    """Bytes alive now (``byte``) and at most (``peak_byte``), without the ``resident`` tensors from before."""

    def __init__(self, resident: Iterable[Any]) -> None:
        self._resident = {storage_key(tensor) for tensor in resident}
        self._blocks: dict[int, tuple[int, int]] = {}  # number and bytes of each live storage
        self._made = 0
        self.byte = 0
        self._settled_peak_byte = self._byte_with_newest = 0
        self._overwritten: tuple[int, tuple[int, int]] | None = None

    @property
    def peak_byte(self) -> int:
        byte = self._byte_with_newest
        if self._overwritten is not None:
            key, block = self._overwritten
            if self._blocks.get(key) != block:  # freed: nothing else held it
                byte -= block[1]
        return max(self._settled_peak_byte, byte)

    def hold(self, tensors: Iterable[Any]) -> None:
        """Take new tensors for resident ones, from before."""
        self._resident.update(map(storage_key, tensors))

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor's storage, and note a new storage as alive. A resident one has none.

        An address may be used again after a storage is freed; a number is not.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._resident:
            return None
        if key not in self._blocks:
            self._settled_peak_byte, self._overwritten = self.peak_byte, None
            self._made += 1
            self._blocks[key] = self._made, storage.nbytes()
            self.byte += storage.nbytes()
            self._byte_with_newest = self.byte
            weakref.finalize(storage, self._free, key).atexit = False
        return self._blocks[key][0]

    def overwrites(self, new: Any, old: Any) -> None:
        """Note that the newest storage, ``new``, is written over ``old`` unless something else holds ``old``.

        Something else holds it if it is still alive when the next storage is made.
        """
        key = storage_key(old)
        block = self._blocks.get(key)
        if block is not None and block[1] == new.untyped_storage().nbytes():
            self._overwritten = key, block

    def _free(self, key: int) -> None:
        self.byte -= self._blocks.pop(key)[1]


Moved = list[tuple[Any, int, bool]]  # tensors, with the bytes that a call reads (True) or writes
Limit = Callable[[Moved, Args, Kwargs, Sequence[Any]], Moved]  # by a call's arguments and outputs


def _limit(moved: Moved, tensor: Any, byte: int, reads: bool = True) -> Moved:
    """Limit each move of a tensor to ``byte``; without ``reads`` it is only written."""
    return [
        (each, min(byte, all_byte) if each is tensor else all_byte, is_read)
        for each, all_byte, is_read in moved
        if each is not tensor or reads or not is_read
    ]


def _rows_of(moved: Moved, args: Args, _kwargs: Kwargs, _outputs: Sequence[Any]) -> Moved:
    """Limit the table to the rows that the second argument names."""
    return _limit(moved, args[0], args[1].numel() * args[0].shape[1] * args[0].element_size())


def _experts(moved: Moved, args: Args, _kwargs: Kwargs, _outputs: Sequence[Any]) -> Moved:
    """Rows that are split among matrices reach no more matrices than there are rows."""
    rows, matrices = args[:2]
    if rows.dim() != 2 or matrices.dim() != 3 or len(rows) >= len(matrices):
        return moved
    return _limit(moved, matrices, tensor_byte(matrices) * len(rows) // len(matrices))


def _index_write(name: str) -> Limit:
    """Limit the target to the elements that the operator's index names."""

    def limit(moved: Moved, args: Args, kwargs: Kwargs, _outputs: Sequence[Any]) -> Moved:
        target = args[0]
        reads = name in ADDING or "reduce" in kwargs
        if name in ("index_put", "_index_put_impl"):
            indices = {place: index for place, index in enumerate(args[1]) if index is not None}
            if any(index.dtype == torch.bool for index in indices.values()):
                return moved  # how many it names depends on values
            indexed = math.prod(target.shape[place] for place in indices)
            places = math.prod(torch.broadcast_shapes(*(index.shape for index in indices.values())))
            elements, reads = places * target.numel() // max(1, indexed), any(args[3:4])
        elif name == "put":
            elements, reads = args[1].numel(), any(args[3:4])
        elif name.startswith("scatter"):
            elements = args[2].numel()
        else:
            elements = args[2].numel() * target.numel() // max(1, target.shape[args[1]] if target.dim() else 1)
        return _limit(moved, target, elements * target.element_size(), reads)

    return limit


# By the operator's name; in-place operators have their underscore.
PARTLY_TOUCHED: dict[str, Limit] = {
    **dict.fromkeys(LOOKUPS, lambda moved, args, _kwargs, made: _limit(moved, args[0], sum(map(tensor_byte, made)))),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only", "embedding_renorm_"), _rows_of),
    **dict.fromkeys(("_grouped_mm", "_scaled_grouped_mm", "_scaled_grouped_mm_v2"), _experts),
    **{f"{name}_": _index_write(name) for name in INDEX_WRITES},
}


def _stored(tensor: Any) -> int:
    """Count the elements that a sparse tensor stores."""
    return parts_of(tensor)[-1].numel()


def _sparse_product(mat2: Any, out: Any, input: Any, mat1: Any = None, beta: float = 1) -> Work:
    """Each stored element of the left matrix meets a row of the right one. ``addmm`` adds the input."""
    left = input if mat1 is None else mat1
    if left.layout is STRIDED or mat2.layout is not STRIDED:
        raise LookupError("no rule for this product")
    return Work(2 * _stored(left) * mat2.shape[-1], out.numel() * (mat1 is not None and beta != 0))


def _sparse_sum(input: Any, other: Any) -> Work:
    """The elements of two sparse tensors are stored behind one another; into a dense tensor they are added."""
    sparse = [each for each in (input, other) if each.layout is not STRIDED]
    return NOTHING if len(sparse) == 2 else Work(0, _stored(sparse[0]))


def _sparse_bag_backward(grad_output: Any, indices: Any, mode: int, per_sample_weights: Any) -> Work:
    """A sparse gradient keeps the values apart that a dense one adds."""
    dense = FORMULAS["aten::_embedding_bag_backward"]
    whole = dense(grad_output=grad_output, indices=indices, mode=mode, per_sample_weights=per_sample_weights)
    return Work(0, whole.other_flop - indices.numel() * grad_output.shape[1])


# Formulas of calls with sparse tensors, by the operator's name.
SPARSE: dict[str, Formula] = {
    **dict.fromkeys(
        ("_to_copy", "_to_dense", "_to_sparse", "_to_sparse_csc", "_to_sparse_csr", "clone", "copy",
         "sparse_compressed_tensor", "sparse_mask", "t", "transpose"),
        no_work,
    ),
    **dict.fromkeys(("mm", "addmm", "_sparse_addmm"), _sparse_product),
    **dict.fromkeys(("mul", "div", "neg", "_coalesce"), lambda input: Work(0, _stored(input))),
    "add": _sparse_sum,
    "_embedding_bag_backward": _sparse_bag_backward,
}  # fmt: skip


class Overload:
    """An overload such as ``torch.ops.aten.add.Tensor``. A pure one neither changes nor aliases its inputs."""

    def __init__(self, operator: Any) -> None:
        schema = operator._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        self.name = schema.name.removeprefix("aten::").replace("::", ".")
        self._schema = schema
        self._formula: Bound | None = None
        is_view = operator.is_view or torch.Tag.inplace_view in operator.tags or name in UNDECLARED_VIEWS
        is_question = name in QUESTIONS or schema.name.startswith("prim::")
        self.is_ignored = is_view or is_question
        aliases = any(part.alias_info is not None for part in (*schema.arguments, *schema.returns))
        self.is_pure = not is_view and not aliases
        # A composite calls others. Autograd takes it apart; inference mode leaves that to us.
        has_rule = formula_of(schema.name) is not None or schema.name.startswith("prim::")
        self.is_composite = not has_rule and operator._can_decompose()
        self.allocates = name in ALLOCATIONS
        self._fills = name in FILLS
        self._partly_touched = PARTLY_TOUCHED.get(schema.name.partition("::")[2])
        self._written = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        # A call with ``out=`` only writes into that tensor
        self._overwrites = name in COPIES or any(argument.is_out for argument in schema.arguments)

    def work(self, args: Args, kwargs: Kwargs, output: Any, tensors: Iterable[Any]) -> Work | None:
        """Count one call with these ``tensors``; None for arithmetic without a formula."""
        if any(isinstance(each, torch.Tensor) and each.layout is not STRIDED for each in (*args, output)):
            found = SPARSE.get(self._schema.name.removeprefix("aten::").rstrip("_"))
            return work_of(found and bind(found, self._schema), args, kwargs, output, tensors)
        if self._formula is None:  # somebody may register one at any time
            found = formula_of(self._schema.name)
            self._formula = found and bind(found, self._schema)
        return work_of(self._formula, args, kwargs, output, tensors)

    def changed(self, args: Args, kwargs: Kwargs) -> list[Any]:
        """Return the tensors that one call writes into."""
        return tensors_in([args[place] if place < len(args) else kwargs.get(name) for place, name in self._written])

    def touches(self, args: Args, kwargs: Kwargs, inputs: Sequence[Any], outputs: Sequence[Any]) -> Moved:
        """Return each tensor that one call reads or writes, with the bytes moved. A changed one is there twice.

        ``inputs`` are the tensors in the arguments.
        """
        written = self.changed(args, kwargs) if self._written else []
        keys = {id(tensor) for tensor in written}
        new = [tensor for tensor in outputs if id(tensor) not in keys]
        moved: Moved = [(tensor, tensor_byte(tensor), False) for tensor in (*written, *new)]
        if self._fills:
            return moved
        read = {id(tensor): tensor for tensor in inputs}
        moved += [
            (each, tensor_byte(each), True) for key, each in read.items() if not (self._overwrites and key in keys)
        ]
        return self._partly_touched(moved, args, kwargs, outputs) if self._partly_touched and moved else moved


overload_of = cache(Overload)
