import errno
import fcntl
import os
import platform
import signal
import subprocess
import sys
import threading

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


def test_a_second_writer_is_told_who_holds_the_folder(tmp_path):
    holder = tmp_path / f"{NAME}.holder"
    holder.write_text("process 1 of a killed run,")
    for lock in (locked, in_turn):
        with lock(tmp_path), pytest.raises(UserError) as caught, locked(tmp_path):
            pass
        said = str(caught.value)
        assert said.startswith(f"process {os.getpid()} on {platform.node()}, since 20")
        assert f"is measuring into {tmp_path}; wait for it or name another --machine" in said
        assert not holder.exists()  # a released lock names nobody


def test_a_dead_holder_holds_nothing(tmp_path):
    program = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"process {holder.pid} "), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path):
        pass


def test_a_holder_that_says_nothing_is_another_process_and_one_that_lets_go_in_time_is_none(tmp_path):
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
    """What both ways to lock a folder say."""
    said = set()
    for lock in (locked(folder), in_turn(folder)):
        with pytest.raises(UserError) as caught, lock:
            pass
        said.add(str(caught.value))
    (sentence,) = said
    return sentence


def test_what_cannot_be_locked_is_said_and_is_no_holder(tmp_path, monkeypatch):
    (tmp_path / "folder" / NAME).mkdir(parents=True)
    assert refused(tmp_path / "folder") == (
        f"{tmp_path}/folder/.lock: cannot be locked (Is a directory); correct that or name another --data"
    )
    (tmp_path / "file").touch()
    assert "file/below/.lock: cannot be locked (Not a directory)" in refused(tmp_path / "file" / "below")

    def refuse(*_arguments):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open", refuse)
    assert "sound/.lock: cannot be locked (Read-only file system)" in refused(tmp_path / "sound")


@pytest.mark.parametrize("target", ["precious", "nowhere"])
def test_a_link_in_the_place_of_a_lock_is_not_followed(tmp_path, target):
    (tmp_path / "precious").write_text("thesis")
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / NAME).symlink_to(tmp_path / target)
    assert "cannot be locked (Too many levels of symbolic links)" in refused(tmp_path / "box")
    assert (tmp_path / "precious").read_text() == "thesis"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_no_holder(tmp_path, monkeypatch, number):
    def refuse(_file, _operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert f"cannot be locked ({os.strerror(number)})" in refused(tmp_path)


WITHOUT_FCNTL = """
import os, sys
from pathlib import Path
import filelock  # brings its own backend for each system
sys.modules["fcntl"] = None
del os.O_NOFOLLOW
from measure.cache.hand_kept import Chip
from measure.cache.table import in_turn, locked, read, write
folder = Path(sys.argv[1])
for lock in (locked, in_turn):
    with lock(folder):
        write(folder / "chips.csv", Chip, [])
print(read(folder / "chips.csv", Chip))
"""

FULL = """
import resource, sys
from pathlib import Path
import filelock
from measure.cache.table import locked
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # no file takes a byte
with locked(Path(sys.argv[1])):
    print("held")
"""


@pytest.mark.parametrize(("script", "said"), [(WITHOUT_FCNTL, "[]\n"), (FULL, "held\n")], ids=["windows", "full disk"])
def test_locks_need_neither_fcntl_nor_room_for_the_holders_name(tmp_path, script, said):
    program = [sys.executable, "-c", script, str(tmp_path)]
    answer = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (answer.stdout, answer.stderr) == (said, "")
