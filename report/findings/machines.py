"""Which machines were measured, and what became of their cells."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from math import expm1, sqrt

import pandas as pd

from measure.domain.statistics import CONFIDENCE_OF_ROUNDS, critical
from measure.domain.words import FLAGS, LOAD, MOST_ROUNDS, ROUNDS, TARGET
from report.analysis import available, fleet, stand_in
from report.analysis.available import DataMissingError, Missing, finding, on_each_machine, or_missing
from report.analysis.long_lists import ALWAYS
from report.findings import method
from report.findings.method import CONFIDENCE, FEWEST_SAMPLES
from report.load.cells import half_width
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import STREAMS
from report.text.frame_rows import of_models
from report.text.prose import Markup, Prose, by_number, escape, listing, number, percent, si

REASONS = {
    "oom": "ran out of memory",
    "timeout": "ran out of time",
    "unsupported": "not supported",
    "killed": "killed from outside",
    "error": "failed",
}


@finding
def shown(paper: Paper) -> str:
    """Name the machines and those that figures show, and say what became of their cells."""
    machines = available.machines(paper)
    newest = {kind: or_missing(available.machine)(paper, kind) for kind in ("cpu", "gpu")}
    parts = [
        f"for the {KINDS[kind]} the {available.title(machine)}"
        for kind, machine in newest.items()
        if not isinstance(machine, Missing)
    ]
    text = f"All measurements are of one machine, {_names(machines)}."
    if len(machines) > 1:
        text = (
            f"The cache holds {number(len(machines), 'machine')}: {_names(machines)}. Figures show, of each kind of "
            f"device, the one measured last: {listing(parts)}."
        )
    return f"{text} {outcome(paper)}"


def _names(machines: Sequence[Machine]) -> str:
    """Name some machines; of a fleet how many have each of the most frequent names."""
    if len(machines) <= fleet.TOLD:
        return listing([f"the {available.title(machine)}" for machine in machines])
    names = Counter(available.title(machine, apart=False) for machine in machines).most_common()
    return listing([f"{count} called {name}" for name, count in names], fleet.TOLD)


@or_missing
def timed_by_others(paper: Paper) -> Markup | Prose:
    """Name the GPU that stands in for one measured here, its source, how it was chosen and how it was timed."""
    own, gpu = paper.machine("gpu"), stand_in.of(paper)
    if own is not None:
        return Prose(f"No GPU that others timed stands in for the {available.title(own)}, which was measured here.")
    if gpu is None:
        raise DataMissingError(
            f"No GPU stands in: others timed none of these models at {BASE_PRECISION} on one whose datasheet is known; "
            "`python -m measure add-published FILE` adds their times."
        )
    sources = "; ".join(f"@{key}" for key in gpu.source.split(";"))
    copied = "The copy of the input to the GPU is within these times, and in none of ours. " if gpu.input_copied else ""
    shown = f"In place of a GPU of ours figures show the {gpu.device} as others timed it"
    how = (
        "with open squares, under the dashed roof of its datasheet. Of the GPUs that others timed at "
        f"{BASE_PRECISION} in eager mode none ran more of the models here: {gpu.cells.model.nunique()}, at "
        f"{gpu.batches}. {copied}Figures that need an interval, a measured roof or the times of operators leave it out."
    )
    return Markup(f"{escape(shown)} [{sources}], {escape(how)}")


@finding
def environments(paper: Paper) -> str:
    """Say versions and threads of each machine."""
    listed, left = fleet.listed(paper)
    text = " ".join(map(_environment, listed))
    if not left:
        return text
    versions = Counter(machine.environment.torch for machine in paper.machines).most_common()
    ran = listing([f"{count} ran torch {version}" for version, count in versions], fleet.TOLD)
    return f"{text} Of all {len(paper.machines)} machines {ran}; their machine.csv in data/machines has the rest."


def _environment(machine: Machine) -> str:
    environment = machine.environment
    settings = [] if environment.threads is None else [number(environment.threads, "thread")]
    settings += environment.tuning.split(";") if environment.tuning else []
    how = f" with {listing(settings)}" if settings else ""
    return (
        f"The {available.title(machine)}{_virtual(machine)} ran torch {environment.torch} on Python "
        f"{environment.python}{how} (environment {environment.environment_id}, first seen "
        f"{environment.recorded_at[:10]})."
    )


def _virtual(machine: Machine) -> str:
    """Name the hypervisor, with which a machine shares its processor with others."""
    hypervisor = machine.environment.hypervisor
    return "" if hypervisor in (None, "none") else f", a virtual machine under {hypervisor},"


def cells(machine: Machine) -> str:
    """Say how many cells were measured and what became of the others."""
    tried, measured = len(machine.cells), int((machine.cells.status == "ok").sum())
    if not tried:
        return (
            f"no cell of inference was tried; `python -m measure --device {machine.environment.device} --sections "
            "workload inference` measures them"
        )
    if tried == measured:
        return by_number(tried, "one cell was measured", f"all {number(tried, 'cell')} that were tried were measured")
    others = machine.cells[machine.cells.status != "ok"].status.value_counts()
    parts = [f"{count} {REASONS[str(status)]}" for status, count in others.items()]
    verb = "were" if measured > 1 else "was"
    return f"{measured or 'none'} of {number(tried, 'cell')} {verb} measured; {listing(parts)}"


def outcome(paper: Paper) -> str:
    """Count each machine's cells, those without an interval or with one of a single round, and those with a flag."""
    listed, left = fleet.listed(paper)
    text = " ".join(map(_outcome, listed))
    if not left:
        return text
    tried = pd.concat([machine.cells for machine in paper.machines])
    ok = tried[tried.status == "ok"]
    loaded = int(ok["flags"].str.contains("loaded").sum())
    return (
        f"{text} On all {len(paper.machines)} machines together {len(ok)} of {number(len(tried), 'cell')} that were "
        f"tried were measured; {loaded or 'none'} of these {by_number(loaded, 'was', 'were')} measured while other "
        f"programs used {percent(LOAD)} of the cores or more."
    )


