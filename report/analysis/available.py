"""What a figure, table or finding needs from the cache; where it is not there, one sentence that says so."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import pandas as pd

from measure.cache.records import stored_as
from report.analysis.product_lines import FEWEST, LINES, Series, members
from report.analysis.product_lines import growing as enough_for_growth
from report.load import chips as chip_table
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import MemoryLevel, Roof
from report.text.prose import Prose
from report.text.quantities import listing

TRAINING_BATCH = 64
"""The batch size at which training is shown, where it was counted: one at which training is common."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Missing(Prose):
    """Stands in for a figure, table or finding: a sentence that says what is missing and what fills it."""


class DataMissingError(Exception):
    """The cache lacks what was asked for. Its text is the sentence of a ``Missing``."""


def missing(
    what: str, *, device: str = "", sections: Sequence[str] = (), flags: str = "", does: str = "measures them"
) -> DataMissingError:
    """The error whose sentence says what the cache lacks and which command of ``python -m measure`` fills the gap."""
    command = "python -m measure"
    command += f" --device {device}" if device else ""
    command += f" --sections {' '.join(sections)}" if sections else ""
    return DataMissingError(f"{what}; {command}{flags and ' '}{flags} {does}.")


def lacking(table: str, what: str, remedy: str = "restore it") -> DataMissingError:
    """The error whose sentence says what a table that is kept by hand lacks."""
    return DataMissingError(f"The table data/{table}.csv holds no {what}; {remedy}.")


def or_missing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result | Missing]:
    """Lets a function give the sentence in place of its result where the cache lacks what it needs."""

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | Missing:
        try:
            return function(*args, **kwargs)
        except DataMissingError as gap:
            return Missing(gap)

    return guarded


