"""The tables of counting programs: how right they are, their small cases, and our FLOP per element."""

from measure.domain.names import model_name
from measure.domain.words import COSTS, ELEMENTARY
from report import display
from report.chapters.counting.facts import TOLERANCE, program_name, scores, with_deviations
from report.markdown import escape, percent
from report.markdown_table import NONE, cited, known, markdown_table
from report.paper import Paper
from report.paper.frames import each, extremes

COMMAND = "python scripts/counting_programs.py"


def _signed(deviation: float) -> str:
    """Return a relative deviation with its sign: ``+6.28 %``, ``−35.7 %``."""
    return ("+" if deviation > 0 else "") + percent(deviation, 3).replace("-", "−")


@display.table
def accuracy(paper: Paper) -> str:
    results = with_deviations(display.required(paper.counting_programs, COMMAND))
    rows = []
    for row in each(scores(results)):
        deviating = results[(results.program == row.program) & results.deviation.notna()]
        ends = extremes(deviating, "deviation") if len(deviating) else ()
        printed = [f"{_signed(end.deviation)} ({escape(model_name(end.model))})" for end in ends] or [NONE, NONE]
        same = known(row.same_parameters, "{:.0f}".format)
        name = escape(program_name(row.program))
        rows.append([name, str(row.right), str(row.equal), same, str(row.models - row.counted), *printed])
    within = f"Within {percent(TOLERANCE, 1)} >"
    return markdown_table(f"Program | {within} | Equal > | Parameters > | Failed > | Lowest | Highest", rows)


@display.table
def suites(paper: Paper) -> str:
    rows = [
        [f"{escape(row.suite)} {cited(row.source)}", f"{row.cases:,.0f}", f"{row.wrong:.0f}", escape(row.note)]
        for row in each(display.required(paper.published.counting_suites))
    ]
    return markdown_table("Cases of | Number > | Wrong > | Remark", rows)


@display.table
def cases(paper: Paper) -> str:
    rows = []
    for case, counts in display.required(paper.counting_cases, f"{COMMAND} --cases").groupby("case", sort=False):
        first, printed = counts.iloc[0], counts[counts.forward_flop.notna()]
        right, arithmetic = f"{first.right_flop:,.0f}", first.arithmetic.partition("  #")[0].replace("*", "·")
        by_hand = right if arithmetic == right else f"{escape(arithmetic)} = {right}"
        others = [
            f"{flop:,.0f}: {', '.join(escape(program_name(program)) for program in same.program)}"
            for flop, same in printed[printed.forward_flop != first.right_flop].groupby("forward_flop")
        ]
        rows.append([escape(str(case)), by_hand, "; ".join(others) or NONE])
    return markdown_table("Network | FLOP by hand | Other answers", rows)


@display.table
def costs(paper: Paper) -> str:
    """List the FLOP per element, with the operators of each in one row."""
    by_cost: dict[int, list[str]] = {1: list(ELEMENTARY)}
    for name, cost in COSTS.items():
        by_cost.setdefault(cost, []).append(name)
    rows = [[str(cost), ", ".join(f"`{name}`" for name in names)] for cost, names in sorted(by_cost.items())]
    return markdown_table("Operations > | Operators", rows)
