from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.tables import training


def rows(table):
    lines = plain(table).replace("\\", "").strip().split("\n")
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines if not line.startswith("| :")]


def test_ratios():
    header, *found = rows(training.ratios(trained()))
    assert [row[:3] for row in found] == [
        ["CPU", "deep", "8"], ["CPU", "lean", "8"], ["CPU", "broad", "8"], ["GPU", "lean", "8"],
    ]  # fmt: skip
    assert dict(zip(header, found[1], strict=True)) == {
        "Device": "CPU", "Model": "lean", "Batch": "8", "Forward": "10.0 ms", "Backward": "24.0 ms",
        "Ratio in time": "2.40 (2.40 to 2.40)", "In FLOP": "1.900", "Of peak": "80 %; 63 %",
        "Difference": "activation: memory-bound, 30 % of the bytes",
    }  # fmt: skip
    assert found[2][-1] == "none"


def test_steps():
    header, *found = rows(training.steps(trained()))
    told = {(row[0], row[1]): dict(zip(header, row, strict=True)) for row in found}
    lean = told["CPU", "lean"]
    # 2320 MFLOP at 100 GFLOP/s; 13.2 + 26.4 + 2 ms; 36 over 41.6
    assert [lean[name] for name in ("Step", "FLOP at peak", "By operators", "Step over it")] == [
        "36.0 ms", "23.2 ms", "41.6 ms", "0.865",
    ]  # fmt: skip
    assert (lean["Memory"], lean["Counted"]) == ("66.0 MB", "60.0 MB")
    assert told["CPU", "broad"]["By operators"] == "–"
    assert told["CPU", "tokens"]["95 % interval"] == "oom: needs 9 GB"
    assert told["GPU", "lean"]["Memory"] == "–"


def test_without_steps_the_command_is_named():
    for table in (training.ratios, training.steps):
        assert "--sections workload training" in table(tiny())
