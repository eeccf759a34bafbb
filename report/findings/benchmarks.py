"""What the measured latencies and throughputs say."""

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import EAGER
from report.analysis import available, saturation, speed_ups
from report.analysis.available import Missing, on_each_machine, or_missing
from report.analysis.long_lists import ALWAYS
from report.analysis.predictors import comparable
from report.findings.method import CONFIDENCE, FEWEST_SAMPLES
from report.findings.utilisation import named
from report.load.cells import half_width
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text import prose
from report.text.frame_rows import at_ends, extremes, highest, lowest, of_models
from report.text.prose import by_number, capitalised, listing, number, percent, si


def quickest_and_slowest(cells: pd.DataFrame) -> str:
    """Name the quickest and the slowest model at the smallest and the largest batch size that all of them have."""
    parts: list[str] = []
    same = comparable(cells)
    for batch, rows in at_ends({batch: same[same.batch == batch] for batch in set(same.batch)}).items():
        quick, slow = extremes(rows, "latency_s")
        least, most = f"{si(quick.latency_s, 's')} ({quick.model}", f"{si(slow.latency_s, 's')} ({slow.model})"
        found = f"{least}, the only one measured)" if len(rows) == 1 else f"{least}) to {most}"
        parts.append(f"{'One' if parts else 'A batch'} of {batch} takes {found}.")
    return " ".join(parts)


def widths(cells: pd.DataFrame) -> str:
    """Say how wide the intervals are."""
    halves = half_width(cells).dropna()
    if halves.empty:
        return f"No cell has the {FEWEST_SAMPLES} samples that a {CONFIDENCE} interval needs."
    return (
        f"Half the width of the {CONFIDENCE} interval is {percent(halves.median())} of the median latency in the "
        f"median of {number(len(halves), 'cell')}, at most {percent(halves.max())}."
    )


def best_batches(cells: pd.DataFrame) -> str:
    """Say at which batch size throughput was highest, over the models measured at all that are compared."""
    several = comparable(cells).sort_values("batch")
    if several.batch.nunique() == 1:
        return "Too few models were measured at several batch sizes, so what a larger batch buys is not known."
    models = several.groupby("model").throughput_per_s
    gain = models.max() / models.first()
    best = several.loc[models.idxmax()].batch.value_counts().sort_index()
    return (
        f"Of batch sizes {listing([str(size) for size in sorted(set(several.batch))])}, {best.idxmax()} gives the "
        f"highest throughput for {best.max()} of {number(int(best.sum()), 'model')}. The best batch size gives "
        f"{significant(gain.median())} times the throughput of the smallest in the median, "
        f"and {significant(gain.max())} times for {gain.idxmax()}."
    )


def lower_precision(machine: Machine) -> str:
    """Say what the lower precision changes, cell by cell."""
    available.cells(machine, None)  # what is missing where nothing was measured at all is another sentence
    pairs, lower_one = or_missing(speed_ups.at_lower_precision)(machine), machine.lower_precision
    if isinstance(pairs, Missing):
        return (
            f"Nothing was measured at both {BASE_PRECISION} and {lower_one}; `python -m measure --precisions "
            f"{BASE_PRECISION} {lower_one}` does."
        )
    gains, slower = of_models(pairs, "gain"), int((pairs.gain < 1).sum())
    return (
        f"At {lower_one} {number(len(gains), 'model')}, each in the median of its batch sizes, "
        f"{by_number(len(gains), 'runs', 'run')} {significant(gains.median())} times as fast as at {BASE_PRECISION} in "
        f"the median; of {number(len(pairs), 'cell')} {slower or 'none'} {by_number(slower, 'is', 'are')} slower."
    )


@on_each_machine
def latency(paper: Paper, machine: Machine) -> str:
    cells = available.cells(machine)
    models = cells.model.nunique()
    tried = f"{number(models, 'model')} {by_number(models, 'was', 'were')} measured at {BASE_PRECISION}"
    return f"On the {available.title(machine)} {tried}. {quickest_and_slowest(cells)} {widths(cells)}"


@on_each_machine
def tails(paper: Paper, machine: Machine) -> str:
    """Say how much longer than the median one call in twenty takes, where single calls were timed."""
    cells = available.cells(machine).dropna(subset="tail_s")
    if cells.empty:
        return f"On the {available.title(machine)} too few single calls were timed to tell how long the slowest take."
    cells = cells.assign(stretch=cells.tail_s / cells.latency_s)
    by_model, worst = of_models(cells, "stretch"), highest(cells, "stretch")
    return (
        f"On the {available.title(machine)}, one single call in twenty takes {significant(by_model.median())} times "
        f"the median or longer, in the median of {number(len(by_model), 'model')}; the longest tail has {worst.model} "
        f"at batch size {worst.batch}, {significant(worst.stretch)} times its median."
    )


