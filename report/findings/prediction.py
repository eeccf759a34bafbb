"""How well latencies are predicted, what predicts them, and where that fails."""

from collections.abc import Sequence
from statistics import median

from measure.cache.predictions import (
    BATCH_CLASSES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_ROOFLINE,
    ONE_KNOWN,
    OURS,
    PUT_ASIDE,
    Setting,
)
from measure.domain.values import SPACE, significant
from measure.predicting.study import ASIDE
from report.analysis import predictions
from report.analysis.available import DataMissingError, finding
from report.analysis.predictions import CALLED, LEFT_OUT, Check
from report.load.paper import Paper
from report.text.frame_rows import each, highest, matching
from report.text.prose import capitalised, listing, number, percent

GOOD = 0.15
"""A median error below which an estimate serves to choose a chip or size a machine."""

CALLED_PLAINLY = {LIKE_FLOP: "FLOP", LIKE_PARAMETERS: "parameters"}


def _range(shares: Sequence[float]) -> str:
    """Return the ends of some shares as one percentage."""
    low, high = percent(min(shares)), percent(max(shares))
    return low if low == high else f"{low.partition(SPACE)[0]} to {high}"


def _medians(checks: Sequence[Check]) -> str:
    return _range([check.median for check in checks])


def _middle(checks: Sequence[Check]) -> float:
    return median(check.median for check in checks)


@finding
def answer(paper: Paper) -> str:
    """Say how far the latencies of models are off that were left out of their device's fit."""
    checks = predictions.of_libraries(paper)
    devices = number(len({check.setting.device for check in checks}), "GPU")
    models = f"{min(check.models for check in checks):,}"
    return (
        f"On {devices} with {models} timed models or more, the latency of a model that the fit has not seen is off by "
        f"{_medians(checks)} in the median. Of these errors nine in ten are below "
        f"{_range([check.nine_in_ten for check in checks])}."
    )


@finding
def own(paper: Paper) -> str:
    """Say the same of the machines that were measured here: their best and their worst fit."""
    folders = {machine.folder for machine in paper.machines}
    checks = [check for check in predictions.of_settings(paper) if check.setting.device in folders]
    if not checks:
        raise DataMissingError("No machine measured here has models enough for a fit of its own.")
    best, worst = (pick(checks, key=lambda check: check.median) for pick in (min, max))
    ends = [
        f"{percent(check.median)} ({predictions.conditions(check.setting)})" for check in dict.fromkeys((best, worst))
    ]
    where = predictions.title(paper, best.setting)
    off = f"the latency of such a model is off by {' to '.join(ends)}"
    return f"On the {where}, where {number(best.models, 'model')} were timed, {off}."


@finding
def families(paper: Paper) -> str:
    """Say how the error grows where no relative of a model was timed, and whether the terms then beat a roofline."""
    seen, unseen = (predictions.of_libraries(paper, left_out) for left_out in (BY_MODEL, BY_FAMILY))
    devices = number(len({check.setting.device for check in unseen}), "GPU")
    text = f"Without the whole family of a model the error on the {devices} is {_medians(unseen)} in place of "
    text += _medians(seen)
    known = [predictions.beside(paper, check) for check in unseen]
    roofs = [found[LIKE_ROOFLINE] for found in known if LIKE_ROOFLINE in found]
    if not roofs:
        return f"{text}."
    verb = "still beats" if _middle(unseen) < _middle(roofs) else "no longer beats"
    return f"{text}. It {verb} a roofline of each kind of layer, scaled to the device ({_medians(roofs)})."


@finding
def estimates(paper: Paper) -> str:
    """Answer whether FLOP or parameters are good estimates of a latency, and what is."""
    checks = predictions.of_libraries(paper)
    known = [predictions.beside(paper, check) for check in checks]
    plain = {
        name: [found[method] for found in known if method in found]
        for method, name in CALLED_PLAINLY.items()
        if any(method in found for found in known)
    }
    good = [name for name, found in plain.items() if _middle(found) < GOOD]
    verdict = {0: f"Neither {' nor '.join(plain)} estimate a latency well"}.get(
        len(good), f"{capitalised(listing(good))} estimate a latency well"
    )
    parts = [f"{name} are off by {_medians(found)}" for name, found in plain.items()]
    text = f"{verdict}: scaled to the device, {listing(parts)} in the median."
    roofs = [found[LIKE_ROOFLINE] for found in known if LIKE_ROOFLINE in found]
    if not roofs or _middle(roofs) >= min(_middle(found) for found in plain.values()):
        return text
    text = f"{text} Counting bytes as well, one kind of layer at a time, brings that to {_medians(roofs)}."
    if _middle(checks) >= _middle(roofs):
        return text
    return f"{text} Knowing what each kind of layer costs on the device brings it to {_medians(checks)}."


