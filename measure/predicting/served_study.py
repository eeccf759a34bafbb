"""Fit the models of kernels and of served tokens, and check each on what it leaves out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from measure.predicting import kernel_study, kernels, server_study, serving
from measure.predicting.kernels import KernelModel
from measure.predicting.model import Effects
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.predicting.served_records import (
    ASIDE,
    WHOLE,
    KernelCoefficient,
    KernelError,
    ServedCoefficient,
    ServedError,
    with_link,
)
from measure.predicting.study import NINE
from measure.published.aside import read_servers

if TYPE_CHECKING:
    from measure.published.servers import PublishedServer

FEWEST = 2  # an interval needs so many other labels
BEYOND = 0.1  # of n labels an interval holds a share of NINE + BEYOND / n


@dataclass(frozen=True)
class ServedStudy:
    """The tables of a fit of kernels and servers, and what it takes to predict rows that it never saw."""

    coefficients: list[KernelCoefficient]
    errors: list[KernelError]
    served: list[ServedCoefficient]
    served_errors: list[ServedError]
    model: KernelModel
    effects: Mapping[str, Effects]  # of servers, by phase
    checks: Mapping[str, pd.DataFrame]  # rows that a fit left out, by kind of kernel and by phase

    def look(
        self, data: Path, read: Callable[[Path, str], list[Any]], servers: Iterable["PublishedServer"]
    ) -> tuple[list[KernelError], list[ServedError]]:
        """Return the errors on kernels that ``read`` returns, and on servers, in the intervals of what was left out."""
        errors = []
        for kind, rows in kernel_study.read_rows(data, read).items():
            unseen = rows.assign(ratio=rows.latency_s / kernel_study.times_of(self.model, kind, rows))
            errors += [
                KernelError(kind, str(device), *_errors(own, _peers(self.checks[kind], own), "device"))
                for device, own in unseen.groupby("device")
            ]
        served_errors = []
        timed, _ = server_study.server_rows(servers, data, self.model)
        for phase, checks in ((phase, self.checks[phase]) for phase in self.effects):
            rows, seen = timed[timed.phase == phase], set(checks.device)
            labels = [family if name in seen else name for family, name in zip(rows.family, rows.device, strict=True)]
            unseen = rows.assign(label=labels, ratio=rows.latency_s / server_study.likely_s(self.effects[phase], rows))
            for batches, (least, most) in serving.BATCHES.items():
                of_size = checks[(checks.batch >= least) & (checks.batch <= most)]
                for label, own in unseen[(unseen.batch >= least) & (unseen.batch <= most)].groupby("label"):
                    served_errors.append(
                        ServedError(phase, ASIDE, str(label), batches, *_errors(own, of_size, "label"))
                    )
        return errors, served_errors


def study_served(data: Path, say: Callable[[str], None]) -> ServedStudy:
    """Fit and check everything. ``say`` gets the name of each fit, and why servers are left out. Raises UserError."""
    coefficients: list[KernelCoefficient] = []
    errors: list[KernelError] = []
    effects: dict[str, Effects] = {}
    all_checks: dict[str, pd.DataFrame] = {}
    for kind, rows in kernel_study.read_rows(data).items():
        say(kind)
        effects[kind] = kernel_study.fit_kernels(kind, kernel_study.sampled(rows))
        all_checks[kind] = kernel_study.check_kernels(kind, rows, effects[kind])
        errors += kernel_errors(kind, all_checks[kind])
        names = list(kernels.TERMS[kind](kernel_study.columns(rows.head(1))))
        for (level, label), logs in effects[kind].items():
            values = zip(names, np.exp(logs / 2), strict=True)  # of times; the fit's are of their squares
            coefficients += [KernelCoefficient(kind, level, label, term, float(value)) for term, value in values]
    model = KernelModel(effects)
    timed, reasons = server_study.server_rows(read_servers(data), data, model)
    for reason, count in reasons.most_common():
        say(f"{count} servers left out: {reason}")
    served: list[ServedCoefficient] = []
    served_errors: list[ServedError] = []
    of_servers: dict[str, Effects] = {}
    for phase in serving.PHASES:
        say(phase)
        rows = timed[timed.phase == phase]
        of_servers[phase] = server_study.fit_servers(rows)
        for (level, label), logs in of_servers[phase].items():
            if level != server_study.SERIES:
                factors = np.exp(logs) * (serving.EXPECTED if level == POOL else 1.0)
                served += [
                    ServedCoefficient(phase, level, label, term, float(value))
                    for term, value in zip(serving.TERMS, factors, strict=True)
                ]
        all_checks[phase] = server_study.check_servers(rows, of_servers[phase])
        served_errors += errors_of_servers(phase, all_checks[phase])
    return ServedStudy(coefficients, errors, served, served_errors, model, of_servers, all_checks)


def kernel_errors(kind: str, checks: pd.DataFrame) -> Iterator[KernelError]:
    """Yield the errors on each GPU, of all with one sort of link, and of all.

    Those of several are the median GPU's, with a further one's interval.
    """
    found = {
        str(device): KernelError(
            kind, str(device), *_errors(own, _peers(checks[checks.device != device], own), "device")
        )
        for device, own in checks.groupby("device")
    }
    yield from found.values()
    for peers, own in checks[checks.peers != ""].groupby("peers"):
        yield _error_of_all(kind, with_link(str(peers)), own, [found[device] for device in own.device.unique()])
    yield _error_of_all(kind, WHOLE, checks, [*found.values()])


def _peers(checks: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    return checks[checks.peers == own.peers.iloc[0]]


def _error_of_all(kind: str, name: str, checks: pd.DataFrame, rows: Sequence[KernelError]) -> KernelError:
    held = [row.coverage for row in rows if row.coverage is not None]
    return KernelError(
        kind, name, len(checks), float(np.median([row.median_error for row in rows])),
        float(np.median([row.p90_error for row in rows])), float(np.mean(held)) if held else None,
        float(np.median([row.median_ratio for row in rows])), interval(checks, "device"),
    )  # fmt: skip


def errors_of_servers(phase: str, checks: pd.DataFrame) -> Iterator[ServedError]:
    """Yield the errors of each label and of all, for all batch sizes and each class of them."""
    for batches, (least, most) in serving.BATCHES.items():
        of_size = checks[(checks.batch >= least) & (checks.batch <= most)]
        for left_out, rows in of_size.groupby("left_out", sort=False):
            found = [
                ServedError(
                    phase, str(left_out), str(label), batches, *_errors(own, rows[rows.label != label], "label")
                )
                for label, own in rows.groupby("label")
            ]
            yield from found
            held = [row.coverage * row.servers for row in found if row.coverage is not None]
            counts = [row.servers for row in found if row.coverage is not None]
            yield ServedError(
                phase, str(left_out), WHOLE, batches, len(rows), *_quantiles(rows.ratio.to_numpy(float)),
                sum(held) / sum(counts) if held else None, float(rows.ratio.median()), interval(rows, "label"),
            )  # fmt: skip


def _errors(
    own: pd.DataFrame, others: pd.DataFrame, label: str
) -> tuple[int, float, float, float | None, float, float | None]:
    """Return the number of rows, their median and upper error, share in others' interval, ratio, that interval."""
    ratios, within = own.ratio.to_numpy(float), interval(others, label)
    held = None if within is None else float(np.mean(np.abs(np.log(ratios)) <= np.log(within)))
    return len(own), *_quantiles(ratios), held, float(np.median(ratios)), within


def _quantiles(ratios: Numbers) -> tuple[float, float]:
    errors = np.abs(1.0 / ratios - 1.0)
    return float(np.median(errors)), float(np.quantile(errors, NINE))


def interval(checks: pd.DataFrame, label: str) -> float | None:
    """Return the factor that nine in ten ratios of a further label lie within; None if these are few.

    A label counts as the square root of its rows, as a series does in a fit.
    """
    count = checks[label].nunique()
    if count < FEWEST:
        return None
    sizes = checks.groupby(label).ratio.transform("size").to_numpy(float)
    off = np.abs(np.log(checks.ratio.to_numpy(float)))
    order = np.argsort(off)
    shares = np.cumsum(sizes[order] ** -0.5) / np.sum(sizes**-0.5)
    place = np.searchsorted(shares, min(NINE + BEYOND / count, 1.0))
    return float(np.exp(off[order][min(place, len(off) - 1)]))
