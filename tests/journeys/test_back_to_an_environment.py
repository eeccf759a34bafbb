"""A user tries another version of torch, goes back to the one before, and measures again."""

from helpers.cells import DATED, NEWER, machine, put

from measure.__main__ import main
from report.paper import tried_in


def test_the_machine_at_hand_is_the_one_measured_last(tmp_path, capsys):
    folder = machine(tmp_path, "box", DATED, NEWER)
    put(folder, 0, [0.1], at="2026-01-01T00:00:00+00:00")
    put(folder, 0, [0.2], environment=NEWER, at="2026-02-01T00:00:00+00:00")
    assert folder.newest_environment() == NEWER
    put(folder, 1, [0.3], at="2026-03-01T00:00:00+00:00")
    assert main(["show", "--data", str(tmp_path)]) == 0
    assert "200 ms" in capsys.readouterr().out  # the median of 0.1 and 0.3 s
    tried = tried_in(folder)
    assert (tried.environment, tried.measured_at, len(tried.rows)) == (DATED, "2026-03-01T00:00:00+00:00", 2)
