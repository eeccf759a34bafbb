"""What models of like make-up are off by: the part of a latency that no term tells, learnt from their neighbours."""

from dataclasses import dataclass

import numpy as np

from measure.predicting.fitting import Numbers

NEIGHBOURS = 4
"""So many of the nearest count."""

NEAR = 0.02
"""A distance that halves the weight of a neighbour; make-ups that share nothing are 4 apart."""

CAUTION = 0.2
"""So many neighbours of distance 0 say that the terms are right."""

BLOCK = 256
"""Rows whose distances are computed at a time."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Calls that were timed: their make-ups, and the logarithms of latency over terms."""

    make_ups: Numbers
    offsets: Numbers

    def offsets_of(self, make_ups: Numbers) -> Numbers:
        """Return what calls of these make-ups are off by, by their nearest neighbours' offsets, drawn to 0.

        A make-up's neighbours are near by the sum of the absolute differences of its shares. The estimate is the mean
        weighted by inverse distance (D. Shepard, A two-dimensional interpolation function for irregularly-spaced data,
        ACM National Conference 1968, 517-524).
        """
        from scipy.spatial.distance import cdist

        found = np.zeros(len(make_ups))
        if not len(self.offsets):
            return found
        for start in range(0, len(make_ups), BLOCK):
            apart = cdist(make_ups[start : start + BLOCK], self.make_ups, "cityblock")
            kept = min(NEIGHBOURS, apart.shape[1])
            nearest = np.argpartition(apart, kept - 1, axis=1)[:, :kept]
            weights = 1.0 / (NEAR + np.take_along_axis(apart, nearest, axis=1))
            offsets = (weights * self.offsets[nearest]).sum(axis=1)
            found[start : start + BLOCK] = offsets / (weights.sum(axis=1) + CAUTION / NEAR)
        return found
