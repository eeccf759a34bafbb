"""Tables of what predicts a latency, of saturation, and of machines side by side."""

import pandas as pd

from report.analysis import available, predictors, saturation, speed_up
from report.analysis.available import Missing, or_missing
from report.analysis.correlations import FEWEST, written
from report.analysis.predictors import Rank
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.tables.pipe import LEFT, NONE, RIGHT, pipe, with_interval
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import percent, si, significant, throughput


@or_missing
def ranking(paper: Paper) -> str:
    """The predictors of latency on each machine that figures show, over all cells and at each common batch size."""
    rows = []
    for machine in _measured(paper):
        for batch, ranks in predictors.rankings(machine).items():
            group = [KINDS[machine.kind], "all" if batch is None else str(batch)]
            rows += [[*group, *_rank(rank)] for rank in ranks]
    if not rows:
        raise available.DataMissingError(
            f"To rank predictors takes {FEWEST} models that were measured at the same batch size on one machine; "
            "python -m measure measures more."
        )
    header = [("Device", LEFT), ("Batch", RIGHT), ("Predictor", LEFT), ("Spearman’s ρ", RIGHT)]
    header += [("Kendall’s τ", RIGHT), ("Exponent", RIGHT), ("Factor off", RIGHT), ("Points", RIGHT)]
    return pipe(header, rows)


def _rank(rank: Rank) -> list[str]:
    coefficients = [
        str(coefficient) + ("" if coefficient.settled else " \\*")
        for coefficient in rank.coefficients.values()
    ]
    law = rank.law
    return [
        rank.predictor.name, *coefficients, written(law.exponent, law.interval), significant(law.typical_factor),
        str(rank.spearman.points),
    ]  # fmt: skip


def _measured(paper: Paper) -> list[Machine]:
    """The machines that figures show and that have cells; at least one."""
    present = set(available.shown_cells(paper).device)
    return [machine for machine in paper.shown if KINDS[machine.kind] in present]


@or_missing
def saturations(paper: Paper) -> str:
    """The saturation batch of each model on each machine that figures show."""
    asked = [(machine, or_missing(saturation.of)(machine)) for machine in _measured(paper)]
    rows = []
    for machine, found in asked:
        for row in each(found) if isinstance(found, pd.DataFrame) else ():
            rows.append(
                [
                    KINDS[machine.kind], escape(row.model), str(len(row.batches)),
                    throughput(row.first_per_s), throughput(row.best_per_s), significant(row.gain),
                    str(row.batch), percent(row.kept), NONE if pd.isna(row.limit) else row.limit,
                    NONE if pd.isna(row.attained) else percent(row.attained),
                ]
            )  # fmt: skip
    if not rows:
        raise available.DataMissingError(" ".join(str(gap) for _, gap in asked))
    header = [
        ("Device", LEFT),
        ("Model", LEFT),
        ("Sizes", RIGHT),
        ("At the smallest", RIGHT),
        ("Best", RIGHT),
    ]
    header += [
        ("Gain", RIGHT),
        ("Saturated at", RIGHT),
        ("Kept", RIGHT),
        ("Beyond it", LEFT),
        ("Attained", RIGHT),
    ]
    return pipe(header, rows)


@or_missing
def speed_ups(paper: Paper) -> str:
    """The cells that machines share, side by side."""
    pairs = or_missing(speed_up.compared)(paper)
    if isinstance(pairs, Missing):  # the text says why
        raise available.DataMissingError("No two machines to set side by side.")
    header = [("Machine", LEFT), ("Model", LEFT), ("Batch", RIGHT)]
    header += [(escape(f"Latency on {available.title(paper.shown[0])}"), RIGHT), ("Its latency", RIGHT)]
    header += [("Speed-up", RIGHT), ("Predicted", RIGHT)]
    return pipe(
        header,
        [
            [
                escape(available.title(machine)), escape(row.model), str(row.batch), si(row.latency_s, "s"),
                si(row.other_s, "s"), significant(row.speed_up),
                NONE if pd.isna(row.predicted) else significant(row.predicted),
            ]
            for machine, cells in pairs
            for row in each(cells)
        ],
    )  # fmt: skip


def _latency(row: pd.Series) -> list[str]:
    """A cell's median, interval, rounds and samples, or what became of it."""
    if row.status != "ok" or pd.isna(row.latency_s):
        return [
            NONE,
            escape(f"{row.status}: {row.reason}" if row.reason and not pd.isna(row.reason) else row.status),
            NONE,
            NONE,
        ]
    known = (
        [si(row.latency_s, "s"), NONE]
        if pd.isna(row.latency_low_s)
        else with_interval(row.latency_s, row.latency_low_s, row.latency_high_s, "s")
    )
    return [*known, str(int(row.rounds)), str(int(row.sample_count))]


@or_missing
def latencies(paper: Paper) -> str:
    """Latency of every cell of the machines shown, failed cells with their status and reason."""
    available.machines(paper)
    tried = [machine.cells.assign(device=KINDS[machine.kind]) for machine in paper.shown]
    cells = pd.concat(tried, ignore_index=True)
    cells = cells[cells.precision == BASE_PRECISION].sort_values(["device", "model", "batch"])
    if cells.empty:
        available.shown_cells(paper)
    header = [
        ("Device", LEFT),
        ("Model", LEFT),
        ("Batch", RIGHT),
        ("Latency", RIGHT),
        ("95 % interval", RIGHT),
        ("Rounds", RIGHT),
        ("Samples", RIGHT),
    ]
    header += [("Throughput", RIGHT), ("Share of attainable", RIGHT)]
    rows = []
    for row in each(cells):
        rate = NONE if pd.isna(row.throughput_per_s) else throughput(row.throughput_per_s)
        share = NONE if pd.isna(row.attained) else percent(row.attained)
        rows.append([row.device, escape(row.model), str(row.batch), *_latency(row), rate, share])
    return pipe(header, rows)
