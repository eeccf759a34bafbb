"""One thing changed at a time: how many times as fast each kind of layer, and the whole network, became."""

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from measure.domain.advice import CHANNELS_LAST, COMPILE
from measure.domain.names import model_name
from measure.domain.trace_records import LAYOUT as CONVERSION
from measure.domain.words import EAGER, INFERENCE
from report.chapters.cause import calls, host, memory
from report.facts import Facts, missing, sourced
from report.options import gpu_command
from report.paper import BASE_PRECISION, Machine, Paper, operator_groups, published
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.stats.value import Name, Source, Value, count_of, exact, extremes

COMPILED, LAYOUT, GRAPH = "compiled", "channels last", "CUDA graph"
VARIANTS = {COMPILED: COMPILE, LAYOUT: CHANNELS_LAST, GRAPH: host.CUDA_GRAPH}
NETWORKS = "median gain"  # the heading of whole networks
NORMALISATION = "normalisation"
SEEN = 0.005  # the least share of the kernels' time of a network to show a kind
SIDE = ["network", "batch", "precision"]  # of a recording


class Gain(NamedTuple):
    """The gain from a change: of the summed time of kernels, or the median of whole networks."""

    what: str  # a kind of layer, or the networks' setting
    change: str
    gain: float
    networks: int


class Interventions(Facts):
    """The table of gains: kinds of layer on a GPU that this program measured, and whole networks."""

    device: Name  #: The measured GPU.
    precision: Name  #: The lower precision.
    networks: Value  #: Networks whose kernels were recorded at both precisions.
    linear_least: Value  #: The least gain of a network's linear layers from half the bits, with its name.
    linear_most: Value  #: The largest gain of a network's linear layers from half the bits, with its name.
    convolution_least: Value  #: The least gain of a network's dense convolutions from half the bits, with its name.
    convolution_most: Value  #: The largest gain of a network's dense convolutions from half the bits, with its name.
    activation: Value  #: Gain of activations from half the bits, in all networks.
    depthwise: Value  #: Gain of depthwise convolutions from half the bits, in all networks.
    depthwise_network: Name  #: The network with these convolutions, if it is the only one recorded.
    normalisation: Value  #: Gain of normalisations from half the bits, in all networks.
    normalisation_most: Value  #: The largest gain of a network's normalisations from half the bits, with its name.
    example: Name  #: The network with the largest share of depthwise convolutions and normalisations.
    share: Value  #: Share of its kernels' time at the lower precision in these two kinds.
    converted: Value  #: The largest share of a network's kernels' time in layout conversions at the lower precision.


class GainTables(NamedTuple):
    """Gains (`Gain`) on one GPU: of kinds of layer, most from half the bits first, and of whole networks."""

    gpu: str
    recorded: str  # the batch size of the recorded kernels
    kinds: pd.DataFrame
    networks: pd.DataFrame


@cache
def recorded(paper: Paper) -> pd.DataFrame:
    """Return one row per network, precision and kind of layer on the GPU at hand: its time in a pass.

    The layout conversions within layers are a kind of their own.
    """
    machine = paper.machine("gpu")
    found = [
        calls.of_step(one).groupby(["network", "kind"], as_index=False)[["time_s"]].sum()
        .assign(precision=one.precision, batch=one.batch)
        for one in calls.recordings(paper)
        if machine and one.source == f"machines/{machine.folder}"
    ]  # fmt: skip
    if not found:
        return pd.DataFrame(columns=[*SIDE, "kind", "time_s"]).astype({"time_s": float})
    rows = pd.concat(found, ignore_index=True)
    rows = rows.merge(_conversions(paper), on=[*SIDE, "kind"], how="left").fillna({"conversion_s": 0.0})
    converted = rows[rows.conversion_s > 0].assign(kind=CONVERSION, time_s=lambda each: each.conversion_s)
    return pd.concat([rows.assign(time_s=rows.time_s - rows.conversion_s), converted], ignore_index=True)


def _conversions(paper: Paper) -> pd.DataFrame:
    """Return one row per network, precision and kind of layer: the time of the layout conversions in a pass."""
    machine = paper.machine("gpu")
    assert machine
    times = matching(machine.operators, variant=EAGER, phase=INFERENCE)
    rows = operator_groups.without_conversions(operator_groups.with_groups(times, paper.layers), machine.kernels)
    rows = rows[rows.group == CONVERSION].rename(columns={"layer_kind": "kind", "time_s": "conversion_s"})
    rows = rows.assign(network=rows.model.map(model_name), batch="batch " + rows.batch.astype(str))
    return rows.groupby([*SIDE, "kind"], as_index=False)[["conversion_s"]].sum()


@cache
def table(paper: Paper) -> GainTables:
    machine, pair, rows = paper.machine("gpu"), memory.memories(paper), recorded(paper)
    is_seen = rows.time_s >= SEEN * rows.groupby(SIDE).time_s.transform("sum")
    seen = set(rows[is_seen & (rows.kind != CONVERSION)].kind)
    kinds, networks = [], []
    if machine:
        kinds += _kinds(halved(paper), f"{BASE_PRECISION} → {machine.lower_precision}")
        networks += _of_bits(machine)
        if pair and pair.first.machine.folder == machine.folder:
            kinds += _kinds(memory.layers(paper), f"memory × {pair.bandwidth:.2f}")
            networks += _of_memory(paper, pair)
        networks += [*_of_batches(machine), *_of_variants(machine)]
    networks += _published(paper)
    of_kinds = pd.DataFrame([one for one in kinds if one.what in seen], columns=Gain._fields)
    return GainTables(
        machine.name if machine else "", memory.batches(rows), of_kinds, pd.DataFrame(networks, columns=Gain._fields)
    )


