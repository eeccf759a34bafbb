import csv
import io
import json

import pytest
from helpers.comparing import CELL, ENVIRONMENT, machine, put
from helpers.places import ROOT

from measure import __main__ as command
from measure.cache.records import Run, Sample


@pytest.fixture
def data(tmp_path):
    """Two machines: one ran alexnet in three rounds, the other found no memory for it."""
    for number, latency_s in enumerate((0.1, 0.1, 0.1)):
        put(machine(tmp_path, "box"), number, [latency_s] * 6)
    put(machine(tmp_path, "rack"), 0, [], status="oom", reason="too large")
    return tmp_path


def call(data, *arguments):
    return command.main(["show", *arguments, "--data", str(data)])


def test_each_machine_has_a_table_of_its_cells(data, capsys):
    assert call(data) == 0
    title, blank, head, row, _, other, _, none, _, failed = capsys.readouterr().out.splitlines()
    assert title == f"{ENVIRONMENT.label}, {data}/machines/box"
    assert " ".join(head.split()) == "model batch precision phase variant latency 95 % interval inputs/s rounds flags"
    assert " ".join(row.split()) == "alexnet 1 fp32 inference eager 100 ms 100 ms to 100 ms 10 3"
    assert (blank, none) == ("", "No cell of it has a result.")
    assert other.endswith("machines/rack")
    assert failed == "alexnet batch 1 fp32 inference eager: oom, too large"


def test_a_language_model_adds_a_column_of_tokens(data, capsys):
    folder = machine(data, "box")
    cell = CELL._replace(model="gpt2_decode_128", batch=4)
    columns = {"environment_id": ENVIRONMENT.environment_id} | cell._asdict() | {"round": 0}
    run = Run(**columns, status="ok", reason=None, recorded_at="2026-01-01T00:00:00+00:00")
    folder.put_run(run, [Sample(**columns, sample=number, block=1, latency_s=0.5) for number in range(6)])
    assert call(data, "--machine", "box") == 0
    _, _, head, other, row, *_ = (" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
    assert "inputs/s tokens/s rounds" in head
    assert row.startswith("gpt2_decode_128 4 fp32 inference eager 500 ms")
    assert row.endswith("8 8 1")
    assert other.endswith("10 3")


def test_models_and_machines_are_chosen(data, capsys):
    assert call(data, "alex*", "--machine", "box") == 0
    output = capsys.readouterr().out
    assert "alexnet" in output
    assert "rack" not in output


def test_markdown(data, capsys):
    assert call(data, "--markdown", "--machine", "box") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == "| :--- | ---: | :--- | :--- | :--- | ---: | ---: | ---: | ---: | :--- |"
    assert lines[4] == "| alexnet | 1 | fp32 | inference | eager | 100 ms | 100 ms to 100 ms | 10 | 3 |  |"


def test_json_is_one_object(data, capsys):
    assert call(data, "--json") == 0
    box, rack = json.loads(capsys.readouterr().out)["machines"]
    assert box["environment"]["torch"] == ENVIRONMENT.torch
    (cell,) = box["cells"]
    assert (cell["latency_s"], cell["rounds"], cell["flags"]) == (0.1, 3, [])
    assert rack["cells"][0]["latency_s"] is None


def test_csv_is_one_table(data, capsys):
    assert call(data, "--csv") == 0
    box, rack = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (box["machine"], box["latency_s"], box["flags"]) == ("box", "0.1", "")
    assert (rack["machine"], rack["latency_s"], rack["reason"]) == ("rack", "", "too large")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet50"], "MODEL: 'resnet50' is not one of alexnet"),
        (["--machine", "bix"], "--machine: 'bix' is not one of box, rack"),
        (["--json", "--csv"], "--json and --csv: print in different ways; give one of them"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(data, capsys, arguments, words):
    assert call(data, *arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert output.err.count("\n") == 1


def test_an_empty_cache_says_how_to_fill_it(tmp_path, capsys):
    assert call(tmp_path) == 2
    assert f"no measurements in {tmp_path}; run python -m measure --data" in capsys.readouterr().err


def test_traces_follow_the_machines(capsys):
    published = ROOT / "data"
    assert command.main(["show", "--json", "--data", str(published)]) == 0
    traces = {each["trace"]: each for each in json.loads(capsys.readouterr().out)["traces"]}
    assert traces["nvidia-h100-sxm-vit-base"]["step_s"] == 0.007894064941  # its only row of steps.csv
    assert command.main(["show", "--data", str(published)]) == 0
    assert "amd-instinct-mi300x-vit-base" in capsys.readouterr().out
