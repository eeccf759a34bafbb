"""The models whose latency FLOP predict worst, and what sets them apart."""

from math import exp

import pandas as pd

from report.analysis import available
from report.analysis.available import on_each_machine
from report.analysis.correlations import correlation
from report.analysis.predictors import FLOP, TRAITS, model_traits
from report.findings.predictors import ranked_of
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes
from report.text.quantities import listing, significant


@on_each_machine
def farthest(paper: Paper, machine: Machine) -> str:
    """Name the models farthest above and below the line through FLOP, at the smallest and the largest batch size."""
    ranked = {batch: ranks for batch, ranks in ranked_of(machine).items() if batch is not None}
    models = available.cells(machine).model
    sentences = []
    for batch in dict.fromkeys([min(ranked), max(ranked)]):
        for rank in ranked[batch]:
            if rank.predictor == FLOP:
                off = pd.DataFrame({"model": models, "residual": rank.law.residuals}).dropna()
                traits = model_traits(paper, batch).reindex(off.model)
                where = f"On the {available.title(machine)} at batch size {batch}"
                sentences.append(f"{where} {_outliers(off, traits)}")
    return " ".join(sentences)


def _outliers(off: pd.DataFrame, traits: pd.DataFrame) -> str:
    quick, slow = extremes(off, "residual")
    text = (
        f"the slowest model for its FLOP is {slow.model}, at {significant(exp(slow.residual))} times the latency of "
        f"the line ({_known(traits.loc[slow.model])}), the quickest {quick.model}, at "
        f"{significant(exp(quick.residual))} times ({_known(traits.loc[quick.model])}). The median model has "
        f"{_known(traits.median())}. {_explained(off, traits)}"
    )
    if traits.operator_calls.isna().all():
        text += " How many operators a model calls was not counted; python -m measure --sections workload counts them."
    return text


def _known(traits: pd.Series) -> str:
    """List the traits that are known."""
    return listing([trait.phrase(traits[trait.column]) for trait in TRAITS if pd.notna(traits[trait.column])])


def _explained(off: pd.DataFrame, traits: pd.DataFrame) -> str:
    """Say with which trait the distances from the line go most, over all models."""
    beside = traits.set_index(off.index)
    found = {
        trait.name: coefficient
        for trait in TRAITS
        if (coefficient := correlation(off.residual, beside[trait.column], off.model)) and coefficient.settled
    }
    if not found:
        return "With none of these does the distance from the line go, over all models, by more than chance."
    name = max(found, key=lambda name: abs(found[name].value))
    return f"Over all models the distance from the line goes most with {name} (ρ = {found[name]})."
