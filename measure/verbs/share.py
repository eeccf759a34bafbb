"""Pack a machine's measurements, check them, and say how to send them: ``measure share``."""

import argparse
import hashlib
import json
import re
from operator import attrgetter
from pathlib import Path

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.project import ROOT
from measure.cache.records import Environment, Run
from measure.cache.workload_records import Workload
from measure.errors import UserError
from measure.machine.processor import output_of
from measure.published import contributed, contributed_checks
from measure.verbs.flags import Verbs, add_verb
from measure.verbs.pack import find_machine, put_into_zip

FORM = "machine.yml"  # the issue form in .github/ISSUE_TEMPLATE
MOST_BYTE = 25 * 10**6  # of a file that GitHub's issues take


def add_verbs(verbs: Verbs) -> None:
    """Declare share."""
    text = (
        "Share a machine's measurements in one step: put them into a zip, check it as add-machine does, and say how to "
        "send it. Nothing is sent, and neither an account nor a network is needed. The zip holds no names of users or "
        "hosts: of an exception only the type is in it."
    )
    flags = add_verb(verbs, "share", main, text)
    add = flags.add_argument
    add("file", nargs="?", metavar="FILE.zip", help="the zip (default: NAME.zip in the current folder)")
    add("--machine", metavar="NAME", help="the machine's folder (default: the one measured last)")
    text = "who measured, for the line that cites it (default: Anonymous)"
    add("--author", default="Anonymous", metavar="NAME", help=text)


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, without measurements, and for those that cannot be right."""
    machine = find_machine(flags.data, flags.machine)
    target = Path(flags.file or f"{machine.name}.zip")
    print(put_into_zip(machine, flags.data, target))
    try:
        check(target, flags.data)
    except UserError as problem:
        raise UserError(
            f"{problem}. The zip stays, but would be refused: forget those rows, or measure them again"
        ) from None
    print("Checked: add-machine takes it.")
    print(*how_to_send(target), "", "To cite it, add this line below references: in a CITATION.cff:", sep="\n")
    print(f"  {citation(machine, target, flags.author)}")
    return 0


def check(zipped: Path, data: Path) -> None:
    """Raise UserError if ``add-machine`` would refuse a zip."""
    with contributed.opened(zipped) as given:
        contributed_checks.check(given.folder, Workloads(data).rows(Workload))


def how_to_send(target: Path) -> list[str]:
    """Return the ways to send a zip, with the address of the project's form if this clone knows it."""
    origin = output_of("git", "-C", str(ROOT), "remote", "get-url", "origin") if (ROOT / ".git").exists() else ""
    found = re.fullmatch(r"(?:https://|git@|ssh://git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", origin)
    where = "Issues, New issue, Measurements of a machine"
    if found:
        where = f"https://github.com/{found[1]}/issues/new?template={FORM}"
    lines = [f"To send it, open {where} and drop {target} into the form."]
    if target.stat().st_size > MOST_BYTE:
        lines = [f"{target} is too large for an issue (25 MB): send it by another way, or open a pull request."]
    return [*lines, f"Or give the file to anyone with a clone: python -m measure add-machine {target.name}"]


def citation(machine: MachineFolder, zipped: Path, author: str) -> str:
    """Return one entry of ``references`` in a CITATION.cff (version 1.2.0)."""
    runs, newest = machine.rows(Run), machine.newest_environment()
    dates = [row.recorded_at[:10] for row in runs] + [row.recorded_at[:10] for row in machine.rows(Environment)]
    newest_run = max(runs, key=attrgetter("recorded_at"), default=None)
    made_with = [f"Roofwright {newest_run.version}"] if newest_run and newest_run.version else []
    digest = hashlib.sha256(zipped.read_bytes()).hexdigest()
    notes = ", ".join([*made_with, f"torch {newest.torch}", f"{len(runs)} rounds", f"SHA-256 {digest}"])
    entry = {
        "type": "data",
        "title": f"Measurements of {newest.name} ({machine.name})",
        "authors": [{"name": author}],
        "date-released": max(dates),
        "notes": notes,
    }
    return f"- {json.dumps(entry, ensure_ascii=False)}"  # JSON is YAML
