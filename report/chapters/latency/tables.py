"""Latencies and throughputs of networks: a few in the paper, all on the page."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pandas as pd

from report import display
from report.chapters.latency.timed import COMMAND, Timed, throughput, timed_gpu, timed_here
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import Paper
from report.paper.frames import each, matching, spread
from report.stats.value import NOTHING, Value, estimated, exact

FEW = 12

Columns = Iterator[tuple[str, list[Value]]]


@display.table
def networks(paper: Paper) -> str:
    """Show at most ``FEW`` networks: the latency at the smallest batch size, and throughputs at larger ones."""
    devices = _devices(paper)
    listed = _listed(devices[0])
    for timed in devices:
        shared = listed[listed.model.isin(timed.rows.model)]
        listed = listed if shared.empty else shared
    listed = spread(listed, FEW)
    columns = [column for timed in devices for column in _summary(timed, listed.model)]
    return _table(listed, [("FLOP", _counts(listed.flop, "FLOP")), *columns])


@display.table
def latencies(paper: Paper) -> str:
    """Show all networks: the latencies at the batch sizes of the figures with their intervals, and throughputs."""
    devices = _devices(paper)
    listed = spread(_listed(devices[0]), display.LISTED)
    columns: list[tuple[str, list[Any]]] = [
        ("FLOP", _counts(listed.flop, "FLOP")),
        ("Parameters", _counts(listed.parameters.astype(int))),
    ]
    for timed in devices:
        for size in timed.batches:
            calls = [estimated(row, "latency_s", "s").interval for row in _rows(timed, listed.model, size)]
            columns.append((f"{timed.kind}, batch {size}", calls))
        columns += _fastest(timed, listed.model)
    return _table(listed, columns)


def _devices(paper: Paper) -> list[Timed]:
    here = display.required(timed_here(paper), COMMAND)
    return [found for found in (here, timed_gpu(paper)) if found]


def _listed(timed: Timed) -> pd.DataFrame:
    return timed.rows.sort_values(["flop", "batch"]).drop_duplicates("model")


def _counts(values: pd.Series, unit: str = "") -> list[Value]:
    return [exact(value, unit) for value in values.tolist()]


def _rows(timed: Timed, models: pd.Series, batch: int) -> list[Any]:
    """Return the row of each network at a batch size, or None."""
    found = {row.model: row for row in each(timed.at(batch))}
    return [found.get(model) for model in models]


def _summary(timed: Timed, models: pd.Series) -> Columns:
    """Yield the columns of a device. The highest throughput follows where no other column has it."""
    first, *others = timed.batches
    yield f"{timed.kind}, batch {first}", [estimated(row, "latency_s", "s") for row in _rows(timed, models, first)]
    for size in others:
        yield f"batch {size}", [_rate(row) for row in _rows(timed, models, size)]
    rates, batches = _fastest(timed, models)
    if not {batch.number for batch in batches[1]} <= {None, *others}:
        yield rates
        yield batches


def _fastest(timed: Timed, models: pd.Series) -> Columns:
    """Yield the highest throughput of each network at any batch size, and that batch size."""
    best: list[Any] = []
    for model in models:
        found = each(matching(timed.rows, model=model).sort_values("batch"))
        best.append(max(found, key=lambda row: row.throughput_per_s, default=None))
    yield f"{timed.kind}, best", [_rate(row) for row in best]
    yield "at batch", [exact(int(row.batch)) if row else NOTHING for row in best]


def _rate(row: Any) -> Value:
    return replace(throughput(row), unit="/s") if row else NOTHING


def _table(listed: pd.DataFrame, columns: list[tuple[str, list[Any]]]) -> str:
    titles = " | ".join(["Network", *(f"{title} >" for title, _ in columns)])
    cells = ([escape(label) for label in listed.label], *(cells for _, cells in columns))
    return markdown_table(titles, zip(*cells, strict=True))
