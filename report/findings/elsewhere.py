"""What others' measurements of GPUs say, beside their datasheets and the exact counts of their models."""

import pandas as pd

from measure.cache.words import STEP
from report.analysis import correlations, elsewhere
from report.analysis.available import DataMissingError, finding
from report.analysis.elsewhere import CHANGES, FEWEST
from report.analysis.predictors import COUNTED
from report.load.elsewhere import roofs
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import by_number, listing, number, percent, significant

TAILS = (0.1, 0.9)
"""The quantiles between which eight of ten models lie."""

OVER = 1.0
"""A share of the peak above this is an error of a clock, a count or a datasheet."""


@finding
def extent(paper: Paper) -> str:
    """Say how many timings of what stand here, and how many of them can be held against a roof."""
    rows = elsewhere.timings(paper)
    held = rows[rows.attained.notna()]
    steps = int((rows.phase == STEP).sum())
    return (
        f"{number(len(rows), 'timing')} of {number(rows.model.nunique(), 'model')} on "
        f"{number(rows.device.nunique(), 'device')} were published, {number(steps, 'training step')} among them; "
        f"{number(len(held), 'timing')} can be held against a roof, since their model was counted and their chip's "
        "datasheet is known."
    )


@finding
def shares(paper: Paper) -> str:
    """Say which share of its datasheet's peak the device with most models shows, and whether any exceeds a peak."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    groups = rows.groupby(["device", "computed"])
    (device, computed), most = max(groups, key=lambda group: group[1].model.nunique())
    best = highest(most, "peak_share")
    text = (
        f"On the {device} at {computed} {number(most.model.nunique(), 'model')} achieve {percent(most.peak_share.median())} "
        f"of the datasheet's peak in the median, each at its fastest, and {percent(most.attained.median())} of what the "
        f"roof allows at their intensity; {best.model} comes nearest to the peak with {percent(best.peak_share)}."
    )
    over = rows[rows.peak_share > OVER]
    if over.empty:
        return f"{text} No device exceeds its peak with any model."
    devices = listing([f"the {name}" for name in sorted(set(over.device))])
    return f"{text} {number(len(over), 'model')} {by_number(len(over), 'exceeds', 'exceed')} the peak of {devices}."


@finding
def changes(paper: Paper) -> str:
    """Say what a compiler, a layout and a precision bring: the middle of the models, eight of ten, and who loses."""
    rows = elsewhere.timings(paper)
    sentences = []
    for change in CHANGES:
        pairs = elsewhere.changed(rows, change)
        for device, found in pairs.groupby("device"):
            if found.model.nunique() < FEWEST:
                continue
            gains = found.groupby("model").speed_up.median()
            low, high = gains.quantile(TAILS[0]), gains.quantile(TAILS[1])
            slower = float((gains < 1).mean())
            sentences.append(
                f"{change.name} on the {device}: {significant(gains.median())} times as fast in the median of "
                f"{number(len(gains), 'model')}, {significant(low)} to {significant(high)} for eight of ten; "
                f"{percent(slower)} of them are slower, {gains.idxmin()} by most ({significant(gains.min())})"
            )
    if not sentences:
        raise DataMissingError(f"No change was timed on {FEWEST} models of one device, all else alike.")
    return f"{'. '.join(sentences)}."


@finding
def followed(paper: Paper) -> str:
    """Hold the speed of a newer device over an older one against the ratio of their roofs."""
    rows, above = elsewhere.timings(paper), roofs(paper.chips)
    years = paper.chips.drop_duplicates("chip").set_index("chip").year
    devices = sorted((name for name in set(rows.device) if name in years.index), key=lambda name: years[name])
    sentences = []
    for at, older in enumerate(devices):
        for newer in devices[at + 1 :]:
            pairs = elsewhere.generations(rows, older, newer)
            for (phase, computed), found in pairs.groupby(["phase", "computed"]):
                keys = [(name, str(computed)) for name in (older, newer)]
                if found.model.nunique() < FEWEST or any(key not in above for key in keys):
                    continue
                first, second = (above[key] for key in keys)
                gains = found.groupby("model").speed_up.median()
                sentences.append(
                    (
                        len(gains),
                        f"from the {older} to the {newer} at {computed} ({phase}) {significant(gains.median())} times in "
                        f"the median of {number(len(gains), 'model')}, {significant(gains.quantile(TAILS[0]))} to "
                        f"{significant(gains.quantile(TAILS[1]))} for eight of ten, where the peak is "
                        f"{significant(second.peak_flop_per_s / first.peak_flop_per_s)} and the bandwidth "
                        f"{significant(second.bandwidth_byte_per_s / first.bandwidth_byte_per_s)} times as high",
                    )
                )
    if not sentences:
        raise DataMissingError(f"No two devices were timed on {FEWEST} models in common, all else alike.")
    largest = [text for _, text in sorted(sentences, key=lambda each: -each[0])[:4]]
    return f"The speed of inference grew {'; '.join(largest)}."


@finding
def training(paper: Paper) -> str:
    """Say how much longer a training step takes than inference, per input, beside the ratio of their FLOP."""
    pairs = elsewhere.trained(elsewhere.counted(paper))
    groups = [(device, found) for device, found in pairs.groupby("device") if found.model.nunique() >= FEWEST]
    if not groups:
        raise DataMissingError(f"No device was timed in training and in inference with {FEWEST} models.")
    parts = []
    for device, found in groups:
        times, asked = (found.groupby("model")[column].median() for column in ("speed_up", "flop_ratio"))
        parts.append(
            f"on the {device} {significant(times.median())} times as long in the median of "
            f"{number(len(times), 'model')} ({significant(times.quantile(TAILS[0]))} to "
            f"{significant(times.quantile(TAILS[1]))} for eight of ten), for {significant(asked.median())} times the FLOP"
        )
    return f"Per input a training step takes {'; '.join(parts)}."


@finding
def predictors(paper: Paper) -> str:
    """Rank what is counted by how well it orders latencies on the device with most models, and say how CPU and GPU agree."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    parts = []
    for device, found in rows.groupby("device"):
        if found.model.nunique() < FEWEST:
            continue
        per_input = found.assign(latency_s=found.latency_s / found.batch)
        ranked = {
            predictor.name: correlations.correlation(per_input[predictor.column], per_input.latency_s, per_input.model)
            for predictor in COUNTED
        }
        known = {name: found for name, found in ranked.items() if found}
        best = max(known, key=lambda name: known[name].value)
        parts.append((len(per_input), f"{best} on the {device} ({known[best]}, FLOP {known['FLOP']})"))
    if not parts:
        raise DataMissingError(f"No device was timed with {FEWEST} models that were counted.")
    told = [text for _, text in sorted(parts, key=lambda each: -each[0])[:4]]
    return f"What orders the models best by the time of an input is {listing(told)}."


