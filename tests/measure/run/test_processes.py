import os
import signal
import sys
from types import SimpleNamespace

import pytest
from helpers.watching import has_ended, wait_until

from measure.run import processes
from measure.run.processes import Processes, oom_kills

VARIABLE = "ROOFWRIGHT_PROBE"
pytestmark = pytest.mark.skipif(not processes.FORKS, reason="processes are forks on Linux alone")


def speak(connection, variable):
    """Be a process that introduces itself and then waits for its end."""
    facts = {"pid": os.getpid(), "parent": os.getppid(), "modules": frozenset(sys.modules)}
    connection.send(SimpleNamespace(variable=os.environ.get(variable), **facts))
    connection.recv()


def task(block=0, libraries=(), **variables):
    return SimpleNamespace(block=block, libraries=libraries, variables=variables)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "log").touch()
    source = Processes(tmp_path / "log", speak, VARIABLE)
    yield source
    source.close()


def begin(source, task):
    """Begin the process of a task; return it, its connection (it ends without) and its introduction."""
    isolated = source.begin(task)
    return isolated.process, isolated.connection, isolated.connection.recv()


def introduction_of(source, task):
    """Begin the process of a task, read its introduction, and end it."""
    process, _connection, about = begin(source, task)
    assert process.pid == about.pid
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    return about


def test_tasks_of_a_block_are_forks_of_one_server(source):
    first, second, tuned, again = (
        introduction_of(source, each)
        for each in (task(), task(libraries=("colorsys", "no_such_library")), task(**{VARIABLE: "1"}), task())
    )
    assert len({first.pid, second.pid, tuned.pid, again.pid}) == 4
    assert first.parent == second.parent == again.parent != tuned.parent
    assert (first.variable, tuned.variable, again.variable) == (None, "1", None)
    # A server keeps the imports of a task; a missing library is the task's affair.
    assert ["colorsys" in each.modules for each in (first, second, again)] == [False, True, True]
    later = introduction_of(source, task(1))
    assert later.parent not in (first.parent, tuned.parent, os.getpid())
    assert has_ended(first.parent)
    source.close()
    assert has_ended(later.parent)


def test_ctrl_c_cannot_reach_a_process_before_it_ignores_it(source, monkeypatch):
    """It is in the terminal's group until then, and would print a traceback there."""
    start, masks = processes.SPAWN.Process.start, []

    def note(process):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        start(process)

    monkeypatch.setattr(processes.SPAWN.Process, "start", note)
    introduction_of(source, task())
    assert signal.SIGINT in masks[0]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_killed_servers_fork_ends_and_another_follows(source):
    process, _connection, about = begin(source, task())
    assert process.pid == about.pid  # a fork may speak before its server has told its number
    os.kill(about.parent, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    wait_until(lambda: has_ended(about.pid))
    assert introduction_of(source, task()).parent != about.parent


def test_a_process_may_be_ended_before_it_has_been_forked(source, monkeypatch):
    isolated = source.begin(task())
    isolated.process.kill()
    isolated.process.join()
    assert isolated.process.exitcode == -signal.SIGKILL
    assert introduction_of(source, task()).pid
    monkeypatch.setattr(processes, "FORKS", False)
    about = introduction_of(source, task(**{VARIABLE: "1"}))
    assert (about.parent, about.variable) == (os.getpid(), "1")


def test_kills_for_memory_are_those_that_linux_counts(tmp_path):
    vmstat = tmp_path / "vmstat"  # some lines of Linux 6.8
    assert oom_kills(vmstat) == 0
    for line, kills in (("oom_kill 3\n", 3), ("", 0)):
        vmstat.write_text(f"nr_free_pages 1043\n{line}numa_hit 7\n")
        assert oom_kills(vmstat) == kills
