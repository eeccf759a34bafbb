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
from measure.cache.records import Environment, OperatorTime, Profile, Run, Sample
from measure.run.worker import FunctionCall, Worker
from measure.timing.sampling import Timing
from measure.timing.stopwatch import TimedSample

pytest.importorskip("torch", reason="measuring needs torch")
OWN = "tests.helpers.small_network:network"
SHORT = f"--device cpu --models {OWN} --batch-sizes 1 --variants eager"
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


IMPORT_ALL = """
import importlib, pkgutil, sys
package, *absent = sys.argv[1:]
sys.modules.update(dict.fromkeys(absent))
for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
    if not module.name.startswith("measure.roofs."):  # compiled kernels, imported where one is measured
        importlib.import_module(module.name)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("measure", "report altair pandas typst numba"),
        ("report", "torch torchvision torchaudio timm psutil rich pynvml"),
    ],
)
def test_each_side_of_the_cache_works_without_what_only_the_other_needs(package, absent):
    answer = python("-c", IMPORT_ALL, package, *absent.split())
    assert answer.returncode == 0, answer.stderr


@pytest.mark.slow
def test_a_run_that_is_stopped_keeps_what_it_has_and_goes_on_later(tmp_path, capsys):
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


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers", "signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_polite_kill_and_a_closed_terminal_stop_as_ctrl_c_does(tmp_path, capsys, monkeypatch, number):
    words, run, done = f"{SHORT} --sections workload inference", Worker.run, []

    def run_one_and_be_killed(worker, task, *limits):
        if isinstance(task, FunctionCall):  # the model is looked at before the run
            return run(worker, task, *limits)
        if done:
            signal.raise_signal(number)
        done.append(task)
        return run(worker, task, *limits)

    monkeypatch.setattr(Worker, "run", run_one_and_be_killed)
    assert call(tmp_path, words) == 130
    assert "\nStopped after 1 of 4. Everything measured so far is kept" in capsys.readouterr().out
    assert call(tmp_path, f"{words} --plan") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("workload")] == []


@pytest.mark.usefixtures("signals")
def test_under_nohup_a_closed_terminal_stops_nothing(tmp_path, capsys, monkeypatch):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    latencies_s = iter([1.0, 1.01, 0.99])

    def run(*_):
        signal.raise_signal(signal.SIGHUP)
        return Timing(1, (TimedSample(next(latencies_s)),), ())

    monkeypatch.setattr(Worker, "run", run)
    words = "--device cpu --models squeezenet1_0 --batch-sizes 1 --variants eager --sections inference"
    assert call(tmp_path, words) == 0
    assert "\n3 done, 0 left; " in capsys.readouterr().out


SLOW = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "measure.verbs.measure":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, Slow())
from measure.__main__ import main
sys.exit(main(["--list"]))
"""


def test_ctrl_c_pressed_again_and_again_while_modules_are_imported_is_one_line():
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SLOW], cwd=ROOT, text=True, preexec_fn=HEEDING, **pipes) as run:
        assert run.stdout.readline() == "importing\n"
        for _ in range(3):
            run.send_signal(signal.SIGINT)
        assert run.stderr.read() == "\npython -m measure: stopped\n"
    assert run.returncode == 130


@pytest.mark.slow
def test_measuring_from_end_to_end_resumes_and_then_has_nothing_to_do(tmp_path, capsys):
    words = f"{SHORT} --max-rounds 3 --sections workload inference"
    first = python("-m", "measure", "--data", str(tmp_path), "--machine", "box", *words.split(), "-v")
    assert first.returncode == 0, first.stderr
    assert f"  [4/4] {OWN} batch 1 fp32, round 3: " in first.stdout
    blocks = [line.partition(":")[0] for line in first.stdout.splitlines() if ": 1 done; " in line]
    assert blocks == ["counts", "round 1", "round 2", "round 3"]
    assert f"4 done, 0 left; the files are in {tmp_path}/machines/box and {tmp_path}/workload\n" in first.stdout
    assert first.stdout.endswith(
        "\nThe paper has 1 model at batch 1, 3 rounds of each.\nIt lacks nothing of what was asked for.\n"
        f"Next: python -m report --data {tmp_path}\n"
    )
    assert " measure.timing.sampling: warm-up: " in first.stderr
    assert " measure.timing.sampling: sampling ends after " in first.stderr
    folder = MachineFolder(tmp_path, "box")
    runs, samples = folder.rows(Run), folder.rows(Sample)
    assert [(run.round, run.status) for run in runs] == [(0, "ok"), (1, "ok"), (2, "ok")]
    assert {row.round for row in samples} == {0, 1, 2}
    assert len(samples) >= 18
    assert {row.environment_id for row in samples} == {row.environment_id for row in folder.rows(Environment)}
    assert call(tmp_path, words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert folder.rows(Sample) == samples


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_operators_are_profiled_from_end_to_end_and_once(tmp_path, capsys):
    words = f"{SHORT} --training-batch-sizes 2 --sections operators"
    assert call(tmp_path, words) == 0
    assert re.search(r"^round 1: 2 done; ", capsys.readouterr().out, re.M)
    folder = MachineFolder(tmp_path, "box")
    profiles, times = folder.rows(Profile), folder.rows(OperatorTime)
    assert {(row.phase, row.status) for row in profiles} == {("inference", "ok"), ("step", "ok")}
    for profile in profiles:
        assert 0 < sum(row.time_s for row in times if row.phase == profile.phase) <= profile.profiled_s
    assert {row.stage for row in times} == {"inference", "forward", "backward", "update"}
    assert call(tmp_path, words) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert folder.rows(OperatorTime) == times
