import os
import tempfile
from contextlib import closing
from dataclasses import replace

import pytest
from helpers.watching import has_ended, wait_until

from measure.domain.models import OWN, Model
from measure.errors import UserError
from measure.models.own_models import RaisedError
from measure.run import processes
from measure.run.tasks import KILLED
from measure.run.worker import FunctionCall, IsolatedCalls

pytestmark = pytest.mark.usefixtures("forked_workers")

FINE = "import torch\ndef net(batch_size):\n    return torch.nn.Linear(3, 2), torch.ones(batch_size, 3)\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes the module ``mine``."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(processes, "END_LIMIT_S", 0.5)  # for a process that has closed its pipe
    return (tmp_path / "mine.py").write_text


def test_an_own_model_is_described_also_after_a_crash(module):
    module("import os\nos._exit(0)\n")
    with closing(IsolatedCalls(60.0)) as own:
        with pytest.raises(UserError):
            own.describe("mine:net")
        module("print('loaded')\n" + FINE)
        assert replace(own.describe("mine:net"), code=None) == Model("mine:net", OWN, OWN, (3,))
        with pytest.raises(RaisedError, match=r"^ZeroDivisionError: "):
            own.call("mine:net", divmod, 1, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def net(_):\n    while True:\n        pass\n", "took longer than 2 s; fix it, or give measuring a longer"),
        ("def net(_):\n    import os\n    os._exit(7)\n", "ended its process with exit code 7; fix it"),
        ("import ctypes\nctypes.string_at(0)\n", "ended its process by signal 11; fix it"),
        ("def net(_):\n    raise SystemExit(3)\n", "(2) raised SystemExit: 3; fix it: its argument is the batch size"),
        ("def net(_):\n    raise KeyboardInterrupt\n", "ended its process with exit code 1: KeyboardInterrupt; fix it"),
    ],
)
def test_what_own_code_does_to_its_process_is_one_sentence(module, text, message):
    module(text)
    with closing(IsolatedCalls(2.0)) as own, pytest.raises(UserError) as caught:
        own.describe("mine:net")
    assert str(caught.value).startswith("--models: mine:net")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


CHILD = """
import os, subprocess, sys, time, torch
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
def popen(batch_size):
    open({place!r}, "w").write(str(subprocess.Popen(SLEEP).pid))
    return torch.nn.Linear(3, 2), torch.ones(batch_size, 3)
def fork(batch_size):
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    open({place!r}, "w").write(str(pid))
    return torch.nn.Linear(3, 2), torch.ones(batch_size, 3)
def crash(batch_size):
    fork(batch_size)
    os._exit(7)
def escape(batch_size):
    if os.fork() == 0:
        os.setsid()
        time.sleep(20)
    os._exit(7)
"""


@pytest.mark.skipif(not processes.FORKS, reason="only a fork server ends the children of a model")
@pytest.mark.parametrize("function", ["popen", "fork", "crash", "escape"])
def test_a_child_left_by_own_code_holds_nothing_and_ends(module, tmp_path, function):
    place = tmp_path / "pid"
    module(CHILD.format(place=str(place)))
    with closing(IsolatedCalls(600.0)) as own:  # a wait for the child would last as long
        if function in ("popen", "fork"):
            assert own.describe(f"mine:{function}").input_shape == (3,)
        else:
            with pytest.raises(UserError, match="exit code 7"):
                own.describe(f"mine:{function}")
    if place.exists():
        wait_until(lambda: has_ended(int(place.read_text())))


@pytest.mark.skipif(not processes.FORKS, reason="elsewhere nothing tells whether a process lives")
def test_the_log_of_a_killed_run_goes_with_the_next_run(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, alive = (tmp_path / f"roofwright-{pid}-x.log" for pid in (2**22 + 1, os.getpid()))  # no number is so high
    dead.touch()
    alive.touch()
    with closing(IsolatedCalls(60.0)):
        assert len([*tmp_path.iterdir()]) == 2
    assert [*tmp_path.iterdir()] == [alive]


def test_a_process_killed_while_it_starts_fails_its_task_alone(monkeypatch):
    begin = processes.Processes.begin

    def kill(self, task):
        isolated = begin(self, task)
        isolated.process.kill()
        return isolated

    task = FunctionCall(divmod, (7, 2))
    with closing(IsolatedCalls(60.0)) as own:
        with monkeypatch.context() as patch:
            patch.setattr(processes.Processes, "begin", kill)
            assert own.run(task) == KILLED
        assert own.run(task) == (3, 1)
        own.stop()
        kills = iter((kill, begin))  # the second try finds a process that lives
        monkeypatch.setattr(processes.Processes, "begin", lambda *given: next(kills)(*given))
        assert own.call("mine:net", divmod, 7, 2) == (3, 1)
