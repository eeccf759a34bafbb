import os
import subprocess
import sys

from measure.cache.scratch import scratch


def test_the_folders_of_a_killed_process_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("measure.cache.scratch.gettempdir", lambda: str(tmp_path))
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    left, own = (tmp_path / f"roofwright-{pid}-x" for pid in (killed.pid, os.getpid()))
    for folder in (left, own):
        folder.mkdir()
    with scratch() as folder:
        assert folder.is_dir()
        assert not left.exists()
    assert (own.exists(), folder.exists()) == (True, False)
