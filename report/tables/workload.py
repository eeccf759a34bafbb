"""The tables of what the models ask for, in Markdown, and of how it is counted."""

from collections.abc import Iterable

from measure.cache.conventions import COSTS, ELEMENTARY, TANH_GELU
from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.bounds import Demand, Limit, held_against_chips
from report.load.paper import Paper
from report.tables.pipe import LEFT, NONE, RIGHT, pipe
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import SPACE, intensity, percent, si, significant


@or_missing
def models(paper: Paper) -> str:
    """What each model asks for at batch size 1."""
    rows = available.workloads(paper, batch=1).sort_values("model")
    header = [("Model", LEFT), ("Parameters", RIGHT), ("FLOP", RIGHT), ("Other FLOP", RIGHT)]
    header += [("Footprint", RIGHT), ("FLOP/B, footprint", RIGHT), ("FLOP/B, compulsory", RIGHT)]
    return pipe(
        [*header, ("FLOP/B, traffic", RIGHT)],
        [
            [
                escape(row.model), si(row.parameter_count, ""), si(row.forward_flop, "FLOP"),
                si(row.forward_other_flop, "FLOP"), si(row.footprint_byte, "B"), significant(row.footprint_intensity),
                significant(row.compulsory_intensity), significant(row.traffic_intensity),
            ]
            for row in each(rows)
        ],
    )  # fmt: skip


@or_missing
def training(paper: Paper) -> str:
    """What a training step asks for beside inference, at one batch size."""
    rows = available.trained(paper).sort_values("model")
    header = [("Model", LEFT), ("Backward to forward", RIGHT), ("Recomputed", RIGHT), ("Saved", RIGHT)]
    header += [("Gradients", RIGHT), ("Adam", RIGHT), ("Peak, inference", RIGHT)]
    return pipe(
        [*header, ("Peak, training", RIGHT)],
        [
            [
                escape(row.model), significant(row.backward_flop / row.forward_flop, 4),
                percent(row.recompute_flop / row.forward_flop) if row.recompute_flop else NONE,
                *(si(value, "B") for value in (row.saved_byte, row.gradient_byte, row.adam_byte)),
                si(row.inference_peak_byte, "B"), si(row.training_peak_byte, "B"),
            ]
            for row in each(rows)
        ],
    )  # fmt: skip


@or_missing
def bounds(paper: Paper) -> str:
    """For each model and example of a chip: the margin at batch size 1, and where the model crosses the ridge point."""
    columns = [
        (limit, {demand.model: demand for demand in models}) for limit, models in held_against_chips(paper)
    ]
    named = dict.fromkeys(model for _, counted in columns for model in counted)
    header = [("Model", LEFT)]
    header += [
        (f"{limit.name}, {limit.precision}, {intensity(limit.roof.ridge_flop_per_byte)}", RIGHT)
        for limit, _ in columns
    ]
    return pipe(
        header,
        [
            [escape(model), *(_margin(counted.get(model), limit) for limit, counted in columns)]
            for model in sorted(named)
        ],
    )


def _margin(demand: Demand | None, limit: Limit) -> str:
    """The intensity at batch size 1 over the ridge point; the batch size from which on the model is compute-bound."""
    if demand is None:
        return NONE
    ridge = limit.roof.ridge_flop_per_byte
    batch = demand.crossing(ridge)
    return f"{significant(demand.intensity(1) / ridge, 2)};{SPACE}{'never' if batch is None else batch}"


def costs() -> str:
    """The operators that cost so many operations for each element, those of the forward pass and their backwards."""
    named = dict.fromkeys(ELEMENTARY, 1) | COSTS
    named |= {f"{name} (tanh)": cost for name, cost in TANH_GELU.items()}
    header = [("FLOP an element", RIGHT), ("In the forward pass", LEFT), ("In the backward pass", LEFT)]
    rows = []
    for cost in sorted(set(named.values())):
        own = sorted(name for name, each_cost in named.items() if each_cost == cost)
        backward = [name for name in own if "_backward" in name]
        rows.append([str(cost), _names(set(own) - set(backward)), _names(backward)])
    return pipe(header, rows)


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
    """The operators whose cost is not a number for each element."""
    header = [("Operator", LEFT), ("Forward", RIGHT), ("Backward", RIGHT)]
    return pipe(
        header,
        [
            [text, *(f"${formula}$" if formula else NONE for formula in (forward, backward))]
            for text, forward, backward in FORMULAS
        ],
    )