@finding
def farthest(paper: Paper) -> str:
    """Name the model farthest below its roof on each of the devices with most models, and what it is made of."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    kinds = paper.elsewhere.kinds
    sizes = rows.groupby("device").model.nunique().sort_values(ascending=False).head(3)
    parts = []
    for device in sizes.index:
        slow = lowest(rows[rows.device == device], "attained")
        own = kinds[(kinds.model == slow.model) & (kinds.stage == "inference")]
        why = ""
        if not own.empty:
            most = highest(own.groupby("layer_kind", as_index=False).byte.sum(), "byte")
            calls = int(own.calls.sum())
            why = f": {number(calls, 'operator')}, {percent(most.byte / own.byte.sum())} of their traffic in {most.layer_kind}"
        parts.append(f"on the {device} {slow.model} with {percent(slow.attained)} of what its roof allows{why}")
    return f"Farthest below its roof is {'; '.join(parts)}."


def _device_share(rows: pd.DataFrame, rate: str, printed: str) -> list[str]:
    """Write the highest rate of each device over what its datasheet prints, the highest share first."""
    best = rows.assign(share=rows[rate] / rows[printed]).sort_values("share", ascending=False)
    best = best.drop_duplicates("device")
    return [f"{percent(row.share)} ({row.device})" for row in best.itertuples()]


@finding
def streams(paper: Paper) -> str:
    """Say what share of its datasheet's bandwidth each device's memory delivers, by the fastest stream."""
    printed = paper.chips.drop_duplicates("chip").set_index("chip").bandwidth_byte_per_s
    rows = paper.elsewhere.bandwidths
    rows = rows[(rows.benchmark == "gpu-stream") & rows.device.isin(printed.index)]
    if rows.empty:
        raise DataMissingError("No stream through a GPU's memory was published; see data/published/README.md.")
    parts = _device_share(rows.assign(printed=rows.device.map(printed)), "byte_per_s", "printed")
    return f"Of the datasheet's bandwidth streams through memory reach {listing(parts)}."


@finding
def products(paper: Paper) -> str:
    """Say what share of its datasheet's dense peak the fastest matrix product on each device reaches."""
    rows = paper.elsewhere.products
    peaks = paper.chips.groupby(["chip", "precision"]).peak_flop_per_s.max()
    known = [peaks.get(key, float("nan")) for key in zip(rows.device, rows.precision, strict=True)]
    rows = rows.assign(printed=known).dropna(subset="printed")
    if rows.empty:
        raise DataMissingError("No matrix product on a chip of data/chips.csv was published; see data/published/README.md.")
    texts = []
    for precision, found in rows.groupby("precision"):
        texts.append(f"at {precision} {listing(_device_share(found, 'flop_per_s', 'printed'))}")
    return f"Of the datasheet's dense peak the fastest matrix products that were found reach {'; '.join(texts)}."