def _kinds(both: pd.DataFrame, change: str) -> list[Gain]:
    """Return a gain per kind of rows with a time before (``time_s``) and after a change (``time_s_other``)."""
    if both.empty:
        return []
    sums = both.groupby("kind").agg({"time_s": "sum", "time_s_other": "sum", "network": "nunique"}).reset_index()
    sums = sums.assign(gain=sums.time_s / sums.time_s_other).sort_values("gain", ascending=False)
    return [Gain(row.kind, change, row.gain, row.network) for row in each(sums)]


def _networks(gains: pd.Series, what: str, change: str = NETWORKS) -> list[Gain]:
    return [Gain(what, change, float(gains.median()), len(gains))] if len(gains) else []


@cache
def halved(paper: Paper) -> pd.DataFrame:
    """Return one row per network and kind recorded at fp32 and (``_other``) at the lower precision."""
    machine, rows = paper.machine("gpu"), recorded(paper)
    lower = machine.lower_precision if machine else BASE_PRECISION
    first, second = (matching(rows, precision=precision) for precision in (BASE_PRECISION, lower))
    return first.merge(second, on=["network", "batch", "kind"], suffixes=("", "_other"))


def _of_bits(machine: Machine) -> list[Gain]:
    """Return the networks' gain at the largest common batch size."""
    ran = matching(machine.cells, status="ok")
    lower = machine.lower_precision
    first, second = (matching(ran, precision=precision) for precision in (BASE_PRECISION, lower))
    both = first.merge(second, on=["model", "batch"], suffixes=("", "_other"))
    both = both[both.batch == both.batch.max()]
    return _networks(both.latency_s / both.latency_s_other, _at(f"{BASE_PRECISION} → {lower}", both.batch.max()))


def _of_memory(paper: Paper, pair: memory.Memories) -> list[Gain]:
    timed = memory.networks(paper)
    if timed.empty:
        return []
    most = timed.batch.max()
    return _networks(matching(timed, batch=most).gain, _at(f"memory × {pair.bandwidth:.2f}", most))


def _of_batches(machine: Machine) -> list[Gain]:
    """Return the gains of an input from larger batches at the lower precision."""
    ran = matching(machine.cells, status="ok", precision=machine.lower_precision)
    of_batch: dict[Any, pd.Series] = {
        size: rows.set_index("model").latency_s / rows.batch.iloc[0] for size, rows in ran.groupby("batch")
    }
    found = []
    for less, more in pairwise(sorted(of_batch)):
        found += _networks((of_batch[less] / of_batch[more]).dropna(), f"batch {less} → {more}")
    return found


def _of_variants(machine: Machine) -> list[Gain]:
    """Return the gains from variants at the lower precision: of a graph with the fewest inputs, of others with most."""
    found = []
    for change, variant in VARIANTS.items():
        if at := host.gains(machine, variant):
            batch = min(at) if change == GRAPH else max(at)
            found += _networks(at[batch], _at(change, batch))
    return found


def _at(change: str, batch: Any) -> str:
    return f"{change}, batch {batch}"


def _published(paper: Paper) -> list[Gain]:
    """Return the gains on the GPU with the most networks timed."""
    best, found = published.best_timed(paper.published), []
    pairs = {COMPILED: published.compiled(paper.published), LAYOUT: published.channels_last(paper.published)}
    for change, frames in pairs.items():
        if best and (rows := published.of_best(frames, best)) is not None:
            found += _networks(published.gains(rows), f"{change}, {short_name(best.device)}")
    return found


def of(paper: Paper) -> Interventions:
    paper = paper.undisturbed
    machine, both = paper.machine("gpu"), halved(paper)
    if machine is None or both.empty:
        return missing(Interventions)
    sums = both.groupby("kind")[["time_s", "time_s_other"]].sum()
    gains = sums.time_s / sums.time_s_other
    lower = matching(recorded(paper), precision=machine.lower_precision)
    times = lower.groupby("network").time_s.sum()
    converted = lower[lower.kind == CONVERSION].groupby("network").time_s.sum() / times
    _, most_converted = extremes(converted.dropna(), "%")
    two = lower[lower.kind.isin([memory.DEPTHWISE, NORMALISATION])].groupby("network").time_s.sum() / times
    with_depthwise = matching(both, kind=memory.DEPTHWISE).network.unique()
    of_network = both.assign(gain=both.time_s / both.time_s_other).pivot_table("gain", "network", "kind")
    linear, convolution, normalisations = (
        extremes(of_network[kind].dropna() if kind in of_network else pd.Series(), fewest=2)
        for kind in ("linear", "convolution", NORMALISATION)
    )
    activation, depthwise, normalisation = (
        exact(gains.get(kind)) for kind in (memory.ACTIVATION, memory.DEPTHWISE, NORMALISATION)
    )
    facts = Interventions(
        device=Name(machine.name), precision=Name(machine.lower_precision),
        networks=count_of(both.network.nunique(), "networks"),
        linear_least=linear[0], linear_most=linear[1], convolution_least=convolution[0],
        convolution_most=convolution[1], activation=activation, depthwise=depthwise,
        depthwise_network=Name(with_depthwise[0] if len(with_depthwise) == 1 else None), normalisation=normalisation,
        normalisation_most=normalisations[1],
        example=Name(str(two.idxmax()) if two.notna().any() else None), share=exact(two.max(), "%"),
        converted=most_converted,
    )  # fmt: skip
    return sourced(facts, Source("traces/*/operators.csv", "inference, eager, two precisions", gpu_command()))