@finding
def small_batches(paper: Paper) -> str:
    """Say whether small batches are predicted worse than large ones, on the devices where both were timed."""
    shown = {check.setting for check in predictions.of_libraries(paper)}
    by_class = {
        name: {
            check.setting: check
            for check in predictions.checks(paper, BY_MODEL, name)
            if check.method == OURS and check.setting in shown
        }
        for name in BATCH_CLASSES
    }
    present = [name for name, found in by_class.items() if found]
    first, last = (by_class[present[place]] if present else {} for place in (0, -1))
    both = first.keys() & last.keys()
    if first is last or not both:
        raise DataMissingError("No GPU was timed at small and at large batch sizes that errors could be told of apart.")
    small, large = [first[setting] for setting in both], [last[setting] for setting in both]
    if _middle(small) <= _middle(large):
        return f"Small batches are predicted as well as large ones: those of {present[0]} by {_medians(small)}."
    fewest = number(min(check.latencies for check in small), "latency", "latencies")
    return (
        f"At batch sizes of {present[0]} the error grows to {_medians(small)}. There a call’s fixed costs and idle "
        f"units weigh most, and as few as {fewest} of a device were published."
    )


@finding
def devices(paper: Paper) -> str:
    """Say how far predictions for a device are off by its datasheet alone, and once one time on it is known."""
    sheet = predictions.pooled(paper, BY_DEVICE)[0]
    others = [check for check in predictions.of_devices(paper, BY_DEVICE) if predictions.in_pool(paper, check, sheet)]
    count = number(len({check.setting.device for check in others}), "device")
    text = (
        f"For {_article(sheet.setting)} that nobody timed, the datasheet alone gives latencies that are off by "
        f"{percent(sheet.median)} in the median ({count}, each left out in turn, "
        f"{predictions.conditions(sheet.setting)}). Of these errors nine in ten are below {percent(sheet.nine_in_ten)}."
    )
    known = next((check for check in predictions.pooled(paper, ONE_KNOWN) if check.setting == sheet.setting), None)
    if known is None:
        return text
    verb = "brings that down to" if known.median < sheet.median else "does not help: they become"
    return f"{text} One known time, that of ResNet50, {verb} {percent(known.median)} and {percent(known.nine_in_ten)}."


@finding
def one_time(paper: Paper) -> str:
    """Say whether to time one model on a device before others are predicted there."""
    sheet = predictions.pooled(paper, BY_DEVICE)[0]
    change = predictions.by_one_time(paper, sheet)
    verdict = {
        -1: "Time one model on a chip before you predict others there",
        0: "Do not count on one time on a chip to predict others by",
        1: "Go by the datasheet rather than by one time",
    }[change.side]
    text = (
        f"{verdict}: with that of ResNet50 known the error is {change} times what it is without, in the median of "
        f"{number(change.count, 'device')}"
    )
    return f"{text}." if change.side else f"{text}, which may be chance."


def _article(pool: Setting) -> str:
    return pool.device.replace("any ", "a ", 1)


@finding
def factors(paper: Paper) -> str:
    """Say by what factor devices as a whole differ from what their datasheets let expect, and which differ most."""
    checks = predictions.of_devices(paper, BY_DEVICE)
    off = median(abs(check.ratio - 1) for check in checks)
    ends = [pick(checks, key=lambda check: check.ratio) for pick in (max, min)]
    parts = [
        f"{significant(check.ratio, 2)} times ({predictions.title(paper, check.setting)}, "
        f"{predictions.conditions(check.setting)})"
        for check in dict.fromkeys(ends)
    ]
    return (
        f"Devices differ as a whole, in the median by {percent(off)} from what their datasheets let expect. "
        f"At the ends, calls take {listing(parts)} the predicted latency."
    )


@finding
def coverage(paper: Paper) -> str:
    """Say whether the intervals hold what they promise, and where least."""
    kept = [check for check in _told(paper) if check.covered is not None]
    middle = median(check.covered or 0.0 for check in kept)
    least = min(kept, key=lambda check: check.covered or 0.0)
    return (
        f"Of the latencies that were left out, {percent(middle)} lie within their prediction interval in the middle "
        f"of all checks, and {percent(least.covered or 0.0)} in the worst ({_case(paper, least)})."
    )


