"""Reproduces the tables of ``data/prediction``, errors of predictions above all, from the data, and compares.

    python benchmarks/prediction.py               # of the committed data
    python benchmarks/prediction.py --data DIR    # of another cache

By two routes. ``run anew``: the study of ``measure/predicting`` fits and checks everything once more, and each number
of the three tables is compared. ``written anew``: a second program without any code of ``measure``
(``benchmarks/recomputing/timed_calls.py`` and ``predictions.py``) reads the CSV with pandas, solves the least squares
with SciPy's solver for bounded variables and finds neighbours in a tree; it gives the coefficients, and the errors of
our terms and of all simpler estimates, whatever is left out. The intervals of coefficients and ``kinds.csv``, which
need the bootstrap, are run anew only.

The tables keep five digits: numbers agree that differ by one part in 10,000 at most. The table says of errors the
median over its rows of all batch sizes, of the median error and of what nine in ten do not exceed. The exit code is 1
where a number differs or a row is on one side only; such rows are named.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # however it is started

from recomputing.predictions import KEY, recompute
from recomputing.timed_calls import SETTING, read_calls

ROOT = Path(__file__).parents[1]
KEYS = {"coefficients.csv": [*SETTING, "term"], "kinds.csv": [*SETTING, "layer_kind"], "errors.csv": KEY}
ERRORS = ["median_error", "p90_error"]
TOLERANCE = 1e-4
NAMED = 20
"""So many rows that differ are named."""

HEAD = ("what", "rows", "recomputed", "in the file", "agree")


@dataclass(frozen=True)
class Compared:
    """A line of the table, and what does not agree."""

    what: str
    rows: int
    recomputed: str
    kept: str
    wrong: list[str]

    def __str__(self) -> str:
        return _line(self.what, str(self.rows), self.recomputed, self.kept, "NO" if self.wrong else "yes")


def _line(*cells: str) -> str:
    return "{:65} {:>5}  {:>16}  {:>16}  {}".format(*cells)


def kept(folder: Path) -> dict[str, pd.DataFrame]:
    """Return the tables as they lie in a folder, by their keys."""
    return {name: _numbers(pd.read_csv(folder / name, keep_default_na=False, dtype=str), name) for name in KEYS}


def _numbers(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table's numbers by its key; what is empty is not a number."""
    return rows.set_index(KEYS[name]).apply(pd.to_numeric).astype(float)


def run_anew(data: Path, aside: bool) -> dict[str, pd.DataFrame]:
    """Return the tables as the study gives them now."""
    from measure.predicting import timings
    from measure.predicting.study import study

    found = study(timings.read(data), lambda name: print(name, file=sys.stderr), aside)
    rows = {"coefficients.csv": found.coefficients, "kinds.csv": found.kinds, "errors.csv": found.errors}
    return {name: _numbers(pd.DataFrame(map(asdict, each)), name) for name, each in rows.items()}


def written_anew(data: Path) -> dict[str, pd.DataFrame]:
    """Return the coefficients and the errors by the second program."""
    found = recompute(read_calls(data))
    values = [(*key, value) for key, value in found.coefficients.items()]
    errors = [dict(zip(KEY, key, strict=True)) | row for key, row in found.errors.items()]
    return {
        "coefficients.csv": _numbers(
            pd.DataFrame(values, columns=[*KEYS["coefficients.csv"], "value"]), "coefficients.csv"
        ),
        "errors.csv": _numbers(pd.DataFrame(errors), "errors.csv"),
    }


def compare(what: str, recomputed: pd.DataFrame, kept: pd.DataFrame) -> Compared:
    """Compare the columns that were recomputed, row by row of both."""
    wrong = [f"{_name(key)}: not in the file" for key in recomputed.index.difference(kept.index)]
    wrong += [f"{_name(key)}: not recomputed" for key in kept.index.difference(recomputed.index)]
    both = recomputed.index.intersection(kept.index)
    one, other = recomputed.loc[both], kept.loc[both, recomputed.columns]
    agree = ((one - other).abs() <= TOLERANCE * other.abs()) | (one.isna() & other.isna())
    for row, column in np.argwhere(~agree.to_numpy()):
        pair = f"{one.iat[row, column]:.5g}, {other.iat[row, column]:.5g} in the file"
        wrong.append(f"{_name(both[row])}: {one.columns[column]} {pair}")
    return Compared(what, len(kept), summary(recomputed), summary(kept), wrong)


def _name(key: Sequence[str]) -> str:
    return ", ".join(filter(None, key))


def summary(rows: pd.DataFrame) -> str:
    """Return the typical errors of a table of errors, of another how many rows it has."""
    if not set(ERRORS) <= set(rows.columns):
        return f"{len(rows)} rows"
    whole = rows[rows.index.get_level_values("batches") == "all"]
    median, p90 = whole[ERRORS].median()
    return f"{100 * median:.3g} %, {100 * p90:.3g} %"


def comparisons(data: Path) -> Iterator[Compared]:
    """Yield each line of the table once it is known."""
    tables, second = kept(data / "prediction"), written_anew(data)
    yield compare("written anew, coefficients.csv", second["coefficients.csv"], tables["coefficients.csv"])
    # What was put aside is no part of any fit, and predicted by the study alone
    aside = tables["errors.csv"].index.get_level_values("left_out") == "put aside"
    recomputed, stand = _checks(second["errors.csv"]), _checks(tables["errors.csv"][~aside])
    none = second["errors.csv"].iloc[:0]
    for left_out, method in stand | recomputed:
        pair = (rows.get((left_out, method), none) for rows in (recomputed, stand))
        yield compare(f"written anew, {left_out} left out: {method}", *pair)
    for name, rows in run_anew(data, bool(aside.any())).items():
        yield compare(f"run anew, {name}", rows, tables[name])


def _checks(errors: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the rows of errors by what was left out and by method."""
    return {(key[0], key[1]): rows for key, rows in errors.groupby(level=["left_out", "method"], sort=False)}


def main(argv: Sequence[str]) -> int:
    """Return exit code 0 where all numbers agree, else 1."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="the cache (default: data)")
    data = flags.parse_args(argv).data
    if not (data / "prediction" / "errors.csv").exists():
        flags.error(f"--data: {data} holds no predictions; write them with python -m measure fit --data {data}")
    print(_line(*HEAD))
    found = []
    for compared in comparisons(data):
        print(compared, flush=True)
        found.append(compared)
    wrong = [f"{compared.what}: {each}" for compared in found for each in compared.wrong]
    for each in wrong[:NAMED]:
        print(f"DIFFERS  {each}")
    if len(wrong) > NAMED:
        print(f"DIFFERS  {len(wrong) - NAMED} more")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
