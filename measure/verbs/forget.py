"""Remove models from the cache: ``measure forget``."""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from measure.cache.folders import PARENTS, Folder, MachineFolder, Workloads, machine_names
from measure.cache.records import HardwareCounterProfile, Profile, Run
from measure.cache.table import columns
from measure.cache.workload_records import Workload
from measure.errors import chosen, printable
from measure.verbs.flags import Verbs, add_verb

WORDS = {
    Run: "rounds",
    Profile: "profiles",
    HardwareCounterProfile: "profiles under hardware counters",
    Workload: "counts",
}
PARTS = "rows left by a killed command"


def add_verbs(verbs: Verbs) -> None:
    """Declare forget."""
    text = (
        "Remove the measurements of models on every machine, and their counts, from the cache. With --machine, remove "
        "only the measurements on that machine. Only measuring again brings them back."
    )
    flags = add_verb(verbs, "forget", main, text)
    add = flags.add_argument
    add("models", nargs="+", metavar="MODEL", help="names, or globs such as 'mine:*'")
    add("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all, and counts)")
    add("--plan", action="store_true", help="print what would go, and remove nothing")


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, before anything is removed."""
    known = machine_names(flags.data)
    named = chosen("--machine", flags.machine or known, known)
    folders = [MachineFolder(flags.data, name) for name in known if name in named]
    workloads = Workloads(flags.data)
    of_models: list[tuple[Folder, Path]] = [(folder, folder.folder) for folder in folders]
    if not flags.machine:
        of_models += [(folder, workloads.folder) for folder in workloads.folders()]
    # Also parts whose round, profile or count is gone: a forget that was killed leaves them
    tables = [
        (place, WORDS.get(record, PARTS), columns(path, record, only=["model"])["model"])
        for folder, place in of_models
        for record, path in folder.paths.items()
        if record in {*PARENTS, *PARENTS.values()}
    ]
    models = chosen("MODEL", flags.models, {model for _, _, found in tables for model in found})
    removed: dict[Path, Counter[str]] = defaultdict(Counter)
    for place, word, found in tables:
        removed[place][word] += sum(model in models for model in found)
    for place, counts in removed.items():
        parts = counts.pop(PARTS)
        if listed := [f"{word}: {count}" for word, count in counts.items() if count] or [f"{PARTS}: {parts}"] * (
            parts > 0
        ):
            print(f"{place}: {', '.join(listed)}")
    if not flags.plan:
        for folder in folders:
            with folder.locked():
                folder.leave_out(models)
        if not flags.machine:
            workloads.leave_out(models)
    print(f"{'Would forget' if flags.plan else 'Forgot'} {', '.join(map(printable, sorted(models)))}")
    return 0
