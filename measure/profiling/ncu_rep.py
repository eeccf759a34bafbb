"""Read a report of Nsight Compute (``.ncu-rep``) with NVIDIA's ``ncu-report``.

Source of the interface: NVIDIA, Nsight Compute, Python Report Interface.
"""

from math import inf, isnan
from pathlib import Path
from typing import Any

from measure.domain.schema import MOST
from measure.errors import UserError, in_short
from measure.profiling.ncu_csv import TIME, UNITS, CountedCell, is_read, summarise

SUFFIXES = (".ncu-rep", ".ncu-repz")
CAPABILITY = [f"device__attribute_compute_capability_{part}" for part in ("major", "minor")]


def read(file: Path, steps: int, tool: str) -> CountedCell:
    """Raise UserError if the package is missing or a launch cannot be read."""
    try:
        import ncu_report
    except ImportError:
        remedy = "install it with pip install 'roofwright[counters]', or export the report with ncu --import FILE --csv"
        raise UserError(f"{file}: reports need ncu-report; {remedy} --page raw") from None
    remedy = "export it again with ncu --export FILE, and name that"
    try:
        actions = [action for results in ncu_report.load_report(str(file)) for action in results]
        launches = [(action.name(action.NameBase_DEMANGLED), _metrics(action)) for action in actions]
        capability = ".".join(str(actions[0][name].value()) for name in CAPABILITY) if actions else ""
    except Exception as problem:  # a damaged report may raise anything
        raise UserError(f"{file}: cannot be read ({in_short(problem)}); {remedy}") from None
    if not launches:
        raise UserError(f"{file}: holds no kernel, or is no report; {remedy}")
    for number, (kernel, launch) in enumerate(launches, 1):
        if not kernel.strip() or TIME not in launch:
            raise UserError(f"{file}: kernel {number} lacks its name or {TIME}; collect it with --metrics {TIME}")
        for metric, value in launch.items():
            if not 0 <= value <= MOST:
                raise UserError(f"{file}: kernel {number}, metric {metric}: {value:g} cannot be; {remedy}")
    return summarise(launches, capability, steps, tool)


def _metrics(action: Any) -> dict[str, float]:
    """Return the metrics of one launch in base units; infinite in an unknown unit, absent without a value."""
    metrics = {name: action[name] for name in action if is_read(name)}
    values = {name: float(metric.as_double()) for name, metric in metrics.items() if metric.has_value()}
    return {name: value * UNITS.get(metrics[name].unit(), inf) for name, value in values.items() if not isnan(value)}
