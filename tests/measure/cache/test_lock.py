import fcntl
import os
import platform
import signal
import subprocess
import sys
import threading

import pytest
from helpers.places import ROOT

from measure.cache.lock import NAME, held, locked
from measure.errors import UserError

HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from measure.cache.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path):
    with locked(tmp_path), pytest.raises(UserError) as caught, locked(tmp_path):
        pass
    assert f"{tmp_path}: process {os.getpid()} on {platform.node()}, since 20" in str(caught.value)
    assert "is measuring into this folder; wait for it or name another --machine" in str(caught.value)
    with locked(tmp_path):
        pass


def test_a_dead_holder_holds_nothing(tmp_path):
    root = str(ROOT)
    command = [sys.executable, "-c", HOLDER, str(tmp_path), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"process {holder.pid} "), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path):
        pass


def test_a_holder_that_has_just_begun_is_named(tmp_path):
    """Between its lock and its line another one may ask."""
    path = tmp_path / NAME
    with path.open("a") as begun:
        fcntl.flock(begun, fcntl.LOCK_EX)
        line = threading.Timer(0.1, lambda: print("process 7", file=begun, flush=True))
        line.start()
        with pytest.raises(UserError, match=r"^process 7 has it$"), held(path, "{} has it".format):
            pass
        line.join()


def test_a_holder_that_says_nothing_is_another_process(tmp_path):
    path = tmp_path / NAME
    with path.open("a") as silent:
        fcntl.flock(silent, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"^another process has it$"), held(path, "{} has it".format):
            pass


def test_what_is_let_go_in_time_is_held(tmp_path):
    path = tmp_path / NAME
    with path.open("a") as leaving:
        fcntl.flock(leaving, fcntl.LOCK_EX)
        end = threading.Timer(0.1, lambda: fcntl.flock(leaving, fcntl.LOCK_UN))
        end.start()
        with held(path, "{} has it".format):
            pass
        end.join()


def test_who_lets_go_leaves_no_name(tmp_path):
    with locked(tmp_path):
        assert (tmp_path / NAME).read_text().startswith("process ")
    assert (tmp_path / NAME).read_text() == ""