@finding
def failures(paper: Paper) -> str:
    """Name where a simpler estimate predicts better than the terms."""
    lost = []
    for check in _told(paper):
        best = min(predictions.beside(paper, check).values(), key=lambda other: other.median)
        if best.method != OURS:
            lost.append((check, best))
    if not lost:
        return "Nowhere does a simpler estimate predict better."
    lost.sort(key=lambda pair: pair[1].median / pair[0].median)
    worst, best = lost[0]
    others = [_case(paper, check) for check, _best in lost[1:]]
    text = (
        f"Simpler estimates predict better in {number(len(lost), 'case')}. The clearest is {_case(paper, worst)} "
        f"({CALLED[best.method]}: {percent(best.median)} off; our terms: {percent(worst.median)})."
    )
    return f"{text} The others: {'; '.join(others)}." if others else text


def _told(paper: Paper) -> list[Check]:
    """Return our checks of single settings without a model or family, and of pools without a device or source."""
    predictions.of_settings(paper)  # says what is missing where nothing was checked
    return [
        check
        for left_out in LEFT_OUT
        for check in predictions.checks(paper, left_out)
        if check.method == OURS and predictions.is_pool(check.setting) == (left_out not in (BY_MODEL, BY_FAMILY))
    ]


def _case(paper: Paper, check: Check) -> str:
    how = predictions.conditions(check.setting)
    return f"{predictions.title(paper, check.setting)}, {how}, without {LEFT_OUT[check.left_out]}"


@finding
def aside(paper: Paper) -> str:
    """Say what became of the devices that were put aside before the first fit."""
    predictions.of_settings(paper)
    names = capitalised(listing([f"the {name}" for name in ASIDE]))
    checks = [check for check in predictions.checks(paper, PUT_ASIDE) if check.method == OURS]
    found = [check for check in checks if predictions.is_pool(check.setting)]
    if not found:
        return f"{names} were put aside before the first fit and have not been looked at."
    return (
        f"{names} were put aside before the first fit and looked at once, at the end: the median error is "
        f"{_medians(found)}, and nine in ten are below {_range([check.nine_in_ten for check in found])}. Of their "
        f"latencies {_range([check.covered or 0.0 for check in found])} lie within the prediction interval."
    )


@finding
def depthwise(paper: Paper) -> str:
    """Say what a depthwise convolution costs on which device, beside a dense one: both as multiples of their roofs."""
    rows = predictions.kinds(paper)
    dense = matching(rows, layer_kind="convolution").set_index("name").roof_times
    found = matching(rows, layer_kind="depthwise convolution")
    found = found[found.name.isin(dense.index)]
    if found.empty:
        raise DataMissingError("No device was timed with models enough that have depthwise convolutions.")
    ends = found.assign(beside=found.roof_times / found.name.map(dense)).sort_values("beside").iloc[[0, -1]]
    ends = ends.drop_duplicates("name")
    parts = [
        f"On the {predictions.title(paper, row.setting)} one takes {significant(row.roof_times, 2)} times what the "
        f"roof allows, a dense one {significant(dense[row.name], 2)} times."
        for row in each(ends)
    ]
    nearer = sum(row.roof_times < dense[row.name] for row in each(found))
    verdict = (
        "Depthwise convolutions come nearer to their roof than dense ones"
        if nearer == len(found)
        else f"Depthwise convolutions come nearer to their roof than dense ones on {nearer or 'none'} of "
        f"{number(len(found), 'device')}"
    )
    return f"{verdict}. {' '.join(parts)}"


@finding
def costliest(paper: Paper) -> str:
    """Name the kind of layer that is farthest from its roof on each device."""
    rows = predictions.kinds(paper)
    ends: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(rows.name):
        most = highest(matching(rows, name=name), "roof_times")
        ends.setdefault(most.layer_kind, {})[f"the {predictions.title(paper, most.setting)}"] = most.roof_times
    parts = []
    for kind, times in ends.items():
        low, high = (significant(end(times.values()), 2) for end in (min, max))
        parts.append(f"{kind} on {listing(list(times))} ({low if low == high else f'{low} to {high}'} times)")
    return f"Farthest from its roof is {listing(parts)}."
