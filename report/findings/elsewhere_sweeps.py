"""What others' sweeps of batch sizes say: where a larger batch buys little, and what a lower precision buys by then."""

import pandas as pd

from report.analysis import elsewhere_sweeps, saturation
from report.analysis.available import DataMissingError, finding
from report.analysis.effect import median_of
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, matching
from report.text.quantities import by_number, listing, number, percent, significant


@finding
def saturations(paper: Paper) -> str:
    """Say per device and precision from which batch size on a larger one buys little, and what the batch brings."""
    found = elsewhere_sweeps.saturations(elsewhere_sweeps.swept(paper))
    parts = []
    for (device, computed), rows in found.groupby(["device", "computed"], sort=False):
        sizes = sorted(int(batch) for batch in rows.batch)
        spread = f" ({sizes[0]} to {sizes[-1]})" if sizes[0] < sizes[-1] else ""
        parts.append(
            f"{significant(median_of(sizes).factor)}{spread} on the {device} at {computed}, with "
            f"{significant(rows.gain.median())} times the throughput of the smallest batch at most"
        )
    return (
        f"A larger batch buys less than {percent(1 - saturation.SHARE)} from batch size {'; '.join(parts)} (medians of "
        f"{number(found.model.nunique(), 'model')})."
    )


@finding
def precisions(paper: Paper) -> str:
    """Say how many times as fast a device is at a lower precision, at the smallest and at the largest batch size."""
    sweeps = elsewhere_sweeps.swept(paper)
    key = ["source", "device", "model", "input_size", "batch"]
    full = matching(sweeps, computed=BASE_PRECISION)
    pairs = full.merge(sweeps[sweeps.computed != BASE_PRECISION], on=key, suffixes=("", "_lower"))
    if pairs.empty:
        raise DataMissingError(f"No sweep of batch sizes was timed at {BASE_PRECISION} and at a lower precision.")
    pairs = pairs.assign(gain=pairs.throughput_per_s_lower / pairs.throughput_per_s)
    parts = []
    for (device, computed), rows in pairs.groupby(["device", "computed_lower"], sort=False):
        gains = rows.groupby("batch").gain.median()
        ends = [f"{significant(gains[batch])} at batch size {batch}" for batch in (gains.index[0], gains.index[-1])]
        parts.append(f"{listing(ends)} on the {device} at {computed}")
    return f"Times as fast as {BASE_PRECISION} is a lower precision, in the median of the models: {'; '.join(parts)}."


@finding
def steps(paper: Paper) -> str:
    """Hold the training steps that a study printed against the forward passes that others timed on the same chips."""
    found = elsewhere_sweeps.printed_steps(paper, elsewhere_sweeps.swept(paper))
    known = found[found.inference_per_s.notna()]
    if known.empty:
        raise DataMissingError(
            "No model whose training step a study printed was timed by others on the same chip at the same batch size."
        )
    parts = [
        f"{significant(row.inference_per_s / row.throughput_per_s)} times as long on the {row.device} ({row.model}, "
        f"batch size {row.batch:.0f}){_asked(row.flop_ratio)}"
        for row in each(known)
    ]
    rest = len(found) - len(known)
    others = f" {number(rest, 'printed step')} {by_number(rest, 'has', 'have')} no forward pass beside it." if rest else ""
    return (
        f"Per image a printed training step takes, beside a forward pass that others timed at {BASE_PRECISION}, "
        f"{'; '.join(parts)}.{others}"
    )


def _asked(ratio: float) -> str:
    """Write how many times the FLOP a step asks for, where the model was counted."""
    return "" if pd.isna(ratio) else f", for {significant(ratio)} times the FLOP"
