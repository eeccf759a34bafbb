"""The counts of another person's own models, which come with the machine that measured them."""

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path

from measure.cache.folders import Counted, Workloads
from measure.cache.models import OWN
from measure.cache.soundness import read_workloads
from measure.cache.workload_records import WORKLOAD, Workload
from measure.errors import UserError

SUMMED = ("forward_flop", "forward_other_flop", "traffic_byte", "parameter_byte")
"""Columns of a model that are the sums of its layers'."""


def check(folder: Path) -> list[Counted]:
    """Return the workloads that lie in a machine's folder; none where it has none.

    Raises UserError for a damaged table, for a model that is not somebody's own, and for layers that do not sum to it.
    """
    read_workloads(folder)
    workloads = Workloads(folder)
    found = workloads.of(workloads.models())
    for row, layers, _ in found:
        if row.source != OWN or ":" not in row.model:
            raise UserError(
                f"{workloads.folder}: {row.model} is not a model of the machine's owner, and is counted here; "
                "leave it out"
            )
        for column in SUMMED:
            whole = getattr(row, column)
            if layers and whole is not None and whole != sum(getattr(layer, column) for layer in layers):
                raise UserError(f"{workloads.folder}: the layers of {row.model} do not sum to its {column}")
    return found


def new(found: Sequence[Counted], known: Sequence[Workload]) -> list[Counted]:
    """Return the workloads that are not known. Raises UserError for a model that was counted otherwise here."""
    own = {row.model: row.input_shape for row in known}
    rows = {_identity(row): row for row in known}
    for row, _, _ in found:
        same = rows.get(_identity(row), row)
        if own.get(row.model, row.input_shape) != row.input_shape or _numbers(same) != _numbers(row):
            raise UserError(
                f"{row.model}: is another network here, by its counts; one of you has to rename the function, and to "
                "measure again"
            )
    return [each for each in found if _identity(each[0]) not in rows]


_identity = attrgetter(*WORKLOAD)

_numbers = attrgetter("parameter_count", "forward_flop", "traffic_byte")
