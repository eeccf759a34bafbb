"""Our counts of multiply-adds, and other programs', against the counts that torchvision publishes."""

from collections.abc import Iterable

import pandas as pd

from measure.domain.workload_records import OURS
from report.facts import Facts, missing, sourced
from report.paper import Paper
from report.paper.frames import each, extremes, matching
from report.stats.value import Name, Source, Value, count_of, exact


class Ours(Facts):
    models: Value  #: models with a count from torchvision
    equal: Value  #: models with multiply-adds that round to the published ones
    parameters: Value  #: models with exactly the published parameters
    time: Value  #: time to count all models, forward and backward


class Others(Facts):
    programs: Value  #: other programs compared, each once whatever its modes
    best: Name  #: the program that is right most often, within 1 %
    best_right: Value  #: models that it gets right
    worst: Name  #: the program that is right least often
    worst_right: Value  #: models that it gets right


class Cases(Facts):
    networks: Value  #: small networks with a count by hand
    programs: Value  #: other programs that counted them, each once whatever its modes
    ours: Value  #: networks that we get right, to the last FLOP
    best: Name  #: the other program that is right most often
    best_right: Value  #: networks that it gets right
    attention: Value  #: other programs that count fused attention on a CPU


class Suites(Facts):
    cases: Value  #: cases that others wrote, with a known count
    wrong: Value  #: cases that we counted wrong at the first try


class Counting(Facts):
    ours: Ours
    others: Others
    cases: Cases
    suites: Suites
    has_modes: bool  #: ptflops is compared in both of its modes


NAMES = {
    OURS: "Roofwright", "torch": "FlopCounterMode", "fvcore": "fvcore", "ptflops-aten": "ptflops (aten)",
    "ptflops-pytorch": "ptflops (pytorch)", "thop": "thop", "torchinfo": "torchinfo", "calflops": "calflops",
    "deepspeed": "DeepSpeed",
}  # fmt: skip
"""The names of the programs in the paper, in its order."""

PUBLISHED_MAC_STEP = 1_000_000  # torchvision publishes 10^9 multiply-adds with three decimals (``meta["_ops"]``)

TOLERANCE = 0.01  # a deviation from the published count that is called right

FUSED = "Fused attention"  # the small network of attention alone


MODES = {"ptflops-aten", "ptflops-pytorch"}  # two modes of one program


def program_name(program: str) -> str:
    return NAMES.get(program, program)


def number_of(programs: Iterable[str]) -> int:
    """Return the number of programs, all modes of one counted once."""
    return len({"ptflops" if each in MODES else each for each in programs})


def with_deviations(results: pd.DataFrame) -> pd.DataFrame:
    """Add each count's ``deviation``, and whether it is ``right`` and ``equal``.

    An equal count rounds to the published one. A right count deviates by at most ``TOLERANCE``, or by the rounding:
    the count of the smallest model is published as 40 million to the nearest million.
    """
    counted = results.forward_mac.astype(float)
    off, rounding = (counted - results.published_mac).abs(), PUBLISHED_MAC_STEP / 2
    return results.assign(
        deviation=counted / results.published_mac - 1,
        equal=off <= rounding,
        right=(off <= TOLERANCE * results.published_mac) | (off <= rounding),
    )


def scores(results: pd.DataFrame) -> pd.DataFrame:
    """Return one row per program: its ``models``, how many it counted, right and equal, and the time (s)."""
    counted = results.parameter_count.astype(float)
    same = (counted == results.published_parameter_count).astype(float).where(counted.notna())
    rows = results.assign(models=1, counted=(results.status == "ok").astype(int), same_parameters=same)
    summed = ["models", "counted", "right", "equal", "same_parameters", "count_s"]
    return rows.groupby("program", sort=False)[summed].sum(min_count=1).reset_index()


def of(paper: Paper) -> Counting:
    has_modes = set(paper.counting_programs.program[paper.counting_programs.status == "ok"]) >= MODES
    return Counting(*_of_networks(paper), _of_cases(paper), _of_suites(paper), has_modes)


def _of_networks(paper: Paper) -> tuple[Ours, Others]:
    source = Source("workload/counting_programs.csv", "all models", "python scripts/counting_programs.py")
    scored = scores(with_deviations(paper.counting_programs))
    ours = next(each(matching(scored, program=OURS)), None)
    others = scored[(scored.program != OURS) & (scored.counted > 0)]
    if ours is None or others.empty:
        return sourced(missing(Ours), source), sourced(missing(Others), source)
    same = count_of(ours.same_parameters or 0)
    scores_of_ours = Ours(count_of(ours.models, "models"), count_of(ours.equal), same, exact(ours.count_s, "s"))
    worst, best = extremes(others, "right")
    compared = Others(
        count_of(number_of(others.program), "programs"), Name(program_name(best.program)), count_of(best.right),
        Name(program_name(worst.program)), count_of(worst.right),
    )  # fmt: skip
    return sourced(scores_of_ours, source), sourced(compared, source)


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
        count_of(rows.case.nunique(), "networks"), count_of(number_of(others.index), "programs"),
        count_of(right[OURS], "networks"),
        Name(program_name(str(others.idxmax()))), count_of(others.max(), "networks"),
        count_of((attention.forward_flop == attention.right_flop).sum() - 1, "programs"),
    )  # fmt: skip
    return sourced(found, source)


def _of_suites(paper: Paper) -> Suites:
    rows = paper.published.counting_suites
    suites = Suites(*(count_of(sum(rows[column]) if len(rows) else None, "cases") for column in ("cases", "wrong")))
    return sourced(suites, Source("published/counting_suites.csv", "all suites"))
