"""The operations of tensor cores, from metrics of which one may count as a whole what others count in parts.

A metric is named after what it counts: ``sm__ops_path_tensor``, then perhaps the instruction (``_op_hgmma``), the
sources and perhaps the destination (``_src_bf16_dst_fp32``), and perhaps whether the sources are sparse
(``_sparsity_off``). It counts whatever its name leaves open. What ncu lists depends on the GPU and on its own version:
``src_bf16_dst_fp32``, or its ``sparsity_off`` and ``sparsity_on``, or all three; on Hopper ``op_hmma_src_...`` and
``op_hgmma_src_...`` as well, of which a product uses one. A multiply-add is two operations.
"""

import re
from collections.abc import Mapping
from functools import cache

NAME = re.compile(
    r"sm__ops_path_tensor(?:_op_([a-z]+))?"
    r"_src_([a-z]+[0-9]+(?:_[a-z]+[0-9]+)*)(?:_dst_([a-z]+[0-9]+))?(?:_sparsity_(off|on))?"
)

Kinds = tuple[frozenset[str] | None, ...]
"""The instructions, sources, destinations and sparsity that a metric counts; None: whatever they are."""


@cache
def kinds(metric: str) -> Kinds | None:
    """Return which operations a metric counts; None for one that counts no floating-point operations of tensor cores.

    Integers are counted by metrics of their own, in which they are the source.
    """
    match = NAME.fullmatch(metric.removesuffix(".sum"))
    if not match or "int" in match[2]:
        return None
    return tuple(None if part is None else frozenset(part.split("_")) for part in match.groups())


def total(counted: Mapping[str, float]) -> float:
    """Return the operations that metrics counted, by their names, and none twice.

    Of metrics that may have counted the same operation the one with most is taken: it is the whole, or the others do
    not see some instruction.
    """
    taken: list[Kinds] = []
    operations = 0.0
    for metric, count in sorted(counted.items(), key=lambda item: item[1], reverse=True):
        counts = kinds(metric)
        if counts is not None and not any(_overlap(counts, other) for other in taken):
            taken.append(counts)
            operations += count
    return operations


def _overlap(one: Kinds, other: Kinds) -> bool:
    """Return whether an operation may be counted by both."""
    return all(this is None or that is None or this & that for this, that in zip(one, other, strict=True))
