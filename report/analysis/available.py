"""What a figure, table or finding needs from the cache; where it is not there, one sentence that says so."""

from collections.abc import Callable, Sequence, Sized
from contextvars import ContextVar
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.words import stored_as
from report import failures
from report.analysis.product_lines import FEWEST, LINES, Series, members
from report.analysis.product_lines import growing as enough_for_growth
from report.load import chips as chip_table
from report.load import options
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import MemoryLevel
from report.text.frame_rows import matching
from report.text.prose import Gap, Prose, command, escape, listing

TRAINING_BATCH = 64
"""The batch size at which training is shown, where it was counted: one at which training is common."""

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Rows = TypeVar("Rows", bound=Sized)


class Missing(Gap):
    """Stands in for a figure, table or finding: a sentence that says what is missing and what fills it."""


class Failed(Missing):
    """Stands in for what could not be computed, and stays in its place: no command fills it."""

    def _repr_markdown_(self) -> str:
        return escape(self)

    def as_block(self) -> str:
        return escape(self)


class DataMissingError(Exception):
    """The cache lacks what was asked for. Its text is the sentence of a ``Missing``."""


class DeviceMissingError(DataMissingError):
    """No device of a kind was measured: a reader may not have one."""


def missing(
    what: str, *, device: str = "", sections: Sequence[str] = (), flags: str = "", does: str = "measures them"
) -> DataMissingError:
    """Return the error that says what the cache lacks and which command of ``python -m measure`` fills the gap."""
    own, models = options.cache_flags()
    words = f"python -m measure{own}{'' if '--models' in flags else models}"
    words += f" --device {device}" if device else ""
    words += f" --sections {' '.join(sections)}" if sections else ""
    words += f" {flags}" if flags else ""
    return DataMissingError(f"{what}; {command(words)} {does}.")


def lacking(table: str, what: str, remedy: str = "restore it") -> DataMissingError:
    """Return the error that says what a table that is kept by hand lacks."""
    return DataMissingError(f"The table data/{table}.csv holds no {what}; {remedy}.")


def at_least_one(rows: Rows, gap: DataMissingError) -> Rows:
    """Return the rows; where there is none, raise the error."""
    if len(rows) == 0:
        raise gap
    return rows


_asked: ContextVar[bool] = ContextVar("_asked", default=False)
"""Whether a figure, table or finding that a chapter asked for is being made."""


def or_missing(function: Callable[Arguments, Result]) -> Callable[Arguments, Result | Missing]:
    """Let a function return the sentence in place of its result where the cache lacks what it needs.

    Where a chapter asks for it, any other failure becomes a sentence too, and the rest of the paper is rendered. Within
    what a chapter asks for, such a failure goes on to that.
    """

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | Missing:
        asked = _asked.set(True)
        try:
            return function(*args, **kwargs)
        except DataMissingError as gap:
            return Missing(gap)
        except Exception as failure:
            if asked.old_value is True:
                raise
            return _failed(function, failure)
        finally:
            _asked.reset(asked)

    return guarded


def or_failed(function: Callable[Arguments, Result]) -> Callable[Arguments, Result | Missing]:
    """Let a part of what a chapter asks for fail by itself: a sentence stands for it, whatever went wrong."""

    @wraps(function)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result | Missing:
        try:
            return or_missing(function)(*args, **kwargs)
        except Exception as failure:
            return _failed(function, failure)

    return guarded


def _failed(function: Callable[..., Any], failure: Exception) -> Failed:
    """Return a placeholder for a figure, table or sentence that could not be computed."""
    return Failed(failures.sentence(f"{function.__module__}.{function.__qualname__}", failure))


