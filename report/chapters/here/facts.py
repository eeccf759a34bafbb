"""The reader's machine on half a page. All facts are missing in the project's own paper."""

from dataclasses import replace
from itertools import permutations
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from report.facts import Facts, missing, source_of, sourced
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, matching
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, extremes, ratio

FEW = 8  # the most networks that a sentence names


class HereRoofs(Facts):
    peak: Value  #: The measured peak at fp32.
    bandwidth: Value  #: The measured bandwidth of memory.
    ridge: Value  #: The ridge point at fp32.
    beaten: Value  #: Networks that compute faster than the measured peak; missing if none does.


class HereBound(Facts):
    """The networks measured in eager mode, at the largest batch size that most of them have."""

    batch: Value  #: That batch size.
    networks: Value  #: The networks measured at that batch size.
    whole: Value  #: Networks below the ridge point by compulsory bytes.
    layers: Value  #: Networks below the ridge point by the bytes between layers.


class HerePair(Facts):
    """Two networks of which the one with fewer FLOP takes longer with its whole interval.

    Of all such pairs at equal batch sizes it is the one with the largest product of both ratios.
    """

    batch: Value  #: The batch size of the pair.
    light: Name  #: The network with fewer FLOP.
    heavy: Name  #: The network with more FLOP.
    flop: Value  #: FLOP of the heavy network over the light one's.
    time: Value  #: Time of the light network over the heavy one's.


class HereShares(Facts):
    least: Value  #: The smallest share of a network's time that its layer-by-layer bound is, with its network.
    most: Value  #: The largest such share, with its network.


class Here(Facts):
    machine: Name  #: The reader's machine.
    roofs: HereRoofs
    bound: HereBound
    names: Name  #: The networks below the ridge point by the bytes between layers, if they are few.
    shares: HereShares
    pair: HerePair
    has_several: bool  #: More than one network was timed at that batch size
    some_whole: bool  #: Some are below the ridge point by compulsory bytes, or that is unknown
    some_layers: bool  #: Some are below the ridge point by the bytes between layers, or that is unknown


def of(paper: Paper) -> Here:
    machine = paper.at_hand
    if machine is None or not paper.is_readers:
        return sourced(missing(Here), Source("machines/*/samples.csv", "of a reader's machine"))
    place = f"machines/{machine.folder}"
    cells, quiet = _timed(machine), _timed(machine.undisturbed)
    at_batch, roof = _at_one_batch(cells), machine.roof(BASE_PRECISION)
    bound, has_several = _bound(at_batch, roof), len(at_batch) > 1
    shares = _shares(quiet[quiet.batch.isin(at_batch.batch)])
    timed = source_of(f"{place}/samples.csv", "inference, eager, fp32", "inference")
    return Here(
        Name(machine.name, Source(f"{place}/machine.csv", "newest environment", measure_command())),
        sourced(_roofs(machine, cells), source_of(f"{place}/roofs.csv", "fp32", "roofs")),
        sourced(bound, timed),
        _names(at_batch, roof),
        sourced(HereShares(*extremes(shares, "%", fewest=2 if has_several else 1)), timed),
        sourced(_pair(quiet), Source(timed.table, timed.rows)),  # measuring may find no pair
        has_several=has_several,
        some_whole=bound.whole.number != 0,
        some_layers=bound.layers.number != 0,
    )


def _timed(machine: Machine) -> pd.DataFrame:
    return matching(machine.cells, status="ok", precision=BASE_PRECISION)


def _at_one_batch(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells at the batch size with most networks, the largest of equals."""
    sizes = cells.groupby("batch").model.nunique()
    return cells[cells.batch == sizes[sizes == sizes.max()].index.max()]


def _roofs(machine: Machine, cells: pd.DataFrame) -> HereRoofs:
    """``beaten`` has a source without a command: no measurement is missing."""
    row = next(each(matching(machine.roofs, precision=BASE_PRECISION)), None)
    peak = estimated(row, "peak_flop_per_s", "FLOP/s")
    beaten = cells[cells.flop_per_s > (peak.high or peak.number or 0)].model.nunique() if peak.number else 0
    return HereRoofs(
        peak, estimated(row, "bandwidth_byte_per_s", "B/s"), estimated(row, "ridge_flop_per_byte", "FLOP/B"),
        replace(count_of(beaten or None, "networks"), source=Source(f"machines/{machine.folder}/samples.csv")),
    )  # fmt: skip


def _bound(cells: pd.DataFrame, roof: Roofline | None) -> HereBound:
    if cells.empty:
        return missing(HereBound)
    counts = exact(int(cells.batch.iloc[0])), count_of(len(cells), "networks")
    if roof is None:
        return HereBound(*counts, NOTHING, NOTHING)
    whole, layers = (_below(roof, cells, column) for column in ("compulsory_intensity", "traffic_intensity"))
    return HereBound(*counts, count_of(len(whole), "networks"), count_of(len(layers), "networks"))


def _names(cells: pd.DataFrame, roof: Roofline | None) -> Name:
    names = [] if roof is None else sorted(map(model_name, _below(roof, cells, "traffic_intensity").model))
    return Name(", ".join(names) if 0 < len(names) <= FEW else None)


def _below(roof: Roofline, cells: pd.DataFrame, column: str) -> pd.DataFrame:
    return cells[cells[column] < roof.ridge_flop_per_byte]


def _pair(cells: pd.DataFrame) -> HerePair:
    def surprise(pair: tuple[Any, Any]) -> tuple[float, int]:
        light, heavy = pair
        product = heavy.forward_flop / light.forward_flop * light.latency_s / heavy.latency_s
        return round(product, 6), -light.batch  # of equals the smallest batch size

    sizes = cells.dropna(subset=["forward_flop", "latency_low_s"]).groupby("batch")
    pairs = [
        (light, heavy)
        for _, rows in sizes
        for light, heavy in permutations(list(each(rows)), 2)
        if light.forward_flop < heavy.forward_flop and light.latency_low_s > heavy.latency_high_s
    ]
    if not pairs:
        return missing(HerePair)
    light, heavy = max(pairs, key=surprise)
    times = ratio(*(estimated(row, "latency_s", "s") for row in (light, heavy)))
    names = Name(model_name(light.model)), Name(model_name(heavy.model))
    return HerePair(exact(int(light.batch)), *names, exact(heavy.forward_flop / light.forward_flop), times)


def _shares(cells: pd.DataFrame) -> "pd.Series[float]":
    """Return the share of each network's time that its layer-by-layer bound is, by its name."""
    shares = cells.operator_bound_s / cells.latency_s
    return shares.set_axis(cells.model.map(model_name)).dropna()
