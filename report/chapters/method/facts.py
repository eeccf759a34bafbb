"""The protocol of timing, and the intervals that it reaches on the machine at hand."""

from dataclasses import replace
from itertools import count
from math import exp, sqrt

from measure.domain import statistics, words
from report import options
from report.facts import Facts, missing, source_of, sourced
from report.paper import Machine, Paper
from report.paper.cells import half_width
from report.paper.frames import matching
from report.stats.value import NOTHING, Name, Value, count_of, exact, median_of


class Protocol(Facts):
    rounds: Value  #: least rounds of a cell
    most_rounds: Value  #: most rounds of a cell
    target: Value  #: half the width of an interval that ends the rounds of a cell
    confidence: Value  #: share of intervals that cover the true median
    block: Value  #: least time of a block of calls
    heat: Value  #: time that a chip works before its roof is measured
    fewest: Value  #: fewest samples or networks for a median with an interval


class Cells(Facts):
    """The inference cells of the machine at hand, in eager mode."""

    machine: Name  #: the machine at hand
    cells: Value  #: cells with an interval; missing for too few
    least: Value  #: fewest rounds of a cell
    most: Value  #: most rounds of a cell
    half_width: Value  #: half the width of the interval over the latency, of the median cell
    within: Value  #: cells with an interval within the target
    scatter: Value  #: standard deviation of the logarithms of a cell's rounds, of the median cell


class MethodRounds(Facts):
    """Half the width of the interval after so many rounds, with the median cell's scatter."""

    least: Value  #: after the fewest rounds
    most: Value  #: after the most rounds


class GpuRounds(Facts):
    """The cells of all measured GPUs but the machine at hand."""

    names: Name  #: these GPUs
    least: Value  #: fewest rounds of a cell
    most: Value  #: most rounds of a cell


class Method(Facts):
    protocol: Protocol
    cells: Cells
    rounds: MethodRounds
    gpus: GpuRounds
    is_single: bool  #: every cell of the machine at hand has one round
    has_intervals: bool  #: enough cells of it have an interval
    has_gpus: bool  #: other GPUs were timed


def of(paper: Paper) -> Method:
    machine = paper.at_hand
    source = source_of("machines/*/samples.csv", "inference, eager", "inference")
    protocol = Protocol(
        rounds=exact(words.ROUNDS),
        most_rounds=exact(words.MOST_ROUNDS),
        target=exact(words.TARGET, "%"),
        confidence=exact(statistics.CONFIDENCE, "%"),
        block=exact(words.SUSTAINED_BLOCK_S, "s"),
        heat=exact(words.HEAT_S, "s"),
        fewest=exact(next(number for number in count(1) if statistics.order_statistic_ranks(number))),
    )
    others = [gpu for gpu in paper.machines if gpu.chip_kind == "gpu" and gpu is not machine]
    names = " and the ".join(gpu.name for gpu in others)
    gpus = sourced(GpuRounds(Name(names or None), *_rounds(others)), replace(source, command=options.gpu_command()))
    if machine is None:
        return Method(protocol, sourced(missing(Cells), source), missing(MethodRounds), gpus, False, False, False)
    timed = matching(machine.cells, status="ok")
    widths = half_width(timed).dropna().astype(float)
    widths = widths if len(widths) >= (protocol.fewest.number or 0) else widths[:0]
    within = (widths <= words.TARGET).sum() if len(widths) else None
    cells = Cells(
        Name(machine.name), count_of(len(widths) or None, "cells"), *_rounds([machine]),
        median_of(widths, "%", "cells"), count_of(within, "cells"), median_of(timed.scatter, "%", "cells"),
    )  # fmt: skip
    scatter = cells.scatter.number
    left = (
        NOTHING if scatter is None else exact(expected(scatter, rounds), "%")
        for rounds in (words.ROUNDS, words.MOST_ROUNDS)
    )
    is_single = cells.most.number == 1
    return Method(
        protocol, sourced(cells, source), sourced(MethodRounds(*left), source), gpus, is_single,
        has_intervals=not cells.half_width.is_missing, has_gpus=not gpus.most.is_missing,
    )  # fmt: skip


def _rounds(machines: list[Machine]) -> tuple[Value, Value]:
    """Return the fewest and the most rounds of a cell."""
    rounds = [number for machine in machines for number in matching(machine.cells, status="ok").rounds]
    return count_of(min(rounds, default=None), "rounds"), count_of(max(rounds, default=None), "rounds")


def expected(scatter: float, rounds: int) -> float:
    """Return half the width of a latency's interval: Student's t times the scatter over the root of the rounds."""
    return exp(statistics.critical(statistics.CONFIDENCE_OF_ROUNDS, rounds - 1) * scatter / sqrt(rounds)) - 1
