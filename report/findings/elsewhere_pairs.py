"""What a compiler, a layout, a precision, a newer device and a training step bring to the models that others timed."""

from report.analysis import elsewhere_pairs
from report.analysis.available import finding
from report.analysis.elsewhere_pairs import Comparison
from report.load.paper import Paper
from report.text.quantities import number, percent, significant


@finding
def changes(paper: Paper) -> str:
    """Say what a compiler and a layout bring on each device: the middle of the models, eight of ten, and who loses."""
    sentences = []
    for comparison in elsewhere_pairs.changes(paper):
        spread, loses = comparison.spread, "none is slower"
        if spread.slower:
            loses = (
                f"{percent(spread.slower)} of them are slower, {spread.least} by most "
                f"({significant(comparison.factors.min())})"
            )
        sentences.append(
            f"On the {comparison.device} {comparison.case} makes {comparison.what} {spread.told('fast')}; {loses}."
        )
    return " ".join(sentences)


@finding
def lowered(paper: Paper) -> str:
    """Say what fp16 brings over fp32 where it brings least and most, and where the roofs promise as much."""
    found = elsewhere_pairs.lowered(paper)
    least, most = (pick(found, key=lambda each: each.spread.median) for pick in (min, max))
    ends = [f"{each.spread.told('fast')} on the {each.device}{_roofs(each)}" for each in (least, most)[: len(found)]]
    text = f"At fp16 inference runs, on {number(len(found), 'device')}, from {' to '.join(ends)}, compared with fp32."
    promised = [each for each in found if each.promised]
    kept = [each for each in promised if each.spread.median >= (each.promised or 0)]
    if not promised:
        return text
    return f"{text} The promise of the roofs is kept in the median on {len(kept) or 'none'} of {len(promised)}."


def _roofs(comparison: Comparison) -> str:
    promised = comparison.promised
    return "" if promised is None else f", where the roofs at their intensities promise {significant(promised)}"


@finding
def generations(paper: Paper) -> str:
    """Hold the speed of a newer device over an older one against what their roofs promise."""
    parts = [
        f"from the {each.device} ({each.what}) {each.spread.told('fast')}{_roofs(each)}"
        for each in elsewhere_pairs.generations(paper)
    ]
    return f"Models run {'; '.join(parts)}."


@finding
def training(paper: Paper) -> str:
    """Say how much longer a training step takes than inference, per input, beside the ratio of their FLOP."""
    found = sorted(elsewhere_pairs.training(paper), key=lambda each: -each.spread.models)
    most, *others = found
    text = (
        f"Per input a training step takes, on the {most.device} {most.what}, {most.spread.told('long')} as a forward "
        f"pass, for {significant(most.promised or 1)} times its FLOP."
    )
    if not others:
        return text
    least, largest = (pick(others, key=lambda each: each.spread.median) for pick in (min, max))
    ends = [f"{significant(each.spread.median)} (the {each.device} {each.what})" for each in (least, largest)]
    devices = number(len({each.device for each in others}), "other device")
    return f"{text} On {devices} medians run from {' to '.join(ends)}."
