"""The tables of FLOP-counting programs: how right they are, and what they cost."""

from report.analysis import available
from report.analysis.available import or_missing
from report.load import counting_programs
from report.load.paper import Paper
from report.tables.pipe import NONE, known, pipe
from report.text.frame_rows import each, highest, lowest
from report.text.prose import escape, percent, si


@or_missing
def accuracy(paper: Paper) -> str:
    """Say of how many models each counting program is right, and how far it is off at most."""
    results = available.counted(paper)
    rows = []
    for row in each(counting_programs.scores(results)):
        deviating = results[(results.program == row.program) & results.deviation.notna()]
        farthest = [] if deviating.empty else [end(deviating, "deviation") for end in (lowest, highest)]
        ends = [f"{counting_programs.signed(end.deviation)} ({escape(end.model)})" for end in farthest]
        same = known(row.same_parameters, "{:.0f}".format)
        counts = [row.right, row.equal, same, row.models - row.counted]
        rows.append([escape(counting_programs.name(row.program)), *map(str, counts), *(ends or [NONE, NONE])])
    within = f"Within {percent(counting_programs.TOLERANCE, 1)} >"
    return pipe(f"Program | {within} | Equal > | Parameters > | Failed > | Lowest | Highest", rows)


@or_missing
def effort(paper: Paper) -> str:
    """List the version of each counting program, the time that it took and the memory that its process held."""
    rows = [
        [
            escape(counting_programs.name(row.program)), known(row.version, escape), known(row.count_s, si, "s"),
            known(row.build_s, si, "s"), known(row.peak_byte, si, "B"),
        ]
        for row in each(counting_programs.scores(available.counted(paper)))
    ]  # fmt: skip
    return pipe("Program | Version | Counting > | Building > | Peak memory >", rows)
