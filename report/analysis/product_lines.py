"""Lines of products. The chips' table has no column for them: a chip's name and memory tell its line."""

from dataclasses import dataclass, replace

import pandas as pd

from measure.domain.statistics import CONFIDENCE
from report.analysis.growth import Growth, fit
from report.load.chips import KINDS, comparable, of_dies, on_chip
from report.text.frame_rows import matching


@dataclass(frozen=True)
class ProductLine:
    """The chips of a kind whose names hold the pattern ``chip`` and whose memory's type begins with ``memory``."""

    name: str
    chip_kind: str
    chip: str
    memory: str = ""

    def of(self, chips: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the line's chips."""
        of_kind = matching(chips, chip_kind=self.chip_kind)
        return of_kind[of_kind.memory_type.str.startswith(self.memory) & of_kind.chip.str.contains(self.chip)]


# NVIDIA names a GPU for data centers by a letter and a number (V100, L40S), early ones after the word Tesla; the
# names of those for graphics begin with a word (GeForce, TITAN, RTX).
NVIDIA_DATA_CENTER = r"^NVIDIA (?:Tesla )?[A-Z]\d"

# With HBM NVIDIA builds for training, with GDDR, on smaller dies, for inference. Of Apple's M chips, Max and Ultra
# are larger sizes of the same generation.
LINES = (
    ProductLine("NVIDIA, HBM", "gpu", NVIDIA_DATA_CENTER, "HBM"),
    ProductLine("NVIDIA, GDDR", "gpu", NVIDIA_DATA_CENTER, "GDDR"),
    ProductLine("Google TPU", "asic", r"^Google TPU"),
    ProductLine("Apple M", "soc", r"^Apple M\d+ GPU"),
    ProductLine("Apple A", "soc", r"^Apple A\d"),
)

DATA_CENTER_GPUS = ProductLine("data-center GPUs", "gpu", rf"{NVIDIA_DATA_CENTER}|^AMD Instinct")
PHONES = ProductLine("phone SoCs", "soc", r"^Apple A\d|^Qualcomm Snapdragon|^MediaTek Dimensity")

FEWEST = 4
"""Dies in a series whose growth is worth telling: with three, the interval spans orders of magnitude."""


@dataclass(frozen=True)
class Series:
    """Chips over the years, a row each, with memory outside the chip; ``rate`` says the precision and unit.

    ``whole`` names the kind that a line is a part of; it is empty for a kind.
    """

    name: str
    rate: str
    rows: pd.DataFrame
    whole: str = ""

    def growth(self, column: str, confidence: float = CONFIDENCE) -> Growth:
        """Return how fast a column grew over the years."""
        return fit(self.rows.year.tolist(), self.rows[column].tolist(), confidence)


def members(chips: pd.DataFrame) -> list[Series]:
    """Return the lines that have chips, each at the precision and unit at which its kind can be compared."""
    return _members(_kinds(chips))


def growing(chips: pd.DataFrame) -> list[Series]:
    """Return the kinds, then the lines, that have enough dies of different years for a rate of growth, a row a die."""
    kinds = _kinds(chips)
    found = [replace(series, rows=of_dies(series.rows)) for series in (*kinds.values(), *_members(kinds))]
    return [series for series in found if len(series.rows) >= FEWEST and series.rows.year.nunique() > 1]


def _kinds(chips: pd.DataFrame) -> dict[str, Series]:
    """Return the kinds whose chips share a precision and unit."""
    found = {}
    for kind, name in KINDS.items():
        rows, rate = comparable(chips, kind)
        if rate:
            found[kind] = Series(f"{name}s", rate, rows[~on_chip(rows)])
    return found


def _members(kinds: dict[str, Series]) -> list[Series]:
    found = [
        Series(line.name, kind.rate, line.of(kind.rows), whole=kind.name)
        for line in LINES
        if (kind := kinds.get(line.chip_kind))
    ]
    return [series for series in found if not series.rows.empty]
