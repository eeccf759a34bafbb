"""The claims of madani2026 (``coursework`` has that about the backward pass)."""

import pandas as pd

from report.analysis import available, correlations, layer_costs
from report.analysis.available import DataMissingError, missing, missing_on
from report.analysis.correlations import Correlation
from report.load.paper import BASE_PRECISION, Paper
from report.published.agreement import Measured, counted, latency, together
from report.published.claims.ruling import Ruling, at_batches, claim
from report.published.claims.sides import BATCHES, each_batch, models, ruled_by_side
from report.text.frame_rows import each, highest, lowest, matching
from report.text.prose import intensity, listing, number, si

COMPARED = (
    "alexnet", "vgg16", "resnet18", "resnet50", "mobilenet_v2", "densenet121", "convnext_tiny", "fcn_resnet50",
)  # fmt: skip
"""The models that the study names in its claims about vision models."""

VISION = tuple(model for model in COMPARED if model != "alexnet")
"""The models whose throughput its claims follow."""

SPEECH = "wav2vec2_base"
CPU_WITH_GPU, WITH_PARAMETERS, ROUNDING = 0.89, 0.36, 0.005
"""The rank correlations in claims 5, and how they are rounded."""

CONVOLUTION_SHARE = (0.6, 0.7)


def _is_studied(model: str) -> bool:
    return model in (*COMPARED, SPEECH)


def _is_compared(model: str) -> bool:
    return model in COMPARED


@claim("madani2026-1a", "cpu", "compute-bound")
@claim("madani2026-1b", "gpu", "memory-bound")
def bounds(paper: Paper, kind: str, bound: str) -> Ruling:
    """Rule on the side of the ridge point on which models are: of its ten those that it names."""
    return ruled_by_side(paper, _is_studied, kind, bound)


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


def cells(paper: Paper, kind: str) -> pd.DataFrame:
    """Return the cells at batch size 1 of the models that it names."""
    rows = available.cells(available.machine(paper, kind))
    return rows[rows.model.map(_is_studied) & (rows.batch == 1)]


def _correlated(what: str, found: Correlation | None, stated: float) -> Ruling:
    """Rule on a stated rank correlation: undecided where only the interval of ours holds it."""
    if found is None or found.interval is None:
        return Ruling(None, f"For the rank correlation of {what} too few of its models were measured.")
    return Ruling(
        Measured(found.value, found.interval).is_printed(stated, ROUNDING),
        f"The rank correlation of {what} is {found} over {number(found.models, 'model')} at batch size 1.",
    )


def of_devices(cpu: pd.DataFrame, gpu: pd.DataFrame) -> Ruling:
    """Rule on the rank correlation of the latencies of models on both."""
    both = cpu.merge(gpu, on="model", suffixes=("_cpu", "_gpu"))
    found = correlations.correlation(both.latency_s_cpu, both.latency_s_gpu, both.model)
    return _correlated("CPU with GPU latency", found, CPU_WITH_GPU)


@claim("madani2026-5a")
def correlated_devices(paper: Paper) -> Ruling:
    """Rule on the rank correlation of CPU with GPU latency."""
    return of_devices(cells(paper, "cpu"), cells(paper, "gpu"))


@claim("madani2026-5b")
def correlated_parameters(paper: Paper) -> Ruling:
    """Rule on the rank correlation of CPU latency with parameters."""
    rows = cells(paper, "cpu")
    found = correlations.correlation(rows.parameter_count, rows.latency_s, rows.model)
    return _correlated("CPU latency with parameters", found, WITH_PARAMETERS)


def _last_over_first(rows: pd.DataFrame) -> Measured:
    """Return the throughput of a model at the largest batch size over that at the smallest."""
    first, last = lowest(rows, "batch"), highest(rows, "batch")
    return counted(last.batch).over(latency(last)).over(counted(first.batch).over(latency(first)))


@claim("madani2026-6a", "cpu", VISION, False)
@claim("madani2026-6b", "gpu", VISION, True)
@claim("madani2026-7a", "cpu", (SPEECH,), True)
@claim("madani2026-7b", "gpu", (SPEECH,), True)
def trend(paper: Paper, kind: str, names: tuple[str, ...], rises: bool) -> Ruling:
    """Rule on throughput rising, or falling, from the smallest to the largest batch size, in each model measured."""
    machine = available.machine(paper, kind)
    where = f"On the {available.title(machine)}"
    by_model = {name: matching(available.cells(machine), model=name) for name in names}
    ratios = {name: _last_over_first(rows) for name, rows in by_model.items() if len(rows) > 1}
    if not ratios:
        what = f"{where} none of these models was measured at two batch sizes"
        raise missing_on(machine, what, flags=f"--batch-sizes {' '.join(map(str, BATCHES))}")
    sides = [ratio.above(1) for ratio in ratios.values()]
    parts = [f"{ratio} ({name})" for name, ratio in ratios.items()]
    return Ruling(
        together([None if side is None else side == rises for side in sides]),
        f"{where} throughput at the largest batch size over that at the smallest is {listing(parts)}.",
    )


@claim("madani2026-9")
def convolution_time(paper: Paper) -> Ruling:
    """Rule on the share of convolution in the time of AlexNet's passes, under the profiler.

    The interval of a share is that of the pass's time: the operators were profiled once.
    """
    machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
    rows = matching(kinds, model="alexnet", layer_kind="convolution")
    if rows.empty:
        raise DataMissingError(
            f"AlexNet's layers were not timed on the {available.title(machine)}; `python -m measure --models alexnet "
            "--sections workload training operators` times them."
        )
    step = matching(available.steps(machine), model="alexnet", batch=rows.iloc[0].batch).iloc[0]
    shares = {row.stage: counted(row.time_s).over(latency(step, row.stage)) for row in each(rows)}
    parts = [f"{share.share} of the {stage} pass" for stage, share in shares.items()]
    return Ruling(
        together([share.meets(*CONVOLUTION_SHARE) for share in shares.values()]),
        f"On the {available.title(machine)} it takes {listing(parts)}.",
    )


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
