"""The link between a GPU and the others of its node."""

from collections.abc import Sequence
from dataclasses import dataclass

from measure.errors import UserError, quote
from measure.published.records import Chip


@dataclass(frozen=True)
class Link:
    """What joins a GPU to the others of its node: B/s each way, and the most GPUs it joins, None if unknown."""

    byte_per_s: float
    node_gpus: int | None
    name: str

    @property
    def sort(self) -> str:
        """The name without its generation: NVLink, PCIe."""
        return self.name.partition(" ")[0]


def link_in(rows: Sequence[Chip]) -> Link | None:
    """Return the link in the rows of a chip; None if unknown. Raises UserError if the rows disagree.

    A row without a link tells nothing: one of a reader's own, in an older table, may replace one of the project's.
    """
    links = {Link(row.link_byte_per_s, row.node_gpus, row.link) for row in rows if row.link_byte_per_s is not None}
    if len(links) > 1:
        chip = quote(rows[0].chip)
        raise UserError(f"the rows of {chip} in data/chips.csv have several links; write one in all of them")
    return next(iter(links), None)


def no_link(chip: str) -> UserError:
    return UserError(f"data/chips.csv has no link of {quote(chip)}; add link and link_byte_per_s, from a source")
