import dataclasses
import random
import signal
import subprocess
import sys
import time

import pytest
from helpers import comparing
from helpers.places import ROOT
from helpers.rows import (
    ENVIRONMENT,
    counter_profile,
    kernel_counters,
    kernel_time,
    layer,
    machine_in,
    operator,
    operator_time,
    profile,
    roof_measurement,
    run,
    samples,
    workload,
)
from helpers.world import WORLD

from measure.cache import table
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import (
    Environment,
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.cache.table import append, write
from measure.cache.workload_records import Layer, Operator, Workload
from measure.errors import UserError
from report.__main__ import check_cache


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "box")


def test_samples_that_no_run_committed_are_not_there(folder):
    folder.put_run(run(), samples(3))
    append(folder.folder / "samples.csv", Sample, samples(2, model="killed"))
    assert folder.rows(Sample) == samples(3)
    resumed = MachineFolder(folder.folder.parents[1], "box")  # another process
    resumed.put_run(run(model="killed"), samples(4, model="killed"))
    assert folder.rows(Sample) == samples(3) + samples(4, model="killed")


def test_a_cell_measured_again_replaces_the_old_one(folder):
    folder.put_run(run(), samples(3))
    folder.put_run(run(batch=64), samples(2, batch=64))
    folder.put_run(run(status="oom", reason="full"), [])
    assert {(row.batch, row.status) for row in folder.rows(Run)} == {(1, "oom"), (64, "ok")}
    assert folder.rows(Sample) == samples(2, batch=64)


def test_rounds_of_a_cell_stand_beside_each_other(folder):
    for number in range(2):
        folder.put_run(run(round_=number), samples(2, round_=number))
    folder.put_run(run(round_=1), samples(3, round_=1))
    assert folder.rows(Run) == [run(round_=0), run(round_=1)]
    assert folder.rows(Sample) == samples(2, round_=0) + samples(3, round_=1)


def at(shape, row):
    return dataclasses.replace(row, input_shape=shape)


def test_a_cell_measured_at_another_input_shape_loses_all_its_rounds_and_no_other_cell_does(folder):
    for number in range(3):
        short = at("16000", run("wav2vec2_base", round_=number))
        folder.put_run(short, samples(2, "wav2vec2_base", round_=number))
    folder.put_run(at("16000", run("wav2vec2_base", 64)), samples(2, "wav2vec2_base", 64))
    new = samples(3, "wav2vec2_base", round_=1)
    folder.put_run(at("160000", run("wav2vec2_base", round_=1)), new)
    assert [(row.batch, row.round, row.input_shape) for row in folder.rows(Run)] == [(64, 0, "16000"), (1, 1, "160000")]
    assert {(row.batch, row.round, row.sample) for row in folder.rows(Sample)} == {
        *((64, 0, index) for index in range(2)), *((1, 1, index) for index in range(3))
    }  # fmt: skip
    assert folder.rows(Sample, folder.rows(Run)[:1]) == samples(2, "wav2vec2_base", 64)


def test_no_row_commits_samples_of_another_input_shape_whenever_a_writer_is_killed(folder, monkeypatch):
    folder.put_run(at("16000", run("wav2vec2_base")), samples(2, "wav2vec2_base"))
    monkeypatch.setattr(table, "put", lambda *_: None)  # killed before the row was written
    folder.put_run(at("160000", run("wav2vec2_base")), samples(3, "wav2vec2_base"))
    assert folder.rows(Run) == folder.rows(Sample) == []


def test_a_profile_and_counters_at_another_input_shape_take_the_place_of_the_ones_before(folder):
    model = "wav2vec2_base"
    for shape, time_s in (("16000", 0.25), ("160000", 2.5)):
        folder.put_profile(at(shape, profile(model)), [operator_time(model, time_s=time_s)])
        folder.put_hardware_counters(at(shape, counter_profile(model)), [kernel_counters(model, time_s=time_s)])
    assert [row.input_shape for row in folder.rows(Profile)] == ["160000"]
    assert [row.input_shape for row in folder.rows(HardwareCounterProfile)] == ["160000"]
    assert [row.time_s for row in [*folder.rows(OperatorTime), *folder.rows(KernelCounters)]] == [2.5, 2.5]
    assert folder.rows(OperatorTime, []) == folder.rows(KernelTime, []) == folder.rows(KernelCounters, []) == []


STAGES = ("forward", "backward", "update")


def put_step(folder, status="ok", count=2):
    stages = [(run(phase=phase, status=status), samples(count, phase=phase)) for phase in STAGES]
    folder.put_run(run(phase="step", status=status), samples(count, phase="step"), stages)


