"""The claims of daugherty."""

from functools import partial

from report.analysis import available, predictors
from report.analysis.available import DataMissingError
from report.analysis.predictors import FLOP, PARAMETERS, Predictor, Rank
from report.load.paper import Machine, Paper
from report.published.claims.ruling import Claim, Part, Ruling, anywhere, at_batches, whole
from report.published.claims.sides import by_batch, limits, models, sides, told
from report.text.frame_rows import highest
from report.text.quantities import listing, percent


def ranks(of: Machine, predictor: Predictor) -> dict[int, Rank]:
    """How well a predictor orders a machine's models by latency, by batch size; at least one."""
    found = {
        batch: rank
        for batch, own in predictors.rankings(of).items()
        for rank in own
        if batch is not None and rank.predictor == predictor
    }
    if not found:
        raise DataMissingError(
            f"On the {available.title(of)} too few models were measured for a correlation; python -m measure --device "
            f"{of.environment.device} --sections workload inference measures more."
        )
    return found


def flop_and_latency(paper: Paper) -> Ruling:
    """Correlated on the CPU, not on the GPU, at any batch size."""

    def part(kind: str, wanted: bool) -> Part:
        machine = available.machine(paper, kind)
        found = ranks(machine, FLOP)
        parts = [f"{rank.spearman} at batch size {batch}" for batch, rank in found.items()]
        alike = [rank.spearman.settled and rank.spearman.value > 0 for rank in found.values()]
        return Part(
            all(alike) if wanted else not any(alike),
            f"On the {available.title(machine)} the rank correlation of FLOP with latency is {listing(parts)}.",
        )

    return whole([partial(part, "cpu", True), partial(part, "gpu", False)])


def parameters_at_large_batches(paper: Paper) -> Ruling:
    """Better at 256 than at 1: told apart only where the intervals do not overlap."""

    def part(of: Machine) -> Part:
        found = ranks(of, PARAMETERS)
        if not {1, 256} <= set(found):
            raise DataMissingError(
                f"On the {available.title(of)} batch sizes 1 and 256 were not both measured; python -m measure "
                f"--device {of.environment.device} --batch-sizes 1 256 measures them."
            )
        one, many = found[1].spearman, found[256].spearman
        holds: bool | None = many.value > one.value
        apart = one.interval and many.interval and many.interval[0] > one.interval[1]
        if holds and not apart:
            holds = None
        told = ", which is no more than chance" if holds is None else ""
        return Part(
            holds,
            f"On the {available.title(of)} the rank correlation of parameters with latency is {one} at batch size 1 "
            f"and {many} at 256{told}.",
        )

    return anywhere(paper, part)


def above_the_roof(paper: Paper) -> Ruling:
    """VGG19's best share of the attainable rate: above one where a rate exceeds the roof."""

    def part(of: Machine) -> Part:
        available.roof(of)
        rows = available.cells(of)
        rows = rows[(rows.model == "vgg19") & rows.attained.notna()]
        if rows.empty:
            raise DataMissingError(
                f"VGG19 has not been measured on the {available.title(of)}; python -m measure --device "
                f"{of.environment.device} --models vgg19 measures it."
            )
        best = highest(rows, "attained")
        return Part(
            bool(best.attained > 1),
            f"On the {available.title(of)} VGG19 reaches at most {percent(best.attained)} of what its roof allows "
            f"(batch size {best.batch}).",
        )

    return anywhere(paper, part)


def squeezenet(paper: Paper) -> Ruling:
    rows = models(paper, lambda model: model.startswith("squeezenet"))
    found = [
        sides(limit, bound, rows)
        for kind, bound in (("gpu", "memory-bound"), ("cpu", "compute-bound"))
        for limit in limits(paper, kind)
    ]
    return at_batches(by_batch([side for own in found for side in own]), " ".join(told(own) for own in found))


CLAIMS: dict[str, Claim] = {
    "daugherty-1": flop_and_latency,
    "daugherty-2": parameters_at_large_batches,
    "daugherty-3": above_the_roof,
    "daugherty-4": squeezenet,
}
