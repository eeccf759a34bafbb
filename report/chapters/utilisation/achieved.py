"""Facts of the processor and of the GPU: how much of a bound networks reach, and what the profiles of GPUs say."""

import pandas as pd

from measure.domain.names import model_name
from measure.domain.words import EAGER, INFERENCE
from report.chapters.utilisation.gap import base_cells, batch_sizes, kernel_terms, rest_shares, shown_batches
from report.facts import Facts, missing, sourced
from report.options import gpu_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import matching
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of


class Achieved(Facts):
    """The layer-by-layer bound as a share of the latency: inference in eager mode on one device at one precision."""

    device: Name  #: The device: the machine at hand if it is of this kind, else the first one in the data.
    precision: Name  #: The precision of the networks and of the roof.
    batch: Value  #: The batch size of the gap.
    networks: Value  #: Networks timed at this batch size.
    layers: Value  #: The layer-by-layer bound over the latency, in the median of all networks timed at this batch size.
    beaten: Value  #: Networks that run faster than this bound at a batch size shown, whose shares are then missing.
    nearest: Value  #: The largest share of its layer-by-layer bound that a network reaches, with its name.
    farthest: Value  #: The smallest share of its layer-by-layer bound that a network reaches, with its name.
    common: Value  #: Networks timed at all of the batch sizes shown.
    first_batch: Value  #: The smallest batch size shown.
    middle_batch: Value  #: The batch size in the middle of three.
    last_batch: Value  #: The largest batch size shown.
    first_nearest: Value  #: The largest share of its layer-by-layer bound at the smallest batch size, with its network.
    first: Value  #: The median share of the layer-by-layer bound at the smallest, over the networks timed at all.
    last: Value  #: The median share of the layer-by-layer bound at the largest, over the same networks.
    stretch: Value  #: The latency at the middle batch size over the latency at the smallest, over the same networks.


class Halved(Facts):
    """From the base precision to the lower one on the GPU, at the batch size of the gap."""

    networks: Value  #: Networks timed at both precisions.
    peak: Value  #: The measured peak at the lower precision over the peak at fp32.
    least: Value  #: The smallest ratio of the latency at fp32 to the latency at the lower precision, with its network.
    most: Value  #: The largest such ratio, with its network.


class KernelGap(Facts):
    """The terms of the latency in the networks profiled on the GPU, at one precision."""

    precision: Name  #: The precision of these networks.
    networks: Value  #: Networks profiled on the GPU at this precision.
    most_idle: Value  #: The largest share of a call in which no kernel runs, with its network.
    most_rest: Value  #: The largest share of the latency that kernels take beyond their bound, with its network.


class Profiled(Facts):
    """All profiled calls of GPUs in the data: inference and training steps at any precision."""

    calls: Value  #: Profiled calls.
    least_busy: Value  #: The smallest share of a call in which a kernel runs, with its network, call and GPU.
    most_busy: Value  #: The largest share of a call in which a kernel runs, with its network, call and GPU.


def of_gpu(table: str) -> Source:
    return Source(f"machines/*/{table}.csv", "inference on a GPU", gpu_command())


def achieved(machine: Machine | None, precision: str, source: Source) -> Achieved:
    cells = base_cells(machine, EAGER, precision).dropna(subset="operator_bound_s") if machine else pd.DataFrame()
    if machine is None or cells.empty:
        return sourced(missing(Achieved), source)
    cells = cells.assign(layers=cells.operator_bound_s / cells.latency_s)
    large = batch_sizes(machine)[2]
    shown = shown_batches(machine)
    beating = cells[cells.layers > 1]
    beaten = beating[beating.batch.isin([*shown, large])].model.nunique()
    cells = cells.assign(layers=cells.layers.mask(cells.batch.isin(beating.batch)))  # they are too high
    rows = cells[cells.batch == large]
    farthest, nearest = extremes(rows.set_index(rows.model.map(model_name)).layers, "%")
    shares, times = (cells.pivot(index="model", columns="batch", values=column) for column in ("layers", "latency_s"))
    shown = [batch for batch in shown if batch in times]
    common = times.reindex(columns=shown).dropna().index
    middle = shown[1] if len(shown) == 3 else None
    at = {batch: median_of(shares.loc[common, batch], "%") for batch in shown}
    nothing = pd.Series(dtype=float)
    stretch = (times[middle] / times[shown[0]]).reindex(common) if middle else nothing
    found = Achieved(
        device=Name(machine.name),
        precision=Name(precision),
        batch=exact(large if len(rows) else None),
        networks=count_of(len(rows) or None, "networks"),
        layers=median_of(rows.layers, "%"),
        beaten=count_of(beaten or None, "networks"),
        nearest=nearest,
        farthest=farthest,
        common=count_of(len(common) or None, "networks"),
        first_batch=exact(shown[0] if shown else None),
        middle_batch=exact(middle),
        last_batch=exact(shown[-1] if shown[1:] else None),
        first_nearest=extremes(matching(cells, batch=shown[0]).set_index("model").layers.rename(model_name), "%")[1],
        first=at[shown[0]] if shown else Value(None, "%"),
        last=at[shown[-1]] if shown[1:] else Value(None, "%"),
        stretch=median_of(stretch),
    )
    return sourced(found, source)


def halved(machine: Machine | None) -> Halved:
    source, large = of_gpu("samples"), batch_sizes(machine)[2] if machine else None
    if machine is None or large is None:
        return sourced(missing(Halved), source)
    precisions = (BASE_PRECISION, machine.lower_precision)
    base, lower = (matching(base_cells(machine, EAGER, each), batch=large).set_index("model") for each in precisions)
    roof, lower_roof = map(machine.roof, precisions)
    speed = (base.latency_s / lower.latency_s).dropna()
    peak = lower_roof.peak_flop_per_s / roof.peak_flop_per_s if roof and lower_roof else None
    least, most = extremes(speed.rename(model_name))
    return sourced(Halved(count_of(len(speed) or None, "networks"), exact(peak), least, most), source)


def kernels(machine: Machine | None, precision: str) -> KernelGap:
    terms = kernel_terms(machine, precision) if machine else pd.DataFrame()
    if terms.empty:
        return sourced(missing(KernelGap), of_gpu("kernels"))
    names = terms.model.map(model_name)
    _, most_idle = extremes(terms.outside.set_axis(names), "%")
    _, most_rest = extremes(rest_shares(terms).set_axis(names), "%")
    found = KernelGap(Name(precision), count_of(len(terms), "networks"), most_idle, most_rest)
    return sourced(found, of_gpu("kernels"))


def profiled(paper: Paper) -> Profiled:
    rows = [
        machine.profiles.assign(gpu=machine.name)
        for machine in paper.machines if machine.chip_kind == "gpu" and len(machine.profiles)
    ]  # fmt: skip
    calls = matching(pd.concat(rows), status="ok").dropna(subset=["busy_s", "plain_s"]) if rows else pd.DataFrame()
    if calls.empty:
        return sourced(missing(Profiled), of_gpu("profiles"))
    busy = (calls.busy_s.astype(float) / calls.plain_s.astype(float)).clip(upper=1)
    kinds = calls.phase.map({INFERENCE: "inference"}).fillna("a training step")
    names = calls.model.map(model_name) + ", " + kinds + " at " + calls.precision + " on the " + calls.gpu
    least, most = extremes(busy.set_axis(names), "%")
    return sourced(Profiled(count_of(len(calls), "calls"), least, most), of_gpu("profiles"))
