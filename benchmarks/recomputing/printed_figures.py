"""The conclusion on figures that studies print: which differ from ours, and by what factor.

Ours are recomputed, and so is whether a comparable one differs. Why one differs, and what cannot be compared, are
judgements: they are read from the verdicts in the paper's tables of printed figures, and taken as given.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from html import unescape
from math import nan, prod
from typing import Any

import numpy as np
import pandas as pd

from recomputing.cache import EAGER, FULL, Cache, each
from recomputing.effects import TRAINING_BATCH, fastest
from recomputing.statistics import Effect, Ends, of_median, of_rounds
from recomputing.text import Factor, Given

TOLERANCE = 0.01
"""Figures agree up to this share, or up to the printed one's rounding if that is more."""

AGREES, DIFFERS, UNDECIDED, NOT_COMPARABLE = "agrees", "differs", "undecided", "not comparable"
UNEXPLAINED = "for no reason known here"
ABOVE_THE_ROOF = "above the roof"

VERDICT = re.compile(rf"({AGREES}|{DIFFERS}|{UNDECIDED}|{NOT_COMPARABLE})\b.*")
CORES = re.compile(r"(\d+) cores? x ([\d.]+) GHz")
CHANNELS = re.compile(r"(?:x )?(\d+) ch(?:annels)?\b")


@dataclass(frozen=True)
class Verdict:
    """What the paper's tables say of a figure, such as ``alexnet: FLOP, forward``."""

    figure: str
    outcome: str
    text: str


def verdicts(html: str) -> list[Verdict]:
    """Return the verdicts in the paper's tables, in their order."""
    found = []
    for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        plain = [" ".join(unescape(re.sub(r"<[^>]+>", "", cell)).replace("’", "'").split()) for cell in cells]
        if len(plain) == 5 and (match := VERDICT.fullmatch(plain[4])):
            found.append(Verdict(plain[0], match[1], plain[4]))
    return found


@dataclass(frozen=True)
class Figure:
    """A printed figure with its rounding, and ours, which is not a number where there is none.

    Measured ones have an interval, whose ends are not numbers where there are too few samples: then nothing is decided.
    """

    study: str
    name: str
    printed: float
    rounding: float
    ours: float
    interval: Ends | None = None

    @property
    def factor(self) -> float:
        """The factor between the two, whichever is larger."""
        return max(self.printed / self.ours, self.ours / self.printed)

    @property
    def differs(self) -> bool:
        """Whether it is off by more than its rounding and the tolerance, and so is all of a measured one's interval."""
        margin = max(self.rounding, TOLERANCE * abs(self.ours)) * (1 + 1e-9)
        least, most = self.interval or (self.ours, self.ours)
        outside = least > self.printed + margin or most < self.printed - margin
        return abs(self.printed - self.ours) > margin and outside


def number(text: str) -> tuple[float, float]:
    """Return a printed number and its rounding, half the unit of its last digit; not numbers of no text."""
    if not text:
        return nan, nan
    exact = Decimal(text)
    return float(exact), 0.5 * 10.0 ** int(exact.as_tuple().exponent)


