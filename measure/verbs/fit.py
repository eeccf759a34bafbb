"""Fit the prediction of latencies: ``measure fit``."""

import argparse
import dataclasses
import sys
from typing import Any

from measure.cache import predictions as tables
from measure.cache import table
from measure.cache.predictions import Coefficient, NetworkFactor, PredictionError
from measure.cache.schema import file_of
from measure.domain.values import percent
from measure.errors import UserError, as_called
from measure.verbs.flags import Verbs, add_verb, check_writable
from measure.verbs.terminal import aligned
from roofwright.command_line import data_flag

HEAD = ("left out", "device", "precision", "variant", "phase", "latencies", "median error", "9 in 10 within", "covered")


def add_verbs(verbs: Verbs) -> None:
    """Declare fit."""
    text = (
        "Fit the model of latencies to the published measurements and the cache's own machines, predict the calls that "
        "each fit leaves out, and write the tables of data/prediction for predict and the paper."
    )
    add_verb(verbs, "fit", main, text)


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, and without a call that is both timed and counted."""
    from measure.predicting import timings
    from measure.predicting.study import study

    calls = timings.read(flags.data)
    if not calls:
        lack = "holds no latency of a counted model on a device with known roofs"
        raise UserError(f"--data: {flags.data} {lack}; measure one with {as_called('measure')}{data_flag(flags.data)}")
    check_writable(flags.data)
    path = file_of(PredictionError, flags.data)
    with table.held(path.parent / table.NAME, f"is fitting in {path.parent}; wait for it or name another --data"):
        costs = timings.launch_costs(calls)
        coefficients, networks, errors = study(calls, costs, lambda name: print(name, file=sys.stderr))
        written = (Coefficient, coefficients), (NetworkFactor, networks), (PredictionError, errors)
        for record, rows in written:
            table.write(file_of(record, flags.data), record, [_round(row) for row in rows])
    lines = [
        (
            row.left_out, row.device, row.precision, row.variant, row.phase, str(row.calls), percent(row.median_error),
            percent(row.p90_error), "" if row.coverage is None else percent(row.coverage),
        )
        for row in errors
        if (row.method, row.batches, row.sort) == (tables.OURS, tables.ALL, tables.ALL)
    ]  # fmt: skip
    print("\n".join(aligned([HEAD, *lines], HEAD[5:])))
    return 0


def _round(row: Any) -> Any:
    """Return a row with its floats rounded to five significant digits."""
    floats = {name: float(f"{value:.5g}") for name, value in vars(row).items() if isinstance(value, float)}
    return dataclasses.replace(row, **floats)
