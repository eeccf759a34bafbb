"""A training step that a GPU ran: which trace is drawn, and its kinds of layer against arithmetic by hand.

The step of the world: at the rates of an MI300X, a second of arithmetic takes 4 s forward, and half a second of bytes
1 s. Backward 2.5 s of arithmetic, a fifth of it computed again, take 8 s, and half a second of bytes 3 s.
Collectives take 48 s, and an update without counts 1 s.
"""

import shutil

import pytest
from helpers.world import WORLD, mutated, rows_of, world, wrong

from report.chapters.training import figures, traced
from report.paper import load

STEP = "traces/vit-training"


def test_facts_are_shares_of_the_datasheets_rates():
    expected = {
        "recorded.network": "A step", "recorded.chip": "Instinct MI300X", "recorded.kernels": 8,
        "recorded.kernel_time": 16 / 8, "recorded.convolution": 3.5 / 12, "recorded.normalisation": 1 / 4,
        "recorded.closest": 1 / 2, "recorded.closest.name": "normalisation, forward",
        "reference.recorded.chip": "Instinct MI300X", "reference.recorded.flop_ratio": 2.5,
        "reference.recorded.time_ratio": 11 / 5, "reference.recorded.waiting": 48 / 65,
    }  # fmt: skip
    assert wrong("training", world(), expected) == {}


def test_marks_are_the_kinds_of_both_passes():
    marks = sorted(rows_of(figures.recorded.__wrapped__(world()), "layer_kind", "share"))
    assert marks == [("convolution", pytest.approx(4 / 16)), ("convolution", pytest.approx(8 / 16))]  # others: no FLOP


@pytest.mark.parametrize(
    ("network", "host_s", "source", "drawn", "published"),
    [
        ("longer", "99.0", "", "longer", "longer"),
        ("shorter", "1.0", "", "A step", "A step"),
        ("own", "1.0", "machines/example-gpu", "own", "A step"),
    ],
)
def test_a_step_measured_here_comes_before_the_longest_imported_one(
    tmp_path, network, host_s, source, drawn, published
):
    data = mutated(tmp_path / "world", {})
    shutil.copytree(WORLD / STEP, data / "traces" / "other")
    changes = ("trace", "A step", network), ("trace", ",,,\n", f",{source},,\n"), ("steps", "65.0", host_s)
    for name, old, new in changes:
        path = data / "traces" / "other" / f"{name}.csv"
        path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    paper = load(data, everything=True)
    assert traced.recorded(paper).trace.devices[0].network == drawn
    assert traced.recorded(paper, published=True).trace.devices[0].network == published


def test_without_a_training_step_or_its_chip_nothing_is_drawn(tmp_path):
    shutil.rmtree(mutated(tmp_path / "world", {}) / STEP)
    assert traced.recorded(load(tmp_path / "world", everything=True)) is None
    (tmp_path / "chips").mkdir()
    data = mutated(tmp_path / "chips" / "world", {"chips.csv": lambda row: None if "MI300X" in row["chip"] else row})
    assert traced.recorded(load(data, everything=True)) is None
