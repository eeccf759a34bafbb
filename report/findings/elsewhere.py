"""What others' measurements of GPUs say, beside their datasheets and the exact counts of their models."""

import pandas as pd

from measure.cache.schema import TABLES
from measure.cache.workload_records import PublishedCount
from measure.domain.words import INFERENCE, STEP
from report.analysis import elsewhere, elsewhere_shares
from report.analysis.available import finding
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.prose import by_number, number, percent

OVER = 1.0
"""A share of the peak above this is an error of a clock, a count or a datasheet."""


@finding
def scope(paper: Paper) -> str:
    """Say for the abstract how many timings of others stand beside ours."""
    rows = elsewhere.timings(paper)
    return (
        f"Beside them stand {len(rows):,} timings of {rows.model.nunique():,} models on "
        f"{number(rows.device.nunique(), 'device')} that others published."
    )


@finding
def extent(paper: Paper) -> str:
    """Say how many timings of what stand here, and how many of them can be held against a roof."""
    rows = elsewhere.timings(paper)
    held = rows[rows.attained.notna()]
    steps = int((rows.phase == STEP).sum())
    return (
        f"{len(rows):,} timings of {rows.model.nunique():,} models on "
        f"{number(rows.device.nunique(), 'device')} were published. Of these {steps:,} are of training steps, and "
        f"{len(held):,} can be held against a roof, since their model was counted and their chip's datasheet is known."
    )


@finding
def shares(paper: Paper) -> str:
    """Say which share of its datasheet's peak the device with most models shows, and whether any exceeds a peak."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    device, computed, most = elsewhere.most_published(paper)
    best = highest(most, "peak_share")
    text = (
        f"On the {device} at {computed} {number(most.model.nunique(), 'model')} achieve "
        f"{percent(most.peak_share.median())} of the datasheet's peak in the median, each at its fastest, and "
        f"{percent(most.attained.median())} of what the roof allows at their intensity. Nearest to the peak comes "
        f"{best.model} with {percent(best.peak_share, 3)}."
    )
    over = rows[rows.peak_share > OVER]
    if over.empty:
        return f"{text} No device exceeds its peak with any model."
    models, top = over.model.nunique(), highest(over, "peak_share")
    return (
        f"{text} {number(models, 'model')} {by_number(models, 'exceeds', 'exceed')} the peak of "
        f"{number(over.device.nunique(), 'device')}; the highest share is {percent(top.peak_share, 3)} "
        f"({top.model} on the {top.device} at {top.computed}). A datasheet's "
        "peak is that of its boost clock, above which boards may run, and a library may leave out what is counted: "
        "branches of a network that are folded into one, or multiplications of a small convolution."
    )


@finding
def families(paper: Paper) -> str:
    """Say which families of models come nearest to their roof, and which stay farthest below it."""
    device, computed, found = elsewhere_shares.by_family(paper)
    ranked = list(found.items())
    nearest, farthest = ranked[0], ranked[-1]
    text = (
        f"Of the families on the {device} at {computed} {nearest[0]} comes nearest to its roof, with "
        f"{percent(nearest[1].median)} in the median of its models"
    )
    if len(ranked) == 1:
        return f"{text}."
    return f"{text}, and {farthest[0]} stays farthest below it, with {percent(farthest[1].median)}."


@finding
def farthest(paper: Paper) -> str:
    """Name the model farthest below its roof on the device with most models, and what it is made of."""
    device, computed, rows = elsewhere.most_published(paper)
    slow = lowest(rows, "attained")
    kinds = paper.elsewhere.kinds
    own = kinds[(kinds.model == slow.model) & (kinds.stage == INFERENCE)]
    # Models are counted at each size that somebody timed; without a size it is the model's own
    own = own[own.input_size.isna() if pd.isna(slow.input_size) else own.input_size == slow.input_size]
    text = (
        f"Farthest below its roof on the {device} at {computed} is {slow.model}, with {percent(slow.attained)} of what "
        "it allows"
    )
    if own.empty:
        return f"{text}."
    most = highest(own.groupby("layer_kind", as_index=False).byte.sum(), "byte")
    return (
        f"{text}: {number(int(own.calls.sum()), 'operator')}, {percent(most.byte / own.byte.sum())} of their traffic "
        f"in {most.layer_kind}."
    )


@finding
def gaps(paper: Paper) -> str:
    """Say how many models that others timed could not be counted, and where they are listed."""
    timed = elsewhere.timings(paper).model.nunique()
    lost = paper.elsewhere.not_counted.model.nunique()
    if not lost:
        return f"Each of the {number(timed, 'model')} that others timed was counted."
    return (
        f"Of {number(timed, 'model')} that others timed {lost} could not be counted, most since today's "
        f"libraries have none of that name; data/{TABLES[PublishedCount].path} lists them with the reason."
    )
