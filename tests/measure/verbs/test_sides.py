from pathlib import Path

import pytest
from helpers.comparing import CELL, ENVIRONMENT, NEWER, machine, put

from measure.cache.records import Environment, RoofMeasurement
from measure.cache.table import write
from measure.domain.comparison import RoofKernel, error_of_interval
from measure.domain.latency import Cell
from measure.errors import UserError
from measure.verbs import compare


def found(a, b, data=Path("nowhere")):
    return [(side.folder, side.environment) for side in compare.find(str(a), str(b), data)]


def test_two_data_folders_give_the_machine_that_both_have(tmp_path):
    machine(tmp_path / "a", "box"), machine(tmp_path / "a", "other"), machine(tmp_path / "b", "box")
    assert found(tmp_path / "a", tmp_path / "b") == [
        (tmp_path / "a/machines/box", ENVIRONMENT),
        (tmp_path / "b/machines/box", ENVIRONMENT),
    ]


def test_two_data_folders_with_a_machine_each_give_the_two(tmp_path):
    machine(tmp_path / "a", "one"), machine(tmp_path / "b", "two")
    assert [folder.name for folder, _ in found(tmp_path / "a", tmp_path / "b")] == ["one", "two"]


def test_a_machine_beside_a_data_folder_names_the_machine_there(tmp_path):
    machine(tmp_path / "a", "box"), machine(tmp_path / "b", "box"), machine(tmp_path / "b", "other")
    folders = found(tmp_path / "a/machines/box", tmp_path / "b")
    assert [folder for folder, _ in folders] == [tmp_path / "a/machines/box", tmp_path / "b/machines/box"]


def test_a_machines_folder_may_lie_anywhere(tmp_path):
    machine(tmp_path / "a", "box")
    (tmp_path / "a/machines/box").rename(tmp_path / "before")
    machine(tmp_path / "a", "box")
    assert found(tmp_path / "before", tmp_path / "a")[0] == (tmp_path / "before", ENVIRONMENT)


def test_environments_of_a_machine_are_named_by_the_beginning_of_their_id(tmp_path):
    machine(tmp_path, "box", ENVIRONMENT, NEWER)
    folder = tmp_path / "machines/box"
    assert [side for _, side in found(f"{folder}@aaaa", folder)] == [ENVIRONMENT, NEWER]
    assert [side for _, side in found("box@aabb", "box@aaaa00000000", tmp_path)] == [NEWER, ENVIRONMENT]
    with pytest.raises(UserError, match="'aa' does not select one environment; name one of aaaa00000000, aabb00000000"):
        compare.find(f"{folder}@aa", str(folder), tmp_path)
    with pytest.raises(UserError, match="'cc' does not select one environment; name one of aaaa00000000, aabb00000000"):
        compare.find(f"{folder}@cc", str(folder), tmp_path)


def test_what_leaves_a_choice_or_none_is_said(tmp_path):
    for data, names in (("a", ("one", "two")), ("b", ("one", "two")), ("c", ("three",))):
        for name in names:
            machine(tmp_path / data, name)
    a, b, c = (str(tmp_path / name) for name in "abc")
    with pytest.raises(UserError, match=r"a has one, two; name the one to compare with .*b, as .*machines/one"):
        compare.find(a, b, tmp_path)
    with pytest.raises(UserError, match=r"a has one, two; name the one to compare with .*c"):
        compare.find(a, c, tmp_path)
    with pytest.raises(
        UserError, match=r"nowhere is neither a machine's folder, with a machine\.csv in it, nor a data"
    ):
        compare.find(str(tmp_path / "nowhere"), c, tmp_path)
    with pytest.raises(UserError, match=r"are the same measurements; name two .*three@ID"):
        compare.find(c, f"{c}/machines/three", tmp_path)


def test_a_machine_without_an_environment_is_said(tmp_path):
    machine(tmp_path, "box")
    write(tmp_path / "machines/empty/machine.csv", Environment, [])
    with pytest.raises(UserError, match=r"empty/machine\.csv has no environment; measure"):
        compare.find("empty", "box", tmp_path)