def finding(function: Callable[Arguments, str]) -> Callable[Arguments, Prose]:
    """Marks a sentence, or part of one, that chapters print inline."""

    @wraps(function)
    def told(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Prose:
        text = or_missing(function)(*args, **kwargs)
        return text if isinstance(text, Missing) else Prose(text)

    return told


def chips(paper: Paper, kind: str | None = None) -> pd.DataFrame:
    """The rows of all chips, or of those of a kind; at least one."""
    rows = paper.chips if kind is None else paper.chips[paper.chips.kind == kind]
    if rows.empty:
        what = "chip" if kind is None else chip_table.KINDS[kind]
        raise DataMissingError(f"The table data/chips.csv holds no {what}; add rows to it, or restore it.")
    return rows


def powered(paper: Paper) -> pd.DataFrame:
    """The chips with a stated power, each at its headline rate, with ``peak_per_watt`` (FLOP/s/W); at least one."""
    rows = chip_table.headline(chips(paper))
    rows = rows[rows.power_w.notna()]
    if rows.empty:
        raise DataMissingError(
            "The table data/chips.csv states no chip's power; fill its column power_w, or restore it."
        )
    return rows.assign(peak_per_watt=rows.peak_flop_per_s / rows.power_w)


def product_lines(paper: Paper) -> list[Series]:
    """The lines of products that have chips; at least one."""
    found = members(chips(paper))
    if not found:
        names = listing([line.name for line in LINES])
        raise DataMissingError(
            f"The table data/chips.csv holds no chip of the lines {names}; add rows to it, or restore it."
        )
    return found


def growing(paper: Paper) -> list[Series]:
    """The kinds and lines of products that have chips enough for a rate of growth; at least one."""
    found = enough_for_growth(chips(paper))
    if not found:
        raise DataMissingError(
            f"No kind of chip in data/chips.csv has {FEWEST} chips of different years at one precision and unit; "
            "add rows to it, or restore it."
        )
    return found


def workloads(paper: Paper, precision: str = BASE_PRECISION, batch: int | None = None) -> pd.DataFrame:
    """What the models ask for at a precision, at one or all batch sizes; at least one row."""
    rows = paper.workloads[paper.workloads.precision == precision]
    if batch is not None:
        rows = rows[rows.batch == batch]
    if rows.empty:
        at = "" if precision == BASE_PRECISION else f" at {precision}"
        flags = "" if precision == BASE_PRECISION else f" --precisions {precision}"
        if batch is not None:
            at, flags = f"{at} at batch size {batch}", f"{flags} --batch-sizes {batch}"
        raise DataMissingError(
            f"The models have not been counted yet{at}; python -m measure --sections workload{flags} counts them."
        )
    return rows


def trained(paper: Paper) -> pd.DataFrame:
    """What a training step asks for, at the largest batch size up to ``TRAINING_BATCH`` that was counted."""
    rows = workloads(paper)
    rows = rows[(rows.batch <= TRAINING_BATCH) & rows.backward_flop.notna()]
    rows = rows[rows.batch == rows.batch.max()]
    if rows.empty:
        raise DataMissingError(
            f"No backward pass at a batch size up to {TRAINING_BATCH} has been counted; python -m measure "
            f"--sections workload --batch-sizes {TRAINING_BATCH} counts them."
        )
    return rows


def layers(paper: Paper, batch: int = 1) -> pd.DataFrame:
    """The layers of the models at a batch size; at least one."""
    workloads(paper, batch=batch)
    rows = paper.layers[(paper.layers.precision == BASE_PRECISION) & (paper.layers.batch == batch)]
    if rows.empty:
        raise DataMissingError(
            f"The table data/workload/layers.csv holds no layer at batch size {batch}; restore it, or count again with "
            f"python -m measure --sections workload --force --batch-sizes {batch}."
        )
    return rows


def operators(paper: Paper, stage: str, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """The operators of the models in a stage at a precision, at all batch sizes; at least one."""
    rows = paper.operators[
        (paper.operators.stage == stage) & (paper.operators.precision == stored_as(precision))
    ]
    if rows.empty:
        workloads(paper, stored_as(precision))
        raise DataMissingError(
            f"The operators of the models have not been counted yet at {stored_as(precision)}; python -m measure "
            f"--sections workload --precisions {stored_as(precision)} counts them."
        )
    return rows


def counted(paper: Paper) -> pd.DataFrame:
    """What counters say of the classification models; at least one row."""
    if paper.counters.empty:
        raise DataMissingError(
            "The counters have not been compared yet; python benchmarks/counters.py compares them."
        )
    return paper.counters


def machine(paper: Paper, kind: str) -> Machine:
    """The machine of a kind that was measured last."""
    found = paper.machine(kind)
    if found is None:
        flags = {"cpu": "--device cpu", "gpu": "--device cuda (or mps) on a machine that has one"}
        raise DataMissingError(
            f"No {chip_table.KINDS[kind]} has been measured yet; to add one, run python -m measure {flags[kind]}."
        )
    return found


def machines(paper: Paper) -> tuple[Machine, ...]:
    """All machines; at least one."""
    if not paper.machines:
        raise DataMissingError("No machine has been measured yet; python -m measure measures this one.")
    return paper.machines


def roof(of: Machine, precision: str = BASE_PRECISION) -> Roof:
    """A machine's measured roof."""
    found = of.roof(precision)
    if found is None:
        raise DataMissingError(
            f"The {precision} roof of the {title(of)} has not been measured; python -m measure "
            f"--device {of.environment.device} --sections ceilings --precisions {precision} measures it."
        )
    return found


def levels(of: Machine) -> tuple[MemoryLevel, ...]:
    """The levels of a machine's memory, the fastest first; at least one."""
    if not of.levels:
        raise DataMissingError(
            f"The levels of memory of the {title(of)} have not been measured; python -m measure "
            f"--device {of.environment.device} --sections ceilings measures them."
        )
    return of.levels


def cells(of: Machine, precision: str | None = BASE_PRECISION) -> pd.DataFrame:
    """A machine's inference cells that were measured, at one or all precisions; at least one."""
    rows = of.cells[of.cells.status == "ok"]
    rows = rows[rows.latency_s.notna() & rows.forward_flop.notna()]
    if precision is not None:
        rows = rows[rows.precision == precision]
    if rows.empty:
        at = "" if precision is None else f" at {precision}"
        flag = "" if precision is None else f" --precisions {precision}"
        raise DataMissingError(
            f"No inference cell of the {title(of)} has been measured{at}; python -m measure "
            f"--device {of.environment.device} --sections workload inference{flag} measures them."
        )
    return rows


def steps(of: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """A machine's cells of training that were measured and counted, at a precision; at least one."""
    rows = of.steps[(of.steps.status == "ok") & (of.steps.precision == precision)]
    rows = rows[rows.time_ratio.notna() & rows.backward_flop.notna()]
    if rows.empty:
        raise DataMissingError(
            f"No training step on the {title(of)} has been measured at {precision}; python -m measure "
            f"--device {of.environment.device} --sections workload training --precisions {precision} measures them."
        )
    return rows


def told_of_each(paper: Paper, part: Callable[[Machine], str]) -> str:
    """A part from each machine that figures show, or what it lacks for one; at least one part."""
    machines(paper)
    told = [or_missing(part)(shown) for shown in paper.shown]
    if all(isinstance(text, Missing) for text in told):
        raise DataMissingError(" ".join(told))
    return " ".join(told)


def on_each_machine(part: Callable[Concatenate[Paper, Machine, Arguments], str]) -> Callable[..., Prose]:
    """Marks a finding that says its part of each machine that figures show, or what the machine lacks for it."""

    @wraps(part)
    def finding_of_all(paper: Paper, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Prose:
        return finding(told_of_each)(paper, lambda machine: part(paper, machine, *args, **kwargs))

    return finding_of_all


def shown_cells(paper: Paper, precision: str | None = BASE_PRECISION) -> pd.DataFrame:
    """The measured cells of all machines that figures show, with the kind of each in ``device``; at least one."""
    return rows_of_each(paper, lambda of: cells(of, precision))


def rows_of_each(paper: Paper, part: Callable[[Machine], pd.DataFrame]) -> pd.DataFrame:
    """Rows from each machine that figures show, with its kind in ``device``; from at least one."""
    machines(paper)
    asked = [(shown, or_missing(part)(shown)) for shown in paper.shown]
    found = [
        rows.assign(device=chip_table.KINDS[shown.kind])
        for shown, rows in asked
        if not isinstance(rows, Missing)
    ]
    if not found:
        raise DataMissingError(" ".join(str(gap) for _, gap in asked))
    return pd.concat(found, ignore_index=True)


def titles(paper: Paper, rows: pd.DataFrame) -> str:
    """The machines in the rows of ``shown_cells``, as a sentence names them."""
    present = set(rows.device)
    return listing([f"the {title(each)}" for each in paper.shown if chip_table.KINDS[each.kind] in present])


def title(of: Machine) -> str:
    """A machine's name as the paper writes it."""
    name = of.environment.name
    return f"{name} ({of.environment.cores} cores)" if of.kind == "cpu" else name


MORE_ROWS = "add rows to it, or restore it"
"""The remedy where a table kept by hand lacks rows of some sort."""


def missing_on(
    machine: Machine, what: str, *sections: str, flags: str = "", does: str = "measures them"
) -> DataMissingError:
    """Return the error for what a machine lacks, with the command that fills the gap there."""
    return missing(what, device=machine.environment.device, sections=sections, flags=flags, does=does)
