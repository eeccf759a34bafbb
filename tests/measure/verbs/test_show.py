import shutil

import pytest
from helpers.comparing import CELL, ENVIRONMENT, machine, put
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache.records import Run, Sample


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A cache of two machines and a trace in the folder ``cache`` of the current one.

    One ran alexnet for 100 ms in three rounds, and a language model, 4 tokens at a time in half a second: 8 tokens/s.
    The other found no memory for alexnet.
    """
    box = machine(tmp_path / "cache", "box")
    for number in range(3):
        put(box, number, [0.1] * 6)
    cell = CELL._replace(model="gpt2_decode_128", batch=4)
    columns = {"environment_id": ENVIRONMENT.environment_id} | cell._asdict() | {"round": 0}
    decoded = Run(**columns, status="ok", reason=None, recorded_at="2026-01-01T00:00:00+00:00", flags="wide")
    box.put_run(decoded, [Sample(**columns, sample=number, block=1, latency_s=0.5) for number in range(6)])
    put(machine(tmp_path / "cache", "rack"), 0, [], status="oom", reason="too large | by far")
    shutil.copytree(WORLD / "traces" / "images-1", tmp_path / "cache" / "traces" / "images-1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("show", ""),
        ("show-markdown", "--markdown"),
        ("show-csv", "--csv"),
        ("show-json", "--json"),
        ("show-chosen", "alex* --machine box"),  # without the tokens of the other model
    ],
)
def test_show(golden, capsys, name, words):
    assert command.main(["show", *words.split(), "--data", "cache"]) == 0
    golden(name, capsys.readouterr().out)


def test_two_rounds_have_a_range(tmp_path, capsys):
    box = machine(tmp_path, "box")
    for number, latency_s in enumerate((0.1, 0.3)):
        put(box, number, [latency_s] * 6)
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert "200 ms  100 ms to 300 ms (range)" in capsys.readouterr().out
