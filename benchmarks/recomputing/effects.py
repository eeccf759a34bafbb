"""All effects and margins of the conclusions, from the cache."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from recomputing.cache import EAGER, FULL, KINDS, Cache, Machine, comparable
from recomputing.statistics import (
    CONFIDENCE,
    Effect,
    Ends,
    of_errors,
    of_median,
    of_pairs,
    told_at,
    typical_error,
    yearly_growth,
)

Sizes = dict[int, Effect]
"""The effects at some batch sizes."""

LARGE = 1.1
"""Smaller factors are not listed."""

LISTED = 8
FIRST_EFFECTS, FIRST_MARGINS = 3, 2
"""So many subjects at the most are listed as effects, and as many as margins."""

SATURATED, SWEEP_SIZES, SWEEP_STEP = 0.95, 3, 4
"""The share of the best throughput that saturates; the batch sizes of a full sweep, and the factor between two."""

TRAINING_BATCH = 64

PREDICTORS = {
    "FLOP": "forward_flop",
    "parameters": "parameter_count",
    "activations": "activation_byte",
    "traffic": "traffic_byte",
    "roofline time": "operator_bound_s",
}

DATA_CENTER_GPU = r"^NVIDIA (?:Tesla )?[A-Z]\d|^AMD Instinct"
"""NVIDIA names GPUs for data centers by a letter and a number, those for graphics by words."""

SIXTEEN_BITS = ("bf16", "fp16")
FEWEST_CHIPS = 4
"""So many chips have a rate of growth."""


@dataclass(frozen=True)
class Subject:
    """A conclusion: its effects in their order, on a machine or, empty, on none. A margin is not tested."""

    topic: str
    where: str
    effects: list[Effect]
    is_margin: bool = False

    def foremost(self, confidence: float) -> Effect:
        """Return the largest of the effects that are clear of one; where none is, the largest.

        The confidence is that of tested effects; a margin's is the usual one.
        """
        at = CONFIDENCE if self.is_margin else confidence
        return max(self.effects, key=lambda effect: (effect.side(at) != 0, effect.size))


def by_size(rows: pd.DataFrame, factors: "pd.Series[float]") -> Sizes:
    """Return the median factor at each batch size, of the same models at all of them."""
    same = comparable(rows.assign(factor=factors)) if len(rows) else rows
    return {size: of_median(own.factor) for size, own in _at_sizes(same)}


def _at_sizes(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    for size in np.sort(rows.batch.unique()):
        yield int(size), rows[rows.batch == size]


def _paired(rows: pd.DataFrame, others: pd.DataFrame, *key: str) -> pd.DataFrame:
    return rows.merge(others[[*key, "latency_s"]], on=list(key), suffixes=("", "_other"))


def precision(cache: Cache, machine: Machine) -> Sizes:
    both = _paired(cache.asked(machine), cache.asked(machine, precision=machine.lower), "model", "batch")
    return by_size(both, both.latency_s / both.latency_s_other)


def swept(machine: Machine) -> dict[str, pd.DataFrame]:
    """Return for each variant the models with a full sweep of batch sizes and their ``saturation`` sizes; eager first.

    A sweep has three sizes or more, each at most four times the one before, whether or not they could be measured.
    """
    found = {}
    cells = machine.cells[machine.cells.precision == FULL]
    for variant in sorted(cells.variant.unique(), key=lambda name: (name != EAGER, name)):
        rows = []
        for model, tried in cells[cells.variant == variant].groupby("model"):
            sizes, measured = np.sort(tried.batch), tried[tried.throughput_per_s.notna()].sort_values("batch")
            if len(measured) > 1 and len(sizes) >= SWEEP_SIZES and (sizes[1:] <= SWEEP_STEP * sizes[:-1]).all():
                enough = measured.throughput_per_s >= SATURATED * measured.throughput_per_s.max()
                rows.append((model, int(measured.batch[enough].min())))
        if rows:
            found[variant] = pd.DataFrame(rows, columns=["model", "saturation"])
    return found


def first_size(cache: Cache, machine: Machine) -> int:
    return int(cache.asked(machine).batch.min())


def batch_size(cache: Cache, machine: Machine) -> dict[str, Sizes]:
    """Return for each variant of which a sweep was measured the throughput at larger sizes over that at the first."""
    found = {}
    for variant in swept(machine):
        cells = machine.cells
        cells = cells[(cells.variant == variant) & (cells.precision == FULL) & (cells.status == "ok")]
        rows = cache.asked(machine) if variant == EAGER else cells
        first = rows[rows.batch == first_size(cache, machine)].set_index("model").throughput_per_s
        larger = rows[(rows.batch > first_size(cache, machine)) & rows.model.isin(first.index)]
        if effects := by_size(larger, larger.throughput_per_s / larger.model.map(first)):
            found[variant] = effects
    return found


def variants(cache: Cache, machine: Machine) -> dict[str, Sizes]:
    rows = machine.speed_ups
    rows = rows[(rows.precision == FULL) & (rows.status == "ok")]
    return {str(name): by_size(own, own.speed_up) for name, own in rows.groupby("variant")}


def strongest_variant(found: dict[str, Sizes], confidence: float) -> str:
    """Return the variant with the largest effect that is clear; where none is, with the largest."""

    def strength(name: str) -> tuple[bool, float]:
        return max((effect.side(confidence) != 0, effect.size) for effect in found[name].values())

    return max(found, key=strength)


def flop(cache: Cache, machine: Machine) -> Sizes:
    rows = flop_cells(cache, machine)
    return {
        size: of_pairs((own.latency_s / own.forward_flop).set_axis(own.model))
        for size, own in _at_sizes(rows)
        if len(own) > 1
    }


def flop_cells(cache: Cache, machine: Machine) -> pd.DataFrame:
    rows = cache.asked(machine)
    return comparable(rows[rows.forward_flop > 0])


@dataclass(frozen=True)
class Estimation:
    """The predictor that orders models best by latency, and FLOP, or where FLOP do, the second best.

    Each with the factor by which half of the models are off its line.
    """

    batch: int
    best: str
    other: str
    errors: dict[str, float]
    effect: Effect


def estimation(cache: Cache, machine: Machine) -> Estimation:
    rows = cache.asked(machine)
    models = rows.groupby("batch").model.nunique()
    batch = int(models[models >= models.max() / 2].index.min())
    rows = rows[rows.batch == batch].set_index("model")
    rows = rows.assign(**{column: rows[column].where(rows[column] > 0) for column in PREDICTORS.values()})
    varied = {name: column for name, column in PREDICTORS.items() if rows[column].nunique() > 1}
    order = {name: rows[column].corr(rows.latency_s, method="spearman") for name, column in varied.items()}
    best, *others = sorted(order, key=lambda name: -order[name])
    other = others[0] if best == "FLOP" else "FLOP"
    near, far = PREDICTORS[best], PREDICTORS[other]
    known = rows.dropna(subset=[near, far])
    errors = {
        name: float(np.exp(typical_error(*(np.log(own[each].to_numpy(float)) for each in (column, "latency_s")))))
        for name, column in varied.items()
        if len(own := rows.dropna(subset=[column]))
    }
    return Estimation(batch, best, other, errors, of_errors(known[near], known[far], known.latency_s))


def peak(cache: Cache, machine: Machine) -> Effect | None:
    """Return the datasheet's peak over the measured one; None where no datasheet answers to the machine."""
    over, measured = cache.datasheet_peak(machine), machine.peaks[FULL]
    if over is None:
        return None
    ends = over / measured.high, over / measured.low
    return Effect(over / measured.median, 1, lambda _: None if np.isnan(ends).any() else ends)


