import json

import pytest
from helpers import traces
from helpers.places import ROOT
from helpers.traces import addmm, kernel, launch, trace, write

from measure import __main__ as command
from measure.cache import table
from measure.cache.schema import TABLES
from measure.cache.trace_records import TraceDevice, TraceOperator, TraceStep

BF16 = "c10::BFloat16"


def call(data, *arguments):
    return command.main(["import-trace", *map(str, arguments), "--data", str(data)])


def read(folder, record):
    return table.read(folder / TABLES[record].name, record)


def test_the_keys_of_json(tmp_path, capsys):
    path = write(tmp_path / "t.json", traces.linear_step())
    assert call(tmp_path / "data", path, "--json", "--name", "tiny") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["chip"], answer["network"], answer["steps"], answer["kernels"]) == ("NVIDIA H100 SXM", "tiny", 1, 2)
    assert answer["kernel_time_s"] == pytest.approx(15e-6)
    assert (answer["operator_share"], answer["counted_share"]) == (1.0, 1.0)
    assert answer["flop"] == 2 * 8 * 64 * 32
    assert answer["other_flop"] == 2 * 8 * 32  # a bias and an activation
    assert answer["kinds"] == {"linear": 10e-6, "activation": 5e-6}
    assert answer["folder"].endswith("nvidia-h100-sxm-tiny")
    documented = (ROOT / "docs" / "json.md").read_text("utf-8").partition("import-trace")[2].partition("\n## ")[0]
    assert all(f"`{key}`" in documented for key in answer)


def test_several_files_are_an_object_each(tmp_path, capsys):
    paths = [write(tmp_path / name, traces.linear_step()) for name in ("a.json", "b.json.gz")]
    assert call(tmp_path / "data", *paths, "--json", "--plan") == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["file"] for answer in answers] == list(map(str, paths))
    assert [answer["folder"] for answer in answers] == [None, None]
    assert not (tmp_path / "data").exists()


def test_rows_of_a_trace(tmp_path):
    document = traces.linear_step() | {"cuda_runtime_version": 12040, "cuda_driver_version": 13000}
    path = write(tmp_path / "t.json", document)
    assert call(tmp_path, path, "--name", "tiny", "--source", "here", "--licence", "MIT") == 0
    folder = tmp_path / "traces" / "nvidia-h100-sxm-tiny"
    (device,) = read(folder, TraceDevice)
    assert (device.chip, device.device_name) == ("NVIDIA H100 SXM", "NVIDIA H100 80GB HBM3")
    assert (device.capability, device.memory_byte) == ("9.0", 85018279936)
    assert (device.runtime, device.driver, device.source, device.licence) == ("CUDA 12.4", "CUDA 13.0", "here", "MIT")
    assert [row.operator for row in read(folder, TraceOperator)] == ["addmm", "relu"]
    assert [row.step for row in read(folder, TraceStep)] == [3]


def test_a_trace_replaces_itself_and_leaves_others_alone(tmp_path):
    first = write(tmp_path / "a.json", traces.linear_step())
    other = write(tmp_path / "b.json", trace(addmm(10), launch(15, 5), kernel("gemm", 20, 7, 5)))
    for path in (first, other, first, other):
        assert call(tmp_path, path, "--name", "tiny") == 0
    folders = sorted((tmp_path / "traces").iterdir())
    assert [folder.name for folder in folders] == ["nvidia-h100-sxm-tiny", "nvidia-h100-sxm-tiny-2"]
    assert [len(read(folder, TraceOperator)) for folder in folders] == [2, 1]


def test_ranks_that_ran_together_share_a_folder(tmp_path):
    paths = []
    for rank in range(2):
        document = traces.linear_step() | {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}
        document["traceEvents"].append(kernel("own", 150, 1 + rank, 7))
        paths.append(write(tmp_path / f"{rank}.json", document))
    assert call(tmp_path, *paths, "--name", "tiny") == 0
    assert call(tmp_path, paths[0], "--name", "tiny") == 0
    (folder,) = (tmp_path / "traces").iterdir()
    assert sorted(row.rank for row in read(folder, TraceDevice)) == [0, 1]
    assert sorted((row.rank, row.operator or "") for row in read(folder, TraceOperator)) == [
        (0, ""), (0, "addmm"), (0, "relu"), (1, ""), (1, "addmm"), (1, "relu"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("properties", "device", "chip"),
    [
        ([traces.DEVICE | {"name": "AMD Instinct MI300X VF"}], 2, "AMD Instinct MI300X"),  # one, numbered otherwise
        (str([traces.DEVICE]), 0, "NVIDIA H100 SXM"),  # Python's text, as tools write it
        ([traces.DEVICE | {"name": "Example 9"}], 0, None),
        ([], 0, None),
        ("[broken", 0, None),
        ([{"name": 5}], 0, None),
    ],
)
def test_the_chip_is_found_by_the_drivers_name(tmp_path, capsys, properties, device, chip):
    document = trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5, device=device), deviceProperties=properties)
    assert call(tmp_path, write(tmp_path / "t.json", document), "--json", "--plan") == 0
    assert json.loads(capsys.readouterr().out)["chip"] == chip


