"""Remove the measurements of models on every machine, and their counts, from the cache. With --machine,
remove only the measurements on that machine. Only measuring again brings them back.

models MODEL+  names, or globs such as 'mine:*'
--machine NAME+  the machines' folders (default: all, and counts)
--plan  print what would go, and remove nothing
"""

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import HardwareCounterProfile, Profile, Run
from measure.cache.workload_records import Workload
from measure.errors import chosen
from measure.verbs.flags import parse_choices

WORDS = {Run: "rounds", Profile: "profiles", HardwareCounterProfile: "profiles under hardware counters"}


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, before anything is removed."""
    known = machine_names(flags.data)
    folders = [MachineFolder(flags.data, name) for name in parse_choices("--machine", flags.machine or known, known)]
    workloads = Workloads(flags.data)
    tables: list[tuple[Path, str, list[Any]]] = [
        (folder.folder, word, folder.rows(record)) for folder in folders for record, word in WORDS.items()
    ]
    if not flags.machine:
        tables.append((workloads.folder, "counts", workloads.rows(Workload)))
    models = chosen("MODEL", flags.models, {row.model for _, _, rows in tables for row in rows})
    removed: dict[Path, list[str]] = defaultdict(list)
    for place, word, rows in tables:
        if count := sum(row.model in models for row in rows):
            removed[place].append(f"{word}: {count}")
    for place, parts in removed.items():
        print(f"{place}: {', '.join(parts)}")
    if not flags.plan:
        for folder in folders:
            with folder.locked():
                folder.leave_out(models)
        if not flags.machine:
            workloads.leave_out(models)
    print(f"{'Would forget' if flags.plan else 'Forgot'} {', '.join(sorted(models))}")
    return 0
