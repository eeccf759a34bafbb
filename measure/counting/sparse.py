"""FLOP of operators on sparse tensors: products by the elements that are stored, and what joins or copies them."""

from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from measure.counting.formulas import FORMULAS, NOTHING, Args, Kwargs, Work


def _is_sparse(value: Any) -> bool:
    return hasattr(value, "layout") and str(value.layout).startswith("torch.sparse")


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Return the indices and, as the last, the values of a sparse tensor; another layout stays whole."""
    with unset_fake_temporarily():  # which would take a sparse tensor for an empty one
        if tensor.layout is torch.sparse_coo:
            return [tensor._indices(), tensor._values()]
        if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
            return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
        if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
            return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _made(indices: torch.Tensor, values: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)


def _joined(*tensors: Any) -> torch.Tensor | None:
    """Return the sum of sparse tensors, or the copy of one: their elements behind one another."""
    if not all(map(_is_sparse, tensors)):
        return None
    parts = [parts_of(each) for each in tensors]
    return _made(torch.cat([each[0] for each in parts], 1), torch.cat([each[-1] for each in parts]), tensors[0].shape)


def _same(tensor: torch.Tensor) -> torch.Tensor:
    indices, values = parts_of(tensor)
    return _made(indices, values, tensor.shape)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    indices, values = parts_of(tensor)
    return _made(indices.flip(0), values, tensor.shape[::-1])


def _like(tensor: Any, other: Any = None, *_options: Any) -> torch.Tensor | None:
    """Return other values at the same places: those of a mask, or of a sparse tensor by a number."""
    known = other if _is_sparse(other) else tensor
    indices, values = parts_of(known)
    return _made(indices, torch.empty_like(values), known.shape)


# Outputs of operators on sparse tensors without memory, which torch gives back empty. Equal places are not joined.
OUTPUTS: dict[str, Callable[..., torch.Tensor | None]] = {
    **dict.fromkeys(("clone", "_coalesce", "add"), _joined),
    **dict.fromkeys(("sparse_mask", "mul", "div", "neg", "_sparse_softmax"), _like),
    "detach": _same,
    "t": _transposed,
}
MAKERS = ("_sparse_coo_tensor_with_dims_and_tensors", "sparse_compressed_tensor")


def output_of(name: str, args: Args) -> torch.Tensor | None:
    """Return the output of an operator on sparse tensors in coordinates; None if torch tells it."""
    if name in OUTPUTS and any(isinstance(each, torch.Tensor) and each.layout is torch.sparse_coo for each in args):
        return OUTPUTS[name](*args)
    return None


def refuse_unknown(name: str, output: Any) -> None:
    """Raise NotImplementedError if an operator without memory made a sparse tensor of unknown size."""
    if isinstance(output, torch.Tensor) and output.layout is not torch.strided and name not in MAKERS:
        raise NotImplementedError("how many elements its sparse output has depends on values; use to_dense()")


def _stored(tensor: Any) -> int:
    return parts_of(tensor)[-1].numel()


def _product(args: Args, kwargs: Kwargs, out: Any) -> Work:
    """Each stored element of the left matrix meets a row of the right one. ``addmm`` has another tensor in front."""
    left, right = args[-2:]
    if not _is_sparse(left) or _is_sparse(right):
        raise LookupError("no rule for this product")
    beta = kwargs.get("beta", 1)
    added = len(args) > 2 and beta != 0
    return Work(2 * _stored(left) * right.shape[-1], out.numel() * added)


def _sum(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    """The elements of two sparse tensors are stored behind one another; into a dense tensor they are added."""
    one, other = args[:2]
    return NOTHING if _is_sparse(one) and _is_sparse(other) else Work(0, _stored(one if _is_sparse(one) else other))


def _each_stored(args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return Work(0, _stored(args[0]))


def _moved(_args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return NOTHING


def _bag_backward(args: Args, kwargs: Kwargs, out: Any) -> Work:
    """A sparse gradient keeps the values apart that a dense one adds."""
    whole = FORMULAS["aten::_embedding_bag_backward"](args, kwargs, out)
    return Work(0, whole.other_flop - args[1].numel() * args[0].shape[1])


MOVEMENTS = (
    "_to_copy", "_to_dense", "_to_sparse", "_to_sparse_csc", "_to_sparse_csr", "clone", "copy",
    "sparse_compressed_tensor", "sparse_mask", "t", "transpose",
)  # fmt: skip
SPARSE = {
    **dict.fromkeys(MOVEMENTS, _moved),
    **dict.fromkeys(("mm", "addmm", "_sparse_addmm"), _product),
    **dict.fromkeys(("mul", "div", "neg", "_coalesce"), _each_stored),
    "add": _sum,
    "_embedding_bag_backward": _bag_backward,
}


def sparse_work_of(name: str, args: Args, kwargs: Kwargs, out: Any) -> Work | None:
    """Return the work of a call with a sparse tensor, or None if no rule knows it."""
    found = SPARSE.get(name.removeprefix("aten::").rstrip("_"))
    try:
        return found and found(args, kwargs, out)
    except LookupError:
        return None