@dataclass(frozen=True)
class PrintedFigures:
    """The figures of ``data/published`` in the order of the paper's tables, with these tables' verdicts."""

    cache: Cache
    verdicts: list[Verdict]

    @cached_property
    def judged(self) -> list[tuple[Figure, Verdict]]:
        """The comparable figures. Raises ValueError where the paper's tables hold other figures than the CSV."""
        tables = (self._chips(), self._models(), self._training(), self._steps(), self._estimates())
        figures = [figure for table in tables for figure in _by_study(list(table))]
        told = [verdict.figure for verdict in self.verdicts]
        if told != [figure.name for figure in figures]:
            unlike = set(told).symmetric_difference(figure.name for figure in figures)
            raise ValueError(f"the paper's tables of printed figures are not those of the CSV: {sorted(unlike)[:3]}")
        pairs = zip(figures, self.verdicts, strict=True)
        return [(figure, verdict) for figure, verdict in pairs if verdict.outcome != NOT_COMPARABLE]

    @property
    def different(self) -> list[tuple[Figure, Verdict]]:
        """Those that differ: by the rule where we have a figure beside them, else as given."""
        return [
            (figure, verdict)
            for figure, verdict in self.judged
            if (verdict.outcome == DIFFERS if np.isnan(figure.ours) else _is_different(figure, verdict))
        ]

    @cached_property
    def causes(self) -> list[list[Figure]]:
        """The figures that differ, by study and reason; without a reason, one printed again and again is one cause."""
        found: dict[tuple[Any, ...], list[Figure]] = {}
        for figure, verdict in self.different:
            quantity = figure.name.rpartition(": ")[2]
            reason = (quantity, figure.printed) if UNEXPLAINED in verdict.text else (verdict.text,)
            found.setdefault((figure.study, *reason), []).append(figure)
        return list(found.values())

    @property
    def effect(self) -> Effect:
        """The median over causes of the median of their factors."""
        factors = [[figure.factor for figure in figures if not np.isnan(figure.ours)] for figures in self.causes]
        return of_median([float(np.median(each)) for each in factors if each])

    def wanted(self, confidence: float) -> dict[str, Any]:
        """Return what the sentence of the conclusion should say."""
        farthest = max((figure for figure, _ in self.different if figure.ours > 0), key=lambda figure: figure.factor)
        wrong = len(self.different)
        return {
            "count": f"{len(self.judged)} printed figures",
            "wrong": wrong or "none",
            "causes": Given("what cannot be compared, and why another differs", f"{len(self.causes)} causes"),
            "effect": Factor(self.effect, confidence),
            "most": farthest.factor,
            "where": farthest.name,
        }

    def _chips(self) -> Iterator[Figure]:
        """Yield the peak and the bandwidth of each chip, for as many cores and channels as the study means."""
        for row in each(self.cache.published("chips")):
            chips = self.cache.chips
            meant = chips.chip.map(
                lambda chip, row=row: row.chip_key == chip or (not row.chip_key and row.chip.startswith(chip))
            )
            rows = chips[meant]
            name = f"{row.chip}, {row.precision or 'no precision stated'}"
            peaks = rows[rows.precision == (row.precision or FULL)].peak_flop_per_s
            cores, channels = (_part(row.printed, rows.derivation, pattern) for pattern in (CORES, CHANNELS))
            peak, bandwidth = peaks.max() * cores, rows.bandwidth_byte_per_s.max() * channels
            yield Figure(row.study, f"{name}: peak", *number(row.peak_flop_per_s), peak)
            yield Figure(row.study, f"{name}: bandwidth", *number(row.bandwidth_byte_per_s), bandwidth)

    def _asked(self, model: str, batch: int) -> "pd.Series":
        """Return what a model asks for; not numbers where it was not counted."""
        rows = self.cache.workloads
        rows = rows[(rows.model == model) & (rows.batch == batch) & (rows.precision == FULL)]
        return rows.iloc[0] if len(rows) else pd.Series(nan, index=rows.columns)

    def _models(self) -> Iterator[Figure]:
        programs = self.cache.programs[self.cache.programs.program == "roofwright"].set_index("model").forward_mac
        for row in each(self.cache.published("models")):
            asked = self._asked(row.model_key, 1)
            flop = asked.forward_flop
            if np.isnan(flop):
                flop = 2 * programs.get(row.model_key, nan)
            intensity = asked.forward_flop / asked.footprint_byte
            yield Figure(row.study, f"{row.model}: FLOP, forward", *number(row.flop), flop)
            yield Figure(row.study, f"{row.model}: footprint", *number(row.footprint_byte), asked.footprint_byte)
            yield Figure(row.study, f"{row.model}: intensity", *number(row.intensity_flop_per_byte), intensity)

    def _training(self) -> Iterator[Figure]:
        for row in each(self.cache.published("training")):
            name = f"{row.model}, batch size {row.batch}" if row.batch else row.model
            asked = self._asked(row.model, int(row.batch or TRAINING_BATCH))
            is_flop, way = row.quantity == "flop", -1 if row.ratio_means == "forward/backward" else 1
            for stage in ("forward", "backward"):
                if printed := getattr(row, stage):
                    ours = asked[f"{stage}_flop"] if is_flop else nan
                    what = "FLOP" if is_flop else "time"
                    yield Figure(row.study, f"{name}: {what}, {stage}", *number(printed), ours)
            figure = number(row.ratio_as_printed)
            if is_flop:
                ratio = (asked.backward_flop / asked.forward_flop) ** way
                yield Figure(row.study, f"{name}: FLOP, {row.ratio_means}", *figure, ratio)
            else:
                measured = self._time_ratio(row.model, row.batch)
                low, high = sorted(end**way for end in measured[1:])
                yield Figure(row.study, f"{name}: time, {row.ratio_means}", *figure, measured[0] ** way, (low, high))

    def _time_ratio(self, model: str, batch: str) -> tuple[float, float, float]:
        """Return the measured time of a backward pass over that of the forward pass, sample by sample, with its ends.

        It is that of the first machine with such a step; of no batch size, of the largest.
        """
        for machine in self.cache.shown:
            rows = machine.samples
            rows = rows[(rows.model == model) & (rows.variant == EAGER) & (rows.precision == FULL)]
            forward, backward = (rows[rows.phase == stage] for stage in ("forward", "backward"))
            both = forward.merge(backward, on=["batch", "round", "sample"], suffixes=("", "_backward"))
            both = both[both.batch == (int(batch) if batch else both.batch.max())]
            if len(both):
                ratios = (both.latency_s_backward / both.latency_s).groupby(both["round"])
                found = of_rounds([own.to_numpy() for _, own in ratios])
                return found.median, found.low, found.high
        return nan, nan, nan

    def _steps(self) -> Iterator[Figure]:
        for row in each(self.cache.published("training_steps")):
            name, asked = f"{row.model}, {row.gpu}", self._asked(row.model_key, int(row.batch))
            flop_per_s, time_s, byte_per_s = (float(text) for text in (row.flop_per_s, row.time_s, row.dram_byte_per_s))
            bandwidth = self._roof(row.chip_key).bandwidth_byte_per_s
            flop = asked.forward_flop + asked.backward_flop
            intensity = number(row.intensity_flop_per_byte)
            yield Figure(row.study, f"{name}: FLOP, step", flop_per_s * time_s, 0.0, flop)
            yield Figure(row.study, f"{name}: intensity", *intensity, flop_per_s / byte_per_s)
            yield Figure(row.study, f"{name}: DRAM rate", *number(row.dram_byte_per_s), bandwidth)
            yield Figure(row.study, f"{name}: time of a step", *number(row.time_s), nan)

    def _roof(self, chip: str) -> "pd.Series":
        rows = self.cache.chips
        return fastest(rows[(rows.chip == chip) & (rows.precision == FULL)]).iloc[0]

    def _estimates(self) -> Iterator[Figure]:
        steps = self.cache.published("training_steps")
        batches = {(row.study, row.model): int(row.batch) for row in each(steps)}
        for row in each(self.cache.published("step_estimates")):
            name, batch = f"{row.model}, {row.gpu}", batches.get((row.study, row.model), 0)
            asked = self._asked(row.model_key, batch)
            flop, time_s = asked.forward_flop + asked.backward_flop, float(row.flop) / float(row.peak_flop_per_s)
            yield Figure(row.study, f"{name}: FLOP, estimate", *number(row.flop), flop)
            yield Figure(row.study, f"{name}: theoretical time", *number(row.time_s_as_printed), time_s)


def _is_different(figure: Figure, verdict: Verdict) -> bool:
    """Apply the rule; a rate that is comparable only because it exceeds a roof, which is impossible, differs by any."""
    return figure.printed > figure.ours if ABOVE_THE_ROOF in verdict.text else figure.differs


def _by_study(figures: list[Figure]) -> list[Figure]:
    studies = list(dict.fromkeys(figure.study for figure in figures))
    return sorted(figures, key=lambda figure: studies.index(figure.study))


def _part(printed: str, derivations: "pd.Series[str]", pattern: re.Pattern[str]) -> float:
    """Return the share that a study means of what a chip's rates are derived from, all where one does not say."""
    stated = pattern.search(printed)
    derived = next((found for text in derivations if (found := pattern.search(text))), None)
    if not stated or not derived:
        return 1.0
    return prod(map(float, stated.groups())) / prod(map(float, derived.groups()))
