import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.cells import CELL, DATED, NEWER, machine, put
from helpers.rows import roof_measurement, workload
from helpers.world import WORLD

from measure.__main__ import main
from measure.cache.folders import Workloads
from measure.cache.table import as_text
from measure.domain import comparison
from measure.domain.causes import ProfiledCell, causes
from measure.domain.comparison import NOT_MEASURED, ComparedRow, Repeats, RoofKernel, Side, error_of_interval
from measure.verbs.compare import find
from measure.verbs.compared import Cause, Compared, report

NOISE = (0.99, 1.0, 1.0, 1.0, 1.0, 1.01)


def side(status="ok", *medians_s, **values):
    return Repeats(medians_s, status=status, **values)


def row(model, a=NOT_MEASURED, b=NOT_MEASURED, **difference):
    return ComparedRow(CELL._replace(model=model), a, b, **difference)


def both(model, ratio, change, basis=comparison.ROUNDS, b_flags=None):
    found = {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01, "basis": basis, "change": change}
    return row(model, side("ok", 0.01), side("ok", 0.01 * ratio, flags=b_flags), **found)


# Latency, the linear layers' part of it, the system's share, page faults, clock. B's clock is half of A's
SPLITS = ((0.01, 0.5, 0.1, 10.0, 2e9), (0.02, 0.75, 0.3, 60.0, 1e9))
SHORT, OOM = side(input_shape="16000"), side("oom", reason="no memory")
ROWS = [
    # The geometric mean of 2, 0.5, 1, 1.25, 0.8 and 1 is 1: each but 1 has its inverse
    both("my_net", 2.0, comparison.UNDECIDED, b_flags="loaded;wide"), both("vgg11", 0.5, comparison.FASTER),
    both("alexnet", 1.0, comparison.WITHIN_ERROR, comparison.OTHERS),
    both("resnet18", 1.25, comparison.SLOWER, comparison.PROCESS), both("resnet34", 0.8, None, comparison.PROCESS),
    replace(both("resnet50", 1.0, comparison.UNDECIDED), ratio_low=0.9, ratio_high=1.2),
    row("vgg19", b=OOM), row("swin_t", side(), OOM),
    row("vit_b_16", side("timeout", reason="took longer than 60 s"), side()), row("vit_b_32", side("oom"), side("oom")),
    row("wav2vec2_base", SHORT, side(input_shape="160000")),
    row("hubert_base", SHORT, side("oom", input_shape="160000")),
    *(row(f"model{number}", side()) for number in range(10)),
    ComparedRow(RoofKernel("fma", 8, "fp32", "burst"), side()),
]  # fmt: skip


def test_all_that_a_row_can_be_is_printed(golden):
    newer = replace(NEWER, torch="2.15.0", driver="580.1")
    a, b = Side("before", DATED, {}, {}), Side("after", newer, {}, {})
    golden("compare-rows", "\n".join(report(Compared(a, b, ROWS))) + "\n")
    golden("compare-rows-markdown", "\n".join(report(Compared(a, b, ROWS), as_markdown=True)) + "\n")


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Caches of one cell in three rounds: in ``b`` it takes a fifth longer than in ``a``, in ``c`` half as long."""
    monkeypatch.chdir(tmp_path)
    for name, factor in (("a", 1.0), ("b", 1.2), ("c", 0.5)):
        folder = machine(tmp_path / name)
        for index, latency in enumerate((0.99, 1.0, 1.01)):
            put(folder, index, [factor * latency * noise for noise in NOISE])
    return tmp_path


def test_a_regression_beyond_the_allowed_is_exit_code_1(golden, caches, capsys):
    for name, words in {
        "compare-caches": "a b --csv rows.csv --fail-on-regression 25%",
        "compare-caches-csv": "a b --csv -",
        "compare-caches-json": "a b --json",
        "compare-caches-three": "a b c --markdown",
        "compare-caches-three-csv": "a b c --csv -",
    }.items():
        assert main(["compare", *words.split()]) == 0
        golden(name, capsys.readouterr().out)
    golden("compare-caches-csv", (caches / "rows.csv").read_text())
    assert main(["compare", "a", "c", "b", "--json", "--fail-on-regression", "5%"]) == 1  # on any side
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)["pairs"]) == 2
    assert printed.err == "--fail-on-regression 5%: alexnet batch 1 fp32 inference eager\n"


def test_many_sides_are_one_table(caches, capsys):
    machine(caches / "empty")
    assert main(["compare", "a", "b", "empty", "c"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    # All that the first machine measured is one cell: B takes 1.2 times as long by its construction, D half as long
    assert [line[-2:] for line in lines if line and line[0] == "alexnet"] == [["1.2+", "0.5-"]]
    assert [line[0] for line in lines if line and len(line[0]) == 1][:4] == ["A", "B", "C", "D"]
    assert main(["compare", "a", "empty", "empty"]) == 2
    assert "no cell, roof or collective with a result in common" in capsys.readouterr().err


def test_growth_of_a_count_comes_first_and_can_fail(golden, caches, capsys):
    """The head has two layers more at the same time; the base is compared with itself in ``c``."""
    counted = workload("alexnet", flop=10, parameter_count=4, traffic_byte=100, inference_peak_byte=50)
    for name, changes in {"a": {}, "b": {"forward_flop": 30, "traffic_byte": 120}, "c": {}}.items():
        Workloads(caches / name).put([(replace(counted, **changes), [], [])])
    assert main(["compare", "a", "b", "--fail-on-growth"]) == 1
    printed = capsys.readouterr()
    golden("compare-grown", printed.out)
    assert printed.err == "--fail-on-growth: FLOP of alexnet batch 1 fp32, bytes of alexnet batch 1 fp32\n"
    assert main(["compare", "a", "c", "--fail-on-growth", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["counts"]
    assert {row["change"] for row in rows} == {"same"}
    # With a limit on time, both reasons are printed
    assert main(["compare", "a", "b", "--fail-on-growth", "--fail-on-regression", "5%"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_profiles_of_both_sides_say_why(golden, capsys):
    """On the GPU a network takes a fraction of the processor's time, in the parts that the two profiles have."""
    assert main(["compare", "example-cpu", "example-gpu", "--data", str(WORLD), "--why", "--json"]) == 0
    for cause in json.loads(capsys.readouterr().out)["causes"]:
        assert 1 + sum(term["share"] for term in cause["terms"]) == pytest.approx(cause["ratio"])
    a, b = (ProfiledCell(s, s, {"linear": part * s}, share, faults, hz) for s, part, share, faults, hz in SPLITS)
    found = Cause(ROWS[0], a, b, causes(a, b))
    compared = Compared(Side("a", DATED, {}, {}), Side("b", DATED, {}, {}), ROWS[:1], causes=[found])
    golden("compare-why", "\n".join(report(compared)) + "\n")
    golden("compare-why-markdown", "\n".join(report(compared, as_markdown=True)) + "\n")


