"""How our counts and those of other programs compare with what torchvision publishes of its classification models."""

import pandas as pd

from measure.domain.workload_records import OURS
from report.facts import Facts, missing, sourced
from report.paper import Paper
from report.paper.frames import each, extremes, matching
from report.stats.value import Name, Source, Value, count_of, exact


class Ours(Facts):
    models: Value  #: models whose counts torchvision publishes
    equal: Value  #: models of which our multiply-adds round to the published ones
    parameters: Value  #: models of which our parameters are the published ones
    time: Value  #: time for counting all models, forward and backward


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


NAMES = {
    OURS: "Roofwright", "torch": "FlopCounterMode", "fvcore": "fvcore", "ptflops-aten": "ptflops (aten)",
    "ptflops-pytorch": "ptflops (pytorch)", "thop": "thop", "torchinfo": "torchinfo", "calflops": "calflops",
    "deepspeed": "DeepSpeed",
}  # fmt: skip
"""The programs as the paper calls them, in its order."""

PUBLISHED_MAC_STEP = 1_000_000  # torchvision publishes 10^9 multiply-adds with three decimals (``meta["_ops"]``)

TOLERANCE = 0.01
"""The deviation up to which a count is called right, where that is more than the published count's rounding."""

FUSED = "Fused attention"  # the small network with attention alone


def program_name(program: str) -> str:
    """Return a program as the paper calls it."""
    return NAMES.get(program, program)


def with_deviations(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results with each count's deviation, and whether it is ``right`` and ``equal``.

    Equal is a count that rounds to the published one; right one that deviates from it by no more than ``TOLERANCE``,
    or than its rounding: the smallest model's count is published as 40 million to the nearest million.
    """
    counted = results.forward_mac.astype(float)
    off, rounding = (counted - results.published_mac).abs(), PUBLISHED_MAC_STEP / 2
    return results.assign(
        deviation=counted / results.published_mac - 1,
        equal=off <= rounding,
        right=(off <= TOLERANCE * results.published_mac) | (off <= rounding),
    )


def scores(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each program: its ``models``, how many it counted, right and equal, in which time."""
    counted = results.parameter_count.astype(float)
    same = (counted == results.published_parameter_count).astype(float).where(counted.notna())
    rows = results.assign(models=1, counted=(results.status == "ok").astype(int), same_parameters=same)
    summed = ["models", "counted", "right", "equal", "same_parameters", "count_s"]
    return rows.groupby("program", sort=False)[summed].sum(min_count=1).reset_index()


def of(paper: Paper) -> Counting:
    return Counting(*_of_networks(paper), _of_cases(paper), _of_suites(paper))


def _of_networks(paper: Paper) -> tuple[Ours, Others]:
    source = Source("workload/counting_programs.csv", "all models", "python scripts/counting_programs.py")
    scored = scores(with_deviations(paper.counting_programs))
    own = list(each(matching(scored, program=OURS)))
    others = scored[(scored.program != OURS) & (scored.counted > 0)]
    if not own or others.empty:
        return sourced(missing(Ours), source), sourced(missing(Others), source)
    mine = own[0]
    ours = Ours(
        count_of(mine.models, "models"), count_of(mine.equal), count_of(mine.same_parameters or 0),
        exact(mine.count_s, "s"),
    )  # fmt: skip
    worst, best = extremes(others, "right")
    compared = Others(
        count_of(len(others), "programs"),
        Name(program_name(best.program)), count_of(best.right),
        Name(program_name(worst.program)), count_of(worst.right),
    )  # fmt: skip
    return sourced(ours, source), sourced(compared, source)


def _of_cases(paper: Paper) -> Cases:
    source = Source("workload/counting_cases.csv", "all cases", "python scripts/counting_programs.py --cases")
    rows = paper.counting_cases[paper.counting_cases.forward_flop.notna()]
    right = rows[rows.forward_flop == rows.right_flop].groupby("program").case.nunique()
    right = right.reindex(rows.program.unique(), fill_value=0)
    others = right.drop(OURS, errors="ignore")
    if len(others) in (0, len(right)):
        return sourced(missing(Cases), source)
    attention = matching(rows, case=FUSED)
    found = Cases(
        count_of(rows.case.nunique(), "networks"), count_of(len(others), "programs"),
        count_of(right[OURS], "networks"),
        Name(program_name(str(others.idxmax()))), count_of(int(others.max()), "networks"),
        count_of(int((attention.forward_flop == attention.right_flop).sum()) - 1, "programs"),
    )  # fmt: skip
    return sourced(found, source)


def _of_suites(paper: Paper) -> Suites:
    rows = paper.published.counting_suites
    source = Source("published/counting_suites.csv", "all suites", None)
    if rows.empty:
        return sourced(missing(Suites), source)
    return sourced(Suites(count_of(int(rows.cases.sum()), "cases"), count_of(int(rows.wrong.sum()), "cases")), source)
