"""How many numbers of published studies agree with ours, the causes of the others, and who timed networks."""

from collections import Counter

from measure.published.records import BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD
from report.chapters.published import tables
from report.chapters.published.tables import AGREEMENT, AGREES, LIKENESS, OPEN
from report.facts import Facts, sourced
from report.paper import Paper
from report.paper.frames import matching
from report.paper.published import SOURCE
from report.stats.value import Name, Source, Value, count_of, exact

TIMM = "timm_results"
"""The source of the timings that come with timm."""

RARE = ("doubled", "datasheet", "network", "misprint", "counters")
"""The causes that the chapter names together."""


class Causes(Facts):
    sparse: Value  #: figures that are sparse peaks
    precision: Value  #: figures that are the peak of another precision
    operations: Value  #: figures that are FLOP of more than products
    summary: Value  #: figures that are torchsummary's total, in MiB, as footprints
    quotient: Value  #: figures that are intensities by such a footprint
    linear: Value  #: figures that are backward passes of the linear layers alone
    gradient: Value  #: figures that are backward passes with one of two gradients
    repeated: Value  #: figures that are one ratio, printed for several networks
    forward: Value  #: figures that are steps counted as their forward multiply-adds
    milliseconds: Value  #: figures that are times in milliseconds, printed as seconds
    rare: Value  #: figures with one of the rarer causes
    machine: Value  #: figures that are ratios of times, outside the interval of ours
    unknown: Value  #: figures without a known reason


class PrintedRatios(Facts):
    """Ratios of the FLOP of both passes that two studies print."""

    lowest: Value  #: the lowest ratio of backward to forward
    highest: Value  #: the highest ratio of forward to backward


class TimedElsewhere(Facts):
    """TimedElsewhere of networks that others published."""

    all: Value  #: their number
    timm: Value  #: those of timm's benchmark results


class PublishedFacts(Facts):
    studies: Value  #: studies with such figures
    figures: Value  #: printed figures with a counterpart of ours
    agree: Value  #: figures that agree with ours
    differ: Value  #: figures that differ from ours
    open: Value  #: figures within the interval of ours
    agreement: Value  #: the largest difference of agreeing figures, apart from rounding
    likeness: Value  #: the largest difference of a figure from its supposed cause
    machine: Name  #: the machine of our timings
    causes: Causes
    ratios: PrintedRatios
    timings: TimedElsewhere


def of(paper: Paper) -> PublishedFacts:
    paper = paper.reference  # so that every paper prints the same
    rows = [row for table in tables.of(paper).values() for row in table]
    found = Counter(row.verdict for row in rows)
    differing = len(rows) - found[AGREES] - found[OPEN]
    found["rare"] = sum(found[name] for name in RARE)
    causes = {name: count_of(found[name], "figures") for name in Causes.__dataclass_fields__}
    of_paper = PublishedFacts(
        studies=count_of(len({row.study for row in rows}), "studies"),
        figures=count_of(len(rows), "figures"),
        agree=count_of(found[AGREES], "figures"),
        differ=count_of(differing, "figures"),
        open=count_of(found[OPEN], "figures"),
        agreement=exact(AGREEMENT, "%"),
        likeness=exact(LIKENESS, "%"),
        machine=Name(next((each.name for each in paper.machines), None)),
        causes=Causes(**causes),
        ratios=sourced(_ratios(paper), Source("published/training.csv", "FLOP")),
        timings=sourced(_timings(paper), SOURCE),
    )
    return sourced(of_paper, Source("published", "printed figures that mean the same as one of ours"))


def _ratios(paper: Paper) -> PrintedRatios:
    rows = matching(paper.published.training, quantity="flop").sort_values("ratio_as_printed")
    ways = (BACKWARD_TO_FORWARD, FORWARD_TO_BACKWARD)
    lowest, highest = (list(matching(rows, ratio_means=way).ratio_as_printed) for way in ways)
    return PrintedRatios(exact(next(iter(lowest), None), "%"), exact(next(reversed(highest), None)))


def _timings(paper: Paper) -> TimedElsewhere:
    rows = paper.published.timings
    return TimedElsewhere(*(count_of(len(each) or None, "timings") for each in (rows, matching(rows, source=TIMM))))
