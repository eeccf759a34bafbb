"""The claims of courseworks: daugherty, a1rooflines and hw1part2; with that of madani2026 about the backward pass."""

from functools import partial

import pandas as pd

from report.analysis import available, correlations, layer_costs, predictors, saturation
from report.analysis.available import missing, missing_on
from report.analysis.bounds import NamedRoof
from report.analysis.layer_costs import OUTSIDE, at_shown_batch
from report.analysis.predictors import COUNTED, FLOP, PARAMETERS, Predictor, Rank
from report.load.paper import Machine, Paper
from report.load.workloads import PRODUCTS
from report.published.claims.ruling import Ruling, claim, claim_anywhere, whole
from report.published.claims.sides import models, named_roofs, ruled_by_side, sentence, sides
from report.published.verdict import MEASURED_TOLERANCE
from report.text.frame_rows import each, highest
from report.text.quantities import intensity, listing, number, percent, significant

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

TWICE = 2 * (1 - MEASURED_TOLERANCE), 2 * (1 + MEASURED_TOLERANCE)

LOW_FLOP = ("mobilenet_v2", "efficientnet_b0")
DOMINANT = ("convolution", "depthwise convolution", "linear")


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
    return ruled_by_side(paper, lambda model: model.startswith("squeezenet"), gpu="memory-bound", cpu="compute-bound")


@claim("a1rooflines-1")
def lean_models(paper: Paper) -> Ruling:
    """Rule on the lean models being memory-bound on the GPU."""
    return ruled_by_side(paper, lambda model: model.startswith(LEAN), gpu="memory-bound")


@claim("a1rooflines-2")
def alexnet(paper: Paper) -> Ruling:
    """Rule on AlexNet being memory-bound at the smallest batch size, compute-bound at the largest of the studies."""
    rows = models(paper, lambda model: model == "alexnet")

    def part(named_roof: NamedRoof) -> Ruling:
        held = sides(named_roof, "compute-bound", rows)
        compute_bound = [bool(side.any()) for side in held.values()]
        return Ruling(not compute_bound[0] and compute_bound[-1], sentence(named_roof, "compute-bound", held))

    return whole([partial(part, named_roof) for named_roof in named_roofs(paper, "gpu")])


@claim("a1rooflines-3")
def saturates(paper: Paper) -> Ruling:
    """Rule by the batch size with 95 % of the best throughput, in the median of the models."""
    machine = available.machine(paper, "gpu")
    rows = saturation.of_machine(machine)
    low, high = NEAR_64
    median = float(rows.batch.median())
    within = int(rows.batch.between(low, high).sum())
    return Ruling(
        low <= median <= high,
        f"On the {available.title(machine)} the batch size with {percent(saturation.SHARE)} of the best throughput is "
        f"{median:.0f} in the median, and from {low} to {high} in {within or 'none'} of {number(len(rows), 'model')}.",
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
        raise missing("No model was measured at batch size 1 on both devices", flags="--batch-sizes 1", does="does")
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


@claim_anywhere("madani2026-8", *TWICE)
@claim_anywhere("a1rooflines-7", *TWICE)
@claim_anywhere("hw1part2-1", 2, 3)
def times_as_long(paper: Paper, machine: Machine, low: float, high: float) -> Ruling:
    """Rule on how many times as long the backward pass takes as the forward pass, in the median of the models."""
    rows = at_shown_batch(available.steps(machine))
    within = int(rows.time_ratio.between(low, high).sum())
    median = float(rows.time_ratio.median())
    return Ruling(
        low <= median <= high,
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]} the ratio is {significant(median)} in "
        f"the median, and between {significant(low, 2)} and {significant(high, 2)} in {within or 'none'} of "
        f"{number(len(rows), 'model')}.",
    )


@claim_anywhere("hw1part2-3")
def deeper(paper: Paper, machine: Machine) -> Ruling:
    """Rule on whether models of more layers with products have the larger ratio, by rank correlation."""
    rows = at_shown_batch(available.steps(machine))
    layers = available.layers(paper)
    depths = layers[layers.layer_kind.isin(PRODUCTS)].groupby("model").size()
    found = correlations.correlation(rows.model.map(depths).astype(float), rows.time_ratio, rows.model)
    if found is None:
        what = f"On the {available.title(machine)} too few models were trained for a correlation"
        raise missing_on(machine, what, "workload", "training", does="trains more")
    chance = "" if found.settled else ", which cannot be told from none"
    return Ruling(
        found.value > 0 if found.settled else None,
        f"On the {available.title(machine)} the ratio and the number of layers with products have a rank correlation "
        f"of {found} over {number(found.models, 'model')}{chance}.",
    )


@claim("hw1part2-2")
def low_flop_high_intensity(paper: Paper) -> Ruling:
    """Hold the two models against the median at batch size 1, by footprint, and intensity against FLOP, by rank."""

    def named() -> Ruling:
        rows = available.workloads(paper, batch=1)
        lean = rows[rows.model.isin(LOW_FLOP)]
        if lean.empty:
            what, flags = f"{listing(LOW_FLOP)} have not been counted", f"--models {' '.join(LOW_FLOP)}"
            raise missing(what, sections=["workload"], flags=flags, does="counts them")
        median = float(rows.footprint_intensity.median())
        parts = [f"{row.model} has {intensity(row.footprint_intensity)}" for row in each(lean)]
        return Ruling(
            bool((lean.footprint_intensity > median).all()),
            f"By footprint at batch size 1 {listing(parts)}, where the median of {number(len(rows), 'model')} is "
            f"{intensity(median)}.",
        )

    def ordered() -> Ruling:
        rows = available.workloads(paper, batch=1)
        found = correlations.correlation(rows.forward_flop, rows.footprint_intensity, rows.model)
        if found is None:
            return Ruling(None, "Too few models were counted for a correlation.")
        text = f"FLOP and intensity have a rank correlation of {found}."
        return Ruling(found.value < 0 if found.settled else None, text)

    return whole([named, ordered])


@claim("hw1part2-4")
def dominant(paper: Paper) -> Ruling:
    """Rule on more than half of the FLOP, with everything but products, and of the time, in every model."""

    def flop() -> Ruling:
        layers = available.layers(paper)
        layers = layers.assign(all_flop=layers.forward_flop + layers.forward_other_flop.fillna(0))
        return _share(layers, "all_flop", "FLOP of the forward pass")

    def time() -> Ruling:
        machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
        rows = kinds[(kinds.stage == "forward") & (kinds.layer_kind != OUTSIDE)]
        return _share(rows, "time_s", f"time of the layers in the forward pass on the {available.title(machine)}")

    return whole([flop, time])


def _share(rows: pd.DataFrame, column: str, what: str) -> Ruling:
    rows = rows.assign(part=rows[column].astype(float).where(rows.layer_kind.isin(DOMINANT), 0.0))
    sums = rows.groupby("model")[["part", column]].sum()
    share = sums.part / sums[column].astype(float)
    return Ruling(
        bool((share > 0.5).all()),
        f"They have {percent(share.median())} of the {what} in the median of {number(len(share), 'model')}, at least "
        f"{percent(share.min())} ({share.idxmin()}).",
    )