def finding(function: Callable[Arguments, str]) -> Callable[Arguments, Prose]:
    """Mark a sentence, or part of one, that chapters print inline."""

    @wraps(function)
    def as_prose(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Prose:
        text = or_missing(function)(*args, **kwargs)
        return text if isinstance(text, Missing) else Prose(text)

    return as_prose


def chips(paper: Paper, kind: str | None = None) -> pd.DataFrame:
    """Return the rows of all chips, or of those of a kind; at least one."""
    what = "chip" if kind is None else KINDS[kind]
    return at_least_one(matching(paper.chips, chip_kind=kind), lacking("chips", what, MORE_ROWS))


def headline(paper: Paper) -> pd.DataFrame:
    """Return the chips that print a floating-point rate of 16 bits or more, at the fastest of these; at least one."""
    gap = lacking("chips", "chip with a floating-point rate of 16 bits or more", MORE_ROWS)
    return at_least_one(chip_table.headline(chips(paper)), gap)


def powered(paper: Paper) -> pd.DataFrame:
    """Return the chips of ``headline`` that state a power, with ``peak_per_watt`` (FLOP/s/W); at least one."""
    rows = headline(paper)
    what = "The table data/chips.csv states no power of such a chip; fill its column power_w, or restore it."
    rows = at_least_one(rows[rows.power_w.notna()], DataMissingError(what))
    return rows.assign(peak_per_watt=rows.peak_flop_per_s / rows.power_w)


def product_lines(paper: Paper) -> list[Series]:
    """Return the lines of products that have chips; at least one."""
    names = listing([line.name for line in LINES])
    return at_least_one(members(chips(paper)), lacking("chips", f"chip of the lines {names}", MORE_ROWS))


@cache
def growing(paper: Paper) -> list[Series]:
    """Return the kinds and lines of products that have dies enough for a rate of growth; at least one."""
    gap = DataMissingError(
        f"No kind of chip in data/chips.csv has {FEWEST} dies of different years at one precision and unit; "
        f"{MORE_ROWS}."
    )
    return at_least_one(enough_for_growth(chips(paper)), gap)


def workloads(paper: Paper, precision: str = BASE_PRECISION, batch: int | None = None) -> pd.DataFrame:
    """Return what the models ask for at a precision, at one or all batch sizes; at least one row."""
    at = "" if precision == BASE_PRECISION else f" at {precision}"
    flags = [] if precision == BASE_PRECISION else [f"--precisions {precision}"]
    if batch is not None:
        at += f" at batch size {batch}"
        flags.append(f"--batch-sizes {batch}")
    gap = _not_counted(f"The models have not been counted yet{at}", " ".join(flags))
    return at_least_one(matching(paper.workloads, precision=precision, batch=batch), gap)


def _not_counted(what: str, flags: str) -> DataMissingError:
    return missing(what, sections=["workload"], flags=flags, does="counts them")


def trained(paper: Paper) -> pd.DataFrame:
    """Return what a training step asks for, at the largest batch size up to ``TRAINING_BATCH`` that was counted."""
    rows = workloads(paper)
    rows = rows[(rows.batch <= TRAINING_BATCH) & rows.backward_flop.notna()]
    what = f"No backward pass at a batch size up to {TRAINING_BATCH} has been counted"
    gap = _not_counted(what, f"--batch-sizes {TRAINING_BATCH}")
    return at_least_one(rows[rows.batch == rows.batch.max()], gap)


def layers(paper: Paper, batch: int = 1) -> pd.DataFrame:
    """Return the layers of the models at a batch size; at least one."""
    workloads(paper, batch=batch)
    remedy = f"restore it, or count again with `python -m measure --sections workload --force --batch-sizes {batch}`"
    gap = lacking("workload/layers", f"layer at batch size {batch}", remedy)
    return at_least_one(matching(paper.layers, precision=BASE_PRECISION, batch=batch), gap)


def operators(paper: Paper, stage: str, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return the operators of the models in a stage at a precision, at all batch sizes; at least one."""
    stored = stored_as(precision)
    workloads(paper, stored)
    what = f"The operators of the models have not been counted yet at {stored}"
    gap = _not_counted(what, f"--precisions {stored}")
    return at_least_one(matching(paper.operators, stage=stage, precision=stored), gap)


def counted(paper: Paper) -> pd.DataFrame:
    """Return what counting programs say of the classification models; at least one row."""
    gap = "The counting programs have not been compared yet; `python benchmarks/counting_programs.py` compares them."
    return at_least_one(paper.counting_programs, DataMissingError(gap))


def machine(paper: Paper, kind: str) -> Machine:
    """Return the machine of a kind that was measured last."""
    found = paper.machine(kind)
    if found is None:
        run = {
            "cpu": "`python -m measure --device cpu`",
            "gpu": "`python -m measure --device cuda` (or mps) on a machine that has one",
        }
        raise DeviceMissingError(f"No {KINDS[kind]} has been measured yet; to add one, run {run[kind]}.")
    return found


def machines(paper: Paper) -> tuple[Machine, ...]:
    """Return all machines; at least one."""
    return at_least_one(paper.machines, missing("No machine has been measured yet", does="measures this one"))


def roof(machine: Machine, precision: str = BASE_PRECISION) -> Roofline:
    """Return a machine's measured roof."""
    found = machine.roof(precision)
    if found is None:
        what = f"The {precision} roof of the {title(machine)} has not been measured"
        raise missing_on(machine, what, "roofs", flags=f"--precisions {precision}", does="measures it")
    return found


def levels(machine: Machine) -> tuple[MemoryLevel, ...]:
    """Return the levels of a machine's memory, the fastest first; at least one."""
    what = f"The levels of memory of the {title(machine)} have not been measured"
    return at_least_one(machine.levels, missing_on(machine, what, "roofs"))


def cells(machine: Machine, precision: str | None = BASE_PRECISION) -> pd.DataFrame:
    """Return a machine's inference cells that were measured, at one or all precisions; at least one."""
    rows = matching(machine.cells, status="ok", precision=precision)
    what = f"No inference cell of the {title(machine)} has been measured"
    at, flags = ("", "") if precision is None else (f" at {precision}", f"--precisions {precision}")
    gap = missing_on(machine, what + at, "workload", "inference", flags=flags)
    return at_least_one(rows[rows.latency_s.notna() & rows.forward_flop.notna()], gap)


def steps(machine: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return a machine's cells of training that were measured and counted, at a precision; at least one."""
    rows = matching(machine.steps, status="ok", precision=precision)
    what = f"No training step on the {title(machine)} has been measured at {precision}"
    gap = missing_on(machine, what, "workload", "training", flags=f"--precisions {precision}")
    return at_least_one(rows[rows.time_ratio.notna() & rows.backward_flop.notna()], gap)


def results_of_each(paper: Paper, part: Callable[[Machine], Result]) -> list[tuple[Machine, Result | Missing]]:
    """Return each machine that figures show with its part, or what it lacks for one; at least one part."""
    machines(paper)
    parts = [(shown, or_missing(part)(shown)) for shown in paper.shown]
    gaps = [found for _, found in parts if isinstance(found, Missing)]
    if len(gaps) == len(parts):
        raise DataMissingError(" ".join(gaps))
    return parts


def sentences_of_each(paper: Paper, part: Callable[[Machine], str]) -> str:
    """Return a part from each machine that figures show, or what it lacks for one; at least one part."""
    return " ".join(text for _, text in results_of_each(paper, part))


def on_each_machine(part: Callable[Concatenate[Paper, Machine, Arguments], str]) -> Callable[..., Prose]:
    """Mark a finding that says its part of each machine that figures show, or what the machine lacks for it."""

    @wraps(part)
    def finding_of_all(paper: Paper, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Prose:
        return finding(sentences_of_each)(paper, lambda machine: part(paper, machine, *args, **kwargs))

    return finding_of_all


def shown_cells(paper: Paper, precision: str | None = BASE_PRECISION) -> pd.DataFrame:
    """Return the measured cells of all machines that figures show, with their kinds in ``device``; at least one."""
    return rows_of_each(paper, lambda machine: cells(machine, precision))


def rows_of_each(paper: Paper, part: Callable[[Machine], pd.DataFrame]) -> pd.DataFrame:
    """Return rows from each machine that figures show, with its kind in ``device``; from at least one."""
    found = [
        rows.assign(device=KINDS[machine.chip_kind])
        for machine, rows in results_of_each(paper, part)
        if not isinstance(rows, Missing)
    ]
    return pd.concat(found, ignore_index=True)


def titles(paper: Paper, rows: pd.DataFrame) -> str:
    """Return the machines in the rows of ``shown_cells``, as a sentence names them."""
    present = set(rows.device)
    return listing([f"the {title(machine)}" for machine in paper.shown if KINDS[machine.chip_kind] in present])


def title(machine: Machine, apart: bool = True) -> str:
    """Return a machine's name as the paper writes it: with its folder where others are called alike, if ``apart``.

    Where other programs disturbed its roofs, each share of them is too high, and the name says so with each share.
    """
    about = [f"{machine.environment.cores} cores"] if machine.chip_kind == "cpu" else []
    about += [machine.folder] if apart and machine.namesake else []
    about += ["roof measured beside other programs"] if machine.measured_roof.load else []
    return f"{machine.environment.name} ({', '.join(about)})" if about else machine.environment.name


MORE_ROWS = "add rows to it, or restore it"
"""The remedy where a table kept by hand lacks rows of some sort."""


def missing_on(
    machine: Machine, what: str, *sections: str, flags: str = "", does: str = "measures them"
) -> DataMissingError:
    """Return the error for what a machine lacks, with the command that fills the gap there."""
    return missing(what, device=machine.environment.device, sections=sections, flags=flags, does=does)
