"""What a compiler, a layout, a precision, a newer device and a training step bring to the models that others timed."""

from math import log

from measure.domain.values import significant
from report.analysis import elsewhere_pairs
from report.analysis.available import finding
from report.analysis.elsewhere_pairs import PairedChange
from report.load.paper import Paper
from report.text.prose import number, percent

NEAR = 1.1
"""Up to this factor what the roofs promise is what models get."""


@finding
def changes(paper: Paper) -> str:
    """Say what a compiler and a layout bring in the median, and to how many models, and which, they cost time."""
    cases: dict[str, list[PairedChange]] = {}
    for comparison in elsewhere_pairs.changes(paper):
        cases.setdefault(comparison.case, []).append(comparison)
    return " ".join(_change(case, found) for case, found in cases.items())


def _change(case: str, found: list[PairedChange]) -> str:
    medians = sorted({significant(each.spread.median) for each in found}, key=float)
    text = (
        f"With {case} models run {' to '.join((medians[0], medians[-1])[: len(medians)])} times as fast in the median"
    )
    worst = max(found, key=lambda each: each.spread.slower)
    if not worst.spread.slower:
        return f"{text}; none is slower."
    most = " at most" if len(found) > 1 else ""
    return (
        f"{text}. On the {worst.device}{most} {percent(worst.spread.slower)} of them are slower ({worst.what}); "
        f"the slowest, {worst.spread.least}, runs {significant(worst.factors.min())} times as fast."
    )


@finding
def lowered(paper: Paper) -> str:
    """Say what fp16 brings over fp32 where it brings least and most, and where the roofs promise as much."""
    found = elsewhere_pairs.lowered(paper)
    least, most = (pick(found, key=lambda each: each.spread.median) for pick in (min, max))
    ends = [f"{significant(each.spread.median)} times ({each.device})" for each in (least, most)[: len(found)]]
    text = (
        f"Inference at fp16 runs {' to '.join(ends)} as fast as at fp32, in the median of the models of "
        f"{number(len(found), 'device')}."
    )
    promised = [each for each in found if each.promised]
    kept = [each for each in promised if each.spread.median >= (each.promised or 0)]
    if not promised:
        return text
    return f"{text} The promise of the roofs is kept in the median on {len(kept) or 'none'} of {len(promised)}."


@finding
def generations(paper: Paper) -> str:
    """Say how much faster a newer device is than an older one, and where that is farthest from what roofs promise."""
    found = elsewhere_pairs.generations(paper)
    least, most = (pick(found, key=lambda each: each.spread.median) for pick in (min, max))
    text = f"From the {most.device} models run {significant(most.spread.median)} times as fast in the median"
    if len(found) > 1:
        text += f", from the {least.device} {significant(least.spread.median)} times: the ends of {len(found)} pairs"
    promised = [(each, each.promised) for each in found if each.promised]
    if not promised:
        return f"{text}."
    far, roofs = max(promised, key=lambda pair: abs(log(pair[0].spread.median / pair[1])))
    if max(far.spread.median / roofs, roofs / far.spread.median) <= NEAR:
        return f"{text}. The ratio of their roofs comes within {percent(NEAR - 1)} of that."
    return (
        f"{text}. The ratio of their roofs is farthest off from the {far.device}: it promises {significant(roofs)} "
        f"times, and models run {significant(far.spread.median)} times as fast."
    )


@finding
def training(paper: Paper) -> str:
    """Say how much longer a training step takes than inference, per input, beside the ratio of their FLOP."""
    found = sorted(elsewhere_pairs.training(paper), key=lambda each: -each.spread.models)
    most, *others = found
    text = (
        f"Per input a training step takes, on the {most.device} {most.what}, {significant(most.spread.median)} times "
        f"as long as a forward pass in the median of {number(most.spread.models, 'model')}, for "
        f"{significant(most.promised or 1)} times its FLOP."
    )
    if not others:
        return text
    least, largest = (pick(others, key=lambda each: each.spread.median) for pick in (min, max))
    ends = [f"{significant(each.spread.median)} (the {each.device} {each.what})" for each in (least, largest)]
    devices = number(len({each.device for each in others}), "other device")
    return f"{text} On {devices} medians run from {' to '.join(ends)}."
