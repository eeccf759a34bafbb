import os
import platform
import signal
import subprocess
import sys

import pytest

from measure.errors import UserError
from measure.lock import locked

HOLDER = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from measure.lock import locked
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
    root = os.path.dirname(os.path.dirname(__file__))
    command = [sys.executable, "-c", HOLDER, str(tmp_path), root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"process {holder.pid} "), locked(tmp_path):
            pass
        holder.send_signal(signal.SIGKILL)
    with locked(tmp_path):
        pass
