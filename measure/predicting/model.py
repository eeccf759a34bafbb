"""A model of latencies: a sum of terms with fitted coefficients, which overlaps with the launches of a host.

The logarithm of a coefficient is a sum over levels: that of a pool, of the options that a model ran with, of a chip's
die, and of each source's timings. Each level is spread around 0, so that few rows say little and many decide
(A. Gelman and J. Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models, 2006, chapter 12).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import DIE, HOST_MEMORY, LAUNCHES, OPTION, POOL, TERMS, UNFUSED, VECTOR

TUNING = 1.345  # Huber's constant: 95 % of the efficiency of least squares if the errors are normal
TINY = 1e-12
STEPS, SETTLED = 40, 1e-5  # a fit ends when a step improves it by less than this part

# Standard deviations of logarithms, chosen on devices left out (docs/prediction.md says what each gained): of the
# factor that all coefficients of a label share, and of each coefficient besides. TIMINGS: of one source on one device.
# OWN: of a device whose own times are known. HOST: the time of a host's launches over the expected one. NOISE: one time
TIMINGS, OWN = "timings", "own"
SPREADS = {POOL: (0.5, 0.3), OPTION: (0.2, 0.2), DIE: (0.4, 0.15), TIMINGS: (0.2, 0.1), OWN: (0.4, 0.25)}
HOST, NOISE = 0.6, 0.08

# The expectation without measurements, ``(terms,)``: layers run at their roofs; an operator takes 3 µs to launch, a
# host moves 10 GB/s, and vector units take the time of five multiply-adds to unpack a number and use it
EXPECTED = {UNFUSED: 0.3, LAUNCHES: 3.0, HOST_MEMORY: 0.1, VECTOR: 5.0}
AT_THE_ROOF = np.array([EXPECTED.get(term, 1.0) for term in TERMS])


def likely(coefficients: Numbers, terms: Numbers, launch_s: Numbers) -> Numbers:
    """Return the likely latencies (s) ``(rows,)`` of ``terms`` ``(rows, terms)`` and of a host's launches ``(rows,)``.

    ``coefficients`` are ``(terms,)`` or ``(rows, terms)``. A host launches while the device works, and neither hides
    the other wholly: their squares add up.
    """
    return np.hypot(np.maximum((terms * coefficients).sum(axis=-1), TINY), launch_s)


class Level(NamedTuple):
    """A label per row, None for a row that the level does not touch, and the spreads of its coefficients.

    A level may touch some terms alone, at their ``columns``.
    """

    name: str
    labels: Sequence[str | None]
    together: float
    each: float
    columns: Sequence[int] | None = None


Effects = dict[tuple[str, str], Numbers]  # logarithms of factors ``(terms,)`` by level and label


@dataclass(frozen=True, eq=False)
class _Block:
    """The parameters of a level from ``start`` on: ``(labels, columns)``; a row has the label at its place, or -1.

    ``together`` and ``each`` are the precisions of a label's mean and of its terms around that, relative to the noise.
    """

    name: str
    labels: Sequence[str]
    places: NDArray[Any]
    start: int
    columns: NDArray[Any]  # of its terms
    together: float
    each: float

    @classmethod
    def of(cls, level: Level, start: int, width: int) -> "_Block":
        labels = list(dict.fromkeys(label for label in level.labels if label is not None))
        place = {label: at for at, label in enumerate(labels)}
        places = np.array([-1 if label is None else place[label] for label in level.labels], int)
        columns = np.arange(width) if level.columns is None else np.array(level.columns)
        together = NOISE**2 / (level.together**2 + level.each**2 / len(columns))
        return cls(level.name, labels, places, start, columns, together, NOISE**2 / level.each**2)

    @property
    def width(self) -> int:
        return len(self.columns)

    def parameters(self, place: int) -> NDArray[Any]:
        """Return the places of a label's parameters among all."""
        return self.start + place * self.width + np.arange(self.width)

    def penalty(self, logs: Numbers) -> tuple[NDArray[Any], float]:
        """Return the curvature and the misfit of a label's logarithms ``(width,)``, with less weight on outliers."""
        terms, mean = len(logs), logs.mean()
        misfit, weight = _huber(mean * self.together**0.5)
        common = np.full((terms, terms), 1.0 / terms)
        curvature = weight * self.together / terms * common + self.each * (np.eye(terms) - common)
        return curvature, float(misfit + self.each * ((logs - mean) ** 2).sum() / 2)


def _huber(errors: Any) -> tuple[Any, Any]:
    """Return the misfit of errors in units of the noise's square, and the weight of its slope."""
    limit, size = TUNING * NOISE, np.abs(errors)
    misfit = np.where(size <= limit, size**2 / 2, limit * (size - limit / 2))
    return misfit, np.minimum(1.0, limit / np.maximum(size, TINY))


