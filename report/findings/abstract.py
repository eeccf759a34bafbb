"""The abstract: what was counted and measured; what follows is of ``report.findings.conclusions``."""

from report.analysis import available
from report.analysis.available import finding
from report.findings import chips, machines, workload
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import intensity, number, percent, si


@finding
def scope(paper: Paper) -> str:
    """What was counted and collected, without any machine."""
    models = available.workloads(paper, batch=1)
    least, most = lowest(models, "forward_flop"), highest(models, "forward_flop")
    return (
        f"We count what {workload.count(paper)} ask for, from {si(least.forward_flop, 'FLOP')} ({least.model}) to "
        f"{si(most.forward_flop, 'FLOP')} ({most.model}) a forward pass, and set it against the sourced roofs of "
        f"{chips.count(paper)}."
    )


@finding
def measured(paper: Paper) -> str:
    """Each machine shown: its cells, its roof and how near the models come to it."""
    return available.told_of_each(paper, _machine)


def _machine(machine: Machine) -> str:
    told = f"On the {available.title(machine)}, {machines.cells(machine)}."
    try:
        roof, cells = available.roof(machine), available.cells(machine)
    except available.DataMissingError as gap:
        return f"{told} {gap}"
    return (
        f"{told} Its measured {BASE_PRECISION} roof is {si(roof.peak_flop_per_s, 'FLOP/s')} and "
        f"{si(roof.bandwidth_byte_per_s, 'B/s')}, with the ridge point at {intensity(roof.ridge_flop_per_byte)}; the "
        f"models achieve {percent(cells.attained.median())} of what it allows in the median of "
        f"{number(len(cells), 'cell')}."
    )