def test_a_step_stands_beside_its_stages_and_is_replaced_with_them(folder):
    folder.put_run(run(), samples(1))
    put_step(folder)
    put_step(folder, count=3)
    assert folder.rows(Run) == [run(), *(run(phase=phase) for phase in (*STAGES, "step"))]
    assert len(folder.rows(Sample)) == 1 + 4 * 3
    put_step(folder, "oom", count=0)
    assert [(row.phase, row.status) for row in folder.rows(Run)] == [
        ("inference", "ok"),
        *((phase, "oom") for phase in (*STAGES, "step")),
    ]
    assert folder.rows(Sample) == samples(1)


def test_stages_without_their_step_are_not_there_and_are_replaced(folder):
    put_step(folder)
    path = folder.folder / "runs.csv"
    *others, whole = path.read_text().splitlines(keepends=True)
    path.write_text("".join(others) + whole[:20])  # as if killed before the last line was complete
    with folder.locked(lambda _: None):
        assert folder.rows(Run) == []
    assert folder.rows(Sample) == []
    resumed = MachineFolder(folder.folder.parents[1], "box")
    put_step(resumed, count=1)
    assert [row.phase for row in resumed.rows(Run)] == [*STAGES, "step"]
    assert len(resumed.rows(Sample)) == 4
    assert path.read_text().count("\n") == 1 + 4


def test_torn_lines_are_set_aside_and_named(folder):
    folder.put_run(run(), samples(2))
    said = []
    with folder.locked(said.append):
        assert said == []
    with (folder.folder / "samples.csv").open("ab") as file:
        file.write(b"e1,ne")
    with folder.locked(said.append):
        assert said == [
            f"A killed run left a torn line in samples.csv; it is set aside in {folder.folder / 'samples.csv.torn'}"
        ]
    assert folder.rows(Sample) == samples(2)


def test_an_environment_is_kept_once(folder):
    folder.put_environment(ENVIRONMENT)
    folder.put_environment(dataclasses.replace(ENVIRONMENT, recorded_at="2027-01-01"))
    assert folder.rows(Environment) == [ENVIRONMENT]
    assert machine_names(folder.folder.parents[1]) == ["box"]


def test_a_roof_measured_again_replaces_the_old_one(folder):
    folder.put_roof_measurements([roof_measurement(8), roof_measurement(16)])
    folder.put_roof_measurements([roof_measurement(8, latency_s=0.25)])
    assert {(row.size, row.latency_s) for row in folder.rows(RoofMeasurement)} == {(16, 0.5), (8, 0.25)}


def test_workloads_are_sorted_so_that_counting_again_changes_no_byte(tmp_path):
    tables = Workloads(tmp_path)
    paths = tables.folders()[0].paths.values()
    tables.put([(workload("b", 64), [], []), (workload("b", 1), [layer("b"), layer("b", position=1)], [operator("b")])])
    tables.put([(workload("a", 1), [layer("a")], [operator("a")])])
    first = [path.read_bytes() for path in paths]
    tables.put([(workload("b", 1), [layer("b"), layer("b", position=1)], [operator("b")])])
    assert [path.read_bytes() for path in paths] == first
    assert [(row.model, row.batch) for row in tables.rows(Workload)] == [("a", 1), ("b", 1), ("b", 64)]


def test_counting_again_leaves_no_layer_and_operator_of_the_old_count(tmp_path):
    tables = Workloads(tmp_path)
    tables.put(
        [
            (workload("a"), [layer("a"), layer("a", position=1)], [operator("a"), operator("a", name="add")]),
            (workload("b"), [layer("b")], [operator("b")]),
        ]
    )
    tables.put([(workload("a"), [layer("a", flop=7)], [operator("a", calls=7)])])
    assert [(row.model, row.operator, row.calls) for row in tables.rows(Operator)] == [("a", "mm", 7), ("b", "mm", 1)]
    assert [(row.model, row.position, row.forward_flop) for row in tables.rows(Layer)] == [("a", 0, 7), ("b", 0, 10)]


def test_layers_and_operators_that_no_workload_committed_are_not_there(tmp_path):
    tables = Workloads(tmp_path)
    tables.put([(workload(name), [layer(name)], [operator(name)]) for name in ("a", "b")])
    write(tables.folder / "models.csv", Workload, [workload("b")])  # as if killed between the tables
    assert [row.model for row in tables.rows(Layer)] == ["b"]
    assert [row.model for row in tables.rows(Operator)] == ["b"]