def test_no_text_of_a_table_is_a_formula_to_a_spreadsheet():
    texts = ["=cmd()", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]
    assert list(map(as_text, texts)) == [f"'{text}" for text in texts]
    assert list(map(as_text, ["a=b", "", -1, None])) == ["a=b", "", -1, None]


def test_sides_are_found_by_their_names(tmp_path, monkeypatch):
    """Three data folders: of two machines, of one of these, and of another; and a machine that lies anywhere."""
    monkeypatch.chdir(tmp_path)
    for data, *names in (("two", "box", "rack"), ("one", "box"), ("other", "desk"), ("aside", "box")):
        for name in names:
            machine(tmp_path / data, name)
    (tmp_path / "aside/machines/box").rename(tmp_path / "before")
    folders = {
        "two one": "two/machines/box one/machines/box",  # the machine that both have
        "one other": "one/machines/box other/machines/desk",  # the only one of each
        "one/machines/box two": "one/machines/box two/machines/box",
        "before one": "before one/machines/box",
        "rack box": "two/machines/rack two/machines/box",  # of --data
    }
    for names, found in folders.items():
        assert " ".join(str(side.folder) for side in find(*names.split(), Path("two"))) == found


def test_a_side_has_the_rounds_of_its_environment(tmp_path):
    folder = machine(tmp_path, "box", DATED, NEWER)
    put(folder, 0, [1.0, 2.0, 3.0], flags="wide")
    put(folder, 1, [4.0, 5.0, 6.0, 7.0], flags="wide;throttled")
    put(folder, 2, [], "oom", "no memory")
    put(folder, 0, [], "oom", "no memory", environment=NEWER)
    old, new = find(f"{folder.folder}@aaaa", str(folder.folder), tmp_path)
    assert list(find("box@aabb", "box@aaaa00000000", tmp_path)) == [new, old]
    assert list(old.cells) == list(new.cells) == [CELL]
    cell, failed = old.cells[CELL], new.cells[CELL]
    assert (cell.status, cell.medians_s, cell.samples, cell.flags) == ("ok", (2.0, 5.5), 3, "throttled;wide")
    assert (failed.status, failed.reason, failed.medians_s) == ("oom", "no memory", ())
    assert cell.input_shape == failed.input_shape == "3x224x224"


def test_all_rounds_of_a_roof_count_and_a_ceiling_is_one_round(tmp_path):
    folder = machine(tmp_path, "box", DATED, NEWER)

    def roof(kernel, round_, latency_s, samples, **columns):
        ends = {"latency_low_s": 0.9 * latency_s, "latency_high_s": 1.1 * latency_s, "sample_count": samples}
        at = {"environment_id": DATED.environment_id, "roof_kernel": kernel, "round": round_}
        return replace(roof_measurement(512, latency_s), **at | ends | columns)

    unknown = dict.fromkeys(("latency_s", "latency_low_s", "latency_high_s", "sample_count"))
    folder.put_roof_measurements([
        roof("stream_triad", 0, 1.0, 9), roof("stream_triad", 1, 1.2, 10), roof("stream_triad", 2, 1.1, 11),
        replace(roof("stream_triad", 3, 1.0, 9), status="error", reason="busy", **unknown),
        roof("matmul", None, 1.0, 9, latency_high_s=1.2, pace="burst"), roof("idle", None, 0.1, 20),
    ])  # fmt: skip
    found, _ = find("box@aaaa", "box", tmp_path)
    assert {kernel.roof_kernel for kernel in found.roofs} == {"stream_triad", "matmul"}  # a wait is as long everywhere
    repeats = found.roofs[RoofKernel("stream_triad", 512, "fp32", "sustained")]
    assert (repeats.medians_s, repeats.samples) == ((1.0, 1.2, 1.1), 9)
    # Each interval reaches a tenth to each side; three together leave a third of their squares' root
    errors = [error_of_interval(0.9, 1.1, samples) for samples in (9, 10, 11)]
    assert repeats.error == pytest.approx(sum(error**2 for error in errors) ** 0.5 / 3)
    alone = found.roofs[RoofKernel("matmul", 512, "fp32", "burst")]
    assert (alone.medians_s, alone.samples, alone.error) == ((1.0,), 9, error_of_interval(0.9, 1.2, 9))
