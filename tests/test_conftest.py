import os
import shutil
import subprocess
import sys

from helpers.places import GOLDEN, ROOT, TESTS

SKIPPED = """
import pytest

@pytest.mark.gpu
def test_that_skips():
    pytest.skip("no NVIDIA GPU on this machine")

def test_of_something_else():
    pytest.skip("no Chromium on this machine")
"""


def test_where_a_gpu_is_required_a_skipped_test_for_one_fails(tmp_path):
    """Elsewhere it is skipped, as every run of these tests without a GPU shows."""
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_skipped.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-p", "no:cacheprovider", tmp_path]
    environment = os.environ | {"ROOFWRIGHT_REQUIRE_GPU": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "ROOFWRIGHT_REQUIRE_GPU is set: no NVIDIA GPU on this machine" in ran.stdout
    assert "1 failed, 1 skipped" in ran.stdout


def test_every_golden_file_belongs_to_a_test():
    text = "".join(path.read_text("utf-8") for path in TESTS.rglob("test_*.py"))
    assert [path.name for path in GOLDEN.iterdir() if f'"{path.stem}"' not in text] == []