def _outcome(machine: Machine) -> str:
    sentences = [f"On the {available.title(machine)}, {cells(machine)}."]
    ok = machine.cells[machine.cells.status == "ok"]
    without = int(ok.latency_low_s.isna().sum())
    if without:
        sentences.append(
            f"Of the measured ones {number(without, 'cell')} {by_number(without, 'has', 'have')} one round of fewer "
            f"than {FEWEST_SAMPLES} samples, and so no {CONFIDENCE} interval: hollow points in the figures."
        )
    flags = ok["flags"].str.get_dummies(";").sum()
    flagged = [
        f"{number(int(flags[flag]), 'cell')} {flag} ({meaning})" for flag, meaning in FLAGS.items() if flag in flags
    ]
    if flagged:
        sentences.append(f"Hollow {'as well' if without else 'in the figures'}: {listing(flagged)}.")
    alone = int((ok.latency_low_s.notna() & (ok.rounds == 1)).sum())
    if alone:
        sentences.append(
            f"{number(alone, 'cell')} {by_number(alone, 'has', 'have')} an interval of one round, so of one process, "
            "which leaves out how processes differ."
        )
    if machine.left_out:
        others = listing([f"{model} at {shape.replace('x', '×')}" for model, shape in machine.left_out], ALWAYS)
        sentences.append(f"Left out is what was measured of inputs of another shape than is shown: {others}.")
    return " ".join(sentences)


@on_each_machine
def repeatability(paper: Paper, machine: Machine) -> str:
    """Say by how much rounds of the same cell differ, with nothing changed between them, and what they let be known."""
    rows = machine.cells[machine.cells.status == "ok"]
    repeated = rows[rows.scatter.notna()]
    if repeated.empty:
        return f"On the {available.title(machine)} no cell was measured twice, so its repeatability is not known."
    scatter = float(repeated.scatter.median())
    known = (_half_width(rounds, scatter) for rounds in (ROUNDS, MOST_ROUNDS))
    three, nine = (f"±{percent(width)}" for width in known)
    text = (
        f"On the {available.title(machine)} rounds of one cell, between which nothing is changed, scatter by "
        f"{percent(scatter)} (standard deviation, in the median of {number(len(repeated), 'cell')}). {ROUNDS} of them "
        f"leave an interval of {three}, {MOST_ROUNDS} one of {nine}."
    )
    if _half_width(MOST_ROUNDS, scatter) <= TARGET:
        return text
    needed = next(rounds for rounds in count(MOST_ROUNDS) if _half_width(rounds, scatter) <= TARGET)
    return f"{text} {method.TARGET} would take {needed} rounds of half of its cells, and more of the others."


def _half_width(rounds: int, scatter: float) -> float:
    """Return half the width of the interval between so many rounds, as a share of the latency."""
    return expm1(critical(CONFIDENCE_OF_ROUNDS, rounds - 1) * scatter / sqrt(rounds))


@on_each_machine
def measured(paper: Paper, machine: Machine) -> str:
    """Count for the abstract the machine's cells, and say its roof and how near the models come to it."""
    text = f"On the {available.title(machine)}{_virtual(machine)} {cells(machine)}{_sound(machine)}."
    try:
        roof, rows = available.roof(machine), available.cells(machine)
    except DataMissingError as gap:
        return f"{text} {gap}"
    shares, stream = of_models(rows, "attained"), STREAMS[str(machine.roofs.bandwidth_kernel.iloc[0])]
    return (
        f"{text} The machine's measured {BASE_PRECISION} roof is {si(roof.peak_flop_per_s, 'FLOP/s')} and, "
        f"by {stream}, {si(roof.bandwidth_byte_per_s, 'B/s')}. Of what it allows {number(len(shares), 'model')}, each "
        f"in the median of its batch sizes, {by_number(len(shares), 'achieves', 'achieve')} "
        f"{percent(shares.median())} in the median."
    )


def _sound(machine: Machine) -> str:
    """Count the measured cells that are known as well as was asked, and those with a flag."""
    ok = machine.cells[machine.cells.status == "ok"]
    if ok.empty:
        return ""
    known, flagged = int((half_width(ok) <= TARGET).sum()), int((ok["flags"] != "").sum())
    return (
        f". Of the measured ones {known or 'none'} {by_number(known, 'has', 'have')} a {CONFIDENCE} interval within "
        f"{method.TARGET}, and {flagged or 'none'} {by_number(flagged, 'carries', 'carry')} a flag"
    )