def test_a_side_has_the_rounds_of_its_environment(tmp_path):
    folder = machine(tmp_path / "a", "box", ENVIRONMENT, NEWER)
    put(folder, 0, [1.0, 2.0, 3.0], flags="wide")
    put(folder, 1, [4.0, 5.0, 6.0, 7.0], flags="wide;throttled")
    put(folder, 2, [], "oom", "no memory")
    put(folder, 0, [9.0], environment=NEWER)
    old, new = compare.find(f"{folder.folder}@aaaa", str(folder.folder), tmp_path)
    (cell,) = old.cells.values()
    assert list(old.cells) == [Cell(*CELL)]
    assert cell.status == "ok"
    assert cell.medians_s == (2.0, 5.5)
    assert cell.samples == 3
    assert cell.flags == "throttled;wide"
    assert new.cells[Cell(*CELL)].medians_s == (9.0,)


def test_a_cell_has_the_shape_of_its_inputs(tmp_path):
    a, b = machine(tmp_path / "a"), machine(tmp_path / "b")
    put(a, 0, [1.0])
    put(b, 0, [], "oom", "no memory")
    shapes = [
        cell.input_shape
        for side in compare.find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
        for cell in side.cells.values()
    ]
    assert shapes == ["3x224x224"] * 2


def test_a_cell_that_failed_in_every_round_has_a_status_and_no_repeats(tmp_path):
    folder = machine(tmp_path / "a")
    put(folder, 0, [], "oom", "no memory")
    put(machine(tmp_path / "b"), 0, [1.0])
    (cell,) = compare.find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)[0].cells.values()
    assert (cell.status, cell.reason, cell.medians_s) == ("oom", "no memory", ())


def test_all_rounds_of_a_roof_count(tmp_path):
    folder = machine(tmp_path / "a")
    machine(tmp_path / "b")
    kernel = ("aaaa00000000", "stream_triad", "fp64", 512, 1, 1)
    times = (1.0, 0.9, 1.1), (1.2, 1.08, 1.32), (1.1, 0.99, 1.21)
    rounds = [
        RoofMeasurement(*kernel, "ok", None, *each, 9 + number, "sustained", round=number)
        for number, each in enumerate(times)
    ]
    failed = RoofMeasurement(*kernel, "error", "busy", None, None, None, None, "sustained", round=3)
    folder.put_roof_measurements([*rounds, failed])
    side, _ = compare.find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
    repeats = side.roofs[RoofKernel("stream_triad", 512, "fp64", "sustained")]
    assert repeats.medians_s == (1.0, 1.2, 1.1)
    assert repeats.samples == 9
    # Each error is that of a width of a tenth to each side; three together leave a third of their squares' root
    errors = [error_of_interval(0.9, 1.1, samples) for samples in (9, 10, 11)]
    assert repeats.error == pytest.approx(sum(error**2 for error in errors) ** 0.5 / 3)


def test_a_ceiling_is_one_round_with_its_own_interval(tmp_path):
    folder = machine(tmp_path / "a")
    machine(tmp_path / "b")
    kernel = ("aaaa00000000", "matmul", "fp32", 512, 1, 1)
    failed = RoofMeasurement(
        "aaaa00000000", "matmul", "fp16", 512, 1, 1, "unsupported", "no fp16", None, None, None, None, "burst"
    )
    folder.put_roof_measurements([RoofMeasurement(*kernel, "ok", None, 1.0, 0.9, 1.2, 9, "burst"), failed])
    side, _ = compare.find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
    repeats = side.roofs[RoofKernel("matmul", 512, "fp32", "burst")]
    assert repeats.medians_s == (1.0,)
    assert repeats.samples == 9
    assert repeats.error == error_of_interval(0.9, 1.2, 9)
    assert side.roofs[RoofKernel("matmul", 512, "fp16", "burst")].status == "unsupported"
