"""The link between a chip and the others of its node, and the time of a collective over it, without torch."""

from dataclasses import dataclass
from pathlib import Path

from measure.cache.project import read_both
from measure.domain.chips import fold_name, rows_by_name
from measure.errors import UserError, quote
from measure.published.records import Chip


@dataclass(frozen=True)
class Link:
    """What joins a GPU to the others of its node: B/s each way, and the most GPUs it joins, None if unknown."""

    byte_per_s: float
    node_gpus: int | None
    name: str


def link_of(data: Path, chip: str) -> Link:
    """Return the link of a chip by one of its names, of ``chips.csv`` in the data folder or in this project.

    Raises UserError for an unknown chip, one without a link, or one whose rows disagree.
    """
    rows = rows_by_name(read_both(Chip, data)).get(fold_name(chip))
    if rows is None:
        raise UserError(f"{quote(chip)} is not in data/chips.csv; add its rows, with link and link_byte_per_s")
    links = {(row.link_byte_per_s, row.node_gpus, row.link) for row in rows}
    if len(links) > 1:
        raise UserError(f"the rows of {quote(chip)} in data/chips.csv have several links; write one in all of them")
    ((byte_per_s, node_gpus, name),) = links
    if byte_per_s is None:
        raise UserError(
            f"data/chips.csv has no link of {quote(chip)}; add link and link_byte_per_s to its rows, from a source"
        )
    return Link(byte_per_s, node_gpus, name)
