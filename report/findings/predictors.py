"""What predicts a latency, and where it fails."""

import pandas as pd

from report.analysis import available, correlations, predictors
from report.analysis.available import finding, or_missing
from report.analysis.correlations import Coefficient
from report.analysis.predictors import BOUND, FLOP, PARAMETERS, Predictor, Rank
from report.load.paper import Machine, Paper
from report.text.quantities import listing, number, significant

GRADES = ((0.9, "closely"), (0.7, "fairly"), (0.4, "loosely"), (-1.0, "hardly"))
"""How a coefficient of at least so much is called."""


def _graded(coefficient: Coefficient) -> str:
    return next(word for least, word in GRADES if coefficient.value >= least)


def _where(batch: int | None) -> str:
    return "over all cells, per input" if batch is None else f"at batch size {batch}"


@finding
def correlated(paper: Paper) -> str:
    """What the matrices hold: which latencies, how alike they are, and which coefficients may be chance."""
    table, names = predictors.quantities(paper)
    latencies = [name for name in names if name.endswith(" latency")]
    quantities = [name for name in names if name not in latencies]
    sentences = [
        f"The matrices hold {number(len(table), 'cell')} of {number(table.model.nunique(), 'model')}."
    ]
    asked = [
        pair
        for pair in predictors.pairs(paper)
        if pair.method == "Spearman" and pair.first in latencies and pair.second in quantities
    ]
    doubtful = [
        f"{pair.first} with {pair.second} {_where(pair.batch)}"
        for pair in asked
        if not pair.coefficient.settled
    ]
    if not asked:
        sentences.append("Too few models were measured for a coefficient.")
    elif not doubtful:
        sentences.append(
            f"All {number(len(asked), 'coefficient')} of a latency with a predictor differ from zero."
        )
    else:
        named = f": {'; '.join(doubtful)}" if len(doubtful) <= len(quantities) else ""
        sentences.append(
            f"Of {number(len(asked), 'coefficient')} of a latency with a predictor {len(doubtful)} cannot be told "
            f"apart from zero{named}."
        )
    alone = "There is one latency only, and so no row for another."
    sentences.append(_alike(paper, *latencies) if len(latencies) > 1 else alone)
    return " ".join(sentences)


def _alike(paper: Paper, first: str, second: str) -> str:
    """How alike two devices order the models."""
    parts = [
        f"{_where(pair.batch)} {pair.coefficient}"
        for pair in predictors.pairs(paper)
        if (pair.method, pair.first, pair.second) == ("Spearman", first, second)
    ]
    if not parts:
        return f"{first} and {second} share too few models for a coefficient."
    return f"{first} is correlated with {second}: {listing(parts)}."


@finding
def estimates(paper: Paper) -> str:
    """Whether FLOP and parameters are good estimates of latency."""
    return available.told_of_each(paper, _estimates)


def _estimates(machine: Machine) -> str:
    cells = available.cells(machine)
    ranked: dict[int | None, dict[Predictor, Rank]] = {
        batch: {rank.predictor: rank for rank in ranks}
        for batch, ranks in ranked_of(machine).items()
        if batch is not None
    }
    parts = []
    for predictor in (FLOP, PARAMETERS):
        own = {batch: ranks[predictor] for batch, ranks in ranked.items() if predictor in ranks}
        if own:
            parts.append(_estimate(machine, own))
    return " ".join([*parts, _difference(cells, list(ranked))]).strip()


def ranked_of(machine: Machine) -> dict[int | None, list[Rank]]:
    """The rankings of a machine's cells, at one batch size or more."""
    found = predictors.rankings(machine)
    if set(found) <= {None}:
        raise available.DataMissingError(
            f"On the {available.title(machine)} too few models were measured at the same batch size to say what "
            f"predicts a latency ({correlations.FEWEST} are needed); python -m measure --device "
            f"{machine.environment.device} measures more."
        )
    return found


def _estimate(machine: Machine, ranks: dict[int | None, Rank]) -> str:
    """How well one predictor orders the models and how far the line is off, at each batch size."""
    (name,) = {rank.predictor.name for rank in ranks.values()}
    graded: dict[str, list[str]] = {}
    for batch, rank in ranks.items():
        alike = graded.setdefault(_graded(rank.spearman), [])
        alike.append(f"{rank.spearman} at {batch}" if alike else f"ρ = {rank.spearman} at batch size {batch}")
    orders = [f"{grade} ({listing(alike)})" for grade, alike in graded.items()]
    first = next(iter(ranks.values()))
    bends = listing(
        [f"{correlations.written(rank.law.exponent, rank.law.interval)}" for rank in ranks.values()]
    )
    off = max(ranks.values(), key=lambda rank: rank.law.typical_factor)
    sizes = listing([str(batch) for batch in ranks])
    return (
        f"On the {available.title(machine)} {name} order the models by latency {listing(orders)}. The exponent of "
        f"latency in {name} is {bends} at batch size {sizes}: twice the {name} take "
        f"{significant(2**first.law.exponent)} times as long at batch size {first.batch}. Half of the models lie off "
        f"the line by more than a factor of {significant(off.law.typical_factor)} at batch size {off.batch}, where "
        "that is most."
    )


def _difference(cells: pd.DataFrame, batches: list[int | None]) -> str:
    """Whether FLOP order the models better than parameters do, by more than chance."""
    better: list[str] = []
    worse: list[str] = []
    open_: list[str] = []
    for batch in batches:
        rows = cells[cells.batch == batch]
        gap = correlations.advantage(rows[FLOP.column], rows[PARAMETERS.column], rows.latency_s, rows.model)
        kind = open_ if gap is None or gap[0] <= 0 <= gap[1] else better if gap[0] > 0 else worse
        kind.append(str(batch))
    parts = []
    if better:
        parts.append(f"FLOP order them better than parameters at batch size {listing(better)}")
    if worse:
        parts.append(f"parameters order them better than FLOP at batch size {listing(worse)}")
    if open_:
        parts.append(f"which of the two is better cannot be told from chance at batch size {listing(open_)}")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


@finding
def best(paper: Paper) -> str:
    """Which predictor orders the models best on each machine."""
    return available.told_of_each(paper, _best)


def _best(machine: Machine) -> str:
    cells = available.cells(machine)
    alike: dict[tuple[str, str], list[str]] = {}
    for batch, ranks in ranked_of(machine).items():
        told = f"{_where(batch)} (ρ = {ranks[0].spearman})"
        alike.setdefault((ranks[0].predictor.name, _ahead(cells, batch, ranks)), []).append(told)
    parts = [f"by {name} {listing(told)}{ahead}" for (name, ahead), told in alike.items()]
    sentence = f"On the {available.title(machine)} the models are ordered best {'; '.join(parts)}."
    if BOUND in predictors.known(cells):
        return sentence
    lacking = or_missing(available.roof)(machine)
    why = (
        str(lacking)
        if isinstance(lacking, available.Missing)
        else "Their operators have not been counted; python -m measure --sections workload counts them."
    )
    return f"{sentence} The roofline time is not among them: {why}"


def _ahead(cells: pd.DataFrame, batch: int | None, ranks: list[Rank]) -> str:
    """Which predictor comes second, and whether by more than chance."""
    if len(ranks) < 2:
        return ""
    first, second = (rank.predictor for rank in ranks[:2])
    rows = predictors.per_input(cells)
    rows = rows if batch is None else rows[rows.batch == batch]
    gap = correlations.advantage(rows[first.column], rows[second.column], rows.latency_s, rows.model)
    return f", ahead of {second.name}{'' if gap and gap[0] > 0 else ' by no more than chance'}"
