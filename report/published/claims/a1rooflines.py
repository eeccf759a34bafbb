"""The claims of a1rooflines (``passes`` has that about the backward pass)."""

from functools import partial

from report.analysis import available, saturation
from report.analysis.available import missing, missing_on
from report.analysis.bounds import Limit
from report.analysis.predictors import COUNTED
from report.load.paper import Machine, Paper
from report.published.claims.daugherty import ranks
from report.published.claims.ruling import Ruling, claim, claim_anywhere, whole
from report.published.claims.sides import limits, models, ruled_by_side, sentence, sides
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


@claim("a1rooflines-1")
def lean_models(paper: Paper) -> Ruling:
    """Rule on the lean models being memory-bound on the GPU."""
    return ruled_by_side(paper, lambda model: model.startswith(LEAN), gpu="memory-bound")


@claim("a1rooflines-2")
def alexnet(paper: Paper) -> Ruling:
    """Rule on AlexNet being memory-bound at the smallest batch size, compute-bound at the largest of the studies."""
    rows = models(paper, lambda model: model == "alexnet")

    def part(limit: Limit) -> Ruling:
        held = sides(limit, "compute-bound", rows)
        compute_bound = [bool(side.any()) for side in held.values()]
        text = sentence(limit, "compute-bound", held)
        return Ruling(not compute_bound[0] and compute_bound[-1], text)

    return whole([partial(part, limit) for limit in limits(paper, "gpu")])


@claim("a1rooflines-3")
def saturates(paper: Paper) -> Ruling:
    """Rule by the batch size with 95 % of the best throughput, in the median of the models."""
    machine = available.machine(paper, "gpu")
    rows = saturation.of(machine)
    low, high = NEAR_64
    median = float(rows.batch.median())
    within = int(rows.batch.between(low, high).sum())
    return Ruling(
        low <= median <= high,
        f"On the {available.title(machine)} the batch size with {percent(saturation.SHARE)} of the best throughput "
        f"is {median:.0f} in the median, and from {low} to {high} in {within or 'none'} of "
        f"{number(len(rows), 'model')}.",
    )


@claim_anywhere("a1rooflines-4")
def nearest_to_peak(paper: Paper, machine: Machine) -> Ruling:
    """Rule on VGG16 being nearest to the peak of the models that the study names."""
    available.roof(machine)
    cells = available.cells(machine)
    cells = cells[[model in PRINTED or model.startswith(LEAN) for model in cells.model]]
    if "vgg16" not in set(cells.model):
        what = f"VGG16 has not been measured on the {available.title(machine)}"
        raise missing_on(machine, what, flags="--models vgg16", does="measures it")
    best = highest(cells, "peak_share")
    return Ruling(
        best.model == "vgg16",
        f"Of the models that the study names, on the {available.title(machine)} it is {best.model}, with "
        f"{percent(best.peak_share)} of peak at batch size {best.batch}.",
    )


@claim("a1rooflines-5")
def small_gap(paper: Paper) -> Ruling:
    """Rule on a small gap between CPU and GPU at batch size 1."""
    cpu, gpu = (available.cells(available.machine(paper, kind)) for kind in ("cpu", "gpu"))
    both = cpu[cpu.batch == 1].merge(gpu[gpu.batch == 1], on="model", suffixes=("_cpu", "_gpu"))
    if both.empty:
        what = "No model was measured at batch size 1 on both devices"
        raise missing(what, flags="--batch-sizes 1", does="does")
    factor = float((both.latency_s_cpu / both.latency_s_gpu).median())
    return Ruling(
        factor <= SMALL_GAP,
        f"At batch size 1 the CPU takes {significant(factor)} times as long as the GPU in the median of "
        f"{number(len(both), 'model')}.",
    )


@claim("a1rooflines-6")
def correlations_at_batch_1(paper: Paper) -> Ruling:
    """Rule on low correlations with every counted quantity at batch size 1, nearly equal ones at 64 and 256."""
    machine = available.machine(paper, "gpu")
    found = [ranks(machine, predictor) for predictor in COUNTED]
    if not all({1, 64, 256} <= set(by_batch) for by_batch in found):
        what = f"On the {available.title(machine)} batch sizes 1, 64 and 256 were not all measured"
        raise missing_on(machine, what, flags="--batch-sizes 1 64 256")
    most = max(abs(by_batch[1].spearman.value) for by_batch in found)
    apart = max(abs(by_batch[64].spearman.value - by_batch[256].spearman.value) for by_batch in found)
    return Ruling(
        most <= LOW and apart <= NEARLY_EQUAL,
        f"On the {available.title(machine)} the rank correlation of latency with a counted quantity is at most "
        f"{most:.2f} at batch size 1, and changes by at most {apart:.2f} from 64 to 256.",
    )
