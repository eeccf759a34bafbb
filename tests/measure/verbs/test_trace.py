import json

import pytest
from helpers import traces
from helpers.places import ROOT
from helpers.traces import addmm, kernel, launch, trace, write

from measure import __main__ as command

DATA = ROOT / "data"
H100, MI300X = "nvidia-h100-sxm-timesformer-base", "amd-instinct-mi300x-timesformer-base"


def call(*words, data=DATA):
    return command.main(["trace", *words, "--data", str(data)])


def test_a_trace_as_json(capsys):
    assert call(H100, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["trace"], answer["chip"]) == (H100, "NVIDIA H100 SXM")
    linear = next(part for part in answer["kinds"] if part["name"] == "linear")
    # Two of 25089 x 768 x 3072, qkv of 25088 and 25096 rows, three of 768 x 768, in 12 layers; and the head
    flop = 12 * 2 * 768 * (2 * 25089 * 3072 + (25088 + 25096) * 2304 + (2 * 25088 + 25096) * 768) + 2 * 768 * 400
    assert linear["flop"] == pytest.approx(flop)
    assert linear["bound"] == "arithmetic"
    assert all(0 < part["roof_share"] <= 1 for part in answer["operators"] if part["roof_share"])
    documented = (ROOT / "docs" / "json.md").read_text("utf-8").partition("measure trace NAME")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in documented for key in {*answer, *linear})


def compare(*words, data=DATA):
    return command.main(["compare", *words, "--data", str(data)])


def test_two_traces_as_json(capsys):
    assert compare(H100, MI300X, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    times = [sum(part["time_s"] for part in answer[side]["kinds"]) for side in "ab"]
    for terms in (answer["kinds"], answer["operators"]):
        assert 1 + sum(term["share"] for term in terms) == pytest.approx(times[1] / times[0])
    assert answer["operators"][0]["name"] == "_softmax"


@pytest.mark.parametrize(
    ("print_it", "words"), [(call, [H100, "--operators", "2"]), (call, [H100, "--markdown"]), (compare, [H100, MI300X])]
)
def test_text(capsys, print_it, words):
    assert print_it(*words) == 0
    assert "TimeSformer-Base on NVIDIA H100 SXM" in capsys.readouterr().out


@pytest.mark.parametrize("further", [[H100], ["--csv", "-"], ["--fail-on-regression", "5%"]])
def test_two_traces_are_compared_and_no_more(capsys, further):
    assert compare(H100, MI300X, *further) == 2
    assert "two traces are compared" in capsys.readouterr().err


def test_a_trace_without_a_chip_steps_or_kernels_of_a_step(tmp_path, capsys):
    documents = [
        trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5), deviceProperties=[]),
        trace(traces.step(1, 100, 50), addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5)),
        trace(addmm(10)),
    ]
    for number, document in enumerate(documents):
        path = write(tmp_path / f"{number}.json", document)
        assert command.main(["import-trace", str(path), "--name", str(number), "--data", str(tmp_path)]) == 0
    for name, code in (("host-0", 0), ("nvidia-h100-sxm-1", 2), ("host-2", 0)):
        assert call(name, data=tmp_path) == code
        assert compare("host-0", name, "--json", data=tmp_path) == code
    assert capsys.readouterr().err.count("nothing ran within its steps") == 2


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nvidia-h100-sxm-timesformer"], "did you mean nvidia-h100-sxm-timesformer-base?"),
        ([H100, MI300X], "nothing is expected at"),
        ([H100, "--operators", "0"], "--operators: '0'"),
        ([H100, "--json", "--markdown"], "--json and --markdown"),
    ],
)
def test_bad_input(capsys, words, problem):
    assert call(*words) == 2
    assert problem in capsys.readouterr().err


def test_no_traces(tmp_path, capsys):
    assert call("any", data=tmp_path) == 2
    assert "no traces in" in capsys.readouterr().err
