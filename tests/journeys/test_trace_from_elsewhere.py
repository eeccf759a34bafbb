"""A user brings a recording from another machine: import it, look at it, and find it in the paper."""

import json
import shlex
import shutil

import pytest
from helpers import traces
from helpers.places import ROOT
from helpers.traces import addmm, call, kernel, launch, relu, step, trace, write

from measure import __main__ as measure
from report import paper as papers
from report.chapters.cause import tables
from report.chapters.training import costs

STEPS = 3


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with curated tables and no measurement."""
    (tmp_path / "data").mkdir()
    for name in ("chips.csv", "flop_per_cycle.csv"):
        shutil.copy(ROOT / "data" / name, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(here, capsys):
    """Run a command and return its output."""

    def run(words, code=0):
        capsys.readouterr()
        assert measure.main([*shlex.split(words), "--data", "data"]) == code
        printed = capsys.readouterr()
        return printed.out + printed.err

    return run


def recording(*, shapes=True):
    """Three steps of 15 us of kernels, and a kernel of 30 us that was launched before the recording."""
    events = [kernel("earlier", 0.5, 30, 0)]
    for number in range(STEPS):
        start = 1000 * (number + 1)
        inside = [addmm(start + 10), launch(start + 15, 10 * number + 1), relu(start + 60)]
        inside += [launch(start + 65, 10 * number + 2), kernel("gemm", start + 100, 10, 10 * number + 1)]
        events += [step(number, start, 900), *inside, kernel("relu", start + 125, 5, 10 * number + 2)]
    if not shapes:
        events = [each | {"args": {k: v for k, v in each["args"].items() if "Input" not in k}} for each in events]
    return trace(*events)


@pytest.mark.parametrize("shapes", [True, False])
def test_a_trace_from_its_import_to_the_paper(here, run, shapes):
    write(here / "t.json", recording(shapes=shapes))
    planned = json.loads(run("import-trace t.json --name net --json --plan"))
    assert planned["kinds"] == pytest.approx({"linear": 10e-6, "activation": 5e-6})  # of one step, not of three
    assert planned["kernel_time_s"] == pytest.approx((STEPS * 15 + 30) * 1e-6)
    printed = run("import-trace t.json --name net")
    assert ("record_shapes=True" in printed) != shapes
    assert "net" in run("show")
    timed = json.loads(run("trace nvidia-h100-sxm-net --json"))
    assert {part["name"]: part["time_s"] for part in timed["kinds"]} == pytest.approx(planned["kinds"])
    assert [part["counted_s"] > 0 for part in timed["kinds"]] == [shapes, shapes]
    text = run("trace nvidia-h100-sxm-net")
    assert ("989 TFLOP/s in bf16" in text) == shapes  # the peak behind the share of the roof
    paper = papers.load(here / "data", ROOT / "bib" / "references.bib")
    assert "| net | H100 SXM |" in tables.traces(paper).markdown


def test_merged_ranks_share_a_folder(here, run):
    events = []
    for rank, size in enumerate((1024, 512)):
        product = call("mm", *[f"fp32 {size}x{size}"] * 2)
        ran = [step(1, 0, 900), product, launch(15, 5), kernel("gemm", 20, 5, 5, device=rank)]
        events += [each | {"pid": f"[TP0{rank}] {each['pid']}"} for each in ran]
    devices = [traces.DEVICE, traces.DEVICE | {"id": 1}]
    write(here / "t.json", trace(*events, deviceProperties=devices))
    ranks = [json.loads(line) for line in run("import-trace t.json --name net --json").splitlines()]
    assert sum(each["flop"] for each in ranks) == 2_415_919_104  # 2 x 1024^3 + 2 x 512^3
    assert len({each["folder"] for each in ranks}) == 1


def test_a_chip_cannot_be_given_to_the_hosts_times(here, run):
    write(here / "t.json", trace(addmm(10)))
    assert "no GPU ran anything" in run("import-trace t.json --chip 'NVIDIA T4'", code=2)
    assert not (here / "data" / "traces").exists()


NCU = [
    '"ID","Kernel Name","CC","Metric Name","Metric Unit","Metric Value"',
    '"0","gemm","7.5","dram__bytes_read.sum","byte","60,000,000"',
    '"0","gemm","7.5","dram__bytes_write.sum","byte","4,000,000"',
    '"0","gemm","7.5","gpu__time_duration.sum","ns","4,000"',
]


def test_counters_of_a_gpu_with_a_name_and_nothing_else(here, run):
    (here / "ncu.csv").write_text("\n".join(NCU))
    words = "import-ncu ncu.csv --model alexnet --batch 1 --device-name 'NVIDIA T4'"
    assert "--phase" in run(words, code=2)  # which phase was counted is asked, not guessed
    assert "lts__t_bytes.sum" in run(f"{words} --phase inference")  # missing, by its name
    listed = run("show")
    assert "NVIDIA T4" in listed
    assert "60.0 MB" in listed
    assert "None" not in listed
    shutil.copytree(ROOT / "data" / "workload", here / "data" / "workload")  # alexnet is counted there
    paper = papers.load(here / "data", ROOT / "bib" / "references.bib")
    machine = costs.counter_machine(paper)
    assert machine.name == "T4"
    assert costs.counted_calls(paper, machine).dram_read_byte.tolist() == [60e6]
