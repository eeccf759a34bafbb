"""How many printed figures of five studies agree with ours, and the causes of the others."""

from collections import Counter

from measure.published.records import BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD
from report.chapters.published import tables
from report.chapters.published.tables import AGREEMENT, AGREES, LIKENESS, OPEN
from report.facts import Facts, sourced
from report.paper import Paper
from report.paper.frames import matching
from report.stats.value import Name, Source, Value, count_of, exact


class Causes(Facts):
    sparse: Value  #: figures that are sparse peaks
    operations: Value  #: figures that are FLOP of more than products
    summary: Value  #: figures that are torchsummary's total, in MiB, as footprints
    quotient: Value  #: figures that are intensities by such a footprint
    linear: Value  #: figures that are backward passes of the linear layers alone
    gradient: Value  #: figures that are backward passes with one of two gradients
    repeated: Value  #: figures that are one ratio, printed for several networks
    forward: Value  #: figures that are steps counted as their forward multiply-adds
    milliseconds: Value  #: figures that are times in milliseconds, printed as seconds
    unknown: Value  #: figures without a known reason


class PrintedRatios(Facts):
    """Ratios of the FLOP of both passes that two studies print."""

    lowest: Value  #: the lowest ratio of backward to forward
    highest: Value  #: the highest ratio of forward to backward


class PublishedFacts(Facts):
    figures: Value  #: printed figures with a counterpart of ours
    agree: Value  #: figures that agree with ours
    differ: Value  #: figures that differ from ours
    open: Value  #: figures within the interval of ours
    agreement: Value  #: the largest difference of agreeing figures, apart from rounding
    likeness: Value  #: the largest difference of a figure from its supposed cause
    machine: Name  #: the machine of our timings
    causes: Causes
    ratios: PrintedRatios


def of(paper: Paper) -> PublishedFacts:
    paper = paper.reference  # so that every paper prints the same
    found = Counter(each.verdict for table in tables.of(paper).values() for each in table)
    differing = found.total() - found[AGREES] - found[OPEN]
    causes = {name: count_of(found[name], "figures") for name in Causes.__dataclass_fields__}
    of_paper = PublishedFacts(
        figures=count_of(found.total(), "figures"),
        agree=count_of(found[AGREES], "figures"),
        differ=count_of(differing, "figures"),
        open=count_of(found[OPEN], "figures"),
        agreement=exact(AGREEMENT, "%"),
        likeness=exact(LIKENESS, "%"),
        machine=Name(next((each.name for each in paper.machines), None)),
        causes=Causes(**causes),
        ratios=sourced(_ratios(paper), Source("published/training.csv", "FLOP")),
    )
    return sourced(of_paper, Source("published", "printed figures that mean the same as one of ours"))


def _ratios(paper: Paper) -> PrintedRatios:
    rows = matching(paper.published.training, quantity="flop").sort_values("ratio_as_printed")
    ways = (BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD)
    lowest, highest = (list(matching(rows, ratio_means=way).ratio_as_printed) for way in ways)
    return PrintedRatios(exact(next(iter(lowest), None), "%"), exact(next(reversed(highest), None)))
