"""Add a machine, be killed at any moment, and give the same command again: nothing is lost, nothing stays behind."""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT, machine_in, operator_time, profile, run, samples
from helpers.watching import is_killed

from measure.__main__ import main
from measure.cache.folders import MachineFolder, machine_names
from measure.domain.records import OperatorTime, Run
from measure.verbs import sharing

DATA = Path("cache")
EVENTS = [(Path, name) for name in ("rename", "replace", "unlink", "mkdir", "touch")]
EVENTS += [(os, "fsync"), (shutil, "rmtree")]


def add(*words):
    return main(["add-machine", *words, "--data", str(DATA)])


def add_killed(patch, **variables):
    """Add the machine in a process of its own, after some lines that patch the program."""
    program = f"import os, signal, sys\n{patch}from measure.__main__ import main\nmain(sys.argv[1:])"
    command = [sys.executable, "-c", program, "add-machine", "given/box", "--data", str(DATA)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def tables():
    return MachineFolder(DATA, "box").tables() if "box" in machine_names(DATA) else None


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """``given`` has more of the machine ``old``; ``other`` is another machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # nobody cuts the power here
    machine_in(Path("old"))
    for name, environment in (("given/box", ENVIRONMENT), ("other/box", replace(ENVIRONMENT, hardware_id="h2"))):
        machine_in(Path(name), environment)
        MachineFolder(Path(), "", Path(name)).put_run(run("other"), samples(2, "other"))


@pytest.mark.parametrize(
    ("words", "is_there"), [(["given/box"], True), (["given/box"], False), (["other/box", "--replace"], True)]
)
@pytest.mark.slow
def test_killed_at_each_write_and_given_again(monkeypatch, capsys, words, is_there):
    """A reader in between finds the old machine, or the new one, or none, and never half of each."""
    seen, new = [], MachineFolder(Path(), "", Path(words[0])).tables()  # has everything of the old machine, too
    for event in range(1000):
        shutil.rmtree(DATA, ignore_errors=True)
        if is_there:
            shutil.copytree("old", DATA / "machines" / "box")
        before = tables()
        was_killed = is_killed(monkeypatch, EVENTS, event, lambda: add(*words))
        between = tables()
        assert between in (before, new, None)
        assert add(*words) == 0
        assert tables() == new
        assert not [path for path in (DATA / "machines/box").iterdir() if path.is_dir()]
        seen.append(between)
        if not was_killed:
            break
    assert before in seen
    assert len(seen) > 20  # at least two writes for each of nine tables
    capsys.readouterr()


def test_the_next_writer_finishes_what_a_kill_left(capsys):
    """The old machine has a profile that is not handed in again, so only the cache has it."""
    MachineFolder(DATA, "box", Path("old")).put_profile(profile("rare"), [operator_time("rare")])
    shutil.copytree("old", DATA / "machines" / "box")
    done = add_killed(
        "from pathlib import Path\nreplace, moved = Path.replace, []\n"
        "def move(path, target):\n"
        "    moved.append(path) if path.parent.name == '.added' else None\n"
        "    os.kill(os.getpid(), signal.SIGKILL) if len(moved) == 3 else None\n"
        "    return replace(path, target)\n"
        "Path.replace = move\n"
    )
    assert done.returncode == -9, done.stderr
    assert tables() is None
    with MachineFolder(DATA, "box").locked():  # as every command that writes into a machine's folder does
        finished = tables()
    assert {row.model for row in finished[Run]} == {"net", "other"}
    assert {row.model for row in finished[OperatorTime]} == {"net", "rare"}
    assert add("given/box") == 0
    assert tables() == finished
    assert "holds all of this already" in capsys.readouterr().out


def test_copies_left_by_a_killed_command_go_with_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = add_killed(
        "from measure.published import contributed_checks\n"
        "contributed_checks.check = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n",
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == -9, done.stderr
    assert len([*tmp_path.glob("roofwright-*")]) == 1
    assert add("given/box") == 0
    assert [*tmp_path.glob("roofwright-*")] == []


def test_two_at_once_into_a_machine_that_is_new_both_come_in(monkeypatch, capsys):
    """The second waits for the first, which has read a cache without this machine."""
    other, codes = Path("later/box"), []
    shutil.copytree("given/box", other)
    MachineFolder(Path(), "", other).put_run(run("third"), samples(2, "third"))
    words = ["add-machine", str(other), "--data", str(DATA)]
    second = threading.Thread(target=lambda: codes.append(main(words)))
    merge = sharing._merge

    def slowly(*arguments):
        if not second.ident:
            second.start()
            second.join(0.5)
        return merge(*arguments)

    monkeypatch.setattr(sharing, "_merge", slowly)
    codes.append(add("given/box"))
    second.join()
    assert codes == [0, 0]
    assert {row.model for row in tables()[Run]} == {"net", "other", "third"}
