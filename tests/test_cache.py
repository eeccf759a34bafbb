import dataclasses
import os
import random
import signal
import subprocess
import sys
import time
import typing

import pytest

from measure import cache
from measure.cache import MachineFolder, Workloads
from measure.errors import UserError
from measure.records import KEYS, Ceiling, Environment, Layer, Run, Sample, Workload

ENVIRONMENT = Environment(
    "e1",
    "h1",
    "cpu",
    "Chip, of 2 cores",
    2,
    2,
    1024,
    None,
    None,
    "Linux",
    "3.11",
    "2.9",
    None,
    None,
    "2026-01-01",
)


def workload(model="net", batch=1, flop=10, **columns):
    return Workload(
        model, "torchvision", "plain", "3x2x2", batch, "fp32", None, "ok", None, forward_flop=flop, **columns
    )


def layer(model="net", batch=1, position=0, flop=10):
    return Layer(
        model, "3x2x2", batch, "fp32", None, position, "head", "Linear", "linear", 1, 5, 20, 8, 96, flop, 2, None,
        None, None, None, None,
    )  # fmt: skip


def ceiling(size=8, latency_s=0.5):
    return Ceiling("e1", "matmul", "fp32", size, 1024, 768, "ok", None, latency_s, 0.4, 0.6, 6)


def run(model="net", batch=1, status="ok", reason=None):
    return Run("e1", model, batch, "fp32", "inference", "eager", status, reason, "2026-01-01T00:00:00+00:00")


def samples(count, model="net", batch=1):
    return [
        Sample("e1", model, batch, "fp32", "inference", "eager", index, 4, 0.1 + index)
        for index in range(count)
    ]


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "box")


@pytest.mark.parametrize("record", KEYS)
def test_keys_are_columns(record):
    assert set(KEYS[record]) <= {field.name for field in dataclasses.fields(record)}


@pytest.mark.parametrize(
    "row",
    [
        workload(uncounted="sort:2:0.1"),
        layer(),
        ENVIRONMENT,
        ceiling(latency_s=1 / 3),
        run(status="oom", reason='no "memory", at all\nor nearly'),
        samples(1)[0],
    ],
)
def test_what_is_written_is_read_back(tmp_path, row):
    cache.write(tmp_path / "table.csv", type(row), [row])
    assert cache.read(tmp_path / "table.csv", type(row)) == [row]


def test_an_unknown_value_is_an_empty_cell(tmp_path):
    cache.write(tmp_path / "machine.csv", Environment, [ENVIRONMENT])
    header, line = (tmp_path / "machine.csv").read_text().splitlines()
    assert line.startswith('e1,h1,cpu,"Chip, of 2 cores",2,2,1024,,,Linux')
    assert header.split(",") == list(typing.get_type_hints(Environment))


def test_a_table_that_is_not_there_is_empty(tmp_path):
    assert cache.read(tmp_path / "none.csv", Run) == []


def test_append_adds_at_the_end(tmp_path):
    path = tmp_path / "samples.csv"
    cache.append(path, Sample, samples(2))
    cache.append(path, Sample, samples(1, model="other"))
    assert [row.model for row in cache.read(path, Sample)] == ["net", "net", "other"]


def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path):
    path = tmp_path / "samples.csv"
    cache.append(path, Sample, samples(2))
    whole = path.read_bytes()
    path.write_bytes(whole + b"e1,net,1,fp32,infer")
    assert cache.read(path, Sample) == samples(2)
    cache.append(path, Sample, samples(1, model="other"))
    assert [row.model for row in cache.read(path, Sample)] == ["net", "net", "other"]


def test_samples_that_no_run_committed_are_not_there(folder):
    folder.put_run(run(), samples(3))
    cache.append(folder.folder / "samples.csv", Sample, samples(2, model="killed"))
    assert folder.samples() == samples(3)
    folder.put_run(run(model="killed"), samples(4, model="killed"))
    assert folder.samples() == samples(3) + samples(4, model="killed")


def test_a_cell_measured_again_replaces_the_old_one(folder):
    folder.put_run(run(), samples(3))
    folder.put_run(run(batch=64), samples(2, batch=64))
    folder.put_run(run(status="oom", reason="full"), [])
    assert {(row.batch, row.status) for row in folder.runs()} == {(1, "oom"), (64, "ok")}
    assert folder.samples() == samples(2, batch=64)


def test_an_environment_is_kept_once(folder):
    folder.put_environment(ENVIRONMENT)
    folder.put_environment(dataclasses.replace(ENVIRONMENT, recorded_at="2027-01-01"))
    assert folder.environments() == [ENVIRONMENT]
    assert cache.machine_names(folder.folder.parents[1]) == ["box"]


def test_an_environment_of_an_earlier_version_is_completed_and_nothing_else_of_it_changes(folder):
    path = folder.folder / "machine.csv"
    cache.write(path, Environment, [dataclasses.replace(ENVIRONMENT, environment_id="e0"), ENVIRONMENT])
    later = ("cpu_vendor", "cpu_family", "cpu_model", "physical_cores")
    header, *lines = path.read_text().splitlines()
    assert header.endswith("," + ",".join(later))
    path.write_text(
        "\n".join([header.removesuffix("," + ",".join(later)), *(line[:-4] for line in lines), ""])
    )
    known = dataclasses.replace(ENVIRONMENT, cpu_vendor="V", cpu_family=6, cpu_model=85, physical_cores=1)
    newer = dataclasses.replace(known, torchvision="0.29.2", recorded_at="2027-01-01")
    folder.put_environment(newer)
    # torchvision was not there when this environment measured: only columns that there were not are filled.
    assert folder.environments() == [dataclasses.replace(ENVIRONMENT, environment_id="e0"), known]
    written = path.read_bytes()
    folder.put_environment(newer)
    assert path.read_bytes() == written


