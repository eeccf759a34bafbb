"""Claims about the backward pass beside the forward pass, which several studies make."""

from report.analysis import available, correlations
from report.analysis.layer_costs import shown_batch
from report.load.paper import Machine, Paper
from report.load.workloads import PRODUCTS
from report.published.claims.ruling import Part
from report.published.verdict import MEASURED_TOLERANCE
from report.text.quantities import number, significant


def twice(of: Machine) -> Part:
    """Whether the backward pass takes twice the time of the forward pass, in the median of the models."""
    return _between(of, 2 * (1 - MEASURED_TOLERANCE), 2 * (1 + MEASURED_TOLERANCE))


def twice_to_thrice(of: Machine) -> Part:
    """Whether it takes two to three times as long."""
    return _between(of, 2, 3)


def _between(of: Machine, low: float, high: float) -> Part:
    rows = available.steps(of)
    rows = rows[rows.batch == shown_batch(rows)]
    within = int(rows.time_ratio.between(low, high).sum())
    median = float(rows.time_ratio.median())
    return Part(
        low <= median <= high,
        f"On the {available.title(of)} at batch size {rows.batch.iloc[0]} the ratio is {significant(median)} in the "
        f"median, and between {significant(low, 2)} and {significant(high, 2)} in {within or 'none'} of "
        f"{number(len(rows), 'model')}.",
    )


def deeper(paper: Paper, of: Machine) -> Part:
    """Whether models of more layers with products have the larger ratio, by rank correlation."""
    rows = available.steps(of)
    rows = rows[rows.batch == shown_batch(rows)]
    layers = available.layers(paper)
    depths = layers[layers.kind.isin(PRODUCTS)].groupby("model").size()
    rows = rows.assign(depth=rows.model.map(depths).astype(float))
    found = correlations.correlation(rows.depth, rows.time_ratio, rows.model)
    if found is None:
        raise available.DataMissingError(
            f"On the {available.title(of)} too few models were trained for a correlation; python -m measure --device "
            f"{of.environment.device} --sections workload training trains more."
        )
    holds = found.value > 0 if found.settled else None
    told = "" if found.settled else ", which cannot be told from none"
    return Part(
        holds,
        f"On the {available.title(of)} the ratio and the number of layers with products have a rank correlation of "
        f"{found} over {number(found.models, 'model')}{told}.",
    )
