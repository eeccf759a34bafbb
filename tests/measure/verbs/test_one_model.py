import json

import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import RoofMeasurement, Run
from measure.machine import devices
from measure.machine.environment import current
from measure.run.task import RunCache
from measure.verbs.flags import parser_of
from measure.verbs.model import make_request, tasks_to_do

pytest.importorskip("torch", reason="measuring needs torch")
pytestmark = pytest.mark.slow
OWN = "tests.helpers.small_network:network"
"""A convolution of 3 by 8 channels and 3 by 3 on 16 by 16 pixels, a ReLU, and a layer of 8 * 14 * 14 by 10."""

FLOP = 2 * (8 * 14 * 14 * 3 * 9 + 8 * 14 * 14 * 10)
PARAMETERS = 8 * 27 + 8 + 10 * 8 * 14 * 14 + 10


def call(data, *arguments):
    return command.main(["model", OWN, "--device", "cpu", "--data", str(data), *arguments])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A cache in which the small network was asked for."""
    data = tmp_path_factory.mktemp("data")
    assert call(data, "--json") == 0
    return data


def test_json_has_counts_roof_rate_layers_and_advice(data, capsys):
    assert call(data, "--json") == 0  # all of it from the cache
    said = json.loads(capsys.readouterr().out)
    (demand,), (cell,) = said["demands"], said["cells"]
    assert (demand["batch"], demand["flop"]) == (1, FLOP)
    assert sum(layer["parameter_count"] for layer in said["layers"]) == PARAMETERS
    assert said["rates"]["flop_per_s"]["fp32"] > demand["attainable_flop_per_s"] > 0  # a product of vectors, mostly
    assert demand["bound"] == "memory"
    assert cell["flop_per_s"] == pytest.approx(FLOP / cell["timed"]["latency_s"])
    assert cell["roof_share"] == pytest.approx(cell["flop_per_s"] / demand["attainable_flop_per_s"])
    assert sum(layer["time_share"] for layer in said["layers"]) == pytest.approx(1, abs=0.05)
    assert said["advice"]["gain"] is None  # nothing else was measured


def test_the_roof_and_one_round_are_measured_and_kept(data):
    (name,) = machine_names(data)
    folder = MachineFolder(data, name)
    assert [run.round for run in folder.rows(Run)] == [0]
    kernels = {row.roof_kernel for row in folder.rows(RoofMeasurement)}
    assert kernels == {"matmul", "stream_triad"}


def test_the_terminal_tells_the_same(data, capsys):
    assert call(data, "--layers") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{OWN} on ")
    assert lines[3].split()[:4] == ["1", "fp32", "116", "kFLOP"]  # 116,032
    assert any(line.startswith("The roof: ") for line in lines)
    assert any(line.startswith("Costliest layers at batch size 1: ") for line in lines)
    assert any(line.startswith("Try first: ") for line in lines)
    assert lines[-5].split()[:3] == ["layer", "type", "calls"]
    assert [line.split()[1] for line in lines[-4:]] == ["Conv2d", "ReLU", "Flatten", "Linear"]


def test_markdown(data, capsys):
    assert call(data, "--markdown") == 0
    assert "| batch | precision | FLOP | bytes | FLOP/B | memory |" in capsys.readouterr().out


def planned(data, *arguments):
    said = parser_of("model").parse_args([OWN, "--data", str(data), "--device", "cpu", *arguments])
    request, _ = make_request(said)
    device = devices.find("cpu")
    environment = current(device, 1)
    folder = MachineFolder(data, "box")
    return [task.label for task in tasks_to_do(RunCache(Workloads(data), folder, environment), request)]


def test_only_what_the_answer_lacks_is_planned(tmp_path):
    labels = planned(tmp_path, "--batch-sizes", "1", "8", "--precisions", "fp32", "bf16")
    products = [label for label in labels if "matmul" in label]
    assert sorted(products) == ["roof matmul bf16 1024 sustained", "roof matmul fp32 1024 sustained"]
    assert sum("stream" in label for label in labels) == 1
    assert sum("workload" in label for label in labels) == 2
    assert [label for label in labels if "operators" in label] == [f"operators of {OWN} batch 1 fp32"]
    rounds = [label for label in labels if label.startswith(OWN)]
    assert sorted(rounds) == sorted(
        f"{OWN} batch {batch} {precision}, round 1" for batch in (1, 8) for precision in ("fp32", "bf16")
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["resnet19"], "NAME: no model is called 'resnet19'; the nearest are resnet18"),
        (["vgg*"], "NAME: 'vgg*' selects 3 models; name one"),
        (["resnet18", "--batch-sizes", "0"], "--batch-sizes: '0' is not a valid number"),
        (["resnet18", "--precisions", "fp7"], "--precisions: 'fp7' is not one of"),
        (["resnet18", "--json", "--markdown"], "--json and --markdown: print in different ways"),
        (["resnet18", "--device", "cpu", "--precisions", "tf32"], "--precisions: tf32 is a format of NVIDIA's GPUs"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(tmp_path, capsys, arguments, words):
    assert command.main(["model", *arguments, "--data", str(tmp_path)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert output.err.count("\n") == 1
    assert not any(tmp_path.iterdir())