def test_a_chip_can_be_named(tmp_path, capsys):
    path = write(tmp_path / "t.json", trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5), deviceProperties=[]))
    assert call(tmp_path, path, "--json", "--plan", "--chip", "nvidia a100 80gb pcie") == 0
    assert json.loads(capsys.readouterr().out)["chip"] == "NVIDIA A100 PCIe 80GB"


SECRET = "hf_SecretSecretSecret"


def spoilt(value):
    """Writes the secret into each text that is not needed to find the operators."""
    if isinstance(value, dict):
        return {key: spoilt(each) for key, each in value.items()} | {"env": SECRET, f"path {SECRET}": f"/home/{SECRET}"}
    return [spoilt(each) for each in value] if isinstance(value, list) else value


def test_nothing_else_of_a_trace_is_stored(tmp_path, capsys):
    """Environment variables, command lines, tokens, stacks, threads' names and the file's own name."""
    document = spoilt(traces.linear_step()) | {
        "traceName": f"/home/{SECRET}/trace.json",
        "distributedInfo": {"rank": 0, "world_size": 1, "host": SECRET, "backend": SECRET},
        "metadata": {"repo_id": f"https://user:{SECRET}@example.org", "torch_version": SECRET, "argv": [SECRET]},
        "cuda_runtime_version": SECRET,
        "stackFrames": {"1": {"name": SECRET}},
    }
    document["traceEvents"] += [
        traces.event("python_function", f"/home/{SECRET}/net.py(12): forward", 0, 100, {"Python id": 1, "env": SECRET}),
        traces.event("user_annotation", f"with {SECRET}", 0, 100, {"Call stack": SECRET}),
        traces.operator(f"epoch of {SECRET}", 300, 50, [[8]], BF16),  # in 2021 a user's own range
        launch(310, 30),
        kernel("own", 320, 5, 30),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": SECRET}},
    ]
    for each in document["traceEvents"]:
        each.setdefault("args", {}).update({"Call stack": f"/home/{SECRET}/net.py", "kernel_file": SECRET})
        each["pid"] = SECRET if each.get("cat") == "kernel" else each["pid"]
    path = write(tmp_path / f"{SECRET}.json", document)
    assert call(tmp_path / "data", path) == 0
    assert "3 kernels" in capsys.readouterr().out
    files = [each for each in (tmp_path / "data").rglob("*") if each.is_file()]
    assert len(files) >= 3
    for file in files:
        assert SECRET not in file.read_text("utf-8")
        assert SECRET not in str(file.relative_to(tmp_path))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{}", "holds no operators and no kernels"),
        ('{"traceEvents": []}', "holds no operators and no kernels"),
        ('{"traceEvents": [{"ph": "X"', "ends in the middle of the JSON"),
        ("name,value\n", "is not JSON"),
        (trace(traces.operator("aten::mm", 0, 5), kernel("k", 5, 5, 1)), "run torch.profiler with record_shapes=True"),
        (
            trace(kernel("k", 5, 5, 1), kernel("k", 5, 5, 2, device=1),
                  deviceProperties=[traces.DEVICE, traces.DEVICE | {"id": 1, "name": "Example 9"}]),
            "holds work of Example 9 and NVIDIA H100 80GB HBM3",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_named(tmp_path, capsys, document, words):
    path = write(tmp_path / "t.json", document)
    assert call(tmp_path, path) == 2
    error = capsys.readouterr().err
    assert f"{path}: " in error
    assert words in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.json", "t.json"], "the same file is named twice"),
        (["none.json"], "none.json: cannot be read"),
        (["."], "cannot be read"),
        (["t.json", "--chip", "NVIDIA H1000"], "--chip: 'NVIDIA H1000' is not one of"),
        (["t.json", "--name", "a\nb"], "--name: 'a\\nb' is not a name"),
        (["t.json", "--name", "x" * 101], "--name: "),
        ([], "the following arguments are required: FILE"),
    ],
)
def test_flags_are_checked(tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "t.json", traces.linear_step())
    assert call(tmp_path / "data", *arguments) == 2
    assert words in capsys.readouterr().err
