"""Many machines beside each other: how fast each runs the cells that it shares with others, and what its roofs are."""

import numpy as np
import pandas as pd

from report.analysis import available, speed_ups
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Machine, Paper

FEWEST = 3
"""So many machines that share cells make a fleet; two are compared cell by cell."""

TOLD = 4
"""So many machines are told of and listed one by one; of more, those that figures show and the fleet as a whole."""


def listed(paper: Paper) -> tuple[tuple[Machine, ...], int]:
    """Return the machines that tables list one by one, and how many they leave out; at least one machine."""
    machines = available.machines(paper)
    one_by_one = machines if len(machines) <= TOLD else paper.shown
    return one_by_one, len(machines) - len(one_by_one)


def speeds(paper: Paper) -> pd.DataFrame:
    """One row is a machine that shares cells with others, the fastest first; at least ``FEWEST``.

    ``speed`` is the geometric mean over its ``cells`` of the latency of the median machine that has the cell, over its
    own; ``slowest`` and ``fastest`` are the least and the most of these ratios. ``peak`` (FLOP/s) and ``bandwidth``
    (byte/s) are its measured roof, empty where there is none; ``loaded`` counts cells measured beside other work.
    """
    speed_ups.between_machines(paper)  # says what is missing where no two machines share a cell
    cells = {machine.folder: available.or_missing(available.cells)(machine) for machine in paper.machines}
    rows = pd.concat(
        [found.assign(folder=name) for name, found in cells.items() if not isinstance(found, available.Missing)]
    )
    same = rows.groupby(speed_ups.CELL).latency_s
    ratio = same.transform("median") / rows.latency_s
    rows = rows.assign(ratio=ratio, log_ratio=np.log(ratio.astype(float)))[same.transform("size") > 1]
    of_machines = rows.groupby("folder")
    found = pd.DataFrame(
        {
            "cells": of_machines.size(),
            "speed": np.exp(of_machines.log_ratio.mean()),
            "slowest": of_machines.ratio.min(),
            "fastest": of_machines.ratio.max(),
            "loaded": of_machines["flags"].agg(lambda flags: int(flags.str.contains("loaded").sum())),
        }
    )
    if len(found) < FEWEST:
        raise available.DataMissingError(
            f"Fewer than {FEWEST} machines in the cache share cells; "
            "`python -m measure add-machine FOLDER_OR_ZIP` adds one."
        )
    machines = {machine.folder: machine for machine in paper.machines}
    roofs = {name: machines[name].roof(BASE_PRECISION) for name in found.index}
    return found.assign(
        name=[available.title(machines[name], False) for name in found.index],
        device=[KINDS[machines[name].chip_kind] for name in found.index],
        peak=[roof.peak_flop_per_s if roof else np.nan for roof in roofs.values()],
        bandwidth=[roof.bandwidth_byte_per_s if roof else np.nan for roof in roofs.values()],
    ).sort_values("speed", ascending=False, kind="stable").reset_index()  # fmt: skip
