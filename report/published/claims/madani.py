"""The claims of madani2026."""

from functools import partial

import pandas as pd

from report.analysis import available, correlations, layer_costs
from report.load.paper import BASE_PRECISION, Paper
from report.published.claims import passes
from report.published.claims.ruling import (
    CONFIRMED,
    REFUTED,
    Claim,
    Part,
    Ruling,
    anywhere,
    at_batches,
    whole,
)
from report.published.claims.sides import BATCHES, by_batch, each_batch, limits, models, sides, told
from report.text.frame_rows import each, highest, lowest
from report.text.quantities import SPACE, intensity, listing, number, percent, si

COMPARED = (
    "alexnet", "vgg16", "resnet18", "resnet50", "mobilenet_v2", "densenet121", "convnext_tiny", "fcn_resnet50",
)  # fmt: skip
"""The models that the study names in its claims about vision models."""

SPEECH = "wav2vec2_base"
CPU_WITH_GPU, WITH_PARAMETERS = 0.89, 0.36
"""The rank correlations in claim 5."""

CONVOLUTION_SHARE = (0.6, 0.7)


def _is_studied(model: str) -> bool:
    return model in (*COMPARED, SPEECH)


def _is_compared(model: str) -> bool:
    return model in COMPARED


def bounds(paper: Paper) -> Ruling:
    """Compute-bound on the CPU, memory-bound on the GPU: of its ten models those that it names."""
    rows = models(paper, _is_studied)
    found = [
        sides(limit, bound, rows)
        for kind, bound in (("cpu", "compute-bound"), ("gpu", "memory-bound"))
        for limit in limits(paper, kind)
    ]
    holds = by_batch([side for own in found for side in own])
    return at_batches(holds, " ".join(told(own) for own in found))


def _extreme(paper: Paper, model: str, column: str, unit: str, largest: bool) -> Ruling:
    """Whether a model has the largest, or least, of a quantity at the studies' batch sizes."""
    holds, parts = {}, []
    for batch, own in each_batch(models(paper, _is_compared)):
        first = highest(own, column) if largest else lowest(own, column)
        holds[batch] = first.model == model
        value = intensity(first[column]) if unit == "FLOP/B" else si(first[column], unit)
        parts.append(f"{first.model} ({value}) at batch size {batch}")
    side = "highest" if largest else "lowest"
    return at_batches(holds, f"The {side} is that of {listing(parts)}.")


def most_flop(paper: Paper) -> Ruling:
    return _extreme(paper, "resnet50", "forward_flop", "FLOP", largest=True)


def largest_footprint(paper: Paper) -> Ruling:
    return _extreme(paper, "vgg16", "footprint_byte", "B", largest=True)


def least_intensity(paper: Paper) -> Ruling:
    return _extreme(paper, "mobilenet_v2", "footprint_intensity", "FLOP/B", largest=False)


def rank_correlations(paper: Paper) -> Ruling:
    """CPU with GPU latency, and latency with parameters, at batch size 1, over the models that it names."""

    def cells(kind: str) -> pd.DataFrame:
        rows = available.cells(available.machine(paper, kind))
        return rows[rows.model.map(_is_studied) & (rows.batch == 1)]

    def ruled(what: str, x: pd.Series, y: pd.Series, names: pd.Series, printed: float) -> Part:
        found = correlations.correlation(x, y, names)
        if found is None or found.interval is None:
            return Part(None, f"For the rank correlation of {what} too few of its models were measured.")
        low, high = found.interval
        return Part(
            low <= printed <= high,
            f"The rank correlation of {what} is {found} over {number(found.models, 'model')} at batch size 1.",
        )

    def parameters(kind: str) -> Part:
        rows, name = cells(kind), "CPU" if kind == "cpu" else "GPU"
        what = f"{name} latency with parameters"
        return ruled(what, rows.parameter_count, rows.latency_s, rows.model, WITH_PARAMETERS)

    def devices() -> Part:
        both = cells("cpu").merge(cells("gpu"), on="model", suffixes=("_cpu", "_gpu"))
        return ruled("CPU with GPU latency", both.latency_s_cpu, both.latency_s_gpu, both.model, CPU_WITH_GPU)

    return whole([partial(parameters, "cpu"), devices])


