from dataclasses import replace

import pytest
from helpers import rows
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT, layer, operator, profile, roof_measurement, run, samples, workload
from helpers.watching import watch_writes
from helpers.world import WORLD

from measure.cache import table
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.table import append, write
from measure.domain import records
from measure.domain.records import Environment, Profile, Run, Sample
from measure.domain.workload_records import Layer, Operator, Workload
from measure.errors import UserError
from report.__main__ import check_cache

AUDIO, STAGES = "wav2vec2_base", ("forward", "backward", "update")


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "box")


@pytest.fixture
def again(tmp_path):
    """The same folder, to another process."""
    return MachineFolder(tmp_path, "box")


def at(shape, row):
    return replace(row, input_shape=shape)


def test_samples_that_no_run_committed_are_not_there(folder, again):
    folder.put_run(run(), samples(3))
    append(folder.paths[Sample], Sample, samples(2, model="killed"))
    assert folder.rows(Sample) == samples(3)
    again.put_run(run(model="killed"), samples(4, model="killed"))
    assert folder.rows(Sample) == samples(3) + samples(4, model="killed")


def test_a_cell_measured_again_replaces_the_old_one(folder):
    folder.put_run(run(), samples(3))
    for number in range(2):
        folder.put_run(run(batch=64, round_=number), samples(2, batch=64, round_=number))
    folder.put_run(run(status="oom", reason="full"), [])
    folder.put_run(run(batch=64, round_=1), samples(3, batch=64, round_=1))
    rows = {(row.batch, row.round, row.status) for row in folder.rows(Run)}
    assert rows == {(1, 0, "oom"), (64, 0, "ok"), (64, 1, "ok")}
    assert folder.rows(Sample) == samples(2, batch=64, round_=0) + samples(3, batch=64, round_=1)


def test_a_cell_at_another_input_shape_loses_all_its_rounds(folder, monkeypatch):
    for number in range(3):
        folder.put_run(at("16000", run(AUDIO, round_=number)), samples(2, AUDIO, round_=number))
    folder.put_run(at("16000", run(AUDIO, 64)), samples(2, AUDIO, 64))
    folder.put_run(at("160000", run(AUDIO, round_=1)), samples(3, AUDIO, round_=1))
    assert [(row.batch, row.round, row.input_shape) for row in folder.rows(Run)] == [(64, 0, "16000"), (1, 1, "160000")]
    assert folder.rows(Sample, folder.rows(Run)[:1]) == samples(2, AUDIO, 64)
    assert folder.rows(Sample, folder.rows(Run)[1:]) == samples(3, AUDIO, round_=1)
    monkeypatch.setattr(table, "put", lambda *_: None)  # killed before the row was written
    folder.put_run(at("80000", run(AUDIO, round_=1)), samples(3, AUDIO, round_=1))
    assert [row.batch for record in (Run, Sample) for row in folder.rows(record)] == [64, 64, 64]


def put_step(folder, status="ok", count=2):
    stages = [(run(phase=phase, status=status), samples(count, phase=phase)) for phase in STAGES]
    folder.put_run(run(phase="step", status=status), samples(count, phase="step"), stages)


def test_a_step_is_written_and_replaced_with_its_stages(folder):
    folder.put_run(run(), samples(1))
    put_step(folder)
    put_step(folder, count=3)
    assert folder.rows(Run) == [run(), *(run(phase=phase) for phase in (*STAGES, "step"))]
    assert len(folder.rows(Sample)) == 1 + 4 * 3
    put_step(folder, "oom", count=0)
    assert [row.status for row in folder.rows(Run)] == ["ok", *["oom"] * 4]
    assert folder.rows(Sample) == samples(1)


def test_stages_without_their_step_are_ignored_and_replaced(folder, again):
    put_step(folder)
    path = folder.folder / "runs.csv"
    *others, whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(others) + whole[:20])  # as if killed before the last line was complete
    messages = []
    with folder.locked(messages.append):
        assert folder.rows(Run) == folder.rows(Sample) == []
    assert [line.rpartition(" ")[2] for line in messages] == [f"{path}.torn"]  # the torn line is set aside, and named
    put_step(again, count=1)
    assert [row.phase for row in again.rows(Run)] == [*STAGES, "step"]
    assert len(again.rows(Sample)) == 4
    assert path.read_text().count("\n") == 1 + 4


def test_an_environment_is_written_once_and_the_newest_counts(tmp_path, folder):
    with pytest.raises(UserError, match=r"box/machine\.csv has no environment"):
        folder.newest_environment()
    newer = replace(ENVIRONMENT, environment_id="e2", recorded_at="2026-02-01")
    for row in (newer, ENVIRONMENT, replace(ENVIRONMENT, recorded_at="2027-01-01")):
        folder.put_environment(row)
    assert folder.rows(Environment) == [newer, ENVIRONMENT]
    assert folder.newest_environment() == newer
    known = replace(ENVIRONMENT, caches="2:4194304:1", power_limit_w=70.0, name="Other")
    filled = replace(known, name=ENVIRONMENT.name)
    for row in (known, ENVIRONMENT):  # empty cells are filled, such as an L2 that only a measuring process learns
        folder.put_environment(row)
        assert folder.rows(Environment) == [newer, filled]
    back = replace(rows.run(), environment_id=ENVIRONMENT.environment_id, recorded_at="2026-03-01")
    folder.put_run(back, [])
    assert folder.newest_environment() == filled  # it measured last, and was seen first
    assert machine_names(tmp_path) == ["box"]
    folder.put_roof_measurements([roof_measurement(8), roof_measurement(16)])
    folder.put_roof_measurements([roof_measurement(8, latency_s=0.25)])
    assert {(row.size, row.latency_s) for row in folder.rows(records.RoofMeasurement)} == {(16, 0.5), (8, 0.25)}


