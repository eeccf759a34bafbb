"""The tables of kernels: training steps beside a published study's, and FLOP by counters beside FLOP by formulas."""

import pandas as pd

from report.analysis import available, counted_kernels, operator_shares
from report.analysis.available import DataMissingError, or_missing
from report.analysis.operator_shares import PHASES, STUDIED, STUDIED_BATCH
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.tables.pipe import LEFT, NONE, RIGHT, cited, pipe
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import intensity, percent, si

NOT_MEASURED = "not measured"


def told(value: float | None, unit: str) -> str:
    """A quantity, or that it was not measured."""
    return NOT_MEASURED if value is None or pd.isna(value) else si(value, unit)


def numbers(
    byte_per_s: float | None, time_s: float | None, flop_per_s: float | None, flop_per_byte: float | None
) -> list[str]:
    """The last cells of a row: DRAM rate, time, rate of arithmetic and intensity."""
    known = flop_per_byte is not None and not pd.isna(flop_per_byte)
    about = intensity(flop_per_byte) if known and flop_per_byte is not None else NOT_MEASURED
    return [told(byte_per_s, "B/s"), told(time_s, "s"), told(flop_per_s, "FLOP/s"), about]


def measured(paper: Paper, of: Machine, model: str) -> list[str]:
    """A training step on a machine: by counters, else its time, and the rate at which its products' FLOP were done."""
    title = escape(available.title(of))
    counted = counted_kernels.step(of, model, STUDIED_BATCH)
    if counted is not None:
        rates = (counted.dram_byte_per_s, counted.time_s, counted.flop_per_s, counted.intensity)
        return [model, title, "counters", *numbers(*rates)]
    time_s = operator_shares.step_s(of, model, STUDIED_BATCH)
    if time_s is None:
        return [model, title, NONE, *numbers(None, None, None, None)]
    asked = paper.workloads[
        (paper.workloads.model == model)
        & (paper.workloads.batch == STUDIED_BATCH)
        & (paper.workloads.precision == BASE_PRECISION)
    ]
    flop = (asked.forward_flop + asked.backward_flop).max()
    return [model, title, "clock and exact FLOP", *numbers(None, time_s, flop / time_s, None)]


@or_missing
def steps(paper: Paper) -> str:
    """The training steps of the study's models: as it printed them, and on every machine."""
    printed = paper.training_steps
    if printed.empty:
        raise DataMissingError(
            "The table data/published/training_steps.csv holds no training step of a study; restore it."
        )
    rows = []
    for model in STUDIED:
        rows += [
            [model, escape(row.gpu), cited(row.study),
             *numbers(row.dram_byte_per_s, row.time_s, row.flop_per_s, row.intensity_flop_per_byte)]
            for row in each(printed[printed.model_key == model])
        ]  # fmt: skip
        imported = [of for of in paper.imported if counted_kernels.step(of, model, STUDIED_BATCH) is not None]
        rows += [measured(paper, of, model) for of in (*paper.shown, *imported)]
    header = [("Model", LEFT), ("Machine", LEFT), ("By", LEFT), ("DRAM rate", RIGHT), ("Time", RIGHT)]
    header += [("FLOP/s", RIGHT), ("Intensity", RIGHT)]
    return pipe(header, [[escape(row[0]), *row[1:]] for row in rows])


@or_missing
def flop(paper: Paper) -> str:
    """FLOP of each counted cell by kind of work: by hardware counters, and by formulas for the same operators."""
    rows = []
    for of in counted_kernels.machines(paper):
        for row in each(counted_kernels.flop_by_work(paper, of)):
            both = not pd.isna(row.counted_flop) and row.asked_flop > 0
            rows.append(
                [
                    escape(available.title(of)), escape(row.model),
                    f"{PHASES[row.phase]} at {row.batch}, {row.precision}", row.work,
                    told(row.counted_flop, "FLOP"), NONE if pd.isna(row.asked_flop) else si(row.asked_flop, "FLOP"),
                    percent(row.counted_flop / row.asked_flop, 3) if both else NONE,
                ]
            )  # fmt: skip
    header = [("Machine", LEFT), ("Model", LEFT), ("Cell", LEFT), ("Work", LEFT), ("By counters", RIGHT)]
    return pipe([*header, ("By formulas", RIGHT), ("Counted", RIGHT)], rows)