def _trend(paper: Paper, kind: str, names: tuple[str, ...], rises: bool) -> Part:
    """Whether throughput rises, or falls, from the smallest to the largest batch size, in each model measured."""
    machine = available.machine(paper, kind)
    rows = available.cells(machine)
    rows = rows[rows.model.isin(names)].sort_values("batch")
    ends = rows.groupby("model").agg(
        first=("throughput_per_s", "first"), last=("throughput_per_s", "last"), sizes=("batch", "nunique")
    )
    ends = ends[ends.sizes > 1]
    where = available.title(machine)
    if ends.empty:
        raise available.DataMissingError(
            f"On the {where} none of these models was measured at two batch sizes; python -m measure --device "
            f"{machine.environment.device} --batch-sizes {' '.join(map(str, BATCHES))} measures them."
        )
    ratio = ends["last"] / ends["first"]
    held = int((ratio > 1).sum() if rises else (ratio < 1).sum())
    word = "rises" if rises else "falls"
    return Part(
        held == len(ends),
        f"On the {where} throughput {word} from the smallest to the largest batch size in {held or 'none'} of "
        f"{number(len(ends), 'model')} (last over first {ratio.min():.2f}{SPACE}to{SPACE}{ratio.max():.2f}).",
    )


def opposite_trends(paper: Paper) -> Ruling:
    named = tuple(model for model in COMPARED if model != "alexnet")
    return whole([partial(_trend, paper, "cpu", named, False), partial(_trend, paper, "gpu", named, True)])


def speech_rises(paper: Paper) -> Ruling:
    return whole([partial(_trend, paper, kind, (SPEECH,), True) for kind in ("cpu", "gpu")])


def backward_twice(paper: Paper) -> Ruling:
    return anywhere(paper, passes.twice)


def convolution_time(paper: Paper) -> Ruling:
    """The share of convolution in the time of AlexNet's passes, under the profiler."""
    machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
    rows = kinds.assign(share=layer_costs.shares(kinds, "time_s"))
    rows = rows[(rows.model == "alexnet") & (rows.kind == "convolution")]
    if rows.empty:
        raise available.DataMissingError(
            f"AlexNet's layers were not timed on the {available.title(machine)}; python -m measure --models alexnet "
            "--sections workload training operators times them."
        )
    low, high = CONVOLUTION_SHARE
    parts = [f"{percent(row.share)} of the {row.stage} pass" for row in each(rows)]
    mark = CONFIRMED if rows.share.between(low, high).all() else REFUTED
    return Ruling(mark, f"On the {available.title(machine)} it takes {listing(parts)}.")


def linear_memory(paper: Paper) -> Ruling:
    """What AlexNet's layers keep for the backward pass, and their gradients, by kind."""
    rows = paper.layers
    rows = rows[(rows.model == "alexnet") & (rows.precision == BASE_PRECISION) & rows.batch.isin(BATCHES)]
    rows = rows.assign(byte=rows.saved_byte.astype(float) + rows.parameter_byte.astype(float))
    if rows.empty or rows.byte.isna().all():
        models(paper, _is_compared)
        raise available.DataMissingError(
            "AlexNet's backward pass has not been counted; python -m measure --sections workload --models alexnet does."
        )
    holds, parts = {}, []
    for batch, own in each_batch(rows):
        sums = own.groupby("kind").byte.sum().sort_values(ascending=False)
        holds[batch] = sums.index[0] == "linear"
        parts.append(
            f"{sums.index[0]} ({si(sums.iloc[0], 'B')} of {si(sums.sum(), 'B')}) at batch size {batch}"
        )
    return at_batches(holds, f"Saved activations and gradients are most in {listing(parts)}.")


CLAIMS: dict[str, Claim] = {
    "madani2026-1": bounds,
    "madani2026-2": most_flop,
    "madani2026-3": largest_footprint,
    "madani2026-4": least_intensity,
    "madani2026-5": rank_correlations,
    "madani2026-6": opposite_trends,
    "madani2026-7": speech_rises,
    "madani2026-8": backward_twice,
    "madani2026-9": convolution_time,
    "madani2026-10": linear_memory,
}
