"""What share of their datasheets devices deliver, by streams and products that others timed."""

import pandas as pd

from report.analysis import elsewhere_roofs
from report.analysis.available import finding
from report.load.paper import Paper
from report.text.prose import listing, number, percent


@finding
def streams(paper: Paper) -> str:
    """Say what share of its datasheet's bandwidth each device's memory delivers, by the fastest stream."""
    shares = _shares(elsewhere_roofs.streams(paper))
    return f"Of the datasheet's bandwidth the fastest streams through memory reach {shares}."


@finding
def products(paper: Paper) -> str:
    """Say what share of its datasheet's dense peak the fastest matrix product on each device reaches."""
    rows = elsewhere_roofs.products(paper)
    texts = [f"{_shares(found)} at {precision}" for precision, found in rows.groupby("precision")]
    what = "Of the datasheet's dense peak the fastest matrix products that were found reach"
    return f"{what} {'. They reach '.join(texts)}."


def _shares(rows: pd.DataFrame) -> str:
    """Write the highest and the lowest of the devices' own highest shares."""
    best = rows.groupby("device").share.max().sort_values(ascending=False)
    told = [f"{percent(share)} ({device})" for device, share in best.items()]
    return listing(told) if len(told) < 3 else f"{told[0]} down to {told[-1]} on {number(len(told), 'device')}"
