"""Models held against roofs: on which side of a ridge point they are, and from which batch size on."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil

import pandas as pd

from measure.domain.roofs import Roofline
from report.analysis import available
from report.analysis.product_lines import DATA_CENTER_GPUS
from report.load.chips import KINDS, on_chip
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, highest, lowest, matching
from report.text.prose import listing

PRECISIONS = ("fp32", "bf16")
"""The precisions at which models are held against chips."""


@dataclass(frozen=True)
class NamedRoof:
    """A roof at a precision, and whose it is: a machine's as measured, or a chip's by its datasheet."""

    name: str
    chip_kind: str
    precision: str
    roof: Roofline
    measured: bool

    def bound(self, intensity_flop_per_byte: float) -> str:
        """Say what bounds a kernel of this intensity."""
        below = intensity_flop_per_byte < self.roof.ridge_flop_per_byte
        return "memory-bound" if below else "compute-bound"


def examples(chips: pd.DataFrame) -> list[NamedRoof]:
    """Return each kind's newest chip, of several the one with the highest peak, at each of ``PRECISIONS`` it prints.

    Chips with memory outside the chip and confirmed roofs; GPUs are those for data centers. At each precision the
    fastest unit counts.
    """
    rows = chips[chips.precision.isin(PRECISIONS) & (chips.verified == "yes") & ~on_chip(chips)]
    gpus = rows.chip_kind == "gpu"
    rows = pd.concat([rows[~gpus], DATA_CENTER_GPUS.of(rows)]).sort_values("peak_flop_per_s", ascending=False)
    named_roofs = []
    for kind in KINDS:
        of_kind = matching(rows, chip_kind=kind)
        newest = of_kind[of_kind.chip.isin(of_kind[of_kind.year == of_kind.year.max()].chip.head(1))]
        for row in each(newest.drop_duplicates("precision").sort_values("peak_flop_per_s")):
            roof = Roofline(row.peak_flop_per_s, row.bandwidth_byte_per_s)
            named_roofs.append(NamedRoof(row.chip, kind, row.precision, roof, measured=False))
    return named_roofs


@dataclass(frozen=True)
class ModelDemand:
    """What a model asks for at any batch size: FLOP and bytes of each input, and bytes whatever their number."""

    model: str
    flop: Fraction
    input_byte: Fraction
    fixed_byte: Fraction

    def intensity(self, batch: int) -> float:
        """Return the FLOP per byte of footprint at a batch size."""
        return float(batch * self.flop / (self.fixed_byte + batch * self.input_byte))

    @property
    def asymptotic_intensity(self) -> float:
        """The intensity towards which that of a batch rises as the batch grows."""
        return float(self.flop / self.input_byte)

    @property
    def fixed_share(self) -> float:
        """The share of the footprint at batch size 1 that does not grow with the batch: its parameters."""
        return float(self.fixed_byte / (self.fixed_byte + self.input_byte))

    def crossing(self, ridge_flop_per_byte: float) -> int | None:
        """Return the smallest batch size at which the intensity reaches a ridge point; None where it never does.

        The intensity of b inputs, b W / (P + b A), reaches r where b (W - r A) = r P.
        """
        ridge = Fraction(ridge_flop_per_byte)
        gain = self.flop - ridge * self.input_byte
        return max(1, ceil(ridge * self.fixed_byte / gain)) if gain > 0 else None


def demands(workloads: pd.DataFrame) -> Iterator[ModelDemand]:
    """Yield the demand of each model, from its rows at one precision: exact where footprints are a line over batches.

    The line runs through the smallest and the largest batch size counted. Its start is more than the parameters where
    a model computes some of its weights. Where one batch size was counted, its start is the parameters.
    """
    columns = ["model", "batch", "forward_flop", "parameter_byte", "footprint_byte"]
    for model, rows in workloads[columns].groupby("model", sort=False):
        first, last = lowest(rows, "batch"), highest(rows, "batch")
        flop = Fraction(first.forward_flop) / int(first.batch)
        if first.batch == last.batch:
            fixed = Fraction(first.parameter_byte)
        else:
            slope = Fraction(last.footprint_byte - first.footprint_byte) / int(last.batch - first.batch)
            fixed = Fraction(first.footprint_byte) - int(first.batch) * slope
        each_input = (Fraction(first.footprint_byte) - fixed) / int(first.batch)
        yield ModelDemand(str(model), flop, each_input, fixed)


def example_chips(paper: Paper) -> list[NamedRoof]:
    """Return the roofs of a handful of chips that models are held against; at least one."""
    gap = available.DataMissingError(
        "No chip in data/chips.csv has memory outside the chip and a confirmed dense peak at "
        f"{listing(PRECISIONS)}; {available.MORE_ROWS}."
    )
    return available.at_least_one(examples(available.chips(paper)), gap)


@lru_cache(maxsize=8)
def held_against_chips(paper: Paper) -> list[tuple[NamedRoof, list[ModelDemand]]]:
    """Return the example chips' roofs with the models' demands, at the precisions that were counted; at least one."""
    named_roofs = example_chips(paper)
    counted = set(paper.workloads.precision)
    if not any(named_roof.precision in counted for named_roof in named_roofs):
        available.workloads(paper, named_roofs[0].precision)
    models = {
        precision: list(demands(available.workloads(paper, precision)))
        for precision in PRECISIONS
        if precision in counted
    }
    return [(named_roof, models[named_roof.precision]) for named_roof in named_roofs if named_roof.precision in models]


def compared_roofs(paper: Paper) -> list[NamedRoof]:
    """Return the measured roof of each machine shown; of a kind without one, that of its example of a chip."""
    named_roofs = []
    for kind in ("cpu", "gpu"):
        machine = paper.machine(kind)
        roof = machine and machine.roof(BASE_PRECISION)
        if machine and roof:
            named_roofs.append(NamedRoof(available.title(machine), kind, BASE_PRECISION, roof, measured=True))
        else:
            found = examples(matching(paper.chips, chip_kind=kind))
            named_roofs += [named_roof for named_roof in found if named_roof.precision == BASE_PRECISION]
    gap = available.missing(
        f"No {BASE_PRECISION} roof has been measured, and data/chips.csv holds none of a CPU or a GPU for data centers",
        sections=["roofs"], does="measures one",
    )  # fmt: skip
    return available.at_least_one(named_roofs, gap)


DEFINITIONS = {"footprint": "footprint", "compulsory": "compulsory bytes", "traffic": "traffic"}
"""The bytes that an intensity may be over, and how titles name them."""
