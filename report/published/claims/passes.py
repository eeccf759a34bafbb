"""Claims about the backward pass beside the forward pass, which several studies make."""

from report.analysis import available, correlations
from report.analysis.available import missing_on
from report.findings.steps import of_batch
from report.load.paper import Machine, Paper
from report.load.workloads import PRODUCTS
from report.published.claims.ruling import Ruling, claim_anywhere
from report.published.verdict import MEASURED_TOLERANCE
from report.text.quantities import number, significant

TWICE = 2 * (1 - MEASURED_TOLERANCE), 2 * (1 + MEASURED_TOLERANCE)


@claim_anywhere("madani2026-8", *TWICE)
@claim_anywhere("a1rooflines-7", *TWICE)
@claim_anywhere("hw1part2-1", 2, 3)
def times_as_long(paper: Paper, machine: Machine, low: float, high: float) -> Ruling:
    """Rule on how many times as long the backward pass takes as the forward pass, in the median of the models."""
    rows = of_batch(available.steps(machine))
    within = int(rows.time_ratio.between(low, high).sum())
    median = float(rows.time_ratio.median())
    return Ruling(
        low <= median <= high,
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]} the ratio is {significant(median)} in "
        f"the median, and between {significant(low, 2)} and {significant(high, 2)} in {within or 'none'} of "
        f"{number(len(rows), 'model')}.",
    )


@claim_anywhere("hw1part2-3")
def deeper(paper: Paper, machine: Machine) -> Ruling:
    """Rule on whether models of more layers with products have the larger ratio, by rank correlation."""
    rows = of_batch(available.steps(machine))
    layers = available.layers(paper)
    depths = layers[layers.kind.isin(PRODUCTS)].groupby("model").size()
    found = correlations.correlation(rows.model.map(depths).astype(float), rows.time_ratio, rows.model)
    if found is None:
        what = f"On the {available.title(machine)} too few models were trained for a correlation"
        raise missing_on(machine, what, "workload", "training", does="trains more")
    chance = "" if found.settled else ", which cannot be told from none"
    return Ruling(
        found.value > 0 if found.settled else None,
        f"On the {available.title(machine)} the ratio and the number of layers with products have a rank correlation "
        f"of {found} over {number(found.models, 'model')}{chance}.",
    )
