"""The claims of pham2024: nearly all are decided by its own table and exact counts."""

from collections.abc import Callable

from report.analysis.available import DataMissingError, lacking
from report.analysis.bounds import NamedRoof
from report.load.paper import BASE_PRECISION, Paper
from report.published import steps
from report.published.agreement import latency
from report.published.claims.ruling import Ruling, claim
from report.published.steps import Step, chip_roof
from report.published.verdict import AGREES, DIFFERS, compared
from report.text.prose import intensity, listing, si

GPUS = ("NVIDIA T4", "NVIDIA L4", "NVIDIA V100")
"""The GPUs of the study, in the order of its claims."""


@claim("pham2024-1", "resnet50")
@claim("pham2024-2", "vit")
@claim("pham2024-3", "mobilenet")
def cost(paper: Paper, model: str) -> Ruling:
    """Rule on what the study computes a step's time from being the cost of the step."""
    for comparison in compared(paper, "step_estimates"):
        if comparison.subject.startswith(f"{model},") and comparison.unit == "FLOP":
            ours = f" A step takes {si(comparison.ours, 'FLOP', 4)}." if comparison.ours else ""
            text = f"The printed {si(comparison.printed, 'FLOP', 4)} {comparison.verdict.what}.{ours}"
            return Ruling({AGREES: True, DIFFERS: False}.get(comparison.verdict.outcome), text)
    raise lacking("published/step_estimates", f"estimate of {model}")


def printed_steps(paper: Paper, model: str) -> dict[str, Step]:
    """Return the printed steps of a model by GPU."""
    found = {step.row.gpu: step for step in steps.steps(paper) if step.row.model == model}
    if not set(GPUS) <= set(found):
        raise DataMissingError(f"The table data/published/training_steps.csv lacks a step of {model}; restore it.")
    return {gpu: found[gpu] for gpu in GPUS}


@claim("pham2024-4a", "mobilenet", "memory-bound")
@claim("pham2024-4b", "vit", "compute-bound")
def bounds(paper: Paper, model: str, bound: str) -> Ruling:
    """Rule by the printed counters' intensity and the datasheets' ridge points."""
    parts, holds = [], []
    for gpu, step in printed_steps(paper, model).items():
        roof = chip_roof(paper, step.row.chip_key)
        if roof is None:
            raise lacking("chips", f"{BASE_PRECISION} roof of {step.row.chip_key}")
        named_roof = NamedRoof(gpu, "gpu", BASE_PRECISION, roof, measured=False)
        holds.append(named_roof.bound(step.intensity) == bound)
        ridge = intensity(roof.ridge_flop_per_byte)
        parts.append(f"{intensity(step.intensity)} against {ridge} on the {gpu}")
    text = f"By its own counters, against the ridge points at {BASE_PRECISION}, {model} has {listing(parts)}."
    return Ruling(all(holds), text)


def _rates(found: dict[str, Step]) -> str:
    return listing([f"{si(step.row.flop_per_s, 'FLOP/s', 4)} on the {gpu}" for gpu, step in found.items()])


def _l4_is_best(rates: list[float]) -> bool:
    return max(rates) == rates[GPUS.index("NVIDIA L4")]


def _rise(rates: list[float]) -> bool:
    return rates == sorted(rates)


@claim("pham2024-5a", _l4_is_best, "resnet50")
@claim("pham2024-5b", _l4_is_best, "vit")
@claim("pham2024-6a", _rise, "mobilenet")
@claim("pham2024-6b", _rise, "vit")
def ordered(paper: Paper, holds: Callable[[list[float]], bool], model: str) -> Ruling:
    """Rule on an order of the printed rates of a model on ``GPUS``."""
    found = printed_steps(paper, model)
    rates = [step.row.flop_per_s for step in found.values()]
    return Ruling(holds(rates), f"It prints for {model} {_rates(found)}.")


@claim("pham2024-7")
def slower_on_l4(paper: Paper) -> Ruling:
    """Rule on its row of the L4, which is likely misprinted, and if not, may miss the FLOP of tensor cores."""
    found = printed_steps(paper, "resnet50")
    t4, l4 = found["NVIDIA T4"], found["NVIDIA L4"]
    on_t4 = si(t4.row.time_s, "s")
    measured = steps.measured_step(paper, l4.row.chip_key, "resnet50", int(l4.row.batch))
    if measured is not None:
        text = f"We measured {si(measured.latency_s, 's')} on the L4; on the T4 {on_t4} are printed."
        return Ruling(latency(measured).above(t4.row.time_s), text)
    text = f"It prints {on_t4} on the T4 and {si(l4.row.time_s, 's')} on the L4, at {_rates(found)}."
    if not l4.misprinted:
        return Ruling(bool(l4.row.time_s > t4.row.time_s), text)
    raise DataMissingError(
        f"{text} The L4's rate has the digits of its DRAM rate times its time, so the row is likely misprinted; FLOP "
        "of tensor cores, which are not counted, are possible too. On an L4 `python -m measure --device cuda --models "
        "resnet50 --sections workload training` would decide."
    )