def distance(cache: Cache, machine: Machine) -> Sizes:
    rows = cache.asked(machine)
    return by_size(rows, 1 / rows.attained)


def fusion(cache: Cache, machine: Machine) -> Sizes:
    rows = cache.asked(machine)
    rows = rows[rows.operator_bound_s.notna() & rows.model_bound_s.notna()]
    return by_size(rows, rows.operator_bound_s / rows.model_bound_s)


def depthwise(cache: Cache, machine: Machine) -> Sizes:
    rows = cache.convolutions(machine)
    return by_size(rows, rows.depthwise / rows.others)


@dataclass(frozen=True)
class Times:
    """A training step's time over its forward pass's, the same of FLOP, and the quotient of the two."""

    batch: int
    times: float
    asked: float
    effect: Effect


def training_step(cache: Cache, machine: Machine) -> Times | None:
    rows = cache.steps(machine)
    if rows.empty:
        return None
    times, asked = rows.latency_s / rows.forward_s, 1 + rows.backward_flop / rows.forward_flop
    return Times(int(rows.batch.iloc[0]), float(times.median()), float(asked.median()), of_median(times / asked))


def trained(cache: Cache) -> pd.DataFrame:
    """Return what a step asks for at the largest batch size, up to that of training, of which one was counted."""
    rows = cache.workloads[(cache.workloads.precision == FULL) & cache.workloads.backward_flop.notna()]
    rows = rows[rows.batch <= TRAINING_BATCH]
    return rows[rows.batch == rows.batch.max()]


