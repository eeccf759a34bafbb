"""The models whose latency FLOP predict worst, and what sets them apart."""

from math import exp

import pandas as pd

from report.analysis import available
from report.analysis.available import finding
from report.analysis.correlations import correlation
from report.analysis.predictors import FLOP
from report.analysis.traits import TRAITS, of_models
from report.findings.predictors import ranked_of
from report.load.paper import Machine, Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import listing, significant


@finding
def farthest(paper: Paper) -> str:
    """The models farthest above and below the line through FLOP, at the smallest and the largest batch size."""
    return available.told_of_each(paper, lambda machine: _farthest(paper, machine))


def _farthest(paper: Paper, machine: Machine) -> str:
    ranked = {batch: ranks for batch, ranks in ranked_of(machine).items() if batch is not None}
    models = available.cells(machine).model
    sentences = []
    for batch in dict.fromkeys([min(ranked), max(ranked)]):
        for rank in ranked[batch]:
            if rank.predictor == FLOP:
                off = pd.DataFrame({"model": models, "residual": rank.law.residuals}).dropna()
                about = of_models(paper, batch).reindex(off.model)
                sentences.append(
                    f"On the {available.title(machine)} at batch size {batch} {_named(off, about)}"
                )
    return " ".join(sentences)


def _named(off: pd.DataFrame, about: pd.DataFrame) -> str:
    slow, quick = highest(off, "residual"), lowest(off, "residual")
    slowest, quickest = (significant(exp(each.residual)) for each in (slow, quick))
    text = (
        f"the slowest model for its FLOP is {slow.model}, at {slowest} times the latency of the line "
        f"({_told(about.loc[slow.model])}), the quickest {quick.model}, at {quickest} times "
        f"({_told(about.loc[quick.model])}). The median model has {_told(about.median())}. {_explained(off, about)}"
    )
    if about.operator_calls.isna().all():
        text += " How many operators a model calls was not counted; python -m measure --sections workload counts them."
    return text


def _told(about: pd.Series) -> str:
    """The traits that are known."""
    return listing([trait.told(about[trait.column]) for trait in TRAITS if pd.notna(about[trait.column])])


def _explained(off: pd.DataFrame, about: pd.DataFrame) -> str:
    """With which trait the distances from the line go most, over all models."""
    beside = about.set_index(off.index)
    found = {
        trait.name: coefficient
        for trait in TRAITS
        if (coefficient := correlation(off.residual, beside[trait.column], off.model)) and coefficient.settled
    }
    if not found:
        return "With none of these does the distance from the line go, over all models, by more than chance."
    name = max(found, key=lambda name: abs(found[name].value))
    return f"Over all models the distance from the line goes most with {name} (ρ = {found[name]})."
