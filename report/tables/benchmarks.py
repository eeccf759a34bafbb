"""Tables of what predicts a latency, of saturation, and of machines side by side."""

from typing import Any

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, predictors, saturation
from report.analysis.available import or_missing
from report.analysis.correlations import FEWEST, written
from report.analysis.long_lists import listed
from report.analysis.predictors import Rank
from report.analysis.speed_ups import told
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.tables.pipe import MEASURED_IN, NONE, failure, known, named, others, pipe, with_interval
from report.text.frame_rows import each
from report.text.prose import escape, percent, si, throughput


@or_missing
def ranking(paper: Paper) -> str:
    """Rank the predictors of latency on each machine shown, over all cells and at each common batch size."""
    rows = [
        [KINDS[machine.chip_kind], "all" if batch is None else str(batch), *_rank(rank)]
        for machine in _measured(paper)
        for batch, ranks in predictors.rankings(machine).items()
        for rank in ranks
    ]
    if not rows:
        raise available.missing(
            f"To rank predictors takes {FEWEST} models that were measured at the same batch size on one machine",
            does="measures more",
        )
    coefficients = "Spearman’s ρ > | Kendall’s τ > | Exponent > | Factor off > | Points >"
    return pipe(f"Device | Batch > | Predictor | {coefficients}", rows, of="Device")


def _rank(rank: Rank) -> list[str]:
    coefficients = [
        str(coefficient) + ("" if coefficient.settled else " \\*") for coefficient in rank.coefficients.values()
    ]
    law = rank.law
    return [
        rank.predictor.name, *coefficients, written(law.exponent, law.interval), significant(law.typical_factor),
        str(rank.spearman.points),
    ]  # fmt: skip


def _measured(paper: Paper) -> list[Machine]:
    """Return the machines shown that have cells; at least one."""
    present = set(available.shown_cells(paper).device)
    return [machine for machine in paper.shown if KINDS[machine.chip_kind] in present]


@or_missing
def saturations(paper: Paper) -> str:
    """List the saturation batch of each model on each machine shown."""
    available.shown_cells(paper)
    found, left = listed(available.rows_of_each(paper, saturation.of_machine), "best_per_s")
    rows = [
        [
            row.device, f"`{row.variant}`", escape(row.model), str(len(row.batches)), throughput(row.first_per_s),
            throughput(row.best_per_s), significant(row.gain), str(row.batch), percent(row.kept),
            known(row.limit, str), known(row.attained, percent),
        ]
        for row in each(found)
    ]  # fmt: skip
    header = "Device | Variant | Model | Sizes > | At the smallest > | Best > | Gain > | Saturated at > | Kept >"
    header += " | Beyond it | Attained >"
    return pipe(header, rows + others(header, left, MEASURED_IN), of="Device")


@or_missing
def speed_ups(paper: Paper) -> str:
    """Set the cells that machines share side by side."""
    pairs, _ = told(paper)
    found, left = listed(pd.concat([cells.assign(machine=named(machine)) for machine, cells in pairs]), "speed_up")
    rows = [
        [
            row.machine, escape(row.model), str(row.batch), si(row.latency_s, "s"), si(row.other_s, "s"),
            significant(row.speed_up), known(row.predicted, significant),
        ]
        for row in each(found)
    ]  # fmt: skip
    first = f"Latency on {named(paper.shown[0])} >"
    header = f"Machine | Model | Batch > | {first} | Its latency > | Speed-up > | Predicted >"
    return pipe(header, rows + others(header, left, MEASURED_IN))


def _latency(row: Any) -> list[str]:
    """Return a cell's median, interval, rounds and samples, or what became of it."""
    if row.status != "ok" or pd.isna(row.latency_s):
        return [NONE, failure(row), NONE, NONE]
    times = with_interval(row.latency_s, row.latency_low_s, row.latency_high_s, "s")
    return [*times, str(int(row.rounds)), str(int(row.sample_count))]


@or_missing
def latencies(paper: Paper) -> str:
    """List the latency of the cells of the machines shown, of failed ones their status and reason."""
    tried = available.rows_of_each(paper, lambda machine: machine.cells)
    cells = tried[tried.precision == BASE_PRECISION].sort_values(["device", "model", "batch"])
    if cells.empty:
        available.shown_cells(paper)
    cells, left = listed(cells, "latency_s")
    rows = [
        [
            row.device, escape(row.model), str(row.batch), *_latency(row), known(row.throughput_per_s, throughput),
            known(row.attained, percent),
        ]
        for row in each(cells)
    ]  # fmt: skip
    header = "Device | Model | Batch > | Latency > | 95 % interval > | Rounds > | Samples >"
    header += " | Throughput > | Share of attainable >"
    return pipe(header, rows + others(header, left, MEASURED_IN), of="Device")
