"""Two GPUs measured here that differ only in their memory: layers that are faster on the second wait for memory."""

from functools import cache
from itertools import permutations
from typing import NamedTuple

import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roof
from measure.domain.step_parts import MEMORY
from measure.domain.words import INFERENCE
from report.chapters.gpus import host
from report.chapters.gpus.traced import SEEN
from report.facts import Facts, missing, sourced
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.chips import datasheet, roof_of, short_name
from report.paper.frames import matching
from report.paper.operator_groups import traced
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

ANOTHER = 1.2  # the least ratio of two datasheets' bandwidths to call their memories different
SAMPLE = ["model", "batch", "precision"]


class KindOfMemory(Facts):
    """A kind of layer in the network that is profiled on both."""

    gain: Value  #: Time of the kind of layer on the first GPU over its time on the second.
    roof: Value  #: Share of the roof that it reaches on the first, by the datasheet.


class OtherMemory(Facts):
    """Two GPUs measured here that differ only in their memory, the slower memory first."""

    first: Name  #: The GPU with the slower memory.
    second: Name  #: The GPU with the faster memory.
    bandwidth: Value  #: The second GPU's bandwidth over the first's.
    precision: Name  #: The precision of the networks timed on both.
    batch: Value  #: The largest common batch size.
    networks: Value  #: Networks timed on both.
    speed: Value  #: How many times as fast networks are on the second GPU.
    most: Value  #: The largest speed-up, with the network's name.
    example: Name  #: The profiled network with most of its time memory-bound by the roof.
    promised: Value  #: How many times as fast that network is on the second, by the roofs of its kinds of layer.
    gained: Value  #: How many times as fast the kernels of that network are on the second.
    activation: KindOfMemory
    depthwise: KindOfMemory


class Card(NamedTuple):
    """A measured GPU with its row among the chips."""

    machine: Machine
    chip: str
    roof: Roof


class Memories(NamedTuple):
    """Two GPUs of equal peaks, the slower memory first."""

    first: Card
    second: Card

    @property
    def bandwidth(self) -> float:
        """The second GPU's bandwidth over the first's, by the datasheets."""
        return (self.second.roof.byte_per_s or 0) / (self.first.roof.byte_per_s or 1)


@cache
def memories(paper: Paper) -> Memories | None:
    """Return the first two measured GPUs with equal peaks but different bandwidths in their datasheets."""
    cards = []
    for machine in paper.machines:
        chip = next(iter(datasheet(paper.chips, machine.environment.name).chip), None)
        roof = roof_of(paper.chips, chip)
        if chip and roof and machine.chip_kind == "gpu":
            cards.append(Card(machine, chip, roof))
    found = (Memories(*pair) for pair in permutations(cards, 2) if pair[0].roof.flop_per_s == pair[1].roof.flop_per_s)
    return next((each for each in found if each.bandwidth >= ANOTHER), None)


@cache
def networks(paper: Paper) -> pd.DataFrame:
    """Return one row per network at the largest common batch and lower precision; ``gain`` is the second's speed-up."""
    pair = memories(paper.undisturbed)  # a finding of the first page
    if pair is None:
        return pd.DataFrame()
    first, second = (
        matching(card.machine.cells, status="ok", precision=card.machine.lower_precision)[[*SAMPLE, "latency_s"]]
        for card in pair
    )
    both = first.merge(second, on=SAMPLE, suffixes=("", "_other"))
    return matching(both, batch=both.batch.max()).assign(gain=lambda rows: rows.latency_s / rows.latency_s_other)


@cache
def kinds(paper: Paper) -> pd.DataFrame:
    """Return one row per kind of layer in networks profiled on both at fp32.

    ``gain`` is the time on the first over the time on the second; ``share`` (of the kernels' time) and ``roof_share``
    are on the first.
    """
    if (pair := memories(paper)) is None:
        return pd.DataFrame()
    found = []
    measured = {(each.devices[0].network, each.devices[0].chip): each for each in paper.traces if each.is_measured}
    for network, chip in measured:
        is_on_both = chip == pair.first.chip and (network, pair.second.chip) in measured
        if is_on_both and BASE_PRECISION in str(network):
            first, second = (
                traced((row for row in measured[network, card.chip].operators if row.stage == INFERENCE), card.roof)
                for card in pair
            )
            both = first.merge(second, on="kind", suffixes=("", "_other")).assign(network=str(network).split(",")[0])
            both = both[(both.time_s_other > 0) & both.roof_share.notna() & (both.share >= SEEN)]
            found.append(both.assign(gain=both.time_s / both.time_s_other))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def example(paper: Paper) -> pd.DataFrame:
    """Return the kinds of layer of the network with the largest memory-bound share of its time, by the roof."""
    rows = kinds(paper)
    if rows.empty:
        return rows
    bound = rows[rows.bound == MEMORY].groupby("network").share.sum()
    return rows[rows.network == bound.idxmax()] if len(bound) else rows[:0]


def of(paper: Paper) -> OtherMemory:
    pair, timed, layers = memories(paper), networks(paper), example(paper)
    of_kind = layers.set_index("kind") if len(layers) else layers
    if pair is None or timed.empty or not {"activation", "depthwise convolution"} <= set(of_kind.index):
        return missing(OtherMemory)
    _, most = extremes(dict(zip(timed.model.map(model_name), timed.gain, strict=True)))
    facts = OtherMemory(
        Name(short_name(pair.first.chip)), Name(short_name(pair.second.chip)), exact(pair.bandwidth),
        Name(timed.precision.iloc[0]), exact(timed.batch.iloc[0]), count_of(len(timed), "networks"),
        median_of(timed.gain), most, Name(layers.network.iloc[0]),
        exact(layers.least_s.sum() / layers.least_s_other.sum()),
        exact(layers.time_s.sum() / layers.time_s_other.sum()),
        *(KindOfMemory(exact(of_kind.gain[kind]), exact(of_kind.roof_share[kind], "%"))
          for kind in ("activation", "depthwise convolution")),
    )  # fmt: skip
    tables = " and ".join(f"machines/{card.machine.folder}/samples.csv" for card in pair)
    return sourced(facts, Source(tables, "inference, eager; kinds of layer: traces/*/operators.csv", host.COMMAND))
