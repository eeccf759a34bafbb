"""How far predicted latencies are off, and what fits say of kinds of layer: the rows that the paper shows."""

from collections.abc import Iterable
from functools import cache
from statistics import median
from typing import NamedTuple

import pandas as pd

from measure.cache.predictions import (
    ALL_BATCHES,
    BY_DEVICE,
    BY_FAMILY,
    BY_MODEL,
    BY_SOURCE,
    LIKE_FLOP,
    LIKE_PARAMETERS,
    LIKE_REGRESSION,
    LIKE_RESNET50,
    LIKE_ROOFLINE,
    METHODS,
    ONE_KNOWN,
    OURS,
    POOLS,
    Setting,
    release,
)
from measure.domain.words import EAGER, STEP
from measure.predicting.study import pool_of
from report.analysis import available
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.effect import Effect, median_of
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, matching

CALLED = {
    OURS: "terms (ours)",
    LIKE_ROOFLINE: "roofline by kind",
    LIKE_REGRESSION: "line through the FLOP",
    LIKE_RESNET50: "scaled from ResNet50",
    LIKE_FLOP: "FLOP over peak",
    LIKE_PARAMETERS: "parameters",
}
"""The methods as figures and tables call them, ours first, then those that know most."""

LEFT_OUT = {
    BY_MODEL: "a model", BY_FAMILY: "a family", BY_DEVICE: "a device", ONE_KNOWN: "a device, one time known",
    BY_SOURCE: "a source",
}  # fmt: skip
"""What is left out of a fit, as figures and tables call it."""

MANY_MODELS = 900
"""Devices with as many timed models are those of whole libraries."""

FEW_MODELS = 5
"""A kind of layer that fewer models have is a few models' peculiarity."""

assert set(CALLED) == set(METHODS)


class Check(NamedTuple):
    """What a method's predictions of a setting are off by, once something was left out: shares of the latency."""

    left_out: str
    method: str
    setting: Setting
    models: int
    latencies: int
    median: float
    nine_in_ten: float
    covered: float | None
    ratio: float


def _none() -> DataMissingError:
    return DataMissingError("No prediction has been checked yet; `python -m measure fit` fits and checks them.")


@cache
def checks(paper: Paper, left_out: str, batches: str = ALL_BATCHES) -> list[Check]:
    """Return the checks with something left out, of each setting in its newest software; none where there is none."""
    rows = matching(paper.predictions.errors, left_out=left_out, batches=batches)
    found = [
        Check(
            left_out, row.method, row.setting, row.models, row.calls, row.median_error, row.p90_error,
            None if pd.isna(row.coverage) else row.coverage, row.median_ratio,
        )
        for row in each(rows)
    ]  # fmt: skip
    latest = set(newest(check.setting for check in found))
    return [check for check in found if check.setting in latest]


def of_settings(paper: Paper, left_out: str = BY_MODEL) -> list[Check]:
    """Return our checks of settings with a fit of their own; at least one."""
    return at_least_one([check for check in checks(paper, left_out) if check.method == OURS], _none())


def of_libraries(paper: Paper, left_out: str = BY_MODEL) -> list[Check]:
    """Return those of forward passes of whole libraries on GPUs; at least one."""
    gpus = {row.chip for row in each(matching(paper.chips, chip_kind="gpu"))}
    found = [
        check
        for check in of_settings(paper, left_out)
        if check.models >= MANY_MODELS and check.setting.device in gpus and check.setting.phase != STEP
    ]
    return at_least_one(found, _none())


def pooled(paper: Paper, left_out: str) -> list[Check]:
    """Return our checks of all devices of a kind together, from the most latencies to the fewest; at least one."""
    found = [check for check in checks(paper, left_out) if check.method == OURS and is_pool(check.setting)]
    return at_least_one(sorted(found, key=lambda check: -check.latencies), _none())


def of_devices(paper: Paper, left_out: str) -> list[Check]:
    """Return our checks of single devices that a pool predicts, in eager mode; at least one."""
    found = [
        check
        for check in checks(paper, left_out)
        if check.method == OURS and not is_pool(check.setting) and check.setting.variant == EAGER
    ]
    return at_least_one(found, _none())


def by_one_time(paper: Paper, pool: Check) -> Effect:
    """Return by what factor one known time on a device changes its median error, in the median of a pool's devices.

    Of a device with several settings it is the median of theirs. Raises DataMissingError where none was checked with
    it and without it.
    """
    blind, known = (
        {check.setting: check for check in of_devices(paper, left_out) if in_pool(paper, check, pool)}
        for left_out in (BY_DEVICE, ONE_KNOWN)
    )
    ratios: dict[str, list[float]] = {}
    for setting in blind.keys() & known.keys():
        ratios.setdefault(setting.device, []).append(known[setting].median / blind[setting].median)
    return median_of(at_least_one([median(found) for found in ratios.values()], _none()))


def beside(paper: Paper, check: Check) -> dict[str, Check]:
    """Return what each method is off by under the same check, by method."""
    return {
        other.method: other for other in checks(paper, check.left_out) if other.setting == check.setting
    }  # fmt: skip


def is_pool(setting: Setting) -> bool:
    return setting.device in POOLS.values()


def in_pool(paper: Paper, check: Check, pool: Check) -> bool:
    """Return whether a device's check is one of those that a pool's sums up."""
    setting = check.setting
    return pool.setting == pool_of(_kinds(paper).get(setting.device, ""), setting.precision, setting.phase)


@cache
def _kinds(paper: Paper) -> dict[str, str]:
    """Return the kinds of chip of the table's chips and of the machines."""
    kinds = {row.chip: row.chip_kind for row in each(paper.chips.drop_duplicates("chip"))}
    return kinds | {machine.folder: machine.chip_kind for machine in paper.machines}


def title(paper: Paper, setting: Setting) -> str:
    """Return the name of a setting's device as the paper writes it."""
    own = {machine.folder: available.title(machine) for machine in paper.machines}
    return own.get(setting.device, setting.device)


def conditions(setting: Setting) -> str:
    """Return how a setting's calls were run, as a table says it."""
    phase = "training" if setting.phase == STEP else ""
    return ", ".join(filter(None, (setting.precision, setting.variant, phase)))


def kinds(paper: Paper) -> pd.DataFrame:
    """Return what kinds of layer cost in forward passes, by the newest fit of each device; at least one row.

    A device is shown once: in eager mode where that was fitted, and at fp32 rather than below. Kinds that few models
    have are left out. ``name`` is the device and how it ran them.
    """
    rows = paper.predictions.kinds
    rows = rows[(rows.phase != STEP) & (rows.models >= FEW_MODELS) & ~rows.device.isin(POOLS.values())]
    shown: dict[str, Setting] = {}
    for setting in sorted(newest(rows.setting), key=_unusual):
        shown.setdefault(setting.device, setting)
    rows = rows[rows.setting.isin(shown.values())]
    names = [f"{title(paper, row.setting)}, {conditions(row.setting)}" for row in each(rows)]
    return at_least_one(rows.assign(name=names), _none())


def newest(settings: Iterable[Setting]) -> list[Setting]:
    """Keep the newest of settings that differ only in software version."""
    found: dict[Setting, Setting] = {}
    for setting in settings:
        alike = setting._replace(software="")
        if alike not in found or release(setting) > release(found[alike]):
            found[alike] = setting
    return list(found.values())


def _unusual(setting: Setting) -> tuple[bool, bool]:
    return setting.variant != EAGER, setting.precision != BASE_PRECISION
