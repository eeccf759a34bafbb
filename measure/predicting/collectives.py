"""The bytes and the times of collectives among the GPUs of a node, in closed form and by the fitted tables."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from measure.cache import table
from measure.cache.project import curated_file
from measure.domain.chips import fold_name
from measure.errors import UserError, quote
from measure.predicting.kernels import CLASS, COLLECTIVES, SPLIT, KernelModel, ServedChip, model_of, served_chips
from measure.predicting.links import Link
from measure.predicting.served_records import KernelCoefficient, KernelError, read_kernels, with_link
from measure.predicting.serving import MOST_GPUS
from measure.serving.kernels import COLLECTIVES as SORTS
from measure.serving.kernels import collective

LIBRARY = "nccl"


def sent_byte(kind: str, message_byte: float, gpus: int) -> float:
    """Return what each of so many GPUs sends (B). Raises UserError for an unknown kind or fewer than two GPUs.

    The message is the array that each GPU has in an all-reduce or sends, else all that is gathered, scattered or
    exchanged by one GPU.
    """
    if kind not in SORTS:
        raise UserError(f"{quote(kind)} is not a collective; use one of {', '.join(SORTS)}")
    if gpus < 2:
        raise UserError(f"a collective needs two GPUs or more, not {gpus}")
    return collective(kind, message_byte, gpus).sent_byte


def least_s(kind: str, message_byte: float, gpus: int, link: Link) -> float:
    """Return the least time (s) of a ring over a link: each GPU's bytes at the link's rate one way.

    A switch that adds the numbers itself, such as NVSwitch, may need half as long for an all-reduce of many GPUs.
    """
    return sent_byte(kind, message_byte, gpus) / link.byte_per_s


@dataclass(frozen=True)
class LikelyCollective:
    """What each GPU sends (B), and a collective's least and likely time (s) with the ends of its 90 % interval.

    Both ends are None if the time is extrapolated.
    """

    sent_byte: float
    least_s: float
    likely_s: float
    low_s: float | None
    high_s: float | None


class CollectivePredictor:
    """Predict by the tables of ``python -m measure fit``."""

    def __init__(
        self, chips: dict[str, ServedChip], coefficients: Iterable[KernelCoefficient], errors: Iterable[KernelError]
    ) -> None:
        self.chips = chips
        self.model: KernelModel = model_of(row for row in coefficients if row.kind == COLLECTIVES)
        self.within = {row.device: row.within for row in errors if row.kind == COLLECTIVES}

    @classmethod
    def read(cls, data: Path) -> "CollectivePredictor":
        """Read the fit of a data folder, else this project's. Raises UserError for an invalid cell."""
        coefficients, errors = (curated_file(record, data) for record in (KernelCoefficient, KernelError))
        return cls(served_chips(data), read_kernels(coefficients), table.read(errors, KernelError))

    def predict(self, kind: str, message_byte: float, gpus: int, chip: str) -> LikelyCollective:
        """Return NCCL's likely time among so many GPUs of a node. Raises UserError for an unknown chip, link or kind.

        The interval is that of other GPUs with the same sort of link. It is extrapolated on a sort that nobody timed,
        on more GPUs than were timed, and for more than the link joins.
        """
        found = self.chips.get(fold_name(chip))
        if found is None:
            raise UserError(f"{quote(chip)} is not a GPU of data/chips.csv with a rate for 16 bits; add its rows")
        link, sent = found.known_link, sent_byte(kind, message_byte, gpus)
        sizes = {"sent_byte": sent, "gpus": gpus, "link_byte_per_s": link.byte_per_s}
        columns = {name: np.array([value], float) for name, value in sizes.items()}
        least = least_s(kind, message_byte, gpus, link)
        (time,) = self.model.times(COLLECTIVES, columns, LIBRARY, kind, found.link_class, link.name)
        likely = max(float(time), least)
        within = self.within.get(with_link(link.sort))
        is_timed = any(
            level == CLASS and label.startswith(f"{found.link_class}{SPLIT}")
            for level, label in self.model.effects[COLLECTIVES]
        )
        if within is None or not is_timed or gpus > min(MOST_GPUS, link.node_gpus or MOST_GPUS):
            return LikelyCollective(sent, least, likely, None, None)
        return LikelyCollective(sent, least, likely, max(likely / within, least), likely * within)
