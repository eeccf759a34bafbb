"""Two GPUs measured here that differ in their memory: layers that are faster on the second wait for memory."""

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roof
from measure.domain.words import CAPPED, EAGER, INFERENCE
from report.chapters.cause import calls
from report.facts import Facts, missing, sourced
from report.options import gpu_command, measure_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.cells import layered_s
from report.paper.chips import chip_named, roof_of, short_name
from report.paper.frames import matching
from report.paper.roofs import with_cache
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

SWEEP = measure_command("--device cuda --sections roofs")
ANOTHER = 1.2  # the least ratio of two datasheets' bandwidths to call their memories different
SAMPLE = ["model", "batch", "precision"]
ACTIVATION, DEPTHWISE = "activation", "depthwise convolution"
STREAMED = (ACTIVATION, "pointwise", "normalisation")  # kinds that do little but move bytes


class LayersOfMemory(Facts):
    """Some layers of the networks that are profiled on both."""

    gain: Value  #: Time of these layers on the first GPU over their time on the second.
    memory: Value  #: Bytes of these layers over their time, as a share of the first GPU's printed bandwidth.


class OtherMemory(Facts):
    """Two GPUs measured here with equal peaks and different memories, the slower memory first."""

    first: Name  #: The GPU with the slower memory.
    second: Name  #: The GPU with the faster memory.
    bandwidth: Value  #: The second GPU's bandwidth over the first's.
    precision: Name  #: The precision of the networks timed on both.
    batch: Value  #: The largest common batch size.
    networks: Value  #: Networks timed on both.
    capped: Value  #: Networks that drew the power limit on either GPU, so that their clock fell.
    profiled_batch: Value  #: The largest batch size profiled on the first GPU at the lower precision.
    idle: Value  #: The largest idle share of a pass there.
    speed: Value  #: How many times as fast networks are on the second GPU.
    smaller: Value  #: The next smaller batch size that ran on both.
    smaller_least: Value  #: The least speed-up at that size, with the network's name.
    smaller_most: Value  #: The largest speed-up at that size, with the network's name.
    roof: Value  #: How many times as fast the rooflines of the datasheets, drawn layer by layer, promise them to be.
    recorded: Value  #: Networks whose kernels were recorded on both.
    recorded_batch: Name  #: The batch size of these networks.
    example: Name  #: The profiled network with most of its time memory-bound by the datasheet's roof.
    promised: Value  #: How many times as fast that network is on the second, if all bytes come from memory.
    gained: Value  #: How many times as fast the kernels of that network are on the second.
    cache: Value  #: The first GPU's largest cache.
    cache_bandwidth: Value  #: The first GPU's bandwidth from that cache over its printed bandwidth from memory.
    fits: LayersOfMemory  # activations whose bytes, read and written, fit that cache
    larger: LayersOfMemory  # activations with more than twice its bytes
    depthwise: LayersOfMemory  # all depthwise convolutions
    depthwise_most: Value  #: The largest gain of a single depthwise convolution, under the profiler.
    normalisation: LayersOfMemory  # all normalisations


class Card(NamedTuple):
    """A measured GPU with its row among the chips."""

    machine: Machine
    chip: str
    roof: Roof

    @property
    def byte_per_s(self) -> float:
        """The bandwidth of its memory by the datasheet."""
        return self.roof.byte_per_s or np.nan


class Memories(NamedTuple):
    """Two GPUs of equal peaks, the slower memory first."""

    first: Card
    second: Card

    @property
    def bandwidth(self) -> float:
        """The second GPU's bandwidth over the first's, by the datasheets."""
        return self.second.byte_per_s / self.first.byte_per_s


@cache
def memories(paper: Paper) -> Memories | None:
    """Return the first two measured GPUs with equal peaks but different bandwidths in their datasheets."""
    cards = []
    for machine in paper.machines:
        chip = chip_named(paper.chips, machine.environment.name)
        roof = roof_of(paper.chips, chip)
        if chip and roof and machine.chip_kind == "gpu":
            cards.append(Card(machine, chip, with_cache(roof, machine.caches, machine.levels)))
    found = (Memories(*pair) for pair in permutations(cards, 2) if pair[0].roof.flop_per_s == pair[1].roof.flop_per_s)
    return next((pair for pair in found if pair.bandwidth >= ANOTHER), None)


@cache
def networks(paper: Paper) -> pd.DataFrame:
    """Return one row per network and common batch at the lower precision, the largest batch first.

    ``gain`` is the second's speed-up, ``promised`` the ratio of the bounds by the datasheets.
    """
    pair = memories(paper.undisturbed)  # a finding of the first page
    if pair is None:
        return pd.DataFrame()
    first, second = (
        matching(card.machine.cells, status="ok", precision=card.machine.lower_precision)[
            [*SAMPLE, "latency_s", "flags"]
        ]
        for card in pair
    )
    both = first.merge(second, on=SAMPLE, suffixes=("", "_other"))
    both = both.sort_values("batch", ascending=False, kind="stable")
    both = both.assign(gain=both.latency_s / both.latency_s_other)
    least, least_other = (layered_s(both, paper.operators, card.roof) for card in pair)
    return both.assign(promised=least / least_other)


