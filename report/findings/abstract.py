"""The abstract: what was counted and measured; ``report.findings.conclusions`` says what follows."""

from report.analysis import available
from report.analysis.available import DataMissingError, finding, on_each_machine
from report.findings import chips, machines, workload
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import extremes
from report.text.quantities import intensity, number, percent, si


@finding
def scope(paper: Paper) -> str:
    """Say what was counted and collected, without any machine."""
    least, most = extremes(available.workloads(paper, batch=1), "forward_flop")
    return (
        f"We count what {workload.count(paper)} ask for, from {si(least.forward_flop, 'FLOP')} ({least.model}) to "
        f"{si(most.forward_flop, 'FLOP')} ({most.model}) a forward pass, and set it against the sourced roofs of "
        f"{chips.count(paper)}."
    )


@on_each_machine
def measured(paper: Paper, machine: Machine) -> str:
    """Count the machine's cells, and say its roof and how near the models come to it."""
    text = f"On the {available.title(machine)}, {machines.cells(machine)}."
    try:
        roof, cells = available.roof(machine), available.cells(machine)
    except DataMissingError as gap:
        return f"{text} {gap}"
    return (
        f"{text} Its measured {BASE_PRECISION} roof is {si(roof.peak_flop_per_s, 'FLOP/s')} and "
        f"{si(roof.bandwidth_byte_per_s, 'B/s')}, with the ridge point at {intensity(roof.ridge_flop_per_byte)}; the "
        f"models achieve {percent(cells.attained.median())} of what it allows in the median of "
        f"{number(len(cells), 'cell')}."
    )
