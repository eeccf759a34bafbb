"""The claims of courseworks: daugherty, a1rooflines and hw1part2; with that of madani2026 about the backward pass."""

from collections.abc import Callable

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import EAGER, PRODUCT_KINDS
from report.analysis import available, correlations, layer_costs, predictors, saturation
from report.analysis.available import missing, missing_on
from report.analysis.correlations import Correlation
from report.analysis.effect import median_of
from report.analysis.layer_costs import OUTSIDE, at_shown_batch
from report.analysis.predictors import COUNTED, FLOP, PARAMETERS, LatencyPredictor, Rank
from report.load.paper import Machine, Paper
from report.load.printed import LATENCY
from report.published import training
from report.published.agreement import Measured, counted, latency, near, of_effect, together
from report.published.claims.ruling import Ruling, at_batches, claim, claim_anywhere
from report.published.claims.sides import BATCHES, ruled_by_side
from report.text.frame_rows import each, highest, matching
from report.text.prose import by_number, intensity, listing, number, percent

LEAN = ("mobilenet", "shufflenet", "efficientnet", "regnet", "mnasnet")
"""How the names of the models begin that the study calls memory-bound."""

PRINTED = ("alexnet", "vgg16", "squeezenet1_0", "resnet18")
"""The models that it prints passes of."""

NEAR_64 = (32, 128)

SMALL_GAP = 2.0
"""Up to this factor the gap between CPU and GPU is called small."""

LOW = 0.5
"""Up to this a rank correlation is called low."""

TWICE = (1.5, 2.5)
"""The word has the rounding of a whole number."""

HALF = 0.5
"""What has more than this share dominates."""

LOW_FLOP = ("mobilenet_v2", "efficientnet_b0")
DOMINANT = ("convolution", "depthwise convolution", "linear")


def ranks(machine: Machine, predictor: LatencyPredictor) -> dict[int, Rank]:
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


def _correlated(found: Correlation) -> bool | None:
    """Return whether a correlation is positive; None where it cannot be told from none."""
    return Measured(found.value, found.interval).above(0)


def _low(found: Correlation) -> bool | None:
    """Return whether a correlation is low; None where it may be, or not."""
    low, high = found.interval or (-1.0, 1.0)
    if low >= -LOW and high <= LOW:
        return True
    return False if low > LOW or high < -LOW else None


def uncorrelated(found: Correlation) -> bool | None:
    """Return whether a correlation is none, or low; None where it may be either."""
    return False if found.settled and not _low(found) else _low(found)


@claim("daugherty-1a", "cpu", _correlated)
@claim("daugherty-1b", "gpu", uncorrelated)
def flop_and_latency(paper: Paper, kind: str, rule: Callable[[Correlation], bool | None]) -> Ruling:
    """Rule on their correlation at every batch size."""
    machine = available.machine(paper, kind)
    found = {batch: rank.spearman for batch, rank in ranks(machine, FLOP).items()}
    parts = [f"{coefficient} at batch size {batch}" for batch, coefficient in found.items()]
    return at_batches(
        {batch: rule(coefficient) for batch, coefficient in found.items()},
        f"On the {available.title(machine)} the rank correlation of FLOP with latency is {listing(parts)}.",
    )


@claim_anywhere("daugherty-2")
def parameters_at_large_batches(paper: Paper, machine: Machine) -> Ruling:
    """Rule on a better order at 256 than at 1: undecided where the intervals overlap."""
    found, where = ranks(machine, PARAMETERS), f"On the {available.title(machine)}"
    if not {1, 256} <= set(found):
        what = f"{where} batch sizes 1 and 256 were not both measured"
        raise missing_on(machine, what, flags="--batch-sizes 1 256")
    one, many = found[1].spearman, found[256].spearman
    apart = _apart(one, many)
    chance = "" if apart else ", which is no more than chance"
    return Ruling(
        many.value > one.value if apart else None,
        f"{where} the rank correlation of parameters with latency is {one} at batch size 1 and {many} at 256{chance}.",
    )


def _apart(one: Correlation, other: Correlation) -> bool:
    """Return whether the intervals of two correlations do not overlap; without one they may."""
    if one.interval is None or other.interval is None:
        return False
    return one.interval[1] < other.interval[0] or other.interval[1] < one.interval[0]


@claim("daugherty-3")
def above_the_roof(paper: Paper) -> Ruling:
    """Leave it: the study means its own plot."""
    text = "The study says so of the limits of its plot and calls it an error; no measurement of ours means the same."
    return Ruling(None, text, comparable=False)


@claim("daugherty-4a", "gpu", "memory-bound")
@claim("daugherty-4b", "cpu", "compute-bound")
def squeezenet(paper: Paper, kind: str, bound: str) -> Ruling:
    """Rule on the side of the ridge point on which the SqueezeNets are."""
    return ruled_by_side(paper, lambda model: model.startswith("squeezenet"), kind, bound)


