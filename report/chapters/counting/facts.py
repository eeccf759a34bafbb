"""How our counts and those of other programs compare with what torchvision publishes."""

from dataclasses import dataclass

from report.facts import missing, sourced
from report.paper import Paper, counting_programs
from report.paper.rows import each, extremes, matching
from report.stats.summary import count_of, exact
from report.stats.value import Name, Source, Value

NOTHING = Value(None)


@dataclass(frozen=True)
class Ours:
    """Our counts of torchvision's classification models."""

    models: Value  #: models whose counts torchvision publishes
    equal: Value  #: models of which our multiply-adds round to the published ones
    parameters: Value  #: models of which our parameters are the published ones
    time: Value  #: time for counting all models, forward and backward
    memory: Value  #: peak memory of the process that counted


@dataclass(frozen=True)
class Others:
    """The counts of other programs."""

    programs: Value  #: other programs compared
    best: Name  #: the one that is right most often, within 1 %
    best_right: Value  #: models that it gets right
    worst: Name  #: the one that is right least often
    worst_right: Value  #: models that it gets right


@dataclass(frozen=True)
class Counting:
    ours: Ours
    others: Others


def of(paper: Paper) -> Counting:
    source = Source("workload/counting_programs.csv", "all models", "python benchmarks/counting_programs.py")
    scores = counting_programs.scores(paper.counting_programs)
    own = list(each(matching(scores, program=counting_programs.OURS)))
    others = scores[(scores.program != counting_programs.OURS) & (scores.counted > 0)]
    if not own or others.empty:
        no_one = Others(NOTHING, Name(None), NOTHING, Name(None), NOTHING)
        return Counting(sourced(missing(Ours), source), sourced(no_one, source))
    mine = own[0]
    ours = Ours(
        count_of(mine.models, "models"), count_of(mine.equal), count_of(mine.same_parameters or 0),
        exact(mine.count_s, "s"), exact(mine.peak_byte, "B"),
    )  # fmt: skip
    worst, best = extremes(others, "right")
    compared = Others(
        count_of(len(others), "programs"),
        Name(counting_programs.name(best.program)), count_of(best.right),
        Name(counting_programs.name(worst.program)), count_of(worst.right),
    )  # fmt: skip
    return Counting(sourced(ours, source), sourced(compared, source))
