import json
from pathlib import Path
from threading import Thread

import pytest
from helpers import traces
from helpers.traces import addmm, kernel, launch, trace, write

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES
from measure.domain.trace_records import TraceDevice, TraceOperator, TraceStep

BF16, T = "c10::BFloat16", Path("t.json")
FOLDER = Path("cache/traces/nvidia-h100-sxm-tiny")


@pytest.fixture(autouse=True)
def current(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def call(*words):
    return command.main(["import-trace", *map(str, words), "--data", "cache"])


def read(record, folder=FOLDER):
    return table.read(folder / TABLES[record].name, record)


STEP = traces.linear_step()
"""A product of 8 x 64 x 32 for 10 µs, and an activation for 5."""
ONE = trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5), deviceProperties=[])
MANY = trace(
    *(traces.operator(f"mine::op{n}", 100 * n, 50, [[8]], BF16) for n in range(20)),
    *(launch(100 * n + 10, n + 1) for n in range(20)),
    *(kernel(f"k{n}", 100 * n + 20, 20 - n, n + 1) for n in range(20)),
)
"""Operators without a formula, of 20 µs, 19, and so on."""


@pytest.mark.parametrize(
    ("name", "document", "flags"),
    [
        ("import-trace", STEP, ["--name", "tiny"]),
        ("import-trace-json", STEP, ["--name", "tiny", "--json"]),
        ("import-trace-unknown", ONE, ["--plan"]),
        ("import-trace-host", trace(addmm(10)), ["--plan"]),  # no kernels
        ("import-trace-copies", trace(addmm(10), launch(15, 5), kernel("c", 20, 5, 5, "gpu_memcpy")), ["--plan"]),
        ("import-trace-many", MANY, ["--plan"]),
    ],
)
def test_what_is_found_is_printed(golden, capsys, name, document, flags):
    assert call(write(T, document), *flags) == 0
    golden(name, capsys.readouterr().out)
    assert FOLDER.exists() == ("--plan" not in flags)


def test_rows_of_a_trace():
    write(T, STEP | {"cuda_runtime_version": 12040, "cuda_driver_version": 13000})
    assert call(T, "--name", "tiny", "--source", "here", "--licence", "MIT") == 0
    (device,) = read(TraceDevice)
    assert (device.chip, device.device_name) == ("NVIDIA H100 SXM", "NVIDIA H100 80GB HBM3")
    assert (device.capability, device.memory_byte) == ("9.0", 85018279936)
    assert (device.runtime, device.driver, device.source, device.licence) == ("CUDA 12.4", "CUDA 13.0", "here", "MIT")
    assert [row.operator for row in read(TraceOperator)] == ["addmm", "relu"]
    assert [row.step for row in read(TraceStep)] == [3]


def test_ranks_share_a_folder_and_a_trace_replaces_itself():
    other = write(Path("other.json"), trace(addmm(10), launch(15, 5), kernel("gemm", 20, 7, 5)))
    ranks = [STEP | {"distributedInfo": {"rank": rank, "world_size": 2}} for rank in range(2)]
    paths = [write(Path(f"{rank}.json"), document) for rank, document in enumerate(ranks)]
    for given in (paths, [other], paths[:1], [other]):
        assert call(*given, "--name", "tiny") == 0
    operators = sorted((row.rank, row.operator) for row in read(TraceOperator))
    assert operators == [(rank, name) for rank in (0, 1) for name in ("addmm", "relu")]
    assert len(read(TraceOperator, FOLDER.with_name(f"{FOLDER.name}-2"))) == 1


def test_two_imports_at_once_take_turns():
    """Each chooses its folder while it holds the lock, so that they cannot choose the same one; neither fails."""
    paths = write(Path("a.json"), STEP), write(Path("b.json"), trace(addmm(10), launch(15, 5), kernel("g", 20, 7, 5)))
    threads = [Thread(target=call, args=(path, "--name", "tiny")) for path in paths]
    with table.in_turn(FOLDER.parent):
        for each in threads:
            each.start()
        threads[0].join(1.0)
        assert all(each.is_alive() for each in threads)
        assert not list(FOLDER.parent.glob("*/trace.csv"))
    for each in threads:
        each.join()
    assert len(list(FOLDER.parent.glob("*/trace.csv"))) == 2


def test_the_chip_is_found_by_the_drivers_name_or_named(capsys):
    for properties, flags, chip in (
        ([traces.DEVICE | {"name": "AMD Instinct MI300X VF"}], [], "AMD Instinct MI300X"),  # one, numbered otherwise
        (str([traces.DEVICE]), [], "NVIDIA H100 SXM"),  # Python's text, as tools write it
        ([traces.DEVICE | {"name": "Example 9"}], [], None),
        ([], ["--chip", "nvidia a100 80gb pcie"], "NVIDIA A100 PCIe 80GB"),
        ("[broken", [], None),
    ):
        document = trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5, device=2), deviceProperties=properties)
        assert call(write(T, document), "--json", "--plan", *flags) == 0
        assert json.loads(capsys.readouterr().out)["chip"] == chip


def test_a_chip_that_the_driver_contradicts_is_refused(capsys):
    document = trace(addmm(10), launch(15, 5), kernel("gemm", 20, 5, 5), deviceProperties=[traces.DEVICE])
    assert call(write(T, document), "--plan", "--chip", "NVIDIA T4") == 2
    assert "was recorded on NVIDIA H100 SXM" in capsys.readouterr().err


SECRET = "hf_SecretSecretSecret"


def spoilt(value):
    """Writes the secret into each text that is not needed to find the operators."""
    if isinstance(value, dict):
        return {key: spoilt(each) for key, each in value.items()} | {"env": SECRET, f"path {SECRET}": f"/home/{SECRET}"}
    return [spoilt(each) for each in value] if isinstance(value, list) else value


def test_nothing_else_of_a_trace_is_stored():
    """Environment variables, command lines, tokens, stacks, threads' names and the file's own name."""
    events = [
        traces.event("python_function", f"/home/{SECRET}/net.py(12): forward", 0, 100, {"Python id": 1}),
        traces.event("user_annotation", f"with {SECRET}", 0, 100, {"Call stack": SECRET}),
        traces.operator(f"epoch of {SECRET}", 300, 50, [[8]], BF16),  # in 2021 a user's own range
        launch(310, 30), kernel("own", 320, 5, 30),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": SECRET}},
    ]  # fmt: skip
    document = spoilt(STEP | {"traceEvents": STEP["traceEvents"] + events, "metadata": {}, "stackFrames": {"1": {}}})
    document |= {"traceName": SECRET, "cuda_runtime_version": SECRET}
    document["distributedInfo"] = {"rank": 0, "world_size": 1, "host": SECRET, "backend": SECRET}
    for each in document["traceEvents"]:
        each["pid"] = SECRET if each.get("cat") == "kernel" else each["pid"]
    assert call(write(Path(f"{SECRET}.json"), document)) == 0
    files = [each for each in Path("cache").rglob("*") if each.is_file()]
    assert len(files) >= 3
    assert not any(SECRET in file.read_text("utf-8") or SECRET in str(file) for file in files)
