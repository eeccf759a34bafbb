import errno
import fcntl
import os
import platform
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest
from helpers.places import ROOT

from measure.cache.table import NAME, held, in_turn, locked
from measure.errors import UserError

HOLDER = """
import sys, time
from pathlib import Path
from measure.cache.table import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_writer_learns_who_holds_the_folder(tmp_path):
    (tmp_path / f"{NAME}.holder").write_text("process 1 of a killed run,")
    program = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError) as caught, locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    assert str(caught.value).startswith(f"process {holder.pid} on {platform.node()}, since 20")
    assert f"is measuring into {tmp_path}; wait for it or name another --machine" in str(caught.value)
    for lock in (locked, in_turn):
        with lock(tmp_path):
            pass
        assert not (tmp_path / f"{NAME}.holder").exists()  # a released lock names nobody


def test_a_silent_holder_is_another_process(tmp_path):
    path = tmp_path / NAME
    with path.open("a") as silent:
        fcntl.flock(silent, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"^another process has it$"), held(path, "has it"):
            pass
        end = threading.Timer(0.1, lambda: fcntl.flock(silent, fcntl.LOCK_UN))
        end.start()
        with held(path, "has it"):
            pass
        end.join()


def refused(folder):
    """The reason that both ways to lock a folder give."""
    reasons = set()
    for lock in (locked(folder), in_turn(folder)):
        with pytest.raises(UserError, match=f"^{folder}/.lock: cannot be locked ") as caught, lock:
            pass
        reasons.add(str(caught.value).partition("(")[2].partition(")")[0])
    (reason,) = reasons
    return reason


def test_a_folder_that_cannot_be_locked_is_refused_and_intact(tmp_path, monkeypatch):
    (tmp_path / "folder" / NAME).mkdir(parents=True)
    assert refused(tmp_path / "folder") == "Is a directory"
    (tmp_path / "precious").write_text("thesis")
    assert refused(tmp_path / "precious" / "below") == "Not a directory"
    (tmp_path / NAME).symlink_to(tmp_path / "precious")  # which is not followed
    assert refused(tmp_path) == "Too many levels of symbolic links"
    assert (tmp_path / "precious").read_text() == "thesis"
    for module, call, number in ((fcntl, "flock", errno.ENOLCK), (os, "open", errno.EROFS)):
        monkeypatch.setattr(module, call, Mock(side_effect=OSError(number, os.strerror(number))))
        assert refused(tmp_path / "new") == os.strerror(number)


WITHOUT_FCNTL = """
import os, sys
from pathlib import Path
import filelock  # brings its own backend for each system
sys.modules["fcntl"] = None
del os.O_NOFOLLOW
from measure.published.records import Chip
from measure.cache.table import in_turn, locked, read, write
folder = Path(sys.argv[1])
for lock in (locked, in_turn):
    with lock(folder):
        write(folder / "chips.csv", Chip, [])
print(read(folder / "chips.csv", Chip))
"""


def test_locks_need_neither_fcntl_nor_room_for_the_holders_name(tmp_path, monkeypatch):
    program = [sys.executable, "-c", WITHOUT_FCNTL, tmp_path]
    assert subprocess.check_output(program, cwd=ROOT, text=True, stderr=subprocess.STDOUT) == "[]\n"
    monkeypatch.setattr(Path, "write_text", Mock(side_effect=OSError(errno.ENOSPC, "full")))
    with locked(tmp_path):
        pass
