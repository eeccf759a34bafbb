"""Collectives and data-parallel steps of groups of processes, as this program timed them."""

import pandas as pd

from measure.domain.collectives import ALL_REDUCE
from measure.domain.groups import OVERSUBSCRIBED
from measure.domain.names import model_name
from report.chapters.several import timed
from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import Machine, Paper
from report.paper.frames import each, highest, matching
from report.stats.value import Name, Source, Value, estimated, exact

COMMAND = "--sections distributed"


class MeasuredGroup(Facts):
    """Processes of one machine: an all-reduce by size, and a data-parallel step with and without its exchange."""

    machine: Name  #: The machine.
    backend: Name  #: The library of the collectives.
    processes: Value  #: The processes: most, without more of them than cores.
    short_byte: Value  #: The smallest array.
    short: Value  #: The time of its all-reduce.
    bus: Value  #: The highest bus bandwidth of any array.
    half_byte: Value  #: The smallest array with half of it.
    network: Name  #: The network of the step: that of most gradients.
    gradients: Value  #: Bytes of its gradients.
    sent: Value  #: Time that their all-reduce would take at the highest bandwidth.
    step: Value  #: Time of the step.
    ratio: Value  #: Time of the step over that without the exchange.


def machines(paper: Paper) -> list[Machine]:
    """Return the machines that timed collectives."""
    return [machine for machine in paper.machines if len(machine.collectives)]


def reductions(machine: Machine) -> pd.DataFrame:
    """Return the all-reduces of the largest group without more processes than cores, by size."""
    rows = _within_cores(matching(machine.collectives, collective=ALL_REDUCE))
    return rows[rows.processes == rows.processes.max()].sort_values("message_byte")


def _within_cores(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[~rows["flags"].map(lambda flags: OVERSUBSCRIBED in flags).astype(bool)]


def of(paper: Paper) -> MeasuredGroup:
    machine = next((each for each in machines(paper) if len(reductions(each))), None)
    source = Source(f"machines/{machine.folder if machine else '*'}/collectives.csv", "all", measure_command(COMMAND))
    if machine is None:
        return sourced(missing(MeasuredGroup), source)
    rows = reductions(machine)
    processes = int(rows.processes.iloc[0])
    short, best = next(each(rows)), highest(rows, "bus_byte_per_s")
    half = rows[rows.bus_byte_per_s >= timed.HALF * best.bus_byte_per_s].message_byte.min()
    steps = matching(_within_cores(machine.data_parallel_steps), processes=processes)
    step = highest(steps, "gradient_byte") if len(steps) else None
    byte = None if step is None else int(step.gradient_byte)
    return sourced(
        MeasuredGroup(
            Name(machine.name), Name(short.backend), exact(processes), exact(int(short.message_byte), "B"),
            estimated(short, "latency_s", "s"), exact(best.bus_byte_per_s, "B/s"), exact(int(half), "B"),
            Name(None if step is None else model_name(step.model)), exact(byte, "B"),
            exact(None if byte is None else byte * best.latency_s / best.message_byte, "s"),
            estimated(step, "latency_s", "s"), estimated(step, "ratio"),
        ),
        source,
    )  # fmt: skip