@claim("a1rooflines-1")
def lean_models(paper: Paper) -> Ruling:
    """Rule on the lean models being memory-bound on the GPU."""
    return ruled_by_side(paper, lambda model: model.startswith(LEAN), "gpu", "memory-bound")


@claim("a1rooflines-2a", "memory-bound", min(BATCHES))
@claim("a1rooflines-2b", "compute-bound", max(BATCHES))
def alexnet(paper: Paper, bound: str, batch: int) -> Ruling:
    """Rule on AlexNet's side at the smallest, or largest, batch size of the studies."""
    return ruled_by_side(paper, lambda model: model == "alexnet", "gpu", bound, [batch])


@claim("a1rooflines-3")
def saturates(paper: Paper) -> Ruling:
    """Rule by the batch size with 95 % of the best throughput, in the median of the models."""
    machine = available.machine(paper, "gpu")
    rows = matching(saturation.of_machine(machine), variant=EAGER)
    return saturated(f"On the {available.title(machine)}", rows)


def saturated(where: str, rows: pd.DataFrame) -> Ruling:
    """Rule on saturations, a row a model."""
    low, high = NEAR_64
    median = median_of(rows.batch)
    within = int(rows.batch.between(low, high).sum())
    return Ruling(
        of_effect(median).meets(low, high),
        f"{where} the batch size with {percent(saturation.SHARE)} of the best throughput is "
        f"{median} in the median, and from {low} to {high} in {within or 'none'} of {number(len(rows), 'model')}.",
    )


@claim_anywhere("a1rooflines-4")
def nearest_to_peak(paper: Paper, machine: Machine) -> Ruling:
    """Rule on VGG16 being nearest to the peak of the models that the study names, each at its best batch size."""
    available.roof(machine)
    cells = available.cells(machine)
    cells = cells[[model in PRINTED or model.startswith(LEAN) for model in cells.model]]
    best = {str(model): highest(rows, "peak_share") for model, rows in cells.groupby("model")}
    shares = {model: counted(row.peak_share * row.latency_s).over(latency(row)) for model, row in best.items()}
    others = [share for model, share in shares.items() if model != "vgg16"]
    if not others or len(others) == len(shares):
        what = f"VGG16 and another of the study's models have not been measured on the {available.title(machine)}"
        raise missing_on(machine, what, flags=f"--models {' '.join(PRINTED)}")
    first = max((model for model in shares if model != "vgg16"), key=lambda model: shares[model].value)
    return Ruling(
        together([shares["vgg16"].over(share).above(1) for share in others]),
        f"On the {available.title(machine)} VGG16 reaches {shares['vgg16'].share} of peak at batch size "
        f"{best['vgg16'].batch}; of the other models that the study names {first} comes nearest, with "
        f"{shares[first].share} at batch size {best[first].batch}.",
    )


@claim("a1rooflines-5")
def small_gap(paper: Paper) -> Ruling:
    """Rule on a small gap between CPU and GPU at batch size 1."""
    return cpu_over_gpu(*(available.cells(available.machine(paper, kind)) for kind in ("cpu", "gpu")))


def cpu_over_gpu(cpu: pd.DataFrame, gpu: pd.DataFrame) -> Ruling:
    """Rule on the latencies of the models on both."""
    both = cpu[cpu.batch == 1].merge(gpu[gpu.batch == 1], on="model", suffixes=("_cpu", "_gpu"))
    if both.empty:
        raise missing("No model was measured at batch size 1 on both devices", flags="--batch-sizes 1", does="does")
    factor = median_of(both.latency_s_cpu / both.latency_s_gpu)
    above = of_effect(factor).above(SMALL_GAP)
    return Ruling(
        None if above is None else not above,
        f"At batch size 1 the CPU takes {factor} times as long as the GPU in the median of "
        f"{number(len(both), 'model')}.",
    )


Correlations = list[dict[int, Correlation]]
"""Of latency with each quantity of ``COUNTED``, by batch size."""


def _correlations(paper: Paper) -> tuple[str, Correlations]:
    """Return the GPU, and the rank correlations of latency there with each counted quantity by batch size."""
    machine = available.machine(paper, "gpu")
    found = [ranks(machine, predictor) for predictor in COUNTED]
    where = f"On the {available.title(machine)}"
    if not all(set(BATCHES) <= set(by_batch) for by_batch in found):
        what = f"{where} batch sizes {listing([str(batch) for batch in BATCHES])} were not all measured"
        raise missing_on(machine, what, flags=f"--batch-sizes {' '.join(map(str, BATCHES))}")
    return where, [{batch: rank.spearman for batch, rank in by_batch.items()} for by_batch in found]


@claim("a1rooflines-6a")
def low_at_batch_1(paper: Paper) -> Ruling:
    """Rule on low correlations with every counted quantity at batch size 1."""
    return low(*_correlations(paper))


