"""How our counts and those of other programs compare with what torchvision publishes."""

from report.facts import Facts, missing, sourced
from report.paper import Paper, counting_programs
from report.paper.frames import each, extremes, matching
from report.stats.summary import count_of, exact
from report.stats.value import Name, Source, Value


class Ours(Facts):
    models: Value  #: models whose counts torchvision publishes
    equal: Value  #: models of which our multiply-adds round to the published ones
    parameters: Value  #: models of which our parameters are the published ones
    time: Value  #: time for counting all models, forward and backward
    memory: Value  #: peak memory of the process that counted


class Others(Facts):
    programs: Value  #: other programs compared
    best: Name  #: the one that is right most often, within 1 %
    best_right: Value  #: models that it gets right
    worst: Name  #: the one that is right least often
    worst_right: Value  #: models that it gets right


class Cases(Facts):
    networks: Value  #: small networks
    programs: Value  #: other programs that counted them
    ours: Value  #: networks that we get right, to the last FLOP
    best: Name  #: the other program that is right most often
    best_right: Value  #: networks that it gets right
    attention: Value  #: other programs that count fused attention on a CPU


class Suites(Facts):
    cases: Value  #: cases that others wrote, with a known count
    wrong: Value  #: cases whose count was wrong when we first tried them


class Counting(Facts):
    ours: Ours
    others: Others
    cases: Cases
    suites: Suites


FUSED = "Fused attention"  # the small network with attention alone


def of(paper: Paper) -> Counting:
    return Counting(*_of_networks(paper), _of_cases(paper), _of_suites(paper))


def _of_networks(paper: Paper) -> tuple[Ours, Others]:
    source = Source("workload/counting_programs.csv", "all models", "python benchmarks/counting_programs.py")
    scores = counting_programs.scores(paper.counting_programs)
    own = list(each(matching(scores, program=counting_programs.OURS)))
    others = scores[(scores.program != counting_programs.OURS) & (scores.counted > 0)]
    if not own or others.empty:
        return sourced(missing(Ours), source), sourced(missing(Others), source)
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
    return sourced(ours, source), sourced(compared, source)


def _of_cases(paper: Paper) -> Cases:
    source = Source("workload/counting_cases.csv", "all cases", "python benchmarks/counting_programs.py --cases")
    rows = paper.counting_cases[paper.counting_cases.forward_flop.notna()]
    right = rows[rows.forward_flop == rows.right_flop].groupby("program").case.nunique()
    right = right.reindex(rows.program.unique(), fill_value=0)
    others = right.drop(counting_programs.OURS, errors="ignore")
    if len(others) in (0, len(right)):
        return sourced(missing(Cases), source)
    attention = matching(rows, case=FUSED)
    found = Cases(
        count_of(rows.case.nunique(), "networks"), count_of(len(others), "programs"),
        count_of(right[counting_programs.OURS], "networks"),
        Name(counting_programs.name(str(others.idxmax()))), count_of(int(others.max()), "networks"),
        count_of(int((attention.forward_flop == attention.right_flop).sum()) - 1, "programs"),
    )  # fmt: skip
    return sourced(found, source)


def _of_suites(paper: Paper) -> Suites:
    rows = paper.published.counting_suites
    source = Source("published/counting_suites.csv", "all suites", None)
    if rows.empty:
        return sourced(missing(Suites), source)
    return sourced(Suites(count_of(int(rows.cases.sum()), "cases"), count_of(int(rows.wrong.sum()), "cases")), source)
