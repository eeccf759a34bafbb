"""Tables of latency: how predictors rank networks, and all latencies."""

from report import display
from report.chapters.latency.facts import COMMAND, PREDICTORS, timed_gpu, timed_here
from report.markdown import escape
from report.paper import Paper
from report.paper.frames import each, spread
from report.pipe import pipe
from report.stats.correlations import fit_power_law, rank_correlation
from report.stats.value import estimated, exact


@display.table
def predictors(paper: Paper) -> str:
    rows = []
    for timed in filter(None, (timed_here(paper), timed_gpu(paper))):
        for batch in timed.batches or (None,):
            found = timed.at(batch)
            for column, name in PREDICTORS.items():
                values = found[column].astype(float)
                rho, law = (
                    rank_correlation(values, found.input_s, found.model),
                    fit_power_law(values, found.input_s, found.model),
                )
                if law and not rho.is_missing:
                    of = exact(found.model.nunique())
                    numbers = (rho.interval, law.growth(2).interval, law.typical_factor.interval)
                    rows.append((escape(timed.name), exact(batch), of, name, *numbers))
    header = "Device | Batch > | Networks > | Predictor | ρ > | For twice as much > | Typical factor off >"
    return pipe(header, display.required(rows, COMMAND), "Device")


@display.table
def latencies(paper: Paper) -> str:
    timed = display.required(timed_here(paper), COMMAND)
    cells = {(row.model, row.batch): row for row in each(timed.rows)}
    shown = spread(timed.rows.sort_values(["flop", "batch"]).drop_duplicates("model"), display.LISTED)
    rows = [
        (
            escape(row.label), exact(row.flop, "FLOP"), exact(int(row.parameters)),
            *(estimated(cells.get((row.model, batch)), "latency_s", "s").interval for batch in timed.batches),
        )
        for row in each(shown)
    ]  # fmt: skip
    sizes = " | ".join(f"Batch {batch} >" for batch in timed.batches)
    return pipe(f"Network | FLOP > | Parameters > | {sizes}", rows)
