"""Which published kernels and servers may be fitted, and which were set aside before the first fit.

A fit reads ``read_kernels`` and ``read_servers``, and nothing else reads the rows that were set aside than the one look
at their errors at the end: all of a GPU, and the servers of two models. Otherwise a fit would be judged by rows that it
was chosen on.
"""

from pathlib import Path
from typing import Any

from measure.cache import table
from measure.domain.schema import file_of
from measure.published import kernels
from measure.published.servers import PublishedServer

ASIDE_DEVICE = "NVIDIA B300 SXM"
ASIDE_MODELS = ("openai/gpt-oss-120b", "zhipuai/GLM-5")

KERNELS: dict[str, type[Any]] = {
    "products": kernels.TimedProduct, "attention": kernels.TimedAttention, "experts": kernels.TimedExperts,
    "latent_attention": kernels.TimedLatentAttention, "collectives": kernels.TimedCollective,
}  # fmt: skip


def is_set_aside(row: Any) -> bool:
    """Return whether no fit may see a kernel or a server."""
    return row.device == ASIDE_DEVICE or getattr(row, "model", None) in ASIDE_MODELS


def read_kernels(data: Path, name: str) -> list[Any]:
    """Return the rows of a table in ``KERNELS`` that may be fitted. Raises UserError for a wrong row."""
    return _read(data, KERNELS[name], aside=False)


def read_servers(data: Path) -> list[PublishedServer]:
    """Return the servers that may be fitted. Raises UserError for a wrong row."""
    return _read(data, PublishedServer, aside=False)


def read_set_aside(data: Path, record: type[Any]) -> list[Any]:
    """Return the rows of a table that no fit has seen: for the one look at the errors on them."""
    return _read(data, record, aside=True)


def _read(data: Path, record: type[Any], aside: bool) -> list[Any]:
    return [row for row in table.read(file_of(record, data), record) if is_set_aside(row) == aside]
