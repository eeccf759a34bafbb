"""Which machines were measured, and what became of their cells."""

from report.analysis import available
from report.analysis.available import finding
from report.findings.method import CONFIDENCE, FEWEST_SAMPLES
from report.load.chips import KINDS
from report.load.paper import Machine, Paper
from report.text.quantities import listing, number

REASONS = {
    "oom": "ran out of memory",
    "timeout": "ran out of time",
    "unsupported": "not supported",
    "error": "failed",
}


def _names(machines: tuple[Machine, ...]) -> str:
    return listing([f"the {available.title(machine)}" for machine in machines])


@finding
def shown(paper: Paper) -> str:
    """The machines, which of them the figures show, and what became of their cells."""
    machines = available.machines(paper)
    text = f"The cache holds {number(len(machines), 'machine')}: {_names(machines)}."
    newest = [(kind, paper.machine(kind)) for kind in ("cpu", "gpu")]
    parts = [f"for the {KINDS[kind]} the {available.title(machine)}" for kind, machine in newest if machine]
    text += f" Figures show, of each kind of device, the one measured last: {listing(parts)}."
    for kind, machine in newest:
        if machine is None:
            text += " " + _absent(paper, kind)
    return f"{text} {outcome(paper)}"


def _absent(paper: Paper, kind: str) -> str:
    try:
        available.machine(paper, kind)
    except available.DataMissingError as gap:
        return str(gap)
    return ""


@finding
def environments(paper: Paper) -> str:
    """Versions and threads of each machine shown."""
    return " ".join(map(_environment, available.machines(paper)))


def _environment(machine: Machine) -> str:
    of = machine.environment
    under = [] if of.threads is None else [number(of.threads, "thread")]
    under += of.tuning.split(";") if of.tuning else []
    how = f" with {listing(under)}" if under else ""
    return (
        f"The {available.title(machine)} ran torch {of.torch} on Python {of.python}{how} "
        f"(environment {of.environment_id}, first seen {of.recorded_at[:10]})."
    )


def cells(machine: Machine) -> str:
    """How many cells were measured and what became of the others."""
    tried, measured = len(machine.cells), int((machine.cells.status == "ok").sum())
    if not tried:
        return (
            f"no cell of inference was tried; python -m measure --device {machine.environment.device} --sections "
            "workload inference measures them"
        )
    if tried == measured:
        return (
            f"all {number(tried, 'cell')} that were tried were measured"
            if tried > 1
            else "one cell was measured"
        )
    others = machine.cells[machine.cells.status != "ok"].status.value_counts()
    parts = [f"{count} {REASONS[str(status)]}" for status, count in others.items()]
    verb = "were" if measured > 1 else "was"
    return f"{measured or 'none'} of {number(tried, 'cell')} {verb} measured; {listing(parts)}"


FLAGS = {
    "wide": "whose interval within a round stayed wider than was asked",
    "drifting": "that got slower or faster within a round",
    "throttled": "during which the chip lowered its clock for heat or power",
}
"""What figures hold against a cell, in words."""


def outcome(paper: Paper) -> str:
    """The cells of all machines, those without an interval or with one of a single round, and those with a flag."""
    sentences = []
    for machine in available.machines(paper):
        sentences.append(f"On the {available.title(machine)}, {cells(machine)}.")
        ok = machine.cells[machine.cells.status == "ok"]
        without = int(ok.latency_low_s.isna().sum())
        if without:
            verb = "has" if without == 1 else "have"
            sentences.append(
                f"Of the measured ones {number(without, 'cell')} {verb} one round of fewer than {FEWEST_SAMPLES} "
                f"samples, and so no {CONFIDENCE} interval: hollow points in the figures."
            )
        flagged = [
            f"{number(count, 'cell')} {FLAGS[flag]}"
            for flag in FLAGS
            if (count := int(ok["flags"].str.split(";").map(lambda flags, flag=flag: flag in flags).sum()))
        ]
        if flagged:
            sentences.append(f"Hollow as well: {listing(flagged)}.")
        alone = int((ok.latency_low_s.notna() & (ok.rounds == 1)).sum())
        if alone:
            verb = "has" if alone == 1 else "have"
            sentences.append(
                f"{number(alone, 'cell')} {verb} an interval of one round, so of one process, which leaves out how "
                "processes differ."
            )
    return " ".join(sentences)
