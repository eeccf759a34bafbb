"""The claims of a1rooflines."""

from functools import partial

from report.analysis import available, saturation
from report.analysis.bounds import Limit
from report.analysis.predictors import COUNTED
from report.load.paper import Machine, Paper
from report.published.claims import passes
from report.published.claims.daugherty import ranks
from report.published.claims.ruling import Claim, Part, Ruling, anywhere, at_batches, whole
from report.published.claims.sides import by_batch, limits, models, sides, told
from report.text.frame_rows import highest
from report.text.quantities import number, percent, significant

LEAN = ("mobilenet", "shufflenet", "efficientnet", "regnet", "mnasnet")
"""How the names of the models begin that the study calls memory-bound."""

PRINTED = ("alexnet", "vgg16", "squeezenet1_0", "resnet18")
"""The models that it prints passes of."""

NEAR_64 = (32, 128)
SMALL_GAP = 2.0
"""Up to this factor the gap between CPU and GPU is called small."""

LOW = 0.5
"""Up to this a rank correlation is called low."""

NEARLY_EQUAL = 0.1
"""Up to this difference two coefficients are called nearly equal."""


def lean_models(paper: Paper) -> Ruling:
    rows = models(paper, lambda model: model.startswith(LEAN))
    found = [sides(limit, "memory-bound", rows) for limit in limits(paper, "gpu")]
    return at_batches(by_batch([side for own in found for side in own]), " ".join(told(own) for own in found))


def alexnet(paper: Paper) -> Ruling:
    """Memory-bound at the smallest batch size, compute-bound at the largest that the studies ran."""
    rows = models(paper, lambda model: model == "alexnet")

    def part(limit: Limit) -> Part:
        found = sides(limit, "compute-bound", rows)
        return Part(not found[0].held and bool(found[-1].held), told(found))

    return whole([partial(part, limit) for limit in limits(paper, "gpu")])


def saturates(paper: Paper) -> Ruling:
    """The batch size with 95 % of the best throughput, in the median of the models."""

    def part() -> Part:
        machine = available.machine(paper, "gpu")
        rows = saturation.of(machine)
        low, high = NEAR_64
        median = float(rows.batch.median())
        within = int(rows.batch.between(low, high).sum())
        return Part(
            low <= median <= high,
            f"On the {available.title(machine)} the batch size with {percent(saturation.SHARE)} of the best throughput "
            f"is {median:.0f} in the median, and from {low} to {high} in {within or 'none'} of "
            f"{number(len(rows), 'model')}.",
        )

    return whole([part])


def nearest_to_peak(paper: Paper) -> Ruling:
    def part(of: Machine) -> Part:
        available.roof(of)
        cells = available.cells(of)
        cells = cells[[model in PRINTED or model.startswith(LEAN) for model in cells.model]]
        if "vgg16" not in set(cells.model):
            raise available.DataMissingError(
                f"VGG16 has not been measured on the {available.title(of)}; python -m measure --device "
                f"{of.environment.device} --models vgg16 measures it."
            )
        best = highest(cells, "peak_share")
        return Part(
            best.model == "vgg16",
            f"Of the models that the study names, on the {available.title(of)} it is {best.model}, with "
            f"{percent(best.peak_share)} of peak at batch size {best.batch}.",
        )

    return anywhere(paper, part)


def small_gap(paper: Paper) -> Ruling:
    def part() -> Part:
        cpu, gpu = (available.cells(available.machine(paper, kind)) for kind in ("cpu", "gpu"))
        both = cpu[cpu.batch == 1].merge(gpu[gpu.batch == 1], on="model", suffixes=("_cpu", "_gpu"))
        if both.empty:
            raise available.DataMissingError(
                "No model was measured at batch size 1 on both devices; python -m measure --batch-sizes 1 does."
            )
        factor = float((both.latency_s_cpu / both.latency_s_gpu).median())
        return Part(
            factor <= SMALL_GAP,
            f"At batch size 1 the CPU takes {significant(factor)} times as long as the GPU in the median of "
            f"{number(len(both), 'model')}.",
        )

    return whole([part])


def correlations_at_batch_1(paper: Paper) -> Ruling:
    """Low with every counted quantity at batch size 1; at 64 and 256 nearly equal."""

    def part() -> Part:
        machine = available.machine(paper, "gpu")
        found = {predictor.name: ranks(machine, predictor) for predictor in COUNTED}
        if not all({1, 64, 256} <= set(own) for own in found.values()):
            raise available.DataMissingError(
                f"On the {available.title(machine)} batch sizes 1, 64 and 256 were not all measured; python -m measure "
                f"--device {machine.environment.device} --batch-sizes 1 64 256 measures them."
            )
        most = max(abs(own[1].spearman.value) for own in found.values())
        apart = max(abs(own[64].spearman.value - own[256].spearman.value) for own in found.values())
        return Part(
            most <= LOW and apart <= NEARLY_EQUAL,
            f"On the {available.title(machine)} the rank correlation of latency with a counted quantity is at most "
            f"{most:.2f} at batch size 1, and changes by at most {apart:.2f} from 64 to 256.",
        )

    return whole([part])


def backward_twice(paper: Paper) -> Ruling:
    return anywhere(paper, passes.twice)


CLAIMS: dict[str, Claim] = {
    "a1rooflines-1": lean_models,
    "a1rooflines-2": alexnet,
    "a1rooflines-3": saturates,
    "a1rooflines-4": nearest_to_peak,
    "a1rooflines-5": small_gap,
    "a1rooflines-6": correlations_at_batch_1,
    "a1rooflines-7": backward_twice,
}