def training_memory(cache: Cache) -> Effect:
    rows = trained(cache)
    return of_median(rows.training_peak_byte / rows.inference_peak_byte)


def fastest(chips: pd.DataFrame) -> pd.DataFrame:
    """Return each chip's fastest row."""
    return chips.sort_values("peak_flop_per_s", ascending=False, kind="stable").drop_duplicates("chip")


def of_dies(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one chip of each die: its first, of several in a year the one with the highest peak."""
    named = rows.assign(die=rows.die.where(rows.die != "", rows.chip))
    first = named.sort_values(["year", "peak_flop_per_s"], ascending=[True, False], kind="stable")
    return rows[rows.chip.isin(first.drop_duplicates("die").chip)]


def tensor_units(cache: Cache) -> pd.DataFrame:
    """Return the ``ratio`` of tensor over vector units of data-center GPUs, a row a die."""
    chips = cache.chips[cache.chips.chip.str.contains(DATA_CENTER_GPU) & (cache.chips.chip_kind == "gpu")]
    tensor = fastest(chips[(chips.unit == "tensor") & chips.precision.isin(SIXTEEN_BITS)])
    vector = chips[(chips.unit == "vector") & (chips.precision == FULL)][["chip", "peak_flop_per_s"]]
    pairs = of_dies(tensor.merge(vector, on="chip", suffixes=("", "_vector")))
    return pairs.assign(ratio=pairs.peak_flop_per_s / pairs.peak_flop_per_s_vector)


def sparse_peaks(cache: Cache) -> Effect:
    rows = of_dies(cache.chips[cache.chips.sparse_peak_flop_per_s.notna()])
    return of_median((rows.sparse_peak_flop_per_s / rows.peak_flop_per_s).groupby(rows.chip).median())


@dataclass(frozen=True)
class Series:
    """The chips of a kind at one precision and unit, with memory off the chip, a row a die."""

    kind: str
    rate: str
    rows: pd.DataFrame

    @property
    def years(self) -> tuple[int, int]:
        return int(self.rows.year.min()), int(self.rows.year.max())

    def growth(self, confidence: float) -> tuple[float, float, float]:
        """Return the factor by which ridge points grow in a year, and the ends of its interval."""
        found = yearly_growth(self.rows.year, self.rows.ridge_flop_per_byte, confidence)
        return found.median, found.low, found.high

    @property
    def effect(self) -> Effect:
        first, last = self.years

        def ends(confidence: float) -> Ends:
            _, low, high = self.growth(confidence)
            return low ** (last - first), high ** (last - first)

        return Effect(self.growth(CONFIDENCE)[0] ** (last - first), len(self.rows), ends)


def ridge_series(cache: Cache) -> list[Series]:
    """Return the kinds with dies enough, at the precision and unit that at least half of the kind's chips print.

    These are 16 bits on tensor units before vector units, and then fp32 likewise.
    """
    found: dict[str, Series] = {}
    for kind in KINDS:
        chips = cache.chips[cache.chips.chip_kind == kind]
        for precisions, width in ((SIXTEEN_BITS, "16-bit floating point"), ((FULL,), FULL)):
            for unit in ("tensor", "vector"):
                rows = fastest(chips[chips.precision.isin(precisions) & (chips.unit == unit)])
                if len(rows) and len(rows) >= chips.chip.nunique() / 2:
                    rows = of_dies(rows[~rows.memory_type.str.contains("on chip", case=False)])
                    found.setdefault(kind, Series(kind, f"{width} on {unit} units", rows))
    return [each for each in found.values() if len(each.rows) >= FEWEST_CHIPS and each.rows.year.nunique() > 1]


def device(cache: Cache) -> tuple[Machine, pd.DataFrame] | None:
    """Return the machine of another kind that is shown, with the cells of both; None without any."""
    first, *others = cache.shown
    for other in others:
        both = cache.asked(first).merge(cache.asked(other), on=["model", "batch"], suffixes=("", "_other"))
        if len(both):
            return other, both
    return None


def device_sizes(both: pd.DataFrame) -> Sizes:
    return by_size(both, both.latency_s / both.latency_s_other)


def _all(found: dict[str, Sizes]) -> list[Effect]:
    return [effect for sizes in found.values() for effect in sizes.values()]


@dataclass(frozen=True)
class Conclusions:
    """All subjects that the cache supports, and what is told of them; ``printed`` is that of printed figures."""

    cache: Cache
    printed: Effect | None = None

    @cached_property
    def subjects(self) -> list[Subject]:
        return [subject for subject in self._found() if subject.effects]

    def _found(self) -> Iterator[Subject]:
        """Yield all subjects in the order in which equally large ones are told."""
        cache = self.cache
        for machine in cache.shown:
            step, datasheet = training_step(cache, machine), peak(cache, machine)
            for topic, is_margin, effects in (
                ("Precision", False, [*precision(cache, machine).values()]),
                ("Batch size", False, _all(batch_size(cache, machine))),
                ("Variant", False, _all(variants(cache, machine))),
                ("FLOP", True, [*flop(cache, machine).values()]),
                ("Estimating a latency", False, [estimation(cache, machine).effect]),
                ("Peak", True, [datasheet] if datasheet else []),
                ("Distance from the roof", True, [*distance(cache, machine).values()]),
                ("Fusion", True, [*fusion(cache, machine).values()]),
                ("Depthwise convolution", False, [*depthwise(cache, machine).values()]),
                ("Training step", False, [step.effect] if step else []),
            ):
                yield Subject(topic, machine.title, effects, is_margin)
        shared = device(cache)
        yield Subject("Device", "", [*device_sizes(shared[1]).values()] if shared else [])
        yield Subject("Printed figures", "", [self.printed] if self.printed else [], is_margin=True)
        yield Subject("Memory of training", "", [training_memory(cache)], is_margin=True)
        yield Subject("Tensor units", "", [of_median(tensor_units(cache).ratio)], is_margin=True)
        yield Subject("Ridge points", "", [series.effect for series in ridge_series(cache)])
        yield Subject("Sparse peaks", "", [sparse_peaks(cache)], is_margin=True)

    @cached_property
    def tested(self) -> list[Effect]:
        return [effect for subject in self.subjects if not subject.is_margin for effect in subject.effects]

    @cached_property
    def confidence(self) -> float:
        """The confidence at which effects are told."""
        return told_at(self.tested)

    @property
    def clear(self) -> list[Subject]:
        """The effects that are clear of one and large enough to tell, the largest first."""
        found = [each for each in self.subjects if not each.is_margin]
        return self._ordered([each for each in found if each.foremost(self.confidence).side(self.confidence)])

    @property
    def margins(self) -> list[Subject]:
        return self._ordered([each for each in self.subjects if each.is_margin])

    def _ordered(self, subjects: list[Subject]) -> list[Subject]:
        large = [subject for subject in subjects if subject.foremost(self.confidence).size >= LARGE]
        return sorted(large, key=lambda subject: -subject.foremost(self.confidence).size)