def put_profile(folder, model="net", time_s=0.25, status="ok", shape=None):
    times, kernels = [rows.operator_time(model, time_s=time_s)], [rows.kernel_time(model, time_s=time_s)]
    folder.put_profile(at(shape, profile(model, status=status)), *([times, kernels] if status == "ok" else [[]]))


def put_counters(folder, model="net", time_s=0.25, status="ok", shape=None):
    counted = [rows.kernel_counters(model, time_s=time_s)] if status == "ok" else []
    folder.put_hardware_counters(at(shape, rows.counter_profile(model, status=status)), counted)


@pytest.mark.parametrize(
    ("put", "parent", "children"),
    [
        (put_profile, Profile, [rows.operator_time("killed"), rows.kernel_time("killed")]),
        (put_counters, records.HardwareCounterProfile, [rows.kernel_counters("killed")]),
    ],
)
def test_a_profile_commits_its_rows_and_is_replaced_with_them(folder, again, put, parent, children):
    put(folder)
    put(folder, "full", status="oom")
    for row in children:
        append(folder.paths[type(row)], type(row), [row])  # no profile commits it
        assert [(each.model, each.time_s) for each in folder.rows(type(row))] == [("net", 0.25)]
    put(again, time_s=0.5)
    put(again, AUDIO, shape="16000")
    put(again, AUDIO, time_s=2.5, shape="160000")  # of another shape: it takes the place of the one before
    rows = [(row.model, row.status, row.input_shape) for row in again.rows(parent)]
    assert rows == [("full", "oom", None), ("net", "ok", None), (AUDIO, "ok", "160000")]
    for child in children:
        assert sorted((row.model, row.time_s) for row in again.rows(type(child))) == [("net", 0.5), (AUDIO, 2.5)]
    put(again, status="oom")
    assert [row.model for child in children for row in again.rows(type(child))] == [AUDIO] * len(children)


def counted(model, batch=1, layers=1, **columns):
    rows = [layer(model, batch, position=number) for number in range(layers)]
    return replace(workload(model, batch), **columns), rows, [operator(model, batch)]


def test_sorted_workloads_stay_the_same_bytes_when_recounted(tmp_path):
    tables = Workloads(tmp_path)
    paths = tables.folders()[0].paths.values()
    tables.put([counted("b", 64), counted("b", layers=2)])
    tables.put([counted("a")])
    first = [path.read_bytes() for path in paths]
    tables.put([counted("b", layers=2)])
    assert [path.read_bytes() for path in paths] == first
    assert [(row.model, row.batch) for row in tables.rows(Workload)] == [("a", 1), ("b", 1), ("b", 64)]


def test_counting_again_leaves_nothing_of_the_old_count(tmp_path):
    tables = Workloads(tmp_path)
    tables.put([(workload("a"), [layer("a"), layer("a", position=1)], [operator("a"), operator("a", name="add")])])
    tables.put([counted("b")])
    tables.put([(workload("a"), [layer("a", flop=7)], [operator("a", calls=7)])])
    assert [(row.model, row.operator, row.calls) for row in tables.rows(Operator)] == [("a", "mm", 7), ("b", "mm", 1)]
    assert [(row.model, row.position, row.forward_flop) for row in tables.rows(Layer)] == [("a", 0, 7), ("b", 0, 10)]
    write(tables.folder / "models.csv", Workload, [workload("b")])  # as if killed between the tables
    assert [row.model for record in (Layer, Operator) for row in tables.rows(record)] == ["b", "b"]


def test_own_models_have_one_input_shape_and_are_counted_apart(tmp_path):
    tables = Workloads(tmp_path)
    tables.put([counted("mine:net", source="own", input_shape="3"), counted("net")])
    tables.put([counted("mine:net", layers=2, source="own"), counted("net", input_shape="3x4x4")])
    tables.put([counted("mine:net", 4, source="own")])
    assert [(row.model, row.batch, row.input_shape) for row in tables.rows(Workload)] == [
        ("net", 1, "3x2x2"), ("net", 1, "3x4x4"), ("mine:net", 1, "3x2x2"), ("mine:net", 4, "3x2x2"),
    ]  # fmt: skip
    assert [row.model for row in tables.rows(Layer)] == ["net"] * 2 + ["mine:net"] * 3
    for record, name in ((Workload, "models"), (Layer, "layers"), (Operator, "operators")):
        for folder, model in (("workload", "net"), ("workload/own", "mine:net")):
            assert {row.model for row in table.read(tmp_path / folder / f"{name}.csv", record)} == {model}
    tables.leave_out({"mine:net"})
    assert {row.model for record in (Workload, Layer) for row in Workloads(tmp_path).rows(record)} == {"net"}


def test_two_runs_that_count_at_once_lose_and_double_nothing(tmp_path, monkeypatch):
    written, both = watch_writes(monkeypatch), [Workloads(tmp_path), Workloads(tmp_path)]
    assert [tables.rows(record) for tables in both for record in (Workload, Layer, Operator)] == [[]] * 6
    for batch in range(1, 4):
        for tables in both:
            tables.put([(workload("net", batch), [layer("net", batch)], [operator("net", batch)])])
    assert written == {"models.csv": True, "layers.csv": True, "operators.csv": True}  # while locked
    assert [row.batch for record in (Workload, Layer, Operator) for row in both[0].rows(record)] == [1, 2, 3] * 3


@pytest.mark.parametrize("folder", [pytest.param(ROOT / "data", marks=pytest.mark.slow), WORLD])
def test_the_committed_caches_are_sound(folder):
    check_cache(folder)