def low(where: str, found: Correlations) -> Ruling:
    """Rule on all of them at batch size 1."""
    most = max((by_batch[1] for by_batch in found), key=lambda coefficient: abs(coefficient.value))
    return Ruling(
        together([_low(by_batch[1]) for by_batch in found]),
        f"{where} the rank correlation of latency with a counted quantity is at most {most} at batch size 1.",
    )


@claim("a1rooflines-6b")
def equal_at_large_batches(paper: Paper) -> Ruling:
    """Rule on correlations at the two larger batch sizes of the studies: equal within the tolerance, or apart."""
    return equal(*_correlations(paper))


def equal(where: str, found: Correlations) -> Ruling:
    """Rule on each of them at these batch sizes."""
    *_, fewer, more = BATCHES
    pairs = [(by_batch[fewer], by_batch[more]) for by_batch in found]
    parts = [f"{predictor.name} {one} and {other}" for predictor, (one, other) in zip(COUNTED, pairs, strict=True)]
    alike = [True if near(one.value, 0, other.value) else False if _apart(one, other) else None for one, other in pairs]
    return Ruling(
        together(alike),
        f"{where} the rank correlations of latency at batch sizes {fewer} and {more} are with {listing(parts)}.",
    )


@claim_anywhere("madani2026-8", "madani2026")
@claim_anywhere("a1rooflines-7", "a1rooflines")
def twice(paper: Paper, machine: Machine, study: str) -> Ruling:
    """Rule on how many times as long the backward pass takes, in each model whose times the study prints.

    The claim names no batch size: that of the study counts where it was measured, else the largest that was.
    """
    rows = matching(paper.published.training, study=study, quantity=LATENCY)
    found = {row.model: training.trained(machine, row.model, row.batch) for row in each(rows)}
    steps = {model: step for model, step in found.items() if step is not None}
    where, absent = f"On the {available.title(machine)}", [model for model in found if model not in steps]
    if not steps:
        what = f"{where} no step of the study's models ({listing(absent)}) was measured"
        raise missing_on(machine, what, "workload", "training", flags=f"--models {' '.join(absent)}")
    ratios = {model: training.time_ratio(step) for model, step in steps.items()}
    parts = [f"{ratio} of {model} (batch size {steps[model].batch:.0f})" for model, ratio in ratios.items()]
    gap = f"; {listing(absent)} {by_number(len(absent), 'was', 'were')} not measured" if absent else ""
    return Ruling(
        together([ratio.meets(*TWICE) for ratio in ratios.values()] + [None] * len(absent)),
        f"{where} the ratio is {listing(parts)}{gap}.",
    )


@claim_anywhere("hw1part2-1", 2, 3)
def times_as_long(paper: Paper, machine: Machine, low: float, high: float) -> Ruling:
    """Rule on how many times as long the backward pass takes, in the median of the models: the claim names none."""
    rows = at_shown_batch(available.steps(machine))
    within = int(rows.time_ratio.between(low, high).sum())
    median = median_of(rows.time_ratio)
    return Ruling(
        of_effect(median).meets(low, high),
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]} the ratio is {median} in the median, "
        f"and between {significant(low, 2)} and {significant(high, 2)} in {within or 'none'} of "
        f"{number(len(rows), 'model')}.",
    )


@claim_anywhere("hw1part2-3")
def deeper(paper: Paper, machine: Machine) -> Ruling:
    """Rule on whether models of more layers with products have the larger ratio, by rank correlation."""
    rows = at_shown_batch(available.steps(machine))
    layers = available.layers(paper)
    depths = layers[layers.layer_kind.isin(PRODUCT_KINDS)].groupby("model").size()
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
    """Hold the two models that the claim names against the median at batch size 1, by footprint."""
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


@claim("hw1part2-4a")
def dominant_in_flop(paper: Paper) -> Ruling:
    """Rule on more than half of the FLOP, with everything but products."""
    layers = available.layers(paper)
    layers = layers.assign(all_flop=layers.forward_flop + layers.forward_other_flop.fillna(0))
    return _dominant(layers, "all_flop", "FLOP of the forward pass")


@claim("hw1part2-4b")
def dominant_in_time(paper: Paper) -> Ruling:
    """Rule on more than half of the time."""
    machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
    rows = kinds[(kinds.stage == "forward") & (kinds.layer_kind != OUTSIDE)]
    return _dominant(rows, "time_s", f"time of the layers in the forward pass on the {available.title(machine)}")


def _dominant(rows: pd.DataFrame, column: str, what: str) -> Ruling:
    """Rule on the share of the layers that the claim names, in the median of the models, of which it names none."""
    rows = rows.assign(part=rows[column].astype(float).where(rows.layer_kind.isin(DOMINANT), 0.0))
    sums = rows.groupby("model")[["part", column]].sum()
    shares = sums.part / sums[column].astype(float)
    median = of_effect(median_of(shares))
    return Ruling(
        median.above(HALF),
        f"They have {median.share} of the {what} in the median of {number(len(shares), 'model')}, and more than half "
        f"in {int((shares > HALF).sum()) or 'none'}.",
    )
