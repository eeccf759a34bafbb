import dataclasses

import pytest
from helpers.rows import ENVIRONMENT, machine_in, roof_measurement, run, samples

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment, RoofMeasurement, Run, Sample
from measure.errors import UserError
from measure.verbs import add_machine

OTHER = dataclasses.replace(ENVIRONMENT, hardware_id="h2", name="Other chip")


@pytest.fixture
def tables(tmp_path):
    return machine_in(tmp_path / "given").tables()


def test_a_machine_that_is_new_is_added_as_it_is(tmp_path, tables):
    added = add_machine.put(tmp_path, "box", tables, replace=False)
    assert MachineFolder(tmp_path, "box").tables() == tables
    assert added == {record: len(rows) for record, rows in tables.items()}
    assert machine_names(tmp_path) == ["box"]
    assert [path.name for path in (tmp_path / "machines").iterdir()] == ["box"]


def test_the_same_again_changes_nothing(tmp_path, tables):
    add_machine.put(tmp_path, "box", tables, replace=False)
    before = (tmp_path / "machines/box/runs.csv").stat().st_ino
    assert set(add_machine.put(tmp_path, "box", tables, replace=False).values()) == {0}
    assert (tmp_path / "machines/box/runs.csv").stat().st_ino == before


def test_what_the_same_machine_measured_stands_beside_what_is_new(tmp_path, tables):
    add_machine.put(tmp_path, "box", tables, replace=False)
    newer = dataclasses.replace(ENVIRONMENT, environment_id="e2", recorded_at="2026-01-02")
    again = dataclasses.replace(ENVIRONMENT, recorded_at="2026-01-03")  # seen first in another folder
    more = tables | {
        Environment: [again, newer],
        RoofMeasurement: [roof_measurement(), roof_measurement(16)],
        Run: [run(), run("other")],
        Sample: [*samples(3), *samples(2, "other")],
    }
    added = add_machine.put(tmp_path, "box", more, replace=False)
    assert (added[Environment], added[RoofMeasurement], added[Run], added[Sample]) == (1, 1, 1, 2)
    together = MachineFolder(tmp_path, "box").tables()
    assert together[Environment] == [ENVIRONMENT, newer]
    assert together[RoofMeasurement] == [roof_measurement(), roof_measurement(16)]
    assert [(row.model, row.batch) for row in together[Run]] == [("net", 1), ("net", 64), ("other", 1)]
    assert len(together[Sample]) == 5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({Environment: [OTHER]}, r"box: holds another machine \('Chip, of 2 cores'\); name another folder"),
        (
            {RoofMeasurement: [roof_measurement(latency_s=0.45)]},
            r"roofs.csv: has other results for 1 of the same rows, such as 'mat",
        ),
        ({Run: [run(status="oom", reason="full")]}, "runs.csv: has other results for 1 of the same rows, such as 'net"),
    ],
)
def test_a_clash_is_refused_and_replaced_where_told(tmp_path, tables, changed, words):
    add_machine.put(tmp_path, "box", tables, replace=False)
    with pytest.raises(UserError, match=words):
        add_machine.put(tmp_path, "box", tables | changed, replace=False)
    assert MachineFolder(tmp_path, "box").tables() == tables
    add_machine.put(tmp_path, "box", tables | changed, replace=True)
    (record,) = changed
    assert MachineFolder(tmp_path, "box").tables()[record] == changed[record]
    assert [path.name for path in (tmp_path / "machines").iterdir()] == ["box"]


def test_a_folder_into_which_somebody_measures_is_left_alone(tmp_path, tables):
    add_machine.put(tmp_path, "box", tables, replace=False)
    with MachineFolder(tmp_path, "box").locked(), pytest.raises(UserError, match="is measuring into this folder"):
        add_machine.put(tmp_path, "box", tables, replace=True)


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("problem", "raised", "words"),
    [
        (FULL, UserError, r"box: could not be written \(No space left on device\); its old content is intact"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
    ],
)
def test_a_failure_on_the_way_leaves_the_old_folder(tmp_path, tables, monkeypatch, problem, raised, words):
    add_machine.put(tmp_path, "box", tables, replace=False)
    rename = type(tmp_path).rename

    def fails(path, target):
        if path.parent.name.startswith(".adding-") and path.name == "box":
            raise problem
        return rename(path, target)

    monkeypatch.setattr(type(tmp_path), "rename", fails)
    with pytest.raises(raised, match=words):
        add_machine.put(tmp_path, "box", tables | {Run: []}, replace=True)
    assert MachineFolder(tmp_path, "box").tables() == tables
    assert [path.name for path in (tmp_path / "machines").iterdir()] == ["box"]


def test_the_folder_of_the_same_machine_is_found(tmp_path, tables):
    assert add_machine.home(tmp_path, "mine", "h1") == "mine"
    assert add_machine.home(tmp_path, None, "h1") is None
    for name in ("a", "b"):
        add_machine.put(tmp_path, name, tables, replace=False)
    assert add_machine.home(tmp_path, "mine", "h1") == "a"
    assert add_machine.home(tmp_path, "b", "h1") == "b"
    assert add_machine.home(tmp_path, "mine", "h2") == "mine"
