"""The command ``python -m measure fit``: fits how latencies are predicted to all that was timed, and checks it."""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.predictions import (
    ALL_BATCHES,
    BY_DEVICE,
    BY_MODEL,
    ONE_KNOWN,
    OURS,
    PUT_ASIDE,
    Coefficient,
    KindCost,
    PredictionError,
)
from measure.cache.schema import file_of
from measure.cache.table import NAME, held
from measure.domain.quantities import percent
from measure.errors import UserError
from measure.run.request import check_folder, check_writable
from measure.verbs.flags import CommandLine, data_flag
from measure.verbs.terminal import aligned

DIGITS = 5
"""Fitted numbers are written to so many."""

SHOWN = (BY_MODEL, BY_DEVICE, ONE_KNOWN, PUT_ASIDE)
HEAD = ("left out", "device", "precision", "variant", "phase", "latencies", "median error", "9 in 10 within", "covered")


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure fit",
        description="Fit the terms of latencies to the published measurements and the cache's own machines, predict "
        "what each fit had left out, and write the tables of data/prediction, which predict and the paper read.",
    )
    flags.add_argument(
        "--aside", action="store_true", help="predict the devices, too, that are put aside and in no fit"
    )
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, and where nothing was timed and counted."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    from measure.predicting import timings
    from measure.predicting.study import study

    calls = timings.read(asked.data)
    if not calls:
        raise UserError(
            f"--data: {asked.data} holds no latency of a counted model on a device with known roofs; measure one with "
            f"python -m measure{data_flag(asked.data)}"
        )
    check_writable(asked.data)
    path = file_of(PredictionError, asked.data)
    other = "is fitting; wait for it or name another --data"
    with held(path.parent / NAME, lambda holder: f"{path.parent}: {holder} {other}"):
        known = table.read(path, PredictionError)
        aside = asked.aside or any(row.left_out == PUT_ASIDE for row in known)  # what was looked at stays so
        found = study(calls, lambda name: print(name, file=sys.stderr), aside)
        written = ((Coefficient, found.coefficients), (KindCost, found.kinds), (PredictionError, found.errors))
        for record, rows in written:
            table.write(file_of(record, asked.data), record, [_rounded(row) for row in rows])
    print("\n".join(aligned([HEAD, *_lines(found.errors)], ("latencies", "median error", "9 in 10 within", "covered"))))
    return 0


def _rounded(row: Any) -> Any:
    """Return a row of numbers that are fitted with the digits that can matter."""
    found = {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}
    floats = {name: float(f"{value:.{DIGITS}g}") for name, value in found.items() if isinstance(value, float)}
    return dataclasses.replace(row, **floats)


def _lines(errors: Sequence[PredictionError]) -> list[tuple[str, ...]]:
    return [
        (
            row.left_out,
            row.device,
            row.precision,
            row.variant,
            row.phase,
            str(row.calls),
            percent(row.median_error),
            percent(row.p90_error),
            "" if row.coverage is None else percent(row.coverage),
        )
        for row in errors
        if (row.method, row.batches) == (OURS, ALL_BATCHES) and row.left_out in SHOWN
    ]