COUNTER = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from helpers.rows import layer, operator, workload

tables = Workloads(Path(sys.argv[1]))
print(len(tables.rows(Workload)), flush=True)
sys.stdin.readline()
for batch in range(1, 21):
    tables.put([(workload("net", batch), [layer("net", batch)], [operator("net", batch)])])
"""


def test_two_runs_that_count_at_the_same_time_lose_nothing_and_have_nothing_twice(tmp_path):
    command = [sys.executable, "-c", COUNTER, str(tmp_path), str(ROOT), str(ROOT / "tests")]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [each.stdout.readline() for each in both] == ["0\n", "0\n"]
    for each in both:
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in both:
        each.communicate()
        assert each.returncode == 0
    tables = Workloads(tmp_path)
    for rows in (tables.rows(Workload), tables.rows(Layer), tables.rows(Operator)):
        assert [row.batch for row in rows] == list(range(1, 21))


def test_a_profile_commits_the_times_of_its_operators(folder):
    folder.put_profile(profile(), [operator_time(), operator_time(path=None)])
    append(folder.folder / "operators.csv", OperatorTime, [operator_time("killed")])
    folder.put_profile(profile("full", status="oom", reason="full"), [])
    assert folder.rows(Profile) == [profile(), profile("full", status="oom", reason="full")]
    assert folder.rows(OperatorTime) == [operator_time(), operator_time(path=None)]


def test_a_cell_profiled_again_replaces_the_old_one_and_no_other_phase_of_it(folder):
    folder.put_profile(profile(), [operator_time()])
    folder.put_profile(profile(phase="step"), [operator_time(phase="step")])
    folder.put_profile(profile(), [operator_time(time_s=0.5)])
    assert [row.phase for row in folder.rows(Profile)] == ["step", "inference"]
    assert {(row.phase, row.time_s) for row in folder.rows(OperatorTime)} == {("inference", 0.5), ("step", 0.25)}


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from measure.cache.folders import MachineFolder
from measure.cache.records import Run
from helpers.rows import run, samples
from helpers.world import WORLD
folder = MachineFolder(Path(sys.argv[1]), "box")
batch = 1 + max((row.batch for row in folder.rows(Run)), default=0)
print("ready", flush=True)
while True:
    folder.put_run(run(batch=batch), samples(5, batch=batch))
    print(batch, flush=True)
    batch += 1
"""


