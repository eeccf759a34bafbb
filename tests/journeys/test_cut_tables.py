"""A table that was cut off is named with its line, before anything is computed."""

import shutil

import pytest
from helpers.world import CPU, WORLD

from report.__main__ import main


@pytest.mark.parametrize("verb", [["why", "machine"], ["--formats", "html"], ["figures"], ["check"]])
def test_a_cut_table_is_named_with_its_line(tmp_path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(WORLD, tmp_path / "data")
    runs = tmp_path / "data" / "machines" / CPU / "runs.csv"
    lines = runs.read_bytes().splitlines(keepends=True)
    runs.write_bytes(b"".join(lines[:5]) + lines[5][:20])  # within line 6
    assert main(verb) == 2
    output = capsys.readouterr().err
    assert "runs.csv, line 6: incomplete row; restore the file or delete the line" in output
    assert "Traceback" not in output
