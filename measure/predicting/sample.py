"""Calls that were timed, as arrays: what is fitted, and what is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from measure.predicting.fitting import Numbers
from measure.predicting.timings import TimedCall

Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Sample:
    """One row a call: latencies (s), terms (s), make-ups, and what tells the calls apart.

    ``flop_s`` is the time of the FLOP at the peak, ``kinds_s`` that of each kind of layer at its roof, ``parameter_s``
    that of reading the parameters for each input.
    """

    latency_s: Numbers
    terms: Numbers
    make_ups: Numbers
    flop_s: Numbers
    kinds_s: Numbers
    parameter_s: Numbers
    batch: Numbers
    setting: Texts
    device: Texts
    source: Texts
    architecture: Texts
    family: Texts

    def __len__(self) -> int:
        return len(self.latency_s)

    def where(self, chosen: Mask | Places) -> "Sample":
        """Return the rows that are chosen, or those at some places, each as often as it is named."""
        return Sample(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def weights(self) -> Numbers:
        """Return weights of rows by which a setting's say grows with the square root of their number."""
        _, place, counts = np.unique(numbered(self.setting), return_inverse=True, return_counts=True)
        return np.asarray(counts[place], dtype=float) ** -0.25


def numbered(labels: Texts) -> Places:
    """Return labels as numbers, in the order in which they first occur."""
    numbers: dict[object, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.intp)


def sample(calls: Sequence[TimedCall]) -> Sample:
    """Return calls, one at least, as arrays."""

    def texts(values: list[object]) -> Texts:
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found

    return Sample(
        np.array([call.latency_s for call in calls]),
        np.array([call.terms for call in calls]),
        np.array([call.demand.make_up for call in calls]),
        np.array([call.demand.arithmetic_s(call.roof).sum() for call in calls]),
        np.array([call.demand.kinds_at_the_roof_s(call.roof) for call in calls]),
        np.array([call.batch * call.demand.parameter_byte / call.roof.byte_per_s for call in calls]),
        np.array([float(call.batch) for call in calls]),
        texts([call.setting for call in calls]),
        texts([call.setting.device for call in calls]),
        texts([call.setting.source for call in calls]),
        texts([call.architecture for call in calls]),
        texts([call.family or call.architecture for call in calls]),
    )
