"""What predicts a latency, where it fails, and what sets the models apart for which it does."""

from math import exp, inf

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, correlations, predictors
from report.analysis.available import Missing, finding, missing_on, on_each_machine, or_missing
from report.analysis.correlations import Correlation, correlation
from report.analysis.predictors import BOUND, FLOP, PARAMETERS, TRAITS, Rank, model_traits
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes
from report.text.prose import capitalised, listing, number

GRADES = ((0.9, "closely"), (0.7, "fairly"), (0.4, "loosely"), (-1.0, "hardly"))
"""How a coefficient of at least so much is called."""

FAR = 1.5
"""A trait sets a model apart where it is more than so many times the median model's, or less than that part of it."""


def graded(coefficient: float) -> str:
    return next(word for least, word in GRADES if coefficient >= least)


def _where(batch: int | None) -> str:
    return "over all cells, per input" if batch is None else f"at batch size {batch}"


@finding
def correlated(paper: Paper) -> str:
    """Say what the matrices hold: which latencies, how alike they are, and which coefficients may be chance."""
    table, names = predictors.quantities(paper)
    latencies = [name for name in names if name.endswith(" latency")]
    quantities = [name for name in names if name not in latencies]
    pairs = [pair for pair in predictors.pairs(paper) if pair.method == "Spearman"]
    asked = [pair for pair in pairs if pair.first in latencies and pair.second in quantities]
    doubtful = [
        f"{pair.first} with {pair.second} {_where(pair.batch)}" for pair in asked if not pair.coefficient.settled
    ]
    count = number(len(asked), "coefficient")
    if not asked:
        found = "Too few models were measured for a coefficient."
    elif not doubtful:
        found = f"All {count} of a latency with a predictor differ from zero."
    else:
        named = f": {'; '.join(doubtful)}" if len(doubtful) <= len(quantities) else ""
        found = f"Of {count} of a latency with a predictor {len(doubtful)} cannot be told apart from zero{named}."
    if len(latencies) < 2:
        alike = "There is one latency only, and so no row for another."
    else:
        first, second = latencies
        parts = [
            f"{_where(pair.batch)} {pair.coefficient}" for pair in pairs if (pair.first, pair.second) == (first, second)
        ]
        alike = f"{first} is correlated with {second}: {listing(parts)}."
        if not parts:
            alike = f"{first} and {second} share too few models for a coefficient."
    cells = f"{number(len(table), 'cell')} of {number(table.model.nunique(), 'model')}"
    return f"The matrices hold {cells}. {found} {alike}"


@on_each_machine
def estimates(paper: Paper, machine: Machine) -> str:
    """Say whether FLOP and parameters are good estimates of latency."""
    ranked = {batch: ranks for batch, ranks in ranked_of(machine).items() if batch is not None}
    parts = []
    for predictor in (FLOP, PARAMETERS):
        found = {batch: rank for batch, ranks in ranked.items() for rank in ranks if rank.predictor == predictor}
        if found:
            parts.append(_estimate(machine, predictor.name, found))
    return " ".join([*parts, _better(available.cells(machine), list(ranked))]).strip()


def ranked_of(machine: Machine) -> dict[int | None, list[Rank]]:
    """Return the rankings of a machine's cells, at one batch size or more."""
    found = predictors.rankings(machine)
    if set(found) <= {None}:
        what = (
            f"On the {available.title(machine)} too few models were measured at the same batch size to say what "
            f"predicts a latency ({correlations.FEWEST} are needed)"
        )
        raise missing_on(machine, what, does="measures more")
    return found


def _estimate(machine: Machine, name: str, ranks: dict[int, Rank]) -> str:
    """Say how well one predictor orders the models, and how far the line through it is off, at its worst."""
    first = next(iter(ranks.values()))
    worst = min(ranks.values(), key=lambda rank: rank.spearman.value)
    off = max(ranks.values(), key=lambda rank: rank.law.typical_factor)
    lowest, most = (", where it is lowest", ", where that is most") if len(ranks) > 1 else ("", "")
    return (
        f"On the {available.title(machine)} {name} order the models by latency {graded(worst.spearman.value)} "
        f"(ρ = {worst.spearman} at batch size {worst.batch}{lowest}). Twice the {name} take "
        f"{significant(2**first.law.exponent)} times as long at batch size {first.batch} (exponent "
        f"{correlations.written(first.law.exponent, first.law.interval)}). Half of the models lie off the line by more "
        f"than a factor of {significant(off.law.typical_factor)} at batch size {off.batch}{most}."
    )


