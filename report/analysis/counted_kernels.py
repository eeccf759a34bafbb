"""What hardware counters say of a cell: its kernels summed, by the formulas of the chapter on kernels."""

import pandas as pd

from measure.domain.words import STEP, stored_as
from report.analysis import available, operator_shares
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.operator_groups import GROUPS, OTHER, group_of_kernel
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching

CELL = ["model", "batch", "precision", "phase", "variant"]
FLOP = ["fp64_flop", "fp32_flop", "fp16_flop", "tensor_flop"]
SUMMED = ["time_s", "dram_read_byte", "dram_write_byte", "l2_byte", "l1_byte", *FLOP]


def machines(paper: Paper) -> tuple[Machine, ...]:
    """Return the machines whose kernels were counted, imported ones last; at least one."""
    gap = DataMissingError(
        "No hardware counters have been read yet; on an NVIDIA GPU `python -m measure --device cuda --sections "
        "workload hardware-counters` reads them, and `python -m measure import-ncu` takes what was read elsewhere."
    )
    found = (machine for machine in (*paper.machines, *paper.imported) if not machine.hardware_counters.empty)
    return at_least_one(tuple(found), gap)


def cells(machine: Machine) -> pd.DataFrame:
    """One row is a cell that was counted: the sums of its kernels, and what follows from them.

    ``flop`` and all that needs it are empty where the FLOP of tensor cores are not known (``tensor_gap`` says why).
    """
    sums = _summed(machine.hardware_counters.astype(dict.fromkeys(SUMMED, float)), CELL, SUMMED)
    sums["dram_byte"] = sums.dram_read_byte + sums.dram_write_byte
    sums["flop"] = sums[FLOP].sum(axis=1, skipna=False)
    sums["flop_per_s"] = sums.flop / sums.time_s
    sums["dram_byte_per_s"] = sums.dram_byte / sums.time_s
    sums["intensity"] = sums.flop / sums.dram_byte
    return sums.merge(machine.hardware_counter_profiles[[*CELL, "tensor_gap"]], on=CELL)


def _summed(rows: pd.DataFrame, by: list[str], columns: list[str]) -> pd.DataFrame:
    """Return the sums of some columns by others; a sum is unknown where one of its parts is."""
    known = rows[columns].notna().groupby([rows[name] for name in by]).all()
    return rows.groupby(by)[columns].sum().where(known).reset_index()


def with_bytes(paper: Paper, machine: Machine) -> pd.DataFrame:
    """Return the counted cells beside what the workload table says: ``ideal_byte`` and ``unfused_byte``.

    Ideal are the compulsory bytes: parameters, inputs and outputs, and in a step the gradients as well. Unfused is what
    every operator reads and writes, forward and backward.
    """
    return _beside_counts(paper, cells(machine))


def printed_steps(paper: Paper) -> pd.DataFrame:
    """Return the training steps that studies read hardware counters of, beside the same columns of the workload table.

    ``gpu`` and ``study`` are those of ``PrintedStep``; ``dram_byte`` and ``flop`` are the printed rates times the time.
    """
    available.workloads(paper)
    steps = paper.training_steps
    rows = steps[["study", "gpu"]].assign(
        model=steps.model_key, batch=steps.batch.astype(int), precision=BASE_PRECISION, phase=STEP,
        dram_byte=steps.dram_byte_per_s * steps.time_s, flop=steps.flop_per_s * steps.time_s,
    )  # fmt: skip
    return _beside_counts(paper, rows)


def _beside_counts(paper: Paper, rows: pd.DataFrame) -> pd.DataFrame:
    asked = paper.workloads.rename(columns={"precision": "stored"})
    rows = rows.assign(stored=rows.precision.map(stored_as)).merge(asked, on=["model", "batch", "stored"])
    step = rows.phase == STEP
    return rows.assign(
        ideal_byte=rows.compulsory_byte + rows.gradient_byte.where(step, 0.0),
        unfused_byte=rows.traffic_byte + rows.backward_traffic_byte.where(step, 0.0),
        asked_flop=rows.forward_flop
        + rows.forward_other_flop
        + (rows.backward_flop + rows.backward_other_flop).where(step, 0.0),
    )


KIND_OF_WORK = {
    group: "convolutions" if "convolution" in group else "matrix products and attention"
    for group in GROUPS
    if "convolution" in group or group in ("matrix product", "attention")
}
"""What can be compared by the names of kernels and by operators: a library's names do not tell a convolution's two
gradients apart as operators do, nor the products within attention from others. The rest is other arithmetic."""

OTHER_WORK = "other arithmetic"


def flop_by_work(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a kind of work in a counted cell: ``counted_flop`` by hardware counters, ``asked_flop`` by formulas.

    ``counted_flop`` is empty where the FLOP of tensor cores are not known of one of its kernels.
    """
    counted = _with_work(groups(paper, machine))
    sums = _summed(counted.rename(columns={"flop": "counted_flop"}), [*CELL, "work"], ["counted_flop"])
    key = ["model", "batch", "precision", "phase", "work"]
    asked = pd.concat(
        _with_work(operator_shares.work(paper, precision)).assign(precision=precision)
        for precision in counted.precision.unique()
    )
    asked_flop = asked.groupby(key).flop.sum().rename("asked_flop")
    return sums.merge(asked_flop, on=key, how="left")


def _with_work(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(work=rows.group.map(KIND_OF_WORK).fillna(OTHER_WORK))


def groups(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a group of the kernels of a counted cell: its sums.

    A kernel that profiles of the machine know belongs to the operators that launch it, another to the group of its
    name.
    """
    known = operator_shares.launching_groups(paper, machine)
    rows = machine.hardware_counters.astype(dict.fromkeys(SUMMED, float))
    rows = rows.assign(
        group=[known.get(name) or group_of_kernel(name) for name in rows.kernel],
        flop=rows[FLOP].sum(axis=1, skipna=False),
    )
    return _summed(rows, [*CELL, "group"], [*SUMMED, "flop"])


def unmatched(paper: Paper, machine: Machine) -> float:
    """Return the share of the time of all counted kernels that no rule matches."""
    rows = groups(paper, machine)
    return float(rows.time_s[rows.group == OTHER].sum() / rows.time_s.sum())


def step(machine: Machine, model: str, batch: int) -> pd.Series | None:
    """Return the counted training step of a model at the base precision; None where it was not counted."""
    if machine.hardware_counters.empty:
        return None
    rows = matching(cells(machine), model=model, batch=batch, precision=BASE_PRECISION, phase=STEP)
    return None if rows.empty else rows.iloc[0]
