"""The claims of daugherty."""

from functools import partial

from report.analysis import available, predictors
from report.analysis.available import missing_on
from report.analysis.predictors import FLOP, PARAMETERS, Predictor, Rank
from report.load.paper import Machine, Paper
from report.published.claims.ruling import Ruling, claim, claim_anywhere, whole
from report.published.claims.sides import ruled_by_side
from report.text.frame_rows import highest
from report.text.quantities import listing, percent


def ranks(machine: Machine, predictor: Predictor) -> dict[int, Rank]:
    """Return how well a predictor orders a machine's models by latency, by batch size; at least one."""
    found = {
        batch: rank
        for batch, ranking in predictors.rankings(machine).items()
        for rank in ranking
        if batch is not None and rank.predictor == predictor
    }
    if not found:
        what = f"On the {available.title(machine)} too few models were measured for a correlation"
        raise missing_on(machine, what, "workload", "inference", does="measures more")
    return found


@claim("daugherty-1")
def flop_and_latency(paper: Paper) -> Ruling:
    """Rule on their correlation on the CPU, and none on the GPU, at any batch size."""

    def part(kind: str, wanted: bool) -> Ruling:
        machine = available.machine(paper, kind)
        found = ranks(machine, FLOP)
        parts = [f"{rank.spearman} at batch size {batch}" for batch, rank in found.items()]
        alike = [rank.spearman.settled and rank.spearman.value > 0 for rank in found.values()]
        return Ruling(
            all(alike) if wanted else not any(alike),
            f"On the {available.title(machine)} the rank correlation of FLOP with latency is {listing(parts)}.",
        )

    return whole([partial(part, "cpu", True), partial(part, "gpu", False)])


@claim_anywhere("daugherty-2")
def parameters_at_large_batches(paper: Paper, machine: Machine) -> Ruling:
    """Rule on a better order at 256 than at 1: told apart only where the intervals do not overlap."""
    found, where = ranks(machine, PARAMETERS), f"On the {available.title(machine)}"
    if not {1, 256} <= set(found):
        what = f"{where} batch sizes 1 and 256 were not both measured"
        raise missing_on(machine, what, flags="--batch-sizes 1 256")
    one, many = found[1].spearman, found[256].spearman
    apart = one.interval and many.interval and many.interval[0] > one.interval[1]
    holds = many.value > one.value
    chance = ", which is no more than chance" if holds and not apart else ""
    return Ruling(
        None if chance else holds,
        f"{where} the rank correlation of parameters with latency is {one} at batch size 1 and {many} at 256{chance}.",
    )


@claim_anywhere("daugherty-3")
def above_the_roof(paper: Paper, machine: Machine) -> Ruling:
    """Rule by VGG19's best share of the attainable rate: above one where a rate exceeds the roof."""
    available.roof(machine)
    rows = available.cells(machine)
    rows = rows[(rows.model == "vgg19") & rows.attained.notna()]
    if rows.empty:
        what = f"VGG19 has not been measured on the {available.title(machine)}"
        raise missing_on(machine, what, flags="--models vgg19", does="measures it")
    best = highest(rows, "attained")
    return Ruling(
        bool(best.attained > 1),
        f"On the {available.title(machine)} VGG19 reaches at most {percent(best.attained)} of what its roof allows "
        f"(batch size {best.batch}).",
    )


@claim("daugherty-4")
def squeezenet(paper: Paper) -> Ruling:
    """Rule on SqueezeNets being memory-bound on the GPU and compute-bound on the CPU."""
    return ruled_by_side(
        paper, lambda model: model.startswith("squeezenet"), gpu="memory-bound", cpu="compute-bound"
    )