def fit_levels(
    terms: Numbers, launch_s: Numbers, times: Numbers, levels: Sequence[Level], weights: Numbers | float = 1.0,
    expected: Numbers = AT_THE_ROOF, first: Mapping[tuple[str, str], Numbers] | None = None,
) -> Effects:  # fmt: skip
    """Return the likeliest effects of ``levels`` on the ``expected`` coefficients, given ``times`` ``(rows,)`` (s).

    ``first`` are effects to start from. Gauss-Newton steps in logarithms, with less weight on outliers (P. J. Huber,
    Robust Estimation of a Location Parameter, Annals of Mathematical Statistics 35 (1964), 73-101); a step is halved
    until it improves the fit.
    """
    width, blocks, start = terms.shape[1], [], 0
    for level in levels:
        blocks.append(_Block.of(level, start, width))
        start += len(blocks[-1].labels) * blocks[-1].width
    logs = np.zeros(start)
    for block, label, place in _places(blocks):
        if first and (block.name, label) in first:
            logs[place] = first[block.name, label][block.columns]
    found, _ = _settle(expected * terms, launch_s, times, blocks, logs, weights, has_own_host=False)
    effects = {(block.name, label): np.zeros(width) for block, label, _ in _places(blocks)}
    for block, label, place in _places(blocks):
        effects[block.name, label][block.columns] = found[place]
    return effects


def _places(blocks: Sequence[_Block]) -> Iterator[tuple[_Block, str, slice]]:
    for block in blocks:
        for at, label in enumerate(block.labels):
            yield block, label, slice(block.start + at * block.width, block.start + (at + 1) * block.width)


def fit(
    expected: Numbers, terms: Numbers, launch_s: Numbers, times: Numbers,
    spreads: tuple[float, float] = SPREADS[OWN], has_own_host: bool = False,
) -> tuple[Numbers, float]:  # fmt: skip
    """Return the coefficients ``(terms,)`` that make ``likely`` give ``times`` ``(rows,)`` (s), and a launch factor.

    The factor is 1 unless the rows have a host of their own. Coefficients are spread around the ``expected`` ones: one
    row shows a common factor, many show each coefficient.
    """
    block = _Block.of(Level("", [""] * len(times), *spreads), 0, terms.shape[1])
    logs = np.zeros(terms.shape[1])
    found, host = _settle(expected * terms, launch_s, times, [block], logs, 1.0, has_own_host)
    return expected * np.exp(found), float(np.exp(host))


def _settle(
    terms: Numbers, launch_s: Numbers, times: Numbers, blocks: Sequence[_Block], logs: Numbers,
    weights: Numbers | float, has_own_host: bool,
) -> tuple[Numbers, float]:  # fmt: skip
    """Return the logarithms of all parameters and of the host's factor, from the first ones on."""
    width, size = terms.shape[1], len(logs)
    # Rows with the same labels at all levels share their parameters: their sums are taken once
    labels, alike = np.unique(np.column_stack([block.places for block in blocks]), axis=0, return_inverse=True)
    order = np.argsort(alike.ravel(), kind="stable")
    terms, launch_s, times, alike = terms[order], launch_s[order], times[order], alike.ravel()[order]
    weights = weights[order] if isinstance(weights, np.ndarray) else weights
    firsts = np.searchsorted(alike, np.arange(len(labels)))
    columns, terms_of = [], []  # of each such group of rows: the places of its parameters, and their terms
    for of_rows in labels:
        touched = [(block, place) for block, place in zip(blocks, of_rows, strict=True) if place >= 0]
        columns.append(np.concatenate([block.parameters(place) for block, place in touched]))
        terms_of.append(np.concatenate([block.columns for block, _ in touched]))
    labelled = [*_places(blocks)]
    of_host = NOISE**2 / HOST**2 if has_own_host else 1.0

    def tried(logs: Numbers) -> tuple[Numbers, Numbers, Numbers, float]:
        """Return slopes of all terms and of the host ``(rows, terms + 1)``, errors, their weights, and the misfit."""
        sums = [np.bincount(of, logs[each], width) for each, of in zip(columns, terms_of, strict=True)]
        parts, host_s = terms * np.exp(np.clip(sums, -20, 20))[alike], np.exp(logs[size]) * launch_s
        device_s = np.maximum(parts.sum(axis=1), TINY)
        found = np.hypot(device_s, host_s)
        errors = np.log(times / found)
        slopes = np.column_stack([parts * device_s[:, None], host_s**2 * has_own_host]) / found[:, None] ** 2
        misfits, of_rows = _huber(errors)
        penalties = sum(block.penalty(logs[place])[1] for block, _, place in labelled)
        misfit = float((weights * misfits).sum() + penalties + of_host * logs[size] ** 2 / 2)
        return slopes, errors, weights * of_rows, misfit

    logs = np.append(logs, 0.0)
    now = tried(logs)
    for _ in range(STEPS):
        slopes, errors, of_rows, misfit = now
        weighted = slopes * of_rows[:, None]
        squares = np.add.reduceat(weighted[:, :, None] * slopes[:, None, :], firsts)
        sums = np.add.reduceat(weighted * errors[:, None], firsts)
        normal = np.zeros((size + 1, size + 1))
        normal[size, size] = of_host
        for block, _, place in labelled:
            normal[place, place] = block.penalty(logs[place])[0]
        downhill = -normal @ logs
        for each, of_each, square, total in zip(columns, terms_of, squares, sums, strict=True):
            places, of = np.append(each, size), np.append(of_each, width)
            normal[np.ix_(places, places)] += square[np.ix_(of, of)]
            downhill[places] += total[of]
        step = np.linalg.solve(normal, downhill)
        while (now := tried(logs + step))[3] > misfit and np.abs(step).max() > SETTLED:
            step = step / 2
        if now[3] > misfit:
            break
        logs = logs + step
        if misfit - now[3] <= SETTLED * misfit:
            break
    return logs[:size], float(logs[size])
