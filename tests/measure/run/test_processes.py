import os
import signal
from types import SimpleNamespace

import pytest
from helpers.processes import has_ended, speak, wait_until

from measure.run import processes
from measure.run.processes import Processes, oom_kills

pytest.importorskip("psutil", reason="a process that ended is told from one that runs by psutil")

VARIABLE = "ROOFWRIGHT_PROBE"
pytestmark = pytest.mark.skipif(not processes.FORKS, reason="processes are forks on Linux alone")


def task(block=0, libraries=(), **variables):
    return SimpleNamespace(block=block, libraries=libraries, variables=variables)


@pytest.fixture
def log(tmp_path):
    log = tmp_path / "log"
    log.touch()
    return log


@pytest.fixture
def source(log):
    source = Processes(log, speak, VARIABLE)
    yield source
    source.close()


def said_by_process_of(source, task):
    """What the process of a task says, which is ended then."""
    isolated = source.begin(task)
    process, connection = isolated.process, isolated.connection
    said = connection.recv()
    assert process.exitcode is None
    assert process.pid == said.pid
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    return said


def test_processes_of_a_block_are_forks_of_one_process_and_those_of_the_next_of_another(source):
    first, second, later = (said_by_process_of(source, task(block)) for block in (0, 0, 1))
    assert len({first.pid, second.pid, later.pid}) == 3
    assert first.parent == second.parent
    assert len({first.parent, later.parent, os.getpid()}) == 3
    assert has_ended(first.parent)
    source.close()
    assert has_ended(later.parent)


def test_each_set_of_variables_has_a_process_of_its_own_to_be_forked_from(source):
    plain, tuned, again = (said_by_process_of(source, each) for each in (task(), task(**{VARIABLE: "1"}), task()))
    assert (plain.variable, tuned.variable, again.variable) == (None, "1", None)
    assert plain.parent == again.parent != tuned.parent


def test_a_fork_has_imported_what_its_task_or_one_before_imports_and_a_missing_library_is_the_tasks_affair(source):
    asked = ((), ("colorsys", "no_such_library"), ())
    has = ["colorsys" in said_by_process_of(source, task(libraries=each)).modules for each in asked]
    assert has == [False, True, True]


@pytest.mark.parametrize(("ending", "code", "words"), [(0, 0, ""), (3, 3, ""), ("enough", 1, "SystemExit: enough")])
def test_how_a_fork_ends_comes_to_its_parent(source, log, ending, code, words):
    isolated = source.begin(task())
    process, connection = isolated.process, isolated.connection
    connection.recv()
    connection.send(ending)
    process.join()
    assert process.exitcode == code
    assert (log.read_text().splitlines() or [""])[-1] == words
    with pytest.raises(EOFError):
        connection.recv()


def test_where_the_forked_process_is_killed_its_fork_ends_too_and_the_next_task_has_another(source):
    isolated = source.begin(task())
    process, connection = isolated.process, isolated.connection
    said = connection.recv()
    os.kill(said.parent, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    wait_until(lambda: has_ended(said.pid))
    assert said_by_process_of(source, task()).parent != said.parent


def test_a_process_may_be_ended_before_it_has_been_forked(source):
    process = source.begin(task()).process
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert said_by_process_of(source, task()).pid


def test_elsewhere_processes_are_spawned(source, monkeypatch):
    monkeypatch.setattr(processes, "FORKS", False)
    said = said_by_process_of(source, task(**{VARIABLE: "1"}))
    assert (said.parent, said.variable) == (os.getpid(), "1")


def test_kills_for_memory_are_those_that_linux_counts(tmp_path):
    vmstat = tmp_path / "vmstat"  # a part of what Linux 6.8 shows
    vmstat.write_text("nr_free_pages 1043\noom_kill 3\nnuma_hit 7\n")
    assert oom_kills(vmstat) == 3
    vmstat.write_text("nr_free_pages 1043\n")
    assert oom_kills(vmstat) == 0
    assert oom_kills(tmp_path / "none") == 0
