"""Whole runs, in processes of their own."""

import re
import signal
import subprocess
import sys
from functools import partial

import pytest
from helpers.places import ROOT

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.domain.records import Environment, OperatorTime, Profile, Run, Sample
from measure.run.tasks import KILLED
from measure.run.worker import Worker
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample

OWN = "tests.helpers.small_network:network"
SHORT = f"--device cpu --threads 1 --target 50% --models {OWN} --batch-sizes 1 --variants eager"
HEEDING = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""A shell's background job, which these tests may be, ignores Ctrl-C, and so would what it starts."""


def call(data, words):
    return command.main([*words.split(), "--data", str(data), "--machine", "box"])


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


HEAVY = "torch torchvision numpy pandas scipy altair numba rich psutil pynvml yaml packaging"

LOADED = """
import contextlib, sys
import measure, measure.cache
from measure.__main__ import main
for words in ("--help", "--list", "show", "model --help"):
    print(">", words)
    with contextlib.suppress(SystemExit):
        main(words.split())
    print("loaded", sorted(set(sys.argv[1].split()) & set(sys.modules)))
"""


def test_what_only_reads_imports_nothing_heavy():
    answer = python("-c", LOADED, HEAVY)
    assert answer.returncode == 0, answer.stderr
    helped, listed, shown, asked = answer.stdout.split("> ")[1:]
    assert all(part.endswith("loaded []\n") for part in (helped, listed, shown, asked))
    assert re.search(r"alexnet .* 61.1 M +1.43 GFLOP\n", listed)  # from the committed workload table
    assert "mobilenet_v2" in shown


@pytest.mark.slow
def test_a_stopped_run_keeps_what_it_has_and_goes_on_later(tmp_path, capsys):
    words = f"--models {OWN} --batch-sizes 1 --sections workload inference"
    program = [sys.executable, "-m", "measure", "--data", str(tmp_path), "--machine", "box", *words.split()]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=HEEDING) as run:
        for line in run.stdout:
            if line.startswith("counts: "):
                run.send_signal(signal.SIGINT)
                break
        rest = run.stdout.read()
    assert run.returncode == 130
    assert re.search(r"^Stopped after [1-9]\d* of \d+\. Everything measured so far is kept; the files", rest, re.M)
    assert f"To go on with what is left: python -m measure --data {tmp_path} --machine box" in rest
    assert call(tmp_path, f"{words} --plan") == 0
    plan = capsys.readouterr().out.splitlines()
    assert f"workload {OWN} fp32" not in plan
    assert any(line.endswith(", round 1") for line in plan)


@pytest.fixture
def signals():
    """SIGTERM and SIGHUP as a terminal leaves them, but that a test fails where its process would end by them."""

    def end(number, _frame):
        raise RuntimeError(f"signal {number} ends the process")

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize(
    ("number", "is_ignored"), [(signal.SIGTERM, False), (signal.SIGHUP, False), (signal.SIGHUP, True)]
)
def test_a_polite_kill_and_a_closed_terminal_stop_like_ctrl_c(tmp_path, capsys, monkeypatch, number, is_ignored):
    latencies_s = [1.0, 1.01, 0.99]
    if is_ignored:
        signal.signal(number, signal.SIG_IGN)

    def run(*_):
        if len(latencies_s) == 2:
            signal.raise_signal(number)
        return Timing(1, (TimedSample(latencies_s.pop()),), ())

    monkeypatch.setattr(Worker, "run", run)
    words = "--device cpu --models squeezenet1_0 --batch-sizes 1 --variants eager --sections inference"
    assert call(tmp_path, words) == (0 if is_ignored else 130)
    said = "\n3 done, 0 left; " if is_ignored else "\nStopped after 1 of 3. Everything measured so far is kept"
    assert said in capsys.readouterr().out
    assert len(MachineFolder(tmp_path, "box").rows(Run)) == (3 if is_ignored else 1)


def test_a_cell_killed_from_outside_is_lacking_until_measured(tmp_path, capsys, monkeypatch):
    outcomes = [KILLED, *(Timing(1, (TimedSample(latency_s),), ()) for latency_s in (1.0, 1.01, 0.99))]
    monkeypatch.setattr(Worker, "run", lambda *_: outcomes.pop(0))
    words = "--device cpu --models squeezenet1_0 --batch-sizes 1 --variants eager --sections inference"
    assert call(tmp_path, words) == 0
    said = capsys.readouterr().out
    assert "1 killed:" in said
    assert "lacks nothing" not in said
    assert "To add that: " in said
    assert call(tmp_path, words) == 0
    assert "It lacks nothing that these flags name." in capsys.readouterr().out


@pytest.mark.slow
def test_measuring_from_end_to_end_resumes_and_then_is_done(tmp_path, capsys):
    words = f"{SHORT} --training-batch-sizes 2 --max-rounds 3 --sections workload inference operators"
    first = python("-m", "measure", "--data", str(tmp_path), "--machine", "box", *words.split(), "-v")
    assert first.returncode == 0, first.stderr
    assert f"  [6/6] {OWN} batch 1 fp32, round 3: " in first.stdout
    assert f"6 done, 0 left; the files are in {tmp_path}/machines/box and {tmp_path}/workload\n" in first.stdout
    assert first.stdout.endswith(
        f"\nIt lacks nothing that these flags name.\nNext: python -m report --data {tmp_path}\n"
    )
    assert " measure.timing.sampling: sampling ends after " in first.stderr
    folder = MachineFolder(tmp_path, "box")
    tables = folder.tables()
    assert [(run.round, run.status) for run in tables[Run]] == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert {row.round for row in tables[Sample]} == {0, 1, 2}
    assert len(tables[Sample]) >= 18
    assert {row.environment_id for row in tables[Sample]} == {row.environment_id for row in tables[Environment]}
    assert {(row.phase, row.status) for row in tables[Profile]} == {("inference", "ok"), ("step", "ok")}
    for profile in tables[Profile]:
        times_s = [row.time_s for row in tables[OperatorTime] if row.phase == profile.phase]
        assert 0 < sum(times_s) <= profile.profiled_s
    assert {row.stage for row in tables[OperatorTime]} == {"inference", "forward", "backward", "update"}
    assert call(tmp_path, words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert folder.tables() == tables
