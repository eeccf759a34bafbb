"""Fit the models of kernels and of served tokens, and check each on what it leaves out."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from measure.domain.schema import file_of
from measure.predicting import kernels, serving
from measure.predicting.model import Effects
from measure.predicting.prediction_terms import Numbers
from measure.predicting.served_records import (
    ASIDE,
    WHOLE,
    KernelCoefficient,
    KernelError,
    ServedCoefficient,
    ServedError,
)
from measure.predicting.study import NINE, POINTS
from measure.published.aside import read_servers, read_set_aside
from measure.published.servers import PublishedServer

FEWEST = 2  # an interval needs so many other labels
BEYOND = 0.1  # of n labels an interval holds a share of NINE + BEYOND / n


def has_kernels(data: Path) -> bool:
    """Return whether there are timed kernels and servers to fit."""
    return file_of(PublishedServer, data).exists()


def study_served(
    data: Path, say: Callable[[str], None]
) -> tuple[list[KernelCoefficient], list[KernelError], list[ServedCoefficient], list[ServedError]]:
    """Fit and check everything. ``say`` gets the name of each fit, and why servers are left out. Raises UserError."""
    coefficients: list[KernelCoefficient] = []
    errors: list[KernelError] = []
    effects: dict[str, Effects] = {}
    for kind, rows in kernels.read_rows(data).items():
        say(kind)
        effects[kind] = kernels.fit_kernels(kind, kernels.sampled(rows))
        checks = kernels.check_kernels(kind, rows, effects[kind])
        errors += kernel_errors(kind, checks)
        names = list(kernels.TERMS[kind](kernels.columns(rows.head(1))))
        for (level, label), logs in effects[kind].items():
            if level != kernels.SERIES:  # coefficients are of times, the fit's of their squares
                values = zip(names, np.exp(logs / 2), strict=True)
                coefficients += [KernelCoefficient(kind, level, label, term, float(value)) for term, value in values]
    model = kernels.KernelModel(effects)
    timed, reasons = serving.server_rows(read_servers(data), data, model)
    for reason, count in reasons.most_common():
        say(f"{count} servers left out: {reason}")
    aside, _ = serving.server_rows(read_set_aside(data, PublishedServer), data, model)
    served: list[ServedCoefficient] = []
    served_errors: list[ServedError] = []
    for phase, rows in timed.groupby("phase", sort=False):
        say(str(phase))
        found = serving.fit_servers(rows)
        for (level, label), logs in found.items():
            if level != serving.SERIES:
                values = np.exp(logs) * (serving.EXPECTED if level == kernels.POOL else 1.0)
                served += [
                    ServedCoefficient(str(phase), level, label, term, float(value))
                    for term, value in zip(serving.TERMS, values, strict=True)
                ]
        checks = serving.check_servers(rows, found)
        unseen = aside[aside.phase == phase]
        unseen = unseen.assign(left_out=ASIDE, label=unseen.family, ratio=unseen.latency_s / serving.likely_s(found, unseen))
        served_errors += list(errors_of_servers(str(phase), checks, unseen))
    return coefficients, errors, served, served_errors


def kernel_errors(kind: str, checks: pd.DataFrame) -> Iterator[KernelError]:
    """Yield the errors on each GPU, then those of all: the median GPU's, with the interval of a further one."""
    found = [KernelError(kind, str(device), *_errors(own, checks[checks.device != device], "device"))
             for device, own in checks.groupby("device")]  # fmt: skip
    yield from found
    held = [row.coverage for row in found if row.coverage is not None]
    yield KernelError(
        kind, WHOLE, len(checks), float(np.median([row.median_error for row in found])),
        float(np.median([row.p90_error for row in found])), float(np.mean(held)) if held else None,
        float(np.median([row.median_ratio for row in found])), interval(checks, "device"),
    )  # fmt: skip


def errors_of_servers(phase: str, checks: pd.DataFrame, unseen: pd.DataFrame) -> Iterator[ServedError]:
    """Yield the errors of each label and of all, for all batch sizes and each class of them."""
    for batches, (least, most) in serving.BATCHES.items():
        within = [rows[(rows.batch >= least) & (rows.batch <= most)] for rows in (checks, unseen)]
        for left_out, rows in within[0].groupby("left_out", sort=False):
            found = [
                ServedError(phase, str(left_out), str(label), batches, *_errors(own, rows[rows.label != label], "label"))
                for label, own in rows.groupby("label")
            ]
            yield from found
            held = [row.coverage * row.servers for row in found if row.coverage is not None]
            counts = [row.servers for row in found if row.coverage is not None]
            yield ServedError(
                phase, str(left_out), WHOLE, batches, len(rows), *_quantiles(rows.ratio.to_numpy(float)),
                sum(held) / sum(counts) if held else None, float(rows.ratio.median()), interval(rows, "label"),
            )  # fmt: skip
        for label, own in within[1].groupby("label"):
            yield ServedError(phase, ASIDE, str(label), batches, *_errors(own, within[0], "label"))


def _errors(own: pd.DataFrame, others: pd.DataFrame, label: str) -> tuple[int, float, float, float | None, float, float | None]:
    """Return the number of rows, the median and upper error, the coverage by others' interval, the ratio, the interval."""
    ratios, within = own.ratio.to_numpy(float), interval(others, label)
    held = None if within is None else float(np.mean(np.abs(np.log(ratios)) <= np.log(within)))
    return len(own), *_quantiles(ratios), held, float(np.median(ratios)), within


def _quantiles(ratios: Numbers) -> tuple[float, float]:
    errors = np.abs(1.0 / ratios - 1.0)
    return float(np.median(errors)), float(np.quantile(errors, NINE))


def interval(checks: pd.DataFrame, label: str) -> float | None:
    """Return the factor that nine in ten ratios of a further label lie within; None if these are few.

    Each label counts alike, by the ``POINTS`` of its ratios.
    """
    count = checks[label].nunique()
    if count < FEWEST:
        return None
    points = checks.groupby(label).ratio.quantile(POINTS)
    return float(np.exp(np.quantile(np.abs(np.log(points)), min(NINE + BEYOND / count, 1.0))))