@on_each_machine
def energy(paper: Paper, machine: Machine) -> str:
    """Say the energy of an input, and what arithmetic a joule buys, where a counter of energy could be read."""
    cells = available.cells(machine).dropna(subset="energy_j")
    if cells.empty:
        return f"The {available.title(machine)} has no counter of energy that could be read, so none was measured."
    cells = cells.assign(input_j=cells.energy_j / cells.batch, flop_per_j=cells.forward_flop / cells.energy_j)
    parts = []
    for batch, rows in comparable(cells).groupby("batch"):
        least, most = extremes(rows, "input_j")
        parts.append(
            f"at batch size {batch} from {si(least.input_j, 'J')} ({least.model}) to {si(most.input_j, 'J')} "
            f"({most.model}), {si(rows.flop_per_j.median(), 'FLOP/J')} in the median of {number(len(rows), 'model')}"
        )
    return f"An input on the {available.title(machine)} takes {'; '.join(parts)}."


@on_each_machine
def throughput(paper: Paper, machine: Machine) -> str:
    """Say the throughputs, and what batch size and precision change."""
    cells = available.cells(machine)
    top = highest(cells, "throughput_per_s")
    return (
        f"The highest throughput of the {available.title(machine)} is {prose.throughput(top.throughput_per_s)}, "
        f"by {top.model} at batch size {top.batch}. {best_batches(cells)} "
        f"{lower_precision(machine)}"
    )


@on_each_machine
def saturated(paper: Paper, machine: Machine) -> str:
    """Say from which batch size on a larger one buys little, and what limits from there on, in each variant."""
    found = {str(variant): rows for variant, rows in saturation.of_machine(machine).groupby("variant", sort=False)}
    sentences = [f"{mode(variant)}, {_saturated(rows)}" for variant, rows in found.items()]
    others = {variant: rows for variant, rows in found.items() if variant != EAGER}
    if EAGER in found:
        sentences += [_over_eager(variant, rows, found[EAGER]) for variant, rows in others.items()]
    first, *rest = (sentence for sentence in sentences if sentence)
    return " ".join([f"On the {available.title(machine)} {first}", *map(capitalised, rest)])


def mode(variant: str) -> str:
    """Say how a variant runs, as the beginning of a sentence's clause."""
    return "in eager mode" if variant == EAGER else f"with {variant}"


def _saturated(rows: pd.DataFrame) -> str:
    smallest, largest = (end(end(batches) for batches in rows.batches) for end in (min, max))
    below = rows[~rows.limit.isin([saturation.OPEN, saturation.CAPACITY])]
    return (
        f"{number(len(rows), 'model')} were measured at batch sizes from {smallest} to {largest}. Of the sizes of "
        f"each the smallest with {percent(saturation.SHARE)} of the best throughput is below the largest for "
        f"{number(len(below), 'model')} of {len(rows)}{_range(below.batch)}. {_limits(rows, below)}"
    )


def _range(batches: pd.Series) -> str:
    """Say the median of batch sizes and their ends; nothing where there are none."""
    if batches.empty:
        return ""
    low, high = batches.min(), batches.max()
    ends = f", from {low} to {high}" if low < high else ""
    return f". It is {batches.median():g}{' in the median' if len(batches) > 1 else ''}{ends}"


def _over_eager(variant: str, rows: pd.DataFrame, eager: pd.DataFrame) -> str:
    """Hold the best throughput of a variant against that of eager mode, each at its own best batch size."""
    both = rows.merge(eager, on="model", suffixes=("", "_eager"))
    if both.empty:
        return ""
    gains = both.best_per_s / both.best_per_s_eager
    return (
        f"The best throughput with {variant} is {significant(gains.median())} times the best in eager mode, whatever "
        f"the batch sizes of both, in the median of {number(len(both), 'model')}, and higher for "
        f"{int((gains > 1).sum())}."
    )


def _limits(rows: pd.DataFrame, below: pd.DataFrame) -> str:
    """Say what limits the models that are saturated, and what is open of the others."""
    sentences = []
    for limit in (saturation.ARITHMETIC, saturation.MEMORY):
        limited = below[below.limit == limit]
        if not limited.empty:
            sentences.append(
                f"By its place under the roof {limit} limits {number(len(limited), 'model')} from there on, at "
                f"{percent(limited.attained.median())} of the attainable rate in the median."
            )
    lost = below[below.kept < saturation.SHARE]
    if not lost.empty:
        worst = lowest(lost, "kept")
        sentences.append(
            f"At the largest size {number(len(lost), 'model')} {by_number(len(lost), 'keeps', 'keep')} less than "
            f"{percent(saturation.SHARE)} of the best throughput, {worst.model} {percent(worst.kept)}: a larger batch "
            "can cost speed."
        )
    full, growing = (sorted(rows[rows.limit == limit].model) for limit in (saturation.CAPACITY, saturation.OPEN))
    if full:
        sentences.append(f"{number(len(full), 'model')} ran out of memory before: {listing(full, ALWAYS)}.")
    if growing:
        models = f"{number(len(growing), 'model')} may gain by batches larger than were measured"
        sentences.append(f"{models}{named(growing)}.")
    return " ".join(sentences)
