"""Kernel by kernel, or on a processor operator by operator: where the time of a profiled cell goes, and what it did.

A cell is a forward pass or a training step that ran under torch's profiler. Its operators are grouped by
``report.analysis.operator_groups``; the work of a group is what its operators were counted with
(``measure.cache.records.Operator``): all FLOP, products or not, and unfused bytes. The optimiser's operators, and a
loss's, are not counted.
"""

from functools import cache

import pandas as pd

from measure.domain.words import BACKWARD, EAGER, FORWARD, INFERENCE, STEP, stored_as
from report.analysis import available
from report.analysis.operator_groups import grouped, kinds_of
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching

CELL = ["model", "batch", "phase"]
"""What tells the profiled cells of a machine apart, at one precision and variant."""

GAP = "framework"
"""The part of a call in which no operator runs."""

STAGES_OF = {INFERENCE: (INFERENCE,), STEP: (FORWARD, BACKWARD)}
"""The stages whose operators are counted, of each phase."""

STUDIED = ("resnet50", "mobilenet_v2", "mobilenet_v3_large", "vit_b_32")
"""The models of the study, and both that it may have meant by MobileNet."""

STUDIED_BATCH = 64
"""The batch size of the study."""


def profiled(machine: Machine) -> pd.DataFrame:
    """Return the profiled cells of a machine at the base precision, with the times of a call (s); at least one."""
    rows = matching(machine.profiles, status="ok", precision=BASE_PRECISION, variant=EAGER)
    what = f"The operators on the {available.title(machine)} have not been profiled at {BASE_PRECISION}"
    gap = available.missing_on(machine, what, "workload", "operators", does="profiles them")
    return available.at_least_one(rows, gap).astype({"plain_s": float, "profiled_s": float, "busy_s": float})


@cache
def groups(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a group of operators in a profiled cell: its time (``time_s``) and work (``flop``, ``byte``).

    ``share`` is its part of the time of all operators. The work is 0 where none was counted.
    """
    cells = profiled(machine)
    times = matching(machine.operators, variant=EAGER, precision=BASE_PRECISION)
    times = times.assign(group=grouped(times, kinds_of(times, paper.layers)))
    spent = times.groupby([*CELL, "group"], as_index=False).time_s.sum()
    rows = cells.merge(spent, on=CELL).merge(work(paper), on=[*CELL, "group"], how="left")
    rows[["flop", "byte"]] = rows[["flop", "byte"]].fillna(0.0)
    return rows.assign(share=rows.time_s / rows.groupby(CELL).time_s.transform("sum"))


def work(paper: Paper, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """One row is a group of the counted operators of a model at a batch size and phase, with ``flop`` and ``byte``."""
    counted = matching(paper.operators, precision=stored_as(precision))
    counted = counted.assign(
        group=grouped(counted, counted.layer_kind),
        flop=(counted.flop + counted.other_flop) * counted.calls,
        byte=counted.byte * counted.calls,
        phase=counted.stage.map({stage: phase for phase, stages in STAGES_OF.items() for stage in stages}),
    )
    return counted.groupby([*CELL, "group"], as_index=False)[["flop", "byte"]].sum()


def launched(paper: Paper, machine: Machine) -> pd.DataFrame:
    """Return the times of kernels in profiled cells, each with the ``group`` of the operator that launched it."""
    rows = matching(machine.kernels, variant=EAGER, precision=BASE_PRECISION)
    return rows.assign(group=grouped(rows, kinds_of(rows, paper.layers)))


def launching_groups(paper: Paper, machine: Machine) -> dict[str, str]:
    """Return for each kernel, by name, the group of operators that launch it, or of several the longest one."""
    sums = launched(paper, machine).groupby(["kernel", "group"], as_index=False)[["time_s"]].sum()
    longest = sums.sort_values("time_s").drop_duplicates("kernel", keep="last")
    return dict(zip(longest.kernel, longest.group, strict=True))


def on_roof(paper: Paper, machine: Machine) -> pd.DataFrame:
    """Return the groups that do arithmetic, with ``intensity`` (FLOP per unfused byte) and ``flop_per_s``."""
    rows = groups(paper, machine)
    rows = _counted(rows[rows.time_s > 0], machine)
    return rows.assign(intensity=rows.flop / rows.byte, flop_per_s=rows.flop / rows.time_s)


def whole(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a profiled cell that was counted: all its work over the time of a call without the profiler."""
    rows = groups(paper, machine).groupby([*CELL, "plain_s"], as_index=False)
    sums = _counted(rows[["flop", "byte", "time_s"]].sum(), machine)
    return sums.assign(intensity=sums.flop / sums.byte, flop_per_s=sums.flop / sums.plain_s)


def _counted(rows: pd.DataFrame, machine: Machine) -> pd.DataFrame:
    """Return the rows with FLOP and bytes; at least one."""
    what = f"The operators of the models that were profiled on the {available.title(machine)} have not been counted"
    gap = available.missing_on(machine, what, "workload", "operators", does="counts them")
    return available.at_least_one(rows[(rows.flop > 0) & (rows.byte > 0)], gap)


def pictured(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one cell of each of up to four models, those of the study where they are among the cells.

    Of a model it is the training step, where that is among them, at the largest batch size.
    """
    cells = cells.assign(is_step=cells.phase == STEP)
    largest = cells.sort_values(["is_step", "batch"], kind="stable").drop_duplicates("model", keep="last")
    studied = largest[largest.model.isin(STUDIED)]
    return (largest if studied.empty else studied).sort_values("model").head(len(STUDIED))[CELL]


def parts(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a part of a call under the profiler: a group of operators, or ``GAP``, what is left of it.

    The ``time_s`` of a call's parts sum to its ``profiled_s``; ``part`` is each one's share of it.
    """
    rows = groups(paper, machine)
    spent = rows.groupby([*CELL, "profiled_s"], as_index=False).time_s.sum()
    gaps = spent.assign(group=GAP, time_s=spent.profiled_s - spent.time_s)
    both = pd.concat([rows[[*CELL, "profiled_s", "group", "time_s"]], gaps], ignore_index=True)
    return both.assign(part=both.time_s / both.profiled_s)


def step_s(machine: Machine, model: str, batch: int) -> float | None:
    """Return the time of a training step at the base precision: as measured in rounds, else as it was profiled."""
    cell = {"model": model, "batch": batch, "precision": BASE_PRECISION, "variant": EAGER, "status": "ok"}
    measured = matching(machine.steps, **cell).latency_s
    profiled = matching(machine.profiles, **cell, phase=STEP).plain_s
    return next((float(time) for times in (measured, profiled) for time in times.dropna()), None)


PHASES = {INFERENCE: "inference", STEP: "training"}
"""The phases as titles and sentences have them."""