def test_a_roof_measured_again_replaces_the_old_one(folder):
    folder.put_ceilings([ceiling(8), ceiling(16)])
    folder.put_ceilings([ceiling(8, latency_s=0.25)])
    assert {(row.size, row.latency_s) for row in folder.ceilings()} == {(16, 0.5), (8, 0.25)}


def test_workloads_are_sorted_so_that_counting_again_changes_no_byte(tmp_path):
    table = Workloads(tmp_path)
    table.put([(workload("b", 64), []), (workload("b", 1), [layer("b"), layer("b", position=1)])])
    table.put([(workload("a", 1), [layer("a")])])
    first = table.models_path.read_bytes(), table.layers_path.read_bytes()
    table.put([(workload("b", 1), [layer("b"), layer("b", position=1)])])
    assert (table.models_path.read_bytes(), table.layers_path.read_bytes()) == first
    assert [(row.model, row.batch) for row in table.models()] == [("a", 1), ("b", 1), ("b", 64)]


def test_counting_again_leaves_no_layer_of_the_old_count(tmp_path):
    table = Workloads(tmp_path)
    table.put([(workload("a"), [layer("a"), layer("a", position=1)]), (workload("b"), [layer("b")])])
    table.put([(workload("a"), [layer("a", flop=7)])])
    assert [(row.model, row.position, row.forward_flop) for row in table.layers()] == [
        ("a", 0, 7),
        ("b", 0, 10),
    ]


def test_layers_that_no_workload_committed_are_not_there(tmp_path):
    table = Workloads(tmp_path)
    table.put([(workload("a"), [layer("a")]), (workload("b"), [layer("b")])])
    cache.write(table.models_path, Workload, [workload("b")])  # as if killed between the two tables
    assert [row.model for row in table.layers()] == ["b"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model,wat\n", "line 1: unknown column 'wat', so a newer version wrote this table; update"),
        ("environment_id,model\n", "line 1: the column 'batch' is missing, so an older version"),
        ("model,model\n", "line 1: the column 'model' stands twice"),
        (
            "{head}\ne1,net,one,fp32,inference,eager,ok,,now\n",
            "line 2, column batch: the cell is 'one', not a number",
        ),
        ("{head}\ne1,net,,fp32,inference,eager,ok,,now\n", "line 2, column batch: the cell is empty"),
        ("{head}\ne1,net,1\n", "line 2: 3 cells where the header has 9"),
        (
            "{head}\ne1,net,1,fp32,inference,eager,ok,,now\ne1,net,x,fp32,inference,eager,ok,,now\n",
            "line 3, column",
        ),
    ],
)
def test_a_damaged_table_is_named_with_line_and_column(tmp_path, text, complaint):
    path = tmp_path / "runs.csv"
    path.write_text(text.replace("{head}", ",".join(typing.get_type_hints(Run))))
    with pytest.raises(UserError) as caught:
        cache.read(path, Run)
    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


def test_a_table_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        cache.read(path, Run)


def test_a_table_with_an_older_header_takes_new_rows(tmp_path):
    path = tmp_path / "runs.csv"
    columns = [name for name in typing.get_type_hints(Run) if name != "reason"]
    path.write_text(",".join(columns) + "\ne1,net,1,fp32,inference,eager,ok,2026-01-01T00:00:00+00:00\n")
    cache.append(path, Run, [run(model="other")])
    assert cache.read(path, Run) == [run(), run(model="other")]


def test_two_writers_do_not_share_a_folder(folder):
    with folder.locked(), pytest.raises(UserError, match="another run is measuring"), folder.locked():
        pass
    with folder.locked():
        pass


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from pathlib import Path
from measure.cache import MachineFolder
from test_cache import run, samples
folder = MachineFolder(Path(sys.argv[1]), "box")
batch = 1 + max((row.batch for row in folder.runs()), default=0)
print("ready", flush=True)
while True:
    folder.put_run(run(batch=batch), samples(5, batch=batch))
    print(batch, flush=True)
    batch += 1
"""


def test_a_writer_killed_at_any_moment_loses_at_most_its_cell(tmp_path):
    generator = random.Random(7)
    here = os.path.dirname(__file__)
    committed = 0
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), os.path.dirname(here), here],
            stdout=subprocess.PIPE,
            text=True,
        ) as writer:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(generator.uniform(0.0, 0.05))
            writer.send_signal(signal.SIGKILL)
            said = [int(line) for line in writer.stdout.read().split()]
        committed = max([committed, *said])
        folder = MachineFolder(tmp_path, "box")
        batches = [row.batch for row in folder.runs()]
        # Every cell that the writer said it had committed is there, each once, in full.
        assert batches == list(range(1, len(batches) + 1))
        assert len(batches) in (committed, committed + 1)
        assert len(folder.samples()) == 5 * len(batches)
        committed = len(batches)
    assert committed > 0