def _better(cells: pd.DataFrame, batches: list[int]) -> str:
    """Say whether FLOP order the models better than parameters do, by more than chance."""
    better = "FLOP order them better than parameters"
    worse = "parameters order them better than FLOP"
    undecided = "which of the two is better cannot be told from chance"
    found: dict[str, list[str]] = {better: [], worse: [], undecided: []}
    for batch in batches:
        rows = cells[cells.batch == batch]
        gap = correlations.advantage(rows[FLOP.column], rows[PARAMETERS.column], rows.latency_s, rows.model)
        outcome = undecided if gap is None or gap[0] <= 0 <= gap[1] else better if gap[0] > 0 else worse
        found[outcome].append(str(batch))
    parts = [f"{outcome} at batch size {listing(sizes)}" for outcome, sizes in found.items() if sizes]
    return f"{capitalised('; '.join(parts))}." if parts else ""


@on_each_machine
def best(paper: Paper, machine: Machine) -> str:
    """Say which predictor orders the models best."""
    cells = available.cells(machine)
    alike: dict[tuple[str, str], dict[int | None, Correlation]] = {}
    for batch, ranks in ranked_of(machine).items():
        alike.setdefault((ranks[0].predictor.name, _ahead(cells, batch, ranks)), {})[batch] = ranks[0].spearman
    parts = [f"by {name} {_at_all(found)}{ahead}" for (name, ahead), found in alike.items()]
    sentence = f"On the {available.title(machine)} the models are ordered best {'; '.join(parts)}."
    if BOUND in predictors.known(cells):
        return sentence
    why = "Their operators have not been counted; `python -m measure --sections workload` counts them."
    roof = or_missing(available.roof)(machine)
    return f"{sentence} The roofline time is not among them: {roof if isinstance(roof, Missing) else why}"


def _at_all(found: dict[int | None, Correlation]) -> str:
    """Say where a predictor is best, and the least and the most of its coefficients there."""
    sizes = [str(batch) for batch in found if batch is not None]
    places = [_where(None)] * (None in found) + [f"at batch size {listing(sizes)}"] * bool(sizes)
    values = [coefficient.value for coefficient in found.values()]
    ends = dict.fromkeys(correlations.written(end(values), None) for end in (min, max))
    return f"{listing(places)} (ρ = {' to '.join(ends)})"


def _ahead(cells: pd.DataFrame, batch: int | None, ranks: list[Rank]) -> str:
    """Say which predictor comes second, and whether by more than chance."""
    if len(ranks) < 2:
        return ""
    first, second = (rank.predictor for rank in ranks[:2])
    rows = predictors.per_input(cells)
    rows = rows if batch is None else rows[rows.batch == batch]
    gap = correlations.advantage(rows[first.column], rows[second.column], rows.latency_s, rows.model)
    return f", ahead of {second.name}{'' if gap and gap[0] > 0 else ' by no more than chance'}"


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
    middle = traits.median()
    text = (
        f"the slowest model for its FLOP is {slow.model}, at {significant(exp(slow.residual))} times the latency of "
        f"the line{_apart(traits.loc[slow.model], middle)}. The quickest is {quick.model}, at "
        f"{significant(exp(quick.residual))} times{_apart(traits.loc[quick.model], middle)}. {_explained(off, traits)}"
    )
    if traits.operator_calls.isna().all():
        text += (
            " How many operators a model calls was not counted; `python -m measure --sections workload` counts them."
        )
    return text


def _apart(traits: pd.Series, middle: pd.Series) -> str:
    """Say the trait in which a model is farthest from the median one, by more than ``FAR`` times."""
    times = {
        trait: max(ends) / min(ends) if min(ends) else inf
        for trait in TRAITS
        if max(ends := (traits[trait.column], middle[trait.column])) > FAR * min(ends)
    }
    if not times:
        return ""
    trait = max(times, key=lambda trait: times[trait])
    own, usual = (trait.written(side[trait.column]) for side in (traits, middle))
    return f" ({own} {trait.words} against {usual} in the median model)"


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
