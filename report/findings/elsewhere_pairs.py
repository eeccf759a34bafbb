"""What a compiler, a layout, a precision, a newer device and a training step bring to the models that others timed."""

from report.analysis import elsewhere_pairs
from report.analysis.available import finding
from report.analysis.elsewhere_pairs import Spread
from report.load.paper import Paper
from report.text.quantities import number, percent, significant


@finding
def changes(paper: Paper) -> str:
    """Say what a change brings on each device: the middle of the models, eight of ten, and who loses."""
    sentences = []
    for comparison in elsewhere_pairs.changes(paper):
        spread = comparison.spread
        loses = "none is slower"
        if spread.slower:
            loses = f"{percent(spread.slower)} of them are slower, {spread.least} by most ({significant(comparison.factors.min())})"
        promised = comparison.promised
        roofs = "" if promised is None else f", where the roofs promise {significant(promised)}"
        sentences.append(f"{comparison.case} on the {comparison.where}: {_told(spread)}{roofs}; {loses}")
    return f"{'. '.join(sentences)}."


@finding
def generations(paper: Paper) -> str:
    """Hold the speed of a newer device over an older one against what their roofs promise."""
    parts = []
    for comparison in elsewhere_pairs.generations(paper):
        promised = comparison.promised
        roofs = "" if promised is None else f", where the roofs at their intensities promise {significant(promised)}"
        parts.append(f"from the {comparison.case} ({comparison.where}) {_told(comparison.spread)}{roofs}")
    return f"Models became faster {'; '.join(parts)}."


@finding
def training(paper: Paper) -> str:
    """Say how much longer a training step takes than inference, per input, beside the ratio of their FLOP."""
    parts = [
        f"on the {comparison.where} {_told(comparison.spread)}, for {significant(comparison.promised or 1)} times the FLOP"
        for comparison in elsewhere_pairs.training(paper)
    ]
    return f"Per input a training step takes, as a multiple of a forward pass, {'; '.join(parts)}."


def _told(spread: Spread) -> str:
    return (
        f"{significant(spread.median)} times in the median of {number(spread.models, 'model')}, {significant(spread.low)} "
        f"to {significant(spread.high)} for eight of ten"
    )
