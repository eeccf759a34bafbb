"""The claims of pham2024: nearly all are decided by its own table and exact counts."""

from collections.abc import Callable
from functools import partial

from report.analysis import available
from report.load.paper import BASE_PRECISION, Paper
from report.published import estimates, steps
from report.published.claims.ruling import CONFIRMED, REFUTED, UNDECIDED, Claim, Part, Ruling, whole
from report.published.comparisons import compared
from report.published.steps import Step, chip_roof
from report.published.verdict import AGREES, OPEN
from report.text.quantities import intensity, listing, si

GPUS = ("NVIDIA T4", "NVIDIA L4", "NVIDIA V100")
"""The GPUs of the study, in the order of its claims."""


def cost(model: str) -> Claim:
    """The claim that what the study computes a step's time from is the cost of the step."""

    def ruled(paper: Paper) -> Ruling:
        found = [
            comparison
            for comparison in compared(paper, estimates)
            if comparison.subject.startswith(f"{model},") and comparison.unit == "FLOP"
        ]
        if not found:
            raise available.DataMissingError(
                f"The table data/published/step_estimates.csv holds no estimate of {model}; restore it."
            )
        comparison = found[0]
        mark = {AGREES: CONFIRMED, OPEN: UNDECIDED}.get(comparison.verdict.outcome, REFUTED)
        ours = f" A step takes {si(comparison.ours, 'FLOP', 4)}." if comparison.ours else ""
        return Ruling(
            mark, f"The printed {si(comparison.printed, 'FLOP', 4)} {comparison.verdict.what}.{ours}"
        )

    return ruled


def printed(paper: Paper, model: str) -> dict[str, Step]:
    """The printed steps of a model by GPU."""
    found = {step.row.gpu: step for step in steps.steps(paper) if step.row.model == model}
    if not set(GPUS) <= set(found):
        raise available.DataMissingError(
            f"The table data/published/training_steps.csv lacks a step of {model}; restore it."
        )
    return {gpu: found[gpu] for gpu in GPUS}


def bounds(paper: Paper) -> Ruling:
    """By the printed counters' intensity and the datasheets' ridge points."""

    def part(model: str, memory_bound: bool) -> Part:
        parts, holds = [], []
        for gpu, step in printed(paper, model).items():
            roof = chip_roof(paper, step.row.chip_key)
            if roof is None:
                raise available.DataMissingError(
                    f"The table data/chips.csv holds no {BASE_PRECISION} roof of {step.row.chip_key}; restore it."
                )
            holds.append((step.intensity < roof.ridge_flop_per_byte) == memory_bound)
            parts.append(
                f"{intensity(step.intensity)} against {intensity(roof.ridge_flop_per_byte)} on the {gpu}"
            )
        text = f"By its own counters, against the ridge points at {BASE_PRECISION}, {model} has {listing(parts)}."
        return Part(all(holds), text)

    return whole([partial(part, "mobilenet", True), partial(part, "vit", False)])


def _rates(found: dict[str, Step]) -> str:
    return listing([f"{si(step.row.flop_per_s, 'FLOP/s', 4)} on the {gpu}" for gpu, step in found.items()])


def _ordered(paper: Paper, names: tuple[str, ...], holds: Callable[[dict[str, Step]], bool]) -> Ruling:
    """A claim about the printed rates of some models."""

    def part(model: str) -> Part:
        found = printed(paper, model)
        return Part(holds(found), f"It prints for {model} {_rates(found)}.")

    return whole([partial(part, model) for model in names])


def best_on_l4(paper: Paper) -> Ruling:
    def holds(found: dict[str, Step]) -> bool:
        return max(found, key=lambda gpu: found[gpu].row.flop_per_s) == "NVIDIA L4"

    return _ordered(paper, ("resnet50", "vit"), holds)


def rising(paper: Paper) -> Ruling:
    def holds(found: dict[str, Step]) -> bool:
        rates = [found[gpu].row.flop_per_s for gpu in GPUS]
        return rates == sorted(rates)

    return _ordered(paper, ("mobilenet", "vit"), holds)


def slower_on_l4(paper: Paper) -> Ruling:
    """Its row of the L4 is likely misprinted, and where it is not, may miss the FLOP of tensor cores."""
    found = printed(paper, "resnet50")
    t4, l4 = found["NVIDIA T4"], found["NVIDIA L4"]
    measured = steps.measured_step(paper, l4.row.chip_key, "resnet50", int(l4.row.batch))
    if measured is not None:
        mark = CONFIRMED if measured.latency_s > t4.row.time_s else REFUTED
        own = si(measured.latency_s, "s")
        return Ruling(mark, f"We measured {own} on the L4; on the T4 {si(t4.row.time_s, 's')} are printed.")
    text = f"It prints {si(t4.row.time_s, 's')} on the T4 and {si(l4.row.time_s, 's')} on the L4, at {_rates(found)}."
    if not l4.misprinted:
        return Ruling(CONFIRMED if l4.row.time_s > t4.row.time_s else REFUTED, text)
    return Ruling(
        UNDECIDED,
        f"{text} The L4's rate has the digits of its DRAM rate times its time, so the row is likely misprinted; FLOP "
        "of tensor cores, which are not counted, are possible too. On an L4 python -m measure --device cuda --models "
        "resnet50 --sections workload training would decide.",
    )


CLAIMS: dict[str, Claim] = {
    "pham2024-1": cost("resnet50"),
    "pham2024-2": cost("vit"),
    "pham2024-3": cost("mobilenet"),
    "pham2024-4": bounds,
    "pham2024-5": best_on_l4,
    "pham2024-6": rising,
    "pham2024-7": slower_on_l4,
}
