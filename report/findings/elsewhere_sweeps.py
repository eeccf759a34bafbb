"""What others' sweeps of batch sizes say: where a larger batch buys little, what a lower precision and a step do."""

import pandas as pd

from measure.domain.values import significant
from report.analysis import elsewhere_sweeps, saturation
from report.analysis.available import DataMissingError, finding
from report.analysis.elsewhere import ADD
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, extremes, matching
from report.text.prose import by_number, capitalised, number, percent

CAST = ("computed", "precision", "autocast")
"""The columns in which two sweeps at different precisions differ."""


@finding
def saturations(paper: Paper) -> str:
    """Say per device and precision from which batch size on a larger one buys little, and what the batch brings."""
    found = elsewhere_sweeps.saturations(elsewhere_sweeps.swept(paper))
    middles = found.groupby(["device", "computed"], as_index=False)[["batch", "gain"]].median()
    (small, large), (least, most) = (extremes(middles, column) for column in ("batch", "gain"))
    sizes = dict.fromkeys(f"{row.batch:g} ({row.device} at {row.computed})" for row in (small, large))
    gains = dict.fromkeys(significant(row.gain) for row in (least, most))
    return (
        f"In the median of {number(found.model.nunique(), 'model')} that others timed over batch sizes, "
        f"{percent(saturation.SHARE)} of the best throughput is reached at batch size {' to '.join(sizes)}. The best "
        f"is {' to '.join(gains)} times that of the smallest batch."
    )


@finding
def precisions(paper: Paper) -> str:
    """Say how many times as fast a device is at a lower precision, at the smallest and at the largest batch size."""
    sweeps = elsewhere_sweeps.swept(paper)
    alike = [column for column in (*elsewhere_sweeps.SET, "model", "batch") if column not in CAST]
    lower = sweeps[sweeps.computed != BASE_PRECISION]
    pairs = matching(sweeps, computed=BASE_PRECISION).merge(lower, on=alike, suffixes=("", "_lower"))
    if pairs.empty:
        raise DataMissingError(
            f"No sweep of batch sizes was timed at {BASE_PRECISION} and at another precision; {ADD}."
        )
    pairs = pairs.assign(gain=pairs.throughput_per_s_lower / pairs.throughput_per_s)
    parts = []
    for (device, computed), rows in pairs.groupby(["device", "computed_lower"]):
        gains = rows.groupby("batch").gain.median()
        first, last = gains.index[0], gains.index[-1]
        parts.append(
            f"at {computed} the {device} is {significant(gains[first])} times as fast as at {BASE_PRECISION} at batch "
            f"size {first}, and {significant(gains[last])} times at {last}"
        )
    return f"{capitalised('; '.join(parts))}, in the median of {number(pairs.model.nunique(), 'model')}."


@finding
def steps(paper: Paper) -> str:
    """Hold the training steps that a study printed against the forward passes that others timed on the same chips."""
    found = elsewhere_sweeps.printed_steps(paper, elsewhere_sweeps.swept(paper))
    known = found[found.inference_per_s.notna()]
    if known.empty:
        raise DataMissingError(
            "No model whose training step a study printed was timed by others on the same chip at the same batch size; "
            f"{ADD}."
        )
    parts = [
        f"{significant(row.inference_per_s / row.throughput_per_s)} times as long on the {row.device} ({row.model}, "
        f"batch size {row.batch:.0f}){_asked(row.flop_ratio)}"
        for row in each(known)
    ]
    rest = len(found) - len(known)
    others = f" {number(rest, 'step')} on these chips {by_number(rest, 'has', 'have')} no such pass." if rest else ""
    return (
        f"Beside a forward pass of the model that others timed at {BASE_PRECISION} and the same batch size, a printed "
        f"training step takes {'; '.join(parts)}.{others}"
    )


def _asked(ratio: float) -> str:
    """Write how many times the FLOP a step asks for, where the model was counted."""
    return "" if pd.isna(ratio) else f", for {significant(ratio)} times the FLOP"
