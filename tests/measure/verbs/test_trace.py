import json
from dataclasses import replace
from pathlib import Path

import pytest

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES
from measure.domain.trace_records import TraceCollective, TraceDevice, TraceOperator, TraceStep
from measure.verbs.traces import MATERIALISED


def operator(kind, name, time_s, flop=0, byte=0, **columns):
    given = {"stage": "inference", "shape": "2x2", "precision": "bf16", "reason": None, "calls": 1, "kernels": 1}
    given |= {"copy_s": 0.0, "gap_s": 0.0, "other_flop": 0, "recompute_flop": 0, "kernel": "k"} | columns
    return TraceOperator(0, 0, 1, layer_kind=kind, operator=name, time_s=time_s, flop=flop, byte=byte, **given)


def put(name, chip, steps, operators, ranks=1, collectives=()):
    about = dict.fromkeys(TABLES[TraceDevice].columns) | {"rank": 0, "device": 0, "fingerprint": name}
    about |= {"network": "A net", "chip": chip, "device_name": "Example 9", "world_size": 2 * ranks - 1}
    devices = [TraceDevice(**about | {"rank": rank}) for rank in range(ranks)]
    for rows in filter(None, (devices, steps, operators, collectives)):
        record = type(rows[0])
        table.write(Path("cache") / "traces" / name / TABLES[record].name, record, rows)


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Three traces in ``cache``: one with every remedy, one of a device that no datasheet names, one without steps.

    The first: the device is busy for 12 of 16 ms, and its kernels take 10 ms. The H100's datasheet has 989.4 TFLOP/s
    and 3.35 TB/s: a linear layer of 989.4 GFLOP takes 1.6 ms for a bound of 1; attention 2.8 ms, 28 %, pointwise
    operators that move 3.35 GB 2.8 for 1; collectives 2.6; and 0.2 are not counted.
    """
    monkeypatch.chdir(tmp_path)
    softmax, product, _ = MATERIALISED
    put("all", "NVIDIA H100 SXM", [TraceStep(0, 0, 1, 0.02, 0.016, 0.012)], [
        operator("linear", "addmm", 1.6e-3, flop=989_400_000_000, byte=10**6, gap_s=0.004),
        operator("attention", softmax, 2e-3, byte=10**6), operator("attention", product, 0.8e-3, flop=10**9),
        operator("pointwise", "mul", 2.8e-3, byte=3_350_000_000),
        operator("communication", "all_reduce", 2.6e-3, shape=None, byte=10**6),
        operator("other", None, 0.2e-3, shape=None, reason="no operator launched it", flop=None, byte=None),
    ])  # fmt: skip
    # Twelve operators of 1 ms on two devices of a host that took no steps
    steps = [TraceStep(0, device, 1, None, 0.012, 0.012) for device in (0, 1)]
    put("host", None, steps, [operator("copy", f"copy{number}", 1e-3, shape=None) for number in range(12)])
    # Of 10 ms a convolution takes 2 at 989.4 GFLOP, and an FFT 1 for twice its share of FLOP; a conversion 4, an
    # activation 3 for 13.4 GB, which memory needs 4 for
    images, filters = "8x4x9x9", "4x4x3x3"
    put("layouts", "NVIDIA H100 SXM", [TraceStep(0, 0, 1, 0.011, 0.011, 0.010)], [
        operator("convolution", "convolution", 2e-3, flop=989_400_000_000, byte=10**6, shape=f"{images} {filters}"),
        operator("layout conversion", "convolution", 4e-3, calls=0, kernels=2, shape=f"{images} {filters}"),
        operator("convolution", "convolution", 1e-3, flop=1_978_800_000_000, byte=10**6, kernel="fft2d_r2c_32x32"),
        operator("activation", "relu", 3e-3, byte=13_400_000_000),
    ])  # fmt: skip
    # Two of three ranks, with 10 ms of kernels each: the second waits 6 ms for the first, and 1 ms is transfer. Of
    # 3 MB the bus carries 2 x 2/3: 4 GB/s
    sent = {"collective": "all_reduce", "group_size": 3, "byte": 3_000_000}
    collective = [
        TraceCollective(rank, 0, 1, "all_reduce", "0 1 2", 0, time_s, time_s / 2, **sent)
        for rank, time_s in ((0, 1e-3), (1, 7e-3))
    ]
    parts = [("communication", "all_reduce", 1e-3), ("linear", "mm", 9e-3)]
    parts += [("communication", "all_reduce", 7e-3), ("linear", "mm", 3e-3)]
    rows = [replace(operator(*part, byte=10**6), rank=number // 2) for number, part in enumerate(parts)]
    steps = [TraceStep(rank, 0, 1, 0.01, 0.01, 0.01) for rank in (0, 1)]
    put("ranks", "NVIDIA H100 SXM", steps, rows, 2, collective)
    put("rank", "NVIDIA H100 SXM", steps[:1], rows[:2], 1, collective[:1])
    put("idle", "NVIDIA H100 SXM", steps[:1], [operator("copy", "copy", 0.0)])


@pytest.mark.usefixtures("traces")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("trace", "trace all"),
        ("trace-markdown", "trace all --operators 2 --markdown"),
        ("trace-layouts", "trace layouts"),
        ("trace-ranks", "trace ranks"),
        ("trace-ranks-markdown", "trace ranks --operators 1 --markdown"),
        ("trace-rank-alone", "trace rank --operators 1"),
        ("trace-json", "trace all --json"),
        ("trace-without-chip", "trace host"),
        ("trace-compared", "compare all host"),
        ("trace-compared-markdown", "compare host all --markdown"),
        ("trace-compared-json", "compare all host --json"),
    ],
)
def test_trace(golden, capsys, name, words):
    assert command.main([*words.split(), "--data", "cache"]) == 0
    golden(name, capsys.readouterr().out)


@pytest.mark.usefixtures("traces")
def test_a_processors_trace_is_not_compared_with_a_gpus(capsys):
    put("cpu", None, [TraceStep(0, 0, 1, 0.02, 0.0, 0.0)], [operator("linear", "addmm", 1e-3, kernels=0, kernel=None)])
    for names in (["cpu", "all"], ["all", "cpu"]):
        assert command.main(["compare", *names, "--data", "cache"]) == 2
        assert "cpu has the host's times and all a GPU's kernels" in capsys.readouterr().err
    path = Path("cache/traces/host/trace.csv")
    path.write_text(path.read_text().replace("A net", "Another"))
    assert command.main(["compare", "all", "host", "--data", "cache"]) == 0
    assert capsys.readouterr().out.startswith("The networks differ")


@pytest.mark.usefixtures("traces")
def test_the_unknown_step_of_a_processors_trace_is_no_zero(capsys):
    put("cpu", None, [], [operator("linear", "addmm", 1e-3, kernels=0, kernel=None)])
    assert command.main(["show", "--data", "cache", "--json"]) == 0
    listed = {each["trace"]: each["step_s"] for each in json.loads(capsys.readouterr().out)["traces"]}
    assert (listed["cpu"], listed["idle"]) == (None, 0.01)
    assert command.main(["show", "--data", "cache"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("cpu "))
    assert not line.endswith(" s")


@pytest.mark.usefixtures("traces")
def test_two_traces_are_a_comparison(capsys):
    assert command.main(["trace", "all", "unnamed", "--data", "cache"]) == 2
    assert "nothing is expected at 'unnamed'; use python -m measure compare A B" in capsys.readouterr().err
