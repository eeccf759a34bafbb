"""The tables of what the models ask for, and of how it is counted."""

from collections.abc import Iterable
from math import isnan
from operator import attrgetter

from measure.domain.values import SPACE, significant
from measure.domain.words import COSTS, ELEMENTARY, TANH_GELU
from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.bounds import ModelDemand, NamedRoof, held_against_chips
from report.analysis.long_lists import evenly, listed
from report.load.paper import Paper
from report.tables.pipe import COUNTED_IN, NONE, others, pipe
from report.text.frame_rows import each
from report.text.prose import escape, intensity, percent, si


@or_missing
def models(paper: Paper) -> str:
    """List what each model asks for at batch size 1."""
    found = available.workloads(paper, batch=1).sort_values("model")
    shown, left = listed(found, "forward_flop")
    rows = [
        [
            escape(row.model), si(row.parameter_count, ""), si(row.forward_flop, "FLOP"),
            si(row.forward_other_flop, "FLOP"), si(row.footprint_byte, "B"), significant(row.footprint_intensity),
            significant(row.compulsory_intensity), significant(row.traffic_intensity),
        ]
        for row in each(shown)
    ]  # fmt: skip
    intensities = "FLOP/B, footprint > | FLOP/B, compulsory > | FLOP/B, traffic >"
    header = f"Model | Parameters > | FLOP > | Other FLOP > | Footprint > | {intensities}"
    return pipe(header, rows + others(header, left, COUNTED_IN))


MEMORY = attrgetter("saved_byte", "gradient_byte", "adam_byte", "inference_peak_byte", "training_peak_byte")
"""What a training step keeps, and the peaks; not known where the backward pass was not counted."""


@or_missing
def training(paper: Paper) -> str:
    """List what a training step asks for beside inference, at one batch size."""
    found = available.trained(paper).sort_values("model")
    shown, left = listed(found, "training_peak_byte")
    rows = [
        [
            escape(row.model), significant(row.backward_flop / row.forward_flop, 4) if row.forward_flop else NONE,
            percent(row.recompute_flop / row.forward_flop) if row.recompute_flop > 0 else NONE,
            *(NONE if isnan(value) else si(value, "B") for value in MEMORY(row)),
        ]
        for row in each(shown)
    ]  # fmt: skip
    header = "Model | Backward to forward > | Recomputed > | Saved > | Gradients > | Adam >"
    header += " | Peak, inference > | Peak, training >"
    return pipe(header, rows + others(header, left, COUNTED_IN))


@or_missing
def bounds(paper: Paper) -> str:
    """List each model's margin at batch size 1 on each example of a chip, and where it crosses the ridge point."""
    columns = [
        (named_roof, {demand.model: demand for demand in models}) for named_roof, models in held_against_chips(paper)
    ]
    every = {model: demand for _, counted in columns for model, demand in counted.items()}
    shown = evenly(sorted(every, key=lambda model: every[model].intensity(1)))
    rows = [
        [escape(model), *(_margin(counted.get(model), named_roof) for named_roof, counted in columns)]
        for model in sorted(shown)
    ]
    names = [
        f"{escape(named_roof.name)}, {named_roof.precision}, {intensity(named_roof.roof.ridge_flop_per_byte)} >"
        for named_roof, _ in columns
    ]
    header = " | ".join(["Model", *names])
    return pipe(header, rows + others(header, len(every) - len(shown), COUNTED_IN))


def _margin(demand: ModelDemand | None, named_roof: NamedRoof) -> str:
    """Return the intensity at batch size 1 over the ridge point, and the least batch size that is compute-bound."""
    if demand is None:
        return NONE
    ridge = named_roof.roof.ridge_flop_per_byte
    batch = demand.crossing(ridge)
    return f"{significant(demand.intensity(1) / ridge, 2)};{SPACE}{'never' if batch is None else batch}"


def costs() -> str:
    """List the operators that cost so many operations for each element, those of either pass apart."""
    named = dict.fromkeys(ELEMENTARY, 1) | COSTS
    named |= {f"{name} (tanh)": cost for name, cost in TANH_GELU.items()}
    rows = []
    for cost in sorted(set(named.values())):
        operators = {name for name, each_cost in named.items() if each_cost == cost}
        backward = {name for name in operators if "_backward" in name}
        rows.append([str(cost), _names(operators - backward), _names(backward)])
    return pipe("FLOP an element > | In the forward pass | In the backward pass", rows)


def _names(operators: Iterable[str]) -> str:
    return escape(", ".join(sorted(operators))) or NONE


FORMULAS = (
    ("sum, maximum or product of n elements to m", "n - m", ""),
    ("mean of n elements", "n", ""),
    ("variance of n elements", "4n", ""),
    ("softmax of n elements in r rows", "5n - 2r", "4n - r"),
    ("logarithm of softmax, likewise", "5n - r", "4n - r"),
    ("batch normalisation of n elements in c channels, inference", "2n + 5c", ""),
    ("the same in training", "6n + 11c", "9n + c"),
    ("layer or group normalisation of n elements in r groups, p scales and shifts", "7n + 2r", "13n - 2p"),
    ("maximum pooling to m outputs, w elements in all windows", "w - m", "m"),
    ("average pooling, likewise", "w", "m + w"),
    ("bilinear interpolation to m outputs", "9m", "8m"),
)
"""What an operator takes as a whole, forward and backward, in the letters of its description (``measure``)."""


def formulas() -> str:
    """List the operators whose cost is not a number for each element."""
    rows = [[text, *(f"${formula}$" if formula else NONE for formula in passes)] for text, *passes in FORMULAS]
    return pipe("Operator | Forward > | Backward >", rows)
