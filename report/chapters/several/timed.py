"""Collectives, split models and ranks that the chapter on several GPUs compares."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import pandas as pd

from measure.cache.traces import StoredTrace
from measure.domain.collectives import ALL_REDUCE, bus_factor, collective_times
from report.paper import Paper
from report.paper.frames import matching
from report.paper.published import Published
from report.paper.served import Served, explained

GROUP = 8  # GPUs of the collectives that are compared
HALF = 0.5  # of the highest bus bandwidth
SPLIT = {"model": "LLaMA 3 70B", "weights": "Q4_K_M", "phase": "decode"}


@cache
def reductions(served: Served) -> pd.DataFrame:
    """Return all-reduces of eight GPUs, the fastest kernel of each size: ``device``, ``message_byte``, ``bus``."""
    rows = matching(served.collectives, collective=ALL_REDUCE, gpus=GROUP)
    found = rows.groupby(["device", "message_byte"], as_index=False).latency_s.min()
    factor = bus_factor(ALL_REDUCE, GROUP)
    assert factor is not None
    return found.assign(bus=(found.message_byte * factor / found.latency_s).astype(float))


def links(paper: Paper) -> "pd.Series[float]":
    """Return the datasheets' bandwidth of a GPU's link each way (B/s), by chip."""
    return paper.chips.dropna(subset="link_byte_per_s").groupby("chip").link_byte_per_s.first().astype(float)


def by_device(paper: Paper) -> pd.DataFrame:
    """Return for each device the highest ``bus`` bandwidth, the ``link``, the shortest time, and ``half_byte``.

    That is the smallest message with half of the highest bandwidth.
    """
    rows = reductions(paper.served)
    highest = rows.groupby("device").bus.transform("max")
    half = rows[rows.bus >= HALF * highest].groupby("device").message_byte.min()
    found = rows.groupby("device").agg(bus=("bus", "max"), shortest_s=("latency_s", "min"))
    return found.assign(half_byte=half, link=links(paper).reindex(found.index))


def split(published: Published) -> pd.DataFrame:
    """Return the decode of one model whose layers are split over more and more cards of a kind.

    The device has the most numbers of cards, and the most cards; the length is the shortest that all of them have.
    """
    rows = matching(published.tokens, **SPLIT)
    if rows.empty:
        return rows
    cards = rows.groupby("device").gpus.agg(["nunique", "max"]).sort_values(["nunique", "max"])
    rows = matching(rows, device=cards.index[-1])
    counts = rows.groupby("tokens").gpus.nunique()
    return matching(rows, tokens=counts.index[counts == counts.max()].min()).sort_values("gpus")


def read_prompts(published: Published, device: str, gpus: Sequence[int]) -> "pd.Series[float]":
    """Return the tokens a second of the longest prompt that so many cards read, in their order; empty without one."""
    rows = matching(published.tokens, **SPLIT | {"phase": "prefill", "device": device})
    rates = rows.pivot_table(index="gpus", columns="tokens", values="tokens_per_s").reindex([*gpus]).dropna(axis=1)
    return rates[rates.columns.max()] if len(rates.columns) else pd.Series(dtype=float)


@cache
def communication(served: Served) -> pd.DataFrame:
    """Return the explained servers of several GPUs, with ``lost``, the share of collectives in the time of a token."""
    rows = explained(served)
    rows = rows[(rows.plan_gpus > 1) & rows.communication_s.notna()]
    return rows.assign(lost=(rows.communication_s / rows.tpot_s).astype(float))


def traced(paper: Paper) -> tuple[StoredTrace, list[Any]] | None:
    """Return the trace of the most ranks with the times of their collectives."""
    found = [(trace, collective_times(trace.collectives)) for trace in paper.traces]
    several = [(trace, times) for trace, times in found if len(times) > 1]
    return max(several, key=lambda pair: len(pair[1]), default=None)
