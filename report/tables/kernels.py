"""The tables of kernels: training steps beside a published study's, and FLOP by counters beside FLOP by formulas."""

from typing import Any

import pandas as pd

from report.analysis import available, counted_kernels, operator_shares
from report.analysis.available import DataMissingError, Missing, or_missing
from report.analysis.long_lists import listed
from report.analysis.operator_shares import PHASES, STUDIED, STUDIED_BATCH
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.tables.pipe import MEASURED_IN, NONE, NOT_MEASURED, cited, known, named, others, pipe
from report.text.frame_rows import each
from report.text.prose import escape, intensity, percent, si


def _measurements(byte_per_s: Any, time_s: Any, flop_per_s: Any, flop_per_byte: Any) -> list[str]:
    """Return the last cells of a row: DRAM rate, time, rate of arithmetic and intensity."""
    rates = ((byte_per_s, "B/s"), (time_s, "s"), (flop_per_s, "FLOP/s"))
    return [
        *(known(value, si, unit, otherwise=NOT_MEASURED) for value, unit in rates),
        known(flop_per_byte, intensity, otherwise=NOT_MEASURED),
    ]


def _measured(paper: Paper, machine: Machine, model: str) -> list[str]:
    """Return a training step on a machine: by counters, else its time, and the rate of its products' FLOP."""
    counted = counted_kernels.step(machine, model, STUDIED_BATCH)
    if counted is not None:
        rates = (counted.dram_byte_per_s, counted.time_s, counted.flop_per_s, counted.intensity)
        return [escape(model), named(machine), "hardware counters", *_measurements(*rates)]
    time_s = operator_shares.step_s(machine, model, STUDIED_BATCH)
    if time_s is None:
        return [escape(model), named(machine), NONE, *_measurements(None, None, None, None)]
    workloads = paper.workloads[paper.workloads.precision == BASE_PRECISION]
    asked = workloads[(workloads.model == model) & (workloads.batch == STUDIED_BATCH)]
    flop = (asked.forward_flop + asked.backward_flop).max()
    return [escape(model), named(machine), "clock and exact FLOP", *_measurements(None, time_s, flop / time_s, None)]


@or_missing
def steps(paper: Paper) -> str:
    """List the training steps of the study's models: as it printed them, and on every machine."""
    printed = paper.training_steps
    if printed.empty:
        raise available.lacking("published/training_steps", "training step of a study")
    rows = []
    for model in STUDIED:
        rows += [
            [escape(model), escape(row.gpu), cited(row.study),
             *_measurements(row.dram_byte_per_s, row.time_s, row.flop_per_s, row.intensity_flop_per_byte)]
            for row in each(printed[printed.model_key == model])
        ]  # fmt: skip
        imported = [
            machine for machine in paper.imported if counted_kernels.step(machine, model, STUDIED_BATCH) is not None
        ]
        rows += [_measured(paper, machine, model) for machine in (*paper.shown, *imported)]
    return pipe("Model | Machine | By | DRAM rate > | Time > | FLOP/s > | Intensity >", rows)


@or_missing
def flop(paper: Paper) -> str:
    """List the FLOP of counted cells by kind of work: by hardware counters, and by formulas.

    Where no counters were read here the cells are training steps that others printed, all work of each together.
    """
    read = or_missing(counted_kernels.machines)(paper)
    if isinstance(read, Missing):
        printed = available.at_least_one(counted_kernels.printed_steps(paper), DataMissingError(read))
        names = [f"{escape(row.gpu)} {cited(row.study)}" for row in each(printed)]
        found = printed.assign(counted_flop=printed.flop, work="all", machine=names)
    else:
        found = pd.concat(
            counted_kernels.flop_by_work(paper, machine).assign(machine=named(machine)) for machine in read
        )
    cells, left = listed(found, "asked_flop")
    rows = [
        [
            row.machine, escape(row.model), f"{PHASES[row.phase]} at {row.batch}, {row.precision}", row.work,
            known(row.counted_flop, si, "FLOP", otherwise=NOT_MEASURED), known(row.asked_flop, si, "FLOP"),
            known(row.counted_flop / row.asked_flop if row.asked_flop > 0 else None, percent, 3),
        ]
        for row in each(cells)
    ]  # fmt: skip
    header = "Machine | Model | Cell | Work | By hardware counters > | By formulas > | Counted >"
    return pipe(header, rows + others(header, left, MEASURED_IN))
