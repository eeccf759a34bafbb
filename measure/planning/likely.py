"""The likely times of a plan's collectives, by those that were measured on GPUs of a node."""

from collections.abc import Iterable
from dataclasses import dataclass

from measure.domain.collectives import SEND
from measure.planning.inference import ServingCollective
from measure.planning.training import PlannedCollective
from measure.predicting.collectives import CollectivePredictor


@dataclass(frozen=True)
class LikelyCalls:
    """The likely time (s) of all calls of a collective in a step, with the ends of its 90 % interval.

    Both ends are None if the time is extrapolated; all are, if nobody measured such a collective.
    """

    kind: str
    name: str
    likely_s: float | None
    low_s: float | None
    high_s: float | None


def likely_calls(
    predictor: CollectivePredictor, chip: str, collectives: Iterable[PlannedCollective | ServingCollective]
) -> list[LikelyCalls]:
    """Return the likely times of collectives, one call after the other. Those between nodes and sends have none."""
    found = []
    for each in collectives:
        times: list[float | None] = [None, None, None]
        if not each.is_between and each.kind != SEND:
            one = predictor.predict(each.kind, each.message_byte, each.gpus, chip)
            times = [None if time is None else each.calls * time for time in (one.likely_s, one.low_s, one.high_s)]
        found.append(LikelyCalls(each.kind, each.name, *times))
    return found
