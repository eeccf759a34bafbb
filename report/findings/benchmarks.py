"""What the measured latencies and throughputs say."""

import pandas as pd

from report.analysis import available, saturation
from report.analysis.available import finding
from report.findings.method import CONFIDENCE, FEWEST_SAMPLES
from report.findings.utilisation import named
from report.load.paper import BASE_PRECISION, LOWER_PRECISION, Machine, Paper
from report.text import quantities
from report.text.frame_rows import highest, lowest
from report.text.quantities import listing, number, percent, si, significant


def extremes(cells: pd.DataFrame) -> str:
    """The quickest and the slowest model at each batch size."""
    parts = []
    for batch, rows in cells.groupby("batch"):
        quick, slow = lowest(rows, "latency_s"), highest(rows, "latency_s")
        if len(rows) == 1:
            parts.append(
                f"at batch size {batch} {si(quick.latency_s, 's')} ({quick.model}, the only one measured)"
            )
        else:
            parts.append(
                f"at batch size {batch} from {si(quick.latency_s, 's')} ({quick.model}) to {si(slow.latency_s, 's')} "
                f"({slow.model})"
            )
    return f"Latency is {'; '.join(parts)}."


def precision_of(cells: pd.DataFrame) -> str:
    """How wide the intervals are."""
    widths = ((cells.latency_high_s - cells.latency_low_s) / 2 / cells.latency_s).dropna()
    if widths.empty:
        return f"No cell has the {FEWEST_SAMPLES} samples that a {CONFIDENCE} interval needs."
    return (
        f"Half the width of the {CONFIDENCE} interval is {percent(widths.median())} of the median latency in the "
        f"median of {number(len(widths), 'cell')}, at most {percent(widths.max())}."
    )


def best_batches(cells: pd.DataFrame) -> str:
    """At which batch size throughput was highest, over models measured at several."""
    several = cells[cells.groupby("model").batch.transform("nunique") > 1]
    if several.empty:
        return "No model was measured at more than one batch size, so what a larger batch buys is not known."
    best = several.loc[several.groupby("model").throughput_per_s.idxmax()]
    counts = best.batch.value_counts().sort_index()
    parts = [f"{batch} for {number(int(count), 'model')}" for batch, count in counts.items()]
    gain = (
        several.groupby("model").throughput_per_s.max()
        / several.sort_values("batch").groupby("model").throughput_per_s.first()
    )
    return (
        f"Of the batch sizes measured, throughput is highest at {listing(parts)}. The best batch size gives "
        f"{significant(gain.median())} times the throughput of the smallest in the median, "
        f"and {significant(gain.max())} times for {gain.idxmax()}."
    )


def half_precision(cells: pd.DataFrame) -> str:
    """What the lower precision changes, cell by cell."""
    pairs = cells[cells.precision == BASE_PRECISION].merge(
        cells[cells.precision == LOWER_PRECISION], on=["model", "batch"], suffixes=("_base", "_half")
    )
    if pairs.empty:
        return (
            f"Nothing was measured at both {BASE_PRECISION} and {LOWER_PRECISION}; python -m measure --precisions "
            f"{BASE_PRECISION} {LOWER_PRECISION} does."
        )
    gain = pairs.latency_s_base / pairs.latency_s_half
    slower = int((gain < 1).sum())
    return (
        f"At {LOWER_PRECISION} the same cells run {significant(gain.median())} times as fast as at {BASE_PRECISION} in "
        "the median of "
        f"{number(len(pairs), 'pair')}; {slower or 'none'} of them {'is' if slower == 1 else 'are'} slower."
    )


def _latency(machine: Machine) -> str:
    cells = available.cells(machine)
    models = cells.model.nunique()
    return (
        f"On the {available.title(machine)} {number(models, 'model')} {'was' if models == 1 else 'were'} measured at "
        f"{BASE_PRECISION}. {extremes(cells)} {precision_of(cells)}"
    )


def _throughput(machine: Machine) -> str:
    cells = available.cells(machine)
    top = highest(cells, "throughput_per_s")
    return (
        f"The highest throughput of the {available.title(machine)} is "
        f"{quantities.throughput(top.throughput_per_s)}, by {top.model} "
        f"at batch size {top.batch}. {best_batches(cells)} {half_precision(available.cells(machine, None))}"
    )


def _saturation(machine: Machine) -> str:
    rows = saturation.of(machine)
    sizes = rows.batches.value_counts()
    measured = [
        f"{listing([str(batch) for batch in batches])} ({number(int(count), 'model')})"
        for batches, count in zip(sizes.index.tolist(), sizes, strict=True)
    ]
    below = rows[~rows.limit.isin([saturation.OPEN, saturation.CAPACITY])]
    counts = below.batch.value_counts().sort_index()
    found = [f"{number(int(count), 'model')} at {batch}" for batch, count in counts.items()]
    return (
        f"On the {available.title(machine)} models were measured at batch size {'; '.join(measured)}. Of the measured "
        f"sizes the smallest with {percent(saturation.SHARE)} of the best throughput is below the largest for "
        f"{number(len(below), 'model')} of {len(rows)}{': ' + listing(found) if found else ''}. {_beyond(rows, below)}"
    )


def _beyond(rows: pd.DataFrame, below: pd.DataFrame) -> str:
    """What limits the models that are saturated, and what is open of the others."""
    sentences = []
    for limit in (saturation.ARITHMETIC, saturation.MEMORY):
        own = below[below.limit == limit]
        if not own.empty:
            sentences.append(
                f"By its place under the roof {limit} limits {number(len(own), 'model')} from there on, at "
                f"{percent(own.attained.median())} of the attainable rate in the median."
            )
    lost = below[below.kept < saturation.SHARE]
    if not lost.empty:
        worst = lowest(lost, "kept")
        sentences.append(
            f"At the largest size {number(len(lost), 'model')} {'keeps' if len(lost) == 1 else 'keep'} less than "
            f"{percent(saturation.SHARE)} of the best throughput, {worst.model} {percent(worst.kept)}: a larger batch "
            "can cost speed."
        )
    full, open_ = (rows[rows.limit == limit] for limit in (saturation.CAPACITY, saturation.OPEN))
    if not full.empty:
        sentences.append(
            f"{number(len(full), 'model')} ran out of memory before: {listing(sorted(full.model))}."
        )
    if not open_.empty:
        sentences.append(
            f"{number(len(open_), 'model')} may gain by batches larger than were measured"
            f"{named(sorted(open_.model))}."
        )
    return " ".join(sentences)


@finding
def saturated(paper: Paper) -> str:
    """From which batch size on a larger one buys little, on each machine shown, and what limits from there on."""
    return available.told_of_each(paper, _saturation)


@finding
def latency(paper: Paper) -> str:
    """The latencies of each machine shown."""
    return available.told_of_each(paper, _latency)


@finding
def throughput(paper: Paper) -> str:
    """The throughputs of each machine shown."""
    return available.told_of_each(paper, _throughput)