def test_a_writer_killed_at_any_moment_loses_at_most_its_cell(tmp_path):
    generator = random.Random(7)
    committed = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(ROOT), str(ROOT / "tests")],
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(generator.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said = [int(line) for line in writer.stdout.read().split()]
        committed = max([committed, *said])
        folder = MachineFolder(tmp_path, "box")
        batches = [row.batch for row in folder.rows(Run)]
        # Every cell that the writer said it had committed is there, each once, in full.
        assert batches == list(range(1, len(batches) + 1))
        assert len(batches) in (committed, committed + 1)
        assert len(folder.rows(Sample)) == 5 * len(batches)
        committed = len(batches)
    assert committed > 0


def test_kernels_stand_beside_their_profile_and_a_processor_has_no_table_of_them(folder):
    folder.put_profile(profile(), [operator_time()])
    assert not (folder.folder / "kernels.csv").exists()
    folder.put_profile(profile(), [operator_time()], [kernel_time(), kernel_time(kernel="splitK")])
    assert folder.rows(KernelTime) == [kernel_time(), kernel_time(kernel="splitK")]
    folder.put_profile(profile(status="oom", reason="full"), [])
    assert folder.rows(KernelTime) == []


def test_what_counters_said_stands_beside_its_profile_and_is_replaced_with_it(folder):
    folder.put_hardware_counters(counter_profile(), [kernel_counters()])
    folder.put_hardware_counters(counter_profile(batch=8, status="unsupported", reason="forbidden"), [])
    assert [(row.batch, row.status) for row in folder.rows(HardwareCounterProfile)] == [(1, "ok"), (8, "unsupported")]
    assert folder.rows(KernelCounters) == [kernel_counters()]
    append(folder.folder / "counters.csv", KernelCounters, [kernel_counters(model="killed")])
    assert folder.rows(KernelCounters) == [kernel_counters()]  # no profile committed it
    again = MachineFolder(folder.folder.parents[1], "box")  # another process
    again.put_hardware_counters(counter_profile(), [kernel_counters(time_s=0.5)])
    assert again.rows(KernelCounters) == [kernel_counters(time_s=0.5)]


def test_a_model_of_ones_own_has_one_input_shape(tmp_path):
    def row(model, source, shape):
        return dataclasses.replace(workload(model), source=source, input_shape=shape)

    tables = Workloads(tmp_path)
    own, net = row("mine:net", "own", "3"), row("net", "torchvision", "3x2x2")
    tables.put([(own, [], []), (net, [], [])])
    changed, larger = row("mine:net", "own", "5"), row("net", "torchvision", "3x4x4")
    tables.put([(changed, [], []), (larger, [], [])])
    assert tables.rows(Workload) == [net, larger, changed]
    tables.put([(dataclasses.replace(changed, batch=4), [], [])])
    assert [(each.model, each.batch) for each in tables.rows(Workload)] == [
        ("net", 1), ("net", 1), ("mine:net", 1), ("mine:net", 4),
    ]  # fmt: skip


def test_the_newest_environment_is_the_one_recorded_last(tmp_path):
    box = comparing.machine(tmp_path, "box", comparing.NEWER, comparing.ENVIRONMENT)
    assert box.newest_environment() == comparing.NEWER
    with pytest.raises(UserError, match=r"other/machine\.csv has no environment; measure with python -m measure"):
        MachineFolder(tmp_path, "other").newest_environment()


def test_models_of_ones_own_are_counted_apart_and_read_with_the_others(tmp_path):
    mine = dataclasses.replace(workload("mine:net"), source="own")
    shared, own = tmp_path / "workload", tmp_path / "workload" / "own"
    assert "data/workload/own/" in (ROOT / ".gitignore").read_text().splitlines()
    tables = Workloads(tmp_path)
    tables.put([(workload(), [layer()], []), (mine, [layer("mine:net"), layer("mine:net", position=1)], [])])
    assert "mine:net" not in (shared / "models.csv").read_text() + (shared / "layers.csv").read_text()
    assert "mine:net" in (own / "models.csv").read_text()
    assert [row.model for row in tables.rows(Workload)] == ["net", "mine:net"]
    assert [row.model for row in tables.rows(Layer)] == ["net", "mine:net", "mine:net"]
    tables.leave_out({"mine:net"})
    assert [row.model for row in Workloads(tmp_path).rows(Workload)] == ["net"]
    assert [row.model for row in Workloads(tmp_path).rows(Layer)] == ["net"]


@pytest.fixture
def data(tmp_path):
    """A cache of one machine and one workload."""
    Workloads(tmp_path).put([(workload(), [layer()], [operator()])])
    machine_in(tmp_path / "machines" / "box")
    return tmp_path


@pytest.mark.parametrize("folder", [ROOT / "data", WORLD])
def test_the_committed_caches_are_sound(folder):
    check_cache(folder)


def test_a_folder_without_tables_is_no_machine(data):
    (data / "machines" / "notes").mkdir()
    (data / "machines" / "notes" / "runs.txt").touch()
    check_cache(data)


def header_alone(text):
    return text[: text.index(b"\n") + 1]


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("machines/box/runs.csv", lambda text: text[:-1], ", line 3: incomplete row"),
        ("machines/box/runs.csv", lambda text: text + b"e1,net", ", line 4: incomplete row"),
        ("machines/box/runs.csv", lambda text: text.replace(b"\n", b"\r"), ": has no complete line"),
        ("machines/box/runs.csv", lambda _: b"", ": has no complete line"),
        ("machines/box/runs.csv", header_alone, ": has no row, and other tables need one"),
        ("machines/box/profiles.csv", header_alone, ": has no row, and other tables need one"),
        ("machines/box/machine.csv", header_alone, ": has no row, and other tables need one"),
        ("machines/box/samples.csv", lambda text: text.replace(b",0.1,", b",1e9,"), ", line 2, column latency_s: the"),
        ("workload/models.csv", header_alone, ": has no row, and other tables need one"),
        ("workload/operators.csv", lambda text: text[:-1], ", line 2: incomplete row"),
    ],
)
def test_a_damaged_table_is_named(data, file, damage, words):
    path = data / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError) as caught:
        check_cache(data)
    assert str(caught.value).startswith(f"{path}{words}")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("machines/box/machine.csv", ": has no row, and other tables need one"),
        ("machines/box/runs.csv", ": has no row, and other tables need one"),
    ],
)
def test_a_table_that_is_gone_is_missed(data, file, words):
    path = data / file
    path.unlink()
    with pytest.raises(UserError) as caught:
        check_cache(data)
    assert str(caught.value).startswith(f"{path}{words}")
    path.mkdir()
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\); restore the file or move it away"):
        check_cache(data)