@cache
def layers(paper: Paper) -> pd.DataFrame:
    """Return one row per operator and shape in networks profiled on both at fp32 (``calls.of_step``).

    ``gain`` is the time on the first over the time on the second (``_other``). ``memory_share`` is the rate of the
    bytes over the datasheet's bandwidth; ``least_s`` the bound if all bytes come from memory, ``is_memory_bound`` its
    kind on the first.
    """
    pair, found = memories(paper), []
    recorded = {(one.network, one.batch, one.chip): one for one in calls.recordings(paper)
                if one.precision == BASE_PRECISION}  # fmt: skip
    for network, batch, chip in recorded:
        if pair is not None and chip == pair.first.chip and (network, batch, pair.second.chip) in recorded:
            sides = []
            for card in pair:
                rows = calls.of_step(recorded[network, batch, card.chip])
                moved_s = rows.byte / card.byte_per_s
                least_s = np.fmax(moved_s, rows.flop / rows.precision.map(card.roof.flop_per_s))
                share, is_bound = moved_s / rows.time_s, least_s == moved_s
                sides.append(rows.assign(memory_share=share, least_s=least_s, is_memory_bound=is_bound))
            both = sides[0].merge(sides[1], on=["network", *calls.OPERATOR], suffixes=("", "_other"))
            found.append(both.assign(batch=batch))
    rows = pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["network", "kind"])
    return rows.assign(gain=rows.time_s / rows.time_s_other) if len(rows) else rows


def batches(rows: pd.DataFrame) -> str:
    """Return the batch sizes of recordings as text: ``batch 64``."""
    return " and ".join(sorted(rows.batch.unique()))


def example(paper: Paper) -> pd.DataFrame:
    """Return the layers of the network with the largest memory-bound share of its time, by the datasheet."""
    rows = layers(paper)
    if rows.empty:
        return rows
    bound = rows.time_s.where(rows.is_memory_bound, 0).groupby(rows.network).sum()
    return rows[rows.network == (bound / rows.groupby("network").time_s.sum()).idxmax()]


def _of(rows: pd.DataFrame, card: Card) -> LayersOfMemory:
    if rows.empty:
        return missing(LayersOfMemory)
    rate = rows.byte.sum() / rows.time_s.sum()
    return LayersOfMemory(
        exact(rows.time_s.sum() / rows.time_s_other.sum()), exact(rate / card.byte_per_s, "%")
    )  # fmt: skip


def _most_in_a_layer(paper: Paper, pair: Memories) -> Value:
    """Return the largest gain of a depthwise convolution: a recorded call sums layers of one shape, with any stride."""
    cell = [*SAMPLE, "path"]
    first, second = (
        matching(card.machine.operators, phase=INFERENCE, variant=EAGER, precision=BASE_PRECISION) for card in pair
    )
    paths = matching(paper.layers, layer_kind=DEPTHWISE)[["model", "path"]].drop_duplicates()
    both = first.merge(second, on=[*cell, "operator"], suffixes=("", "_other")).merge(paths, on=["model", "path"])
    sums = both.groupby(cell)[["time_s", "time_s_other"]].sum()
    return exact((sums.time_s / sums.time_s_other).max() if len(sums) else None)


def _idle(machine: Machine) -> tuple[Value, Value]:
    """Return the largest batch size of the GPU's profiles in eager mode, and the largest idle share there."""
    rows = matching(machine.profiles, status="ok", phase=INFERENCE, variant=EAGER, precision=machine.lower_precision)
    rows = rows[rows.batch == rows.batch.max()].assign(name=rows.model.map(model_name)).set_index("name")
    return exact(rows.batch.max()), extremes(1 - (rows.busy_s / rows.plain_s).astype(float), "%")[1]


def of(paper: Paper) -> OtherMemory:
    pair, found, rows = memories(paper), networks(paper), example(paper)
    if pair is None or found.empty or rows.empty:
        return missing(OtherMemory)
    sizes = found.batch.unique()
    timed, before = matching(found, batch=sizes[0]), matching(found, batch=sizes[1:2].max(initial=0))
    is_capped = (timed["flags"] + ";" + timed.flags_other).str.split(";").map(lambda flags: CAPPED in flags)
    ends = extremes(dict(zip(before.model.map(model_name), before.gain, strict=True)), fewest=2)
    every, roof = layers(paper), pair.first.roof
    activations, size = matching(every, kind=ACTIVATION), roof.cache_byte or np.nan
    ratio = (roof.cache_byte_per_s or np.nan) / pair.first.byte_per_s
    swept = f"machines/{pair.first.machine.folder}/roofs.csv"
    facts = OtherMemory(
        Name(short_name(pair.first.chip)), Name(short_name(pair.second.chip)), exact(pair.bandwidth),
        Name(timed.precision.iloc[0]), exact(timed.batch.iloc[0]), count_of(len(timed), "networks"),
        count_of(is_capped.sum(), "networks"), *_idle(pair.first.machine),
        median_of(timed.gain), exact(before.batch.max()), *ends, median_of(timed.promised),
        count_of(every.network.nunique(), "networks"), Name(batches(every)), Name(rows.network.iloc[0]),
        exact(rows.least_s.sum() / rows.least_s_other.sum()), exact(rows.time_s.sum() / rows.time_s_other.sum()),
        exact(roof.cache_byte, "B"), replace(exact(ratio), source=Source(swept, "reads by size", SWEEP)),
        _of(activations[activations.call_byte <= size], pair.first),
        _of(activations[activations.call_byte > 2 * size], pair.first),
        _of(matching(every, kind=DEPTHWISE), pair.first), _most_in_a_layer(paper, pair),
        _of(matching(every, kind="normalisation"), pair.first),
    )  # fmt: skip
    tables = " and ".join(f"machines/{card.machine.folder}/samples.csv" for card in pair)
    return sourced(facts, Source(tables, "inference, eager; layers: traces/*/operators.csv", gpu_command()))
