"""Made timings of 24 models at two batch sizes on two chips of the tiny cache, and what ``fit`` writes of them."""

import shutil

import prediction
import pytest
from helpers.elsewhere_papers import count, timing
from helpers.places import TESTS

from measure import __main__ as command
from measure.cache.hand_kept import PublishedTiming
from measure.cache.schema import file_of
from measure.cache.table import write
from measure.cache.workload_records import PublishedCount, PublishedKind


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    chips = (TESTS / "data" / "chips.csv").read_text("utf-8")
    (data / "chips.csv").write_text(chips.replace("asic", "gpu"), "utf-8")
    timings, counts, kinds = [], [], []
    for k in range(24):
        model, flop, moved = f"timm:net{k}", (k + 1) * 10**9, (1 + 7 * k % 11) * 10**6
        counts.append(count(model, flop, moved, f"family{k % 6}"))
        kinds += [
            PublishedKind(model, 224, "inference", "convolution", 10, flop, 0, 10**6, 10**5),
            PublishedKind(model, 224, "inference", "activation", 10 + k, 0, 0, moved, moved),
        ]
        for device, slow in (("Bead 2", 1.0), ("Cog 3", 0.6)):
            for batch in (1, 32):
                # 2 ms a hundred GFLOP, 1 ms a GB, 50 microseconds a call, and what no term tells
                seconds = slow * (1 + k % 5 / 20) * (batch * (2e-14 * flop + 1e-12 * moved) + 5e-5)
                timings.append(timing(model, seconds, device=device, autocast="bf16", batch=batch))
    for record, rows in ((PublishedTiming, timings), (PublishedCount, counts), (PublishedKind, kinds)):
        file_of(record, data).parent.mkdir(parents=True, exist_ok=True)
        write(file_of(record, data), record, rows)
    assert command.main(["fit", "--data", str(data)]) == 0
    return data


def test_both_routes_reproduce_what_was_fitted(fitted, capsys):
    assert prediction.main(["--data", str(fitted)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["what", "rows", "recomputed", "in", "the", "file", "agree"]
    assert {line.split()[-1] for line in lines[1:]} == {"yes"}
    # The coefficients of two settings and their pool, by either program
    assert [line.split()[3:4] for line in lines if "coefficients.csv" in line] == [["60"], ["60"]]
    told = "\n".join(lines)
    for line in ("model left out: terms", "family left out: roofline", "device left out: parameters"):
        assert f"written anew, {line} " in told


@pytest.fixture
def changed(fitted, tmp_path):
    """Changes a line of a table in a copy of the folder."""

    def change(name, edit):
        folder = shutil.copytree(fitted, tmp_path / "data")
        path = folder / "prediction" / name
        head, first, *others = path.read_text("utf-8").splitlines()
        path.write_text("\n".join([head, *edit(first), *others, ""]), "utf-8")
        return folder

    return change


def test_a_number_that_differs_is_named(changed, capsys):
    def doubled(line):
        *cells, last = line.split(",")
        return [",".join([*cells, str(2 * float(last))])]

    assert prediction.main(["--data", str(changed("errors.csv", doubled))]) == 1
    out = capsys.readouterr().out
    row = "model, terms, Bead 2, epoch_hw, 2.4, bf16, eager, inference, all: high_ratio"
    assert f"DIFFERS  written anew, model left out: terms: {row}" in out
    assert f"DIFFERS  run anew, errors.csv: {row}" in out
    assert out.count("DIFFERS") == 2


def test_a_row_that_is_gone_is_named(changed, capsys):
    assert prediction.main(["--data", str(changed("coefficients.csv", lambda line: []))]) == 1
    row = "Bead 2, epoch_hw, 2.4, bf16, eager, inference, convolution arithmetic: not in the file"
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if row in line] == [
        f"DIFFERS  written anew, coefficients.csv: {row}", f"DIFFERS  run anew, coefficients.csv: {row}",
    ]  # fmt: skip


def test_a_folder_without_predictions_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        prediction.main(["--data", str(tmp_path)])
    assert stopped.value.code == 2
    assert "holds no predictions" in capsys.readouterr().err
