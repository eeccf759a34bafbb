"""The claims of madani2026 (``coursework`` has that about the backward pass)."""

from functools import partial

import pandas as pd

from report.analysis import available, correlations, layer_costs
from report.analysis.available import DataMissingError, missing, missing_on
from report.load.paper import BASE_PRECISION, Paper
from report.published.claims.ruling import Ruling, at_batches, claim, whole
from report.published.claims.sides import BATCHES, each_batch, models, ruled_by_side
from report.text.frame_rows import each, highest, lowest, matching
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


@claim("madani2026-1")
def bounds(paper: Paper) -> Ruling:
    """Rule on models being compute-bound on the CPU, memory-bound on the GPU: of its ten those that it names."""
    return ruled_by_side(paper, _is_studied, cpu="compute-bound", gpu="memory-bound")


@claim("madani2026-2", "resnet50", "forward_flop", "FLOP", "highest")
@claim("madani2026-3", "vgg16", "footprint_byte", "B", "highest")
@claim("madani2026-4", "mobilenet_v2", "footprint_intensity", "FLOP/B", "lowest")
def extreme(paper: Paper, model: str, column: str, unit: str, end: str) -> Ruling:
    """Rule on a model having the highest, or lowest, of a quantity at the studies' batch sizes."""
    holds, parts = {}, []
    for batch, rows in each_batch(models(paper, _is_compared)):
        first = highest(rows, column) if end == "highest" else lowest(rows, column)
        holds[batch] = first.model == model
        value = intensity(first[column]) if unit == "FLOP/B" else si(first[column], unit)
        parts.append(f"{first.model} ({value}) at batch size {batch}")
    return at_batches(holds, f"The {end} is that of {listing(parts)}.")


@claim("madani2026-5")
def rank_correlations(paper: Paper) -> Ruling:
    """Rule on CPU with GPU latency, and latency with parameters, at batch size 1, over the models that it names."""

    def cells(kind: str) -> pd.DataFrame:
        rows = available.cells(available.machine(paper, kind))
        return rows[rows.model.map(_is_studied) & (rows.batch == 1)]

    def ruled(what: str, x: pd.Series, y: pd.Series, names: pd.Series, stated: float) -> Ruling:
        found = correlations.correlation(x, y, names)
        if found is None or found.interval is None:
            return Ruling(None, f"For the rank correlation of {what} too few of its models were measured.")
        low, high = found.interval
        over = f"over {number(found.models, 'model')} at batch size 1"
        return Ruling(low <= stated <= high, f"The rank correlation of {what} is {found} {over}.")

    def parameters() -> Ruling:
        rows = cells("cpu")
        return ruled("CPU latency with parameters", rows.parameter_count, rows.latency_s, rows.model, WITH_PARAMETERS)

    def devices() -> Ruling:
        both = cells("cpu").merge(cells("gpu"), on="model", suffixes=("_cpu", "_gpu"))
        return ruled("CPU with GPU latency", both.latency_s_cpu, both.latency_s_gpu, both.model, CPU_WITH_GPU)

    return whole([parameters, devices])


def _trend(paper: Paper, kind: str, names: tuple[str, ...], rises: bool) -> Ruling:
    """Rule on throughput rising, or falling, from the smallest to the largest batch size, in each model measured."""
    machine = available.machine(paper, kind)
    where = f"On the {available.title(machine)}"
    rows = available.cells(machine)
    by_model = rows[rows.model.isin(names)].sort_values("batch").groupby("model")
    ratio = by_model.throughput_per_s.last() / by_model.throughput_per_s.first()
    ratio = ratio[by_model.batch.nunique() > 1]
    if ratio.empty:
        what = f"{where} none of these models was measured at two batch sizes"
        raise missing_on(machine, what, flags=f"--batch-sizes {' '.join(map(str, BATCHES))}")
    held = int((ratio > 1).sum() if rises else (ratio < 1).sum())
    return Ruling(
        held == len(ratio),
        f"{where} throughput {'rises' if rises else 'falls'} from the smallest to the largest batch size in "
        f"{held or 'none'} of {number(len(ratio), 'model')} (last over first {ratio.min():.2f}{SPACE}to{SPACE}"
        f"{ratio.max():.2f}).",
    )


@claim("madani2026-6", tuple(model for model in COMPARED if model != "alexnet"), False)
@claim("madani2026-7", (SPEECH,), True)
def trends(paper: Paper, names: tuple[str, ...], rises_on_cpu: bool) -> Ruling:
    """Rule on throughput rising with the batch size on the GPU, and rising or falling on the CPU."""
    return whole([partial(_trend, paper, "cpu", names, rises_on_cpu), partial(_trend, paper, "gpu", names, True)])


@claim("madani2026-9")
def convolution_time(paper: Paper) -> Ruling:
    """Rule on the share of convolution in the time of AlexNet's passes, under the profiler."""
    machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
    rows = kinds.assign(share=layer_costs.shares(kinds, "time_s"))
    rows = matching(rows, model="alexnet", layer_kind="convolution")
    if rows.empty:
        raise DataMissingError(
            f"AlexNet's layers were not timed on the {available.title(machine)}; python -m measure --models alexnet "
            "--sections workload training operators times them."
        )
    parts = [f"{percent(row.share)} of the {row.stage} pass" for row in each(rows)]
    holds = rows.share.between(*CONVOLUTION_SHARE).all()
    return Ruling(bool(holds), f"On the {available.title(machine)} it takes {listing(parts)}.")


@claim("madani2026-10")
def linear_memory(paper: Paper) -> Ruling:
    """Rule on what AlexNet's layers keep for the backward pass, and their gradients, by kind."""
    rows = paper.layers
    rows = rows[(rows.model == "alexnet") & (rows.precision == BASE_PRECISION) & rows.batch.isin(BATCHES)]
    rows = rows.assign(byte=rows.saved_byte.astype(float) + rows.parameter_byte.astype(float))
    if rows.empty or rows.byte.isna().all():
        models(paper, _is_compared)
        what = "AlexNet's backward pass has not been counted"
        raise missing(what, sections=["workload"], flags="--models alexnet", does="does")
    holds, parts = {}, []
    for batch, layers in each_batch(rows):
        sums = layers.groupby("layer_kind").byte.sum().sort_values(ascending=False)
        holds[batch] = sums.index[0] == "linear"
        parts.append(f"{sums.index[0]} ({si(sums.iloc[0], 'B')} of {si(sums.sum(), 'B')}) at batch size {batch}")
    return at_batches(holds, f"Saved activations and gradients are most in {listing(parts)}.")
