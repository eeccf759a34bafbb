import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.rows import ENVIRONMENT, machine_in, roof_measurement, run, samples, workload, zipped

from measure import __main__ as command
from measure.cache.folders import Folder, MachineFolder, Workloads, machine_names
from measure.domain.models import BUILT_IN, MEASURED_SHAPES
from measure.domain.records import Environment, RoofMeasurement, Run, Sample
from measure.errors import UserError
from measure.verbs import sharing
from measure.verbs.run_flags import make_request, parser

DATA = Path("cache")
OTHER = replace(ENVIRONMENT, hardware_id="h2", name="Other chip")
AUDIO = "wav2vec2_base"


def add(*words):
    return command.main(["add-machine", *map(str, words), "--data", str(DATA)])


def tables(name="box"):
    return MachineFolder(DATA, name).tables()


@pytest.fixture(autouse=True)
def given(tmp_path, monkeypatch):
    """A machine's folder that somebody hands in; the cache is ``cache`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    return machine_in(Path("given/box")).folder


def change(path, old, new):
    path.write_text(path.read_text().replace(old, new))


def test_a_folder_is_added_and_the_next_step_named(golden, given, capsys):
    Workloads(DATA).put([(workload(batch=batch), [], []) for batch in (1, 64)])
    (given / "plot.py").write_text("import os")
    assert add(given) == 0
    assert tables() == Folder(given).tables()
    assert not (DATA / "machines/box/plot.py").exists()
    assert add(given) == 0  # the same again
    golden("add-machine", capsys.readouterr().out)


def test_the_uncounted_is_named_with_the_command_to_count_it(golden, given, capsys):
    change(given / "runs.csv", "e1,net,64", "e1,$(reboot),64")
    MachineFolder(Path(), "", given).put_run(replace(run(AUDIO), input_shape="16000"), samples(2, AUDIO))
    at_half = [replace(each, precision="bf16") for each in samples(2, "half")]
    MachineFolder(Path(), "", given).put_run(replace(run("half"), precision="bf16"), at_half)
    counted = replace(workload(AUDIO), input_shape="160000"), workload("half")  # at another shape, at fp32
    Workloads(DATA).put([(each, [], []) for each in counted])
    assert add(given) == 0
    golden("add-machine-uncounted", capsys.readouterr().out)


def test_a_command_with_very_many_models_can_still_be_copied(given, capsys):
    """It counts the built-in models, and never imports somebody else's own model."""
    box = MachineFolder(Path(), "", given)
    built_in = [model.name for model in BUILT_IN[:20]]
    for name in (*built_in, "mine:net", "timm:no_such_network"):
        box.put_run(replace(run(name), input_shape=MEASURED_SHAPES.get(name)), samples(2, name))
    assert add(given) == 0
    (command,) = re.findall(r"python -m measure (--sections workload .*)", capsys.readouterr().out)
    assert command.startswith("--sections workload --models measured --batch-sizes 1")
    request = make_request(parser().parse_args(command.split()))
    assert {model.name for model in request.models} == set(built_in)


def test_a_machine_stays_where_it_is_or_is_named_by_its_hardware(given, capsys):
    assert add(zipped(Path("results (1).zip"), given)) == add(given) == 0  # a zip without a folder
    assert machine_names(DATA) == ["chip-of-2-cores-2c-h1"]
    given = given.rename("a b")
    assert add(given, "--machine", "mine") == add(given.rename("mine")) == 0
    assert machine_names(DATA) == ["chip-of-2-cores-2c-h1", "mine"]
    assert "cache/machines/mine holds all of this already" in capsys.readouterr().out
    shutil.rmtree(DATA)
    assert add(Path("mine").rename("a b")) == 2  # no name of a folder
    assert "--machine: 'a b'" in capsys.readouterr().err


def test_several_machines_of_one_kind_stay_apart(golden, given, capsys):
    folders = [machine_in(Path(pupil) / "tesla-t4").folder for pupil in ("anna", "ben", "carl")]
    change(folders[1] / "samples.csv", "0.1,", "0.25,")
    change(folders[2] / "samples.csv", "0.1,", "0.5,")
    # Zips are called as their files, for folders of one kind have one name. The first holds anna's machine again
    zips = [zipped(Path("dora's results.zip"), folders[0]), zipped(Path("eve.zip"), given, "tesla-t4/")]
    change(given / "samples.csv", "0.1,", "0.75,")
    names = ["dora-s-results", "eve", "tesla-t4", "tesla-t4-2", "tesla-t4-3"]
    assert add(*folders, *zips) == 0
    assert machine_names(DATA) == names
    assert add(*folders, "nowhere.zip", *zips) == 2  # the sound ones are added
    assert machine_names(DATA) == names
    printed = capsys.readouterr()
    golden("add-machine-several", printed.out)
    assert "1 of 6 were not added: nowhere.zip; correct and add them\n" in printed.err


def test_zips_are_found_by_a_glob_and_called_as_their_files(given):
    for name in ("U\u0308nal, Deniz.zip", "李明.zip"):  # the first as macOS writes it
        zipped(Path(name), given)
    assert add("*.zip") == 0
    assert machine_names(DATA) == ["Ünal-Deniz", "李明"]


def put(given, changes=(), replaces=False):
    return sharing.put(DATA, "box", Folder(given).tables() | dict(changes), replace=replaces)


def test_what_the_same_machine_measured_joins_what_is_new(given):
    put(given)
    newer = replace(ENVIRONMENT, environment_id="e2", recorded_at="2026-01-02")
    again = replace(ENVIRONMENT, recorded_at="2026-01-03")  # seen first in another folder
    roofs = [roof_measurement(), roof_measurement(16)]
    more = {Run: [run(), run("other")], Sample: [*samples(3), *samples(2, "other")]}
    added = put(given, {Environment: [again, newer], RoofMeasurement: roofs} | more)
    assert [added[record] for record in (Environment, RoofMeasurement, Run, Sample)] == [1, 1, 1, 2]
    together = tables()
    assert (together[Environment], together[RoofMeasurement]) == ([ENVIRONMENT, newer], roofs)
    assert [(row.model, row.batch) for row in together[Run]] == [("net", 1), ("net", 64), ("other", 1)]
    assert len(together[Sample]) == 5


AUDIO_RUN = replace(run(AUDIO), input_shape="16000")


@pytest.mark.parametrize(
    ("record", "rows", "culprit"),
    [
        (Environment, [OTHER], "cache/machines/box: holds another machine ('Chip, of 2 cores')"),
        (RoofMeasurement, [roof_measurement(latency_s=0.45)], "roofs.csv: has other results for 1 of"),
        (Run, [run(status="oom", reason="full")], "runs.csv: has other results for 1 of the same rows, such as 'net 1"),
        (Run, [replace(AUDIO_RUN, input_shape="160000")], "such as 'wav2vec2_base 1 fp32"),  # at whatever shape
    ],
)
def test_a_clash_is_refused_unless_it_may_replace(given, record, rows, culprit):
    put(given, {Run: [*Folder(given).tables()[Run], AUDIO_RUN]})
    before = tables()
    with pytest.raises(sharing.TakenError) as caught:
        put(given, {record: rows})
    assert culprit in str(caught.value)
    with MachineFolder(DATA, "box").locked(), pytest.raises(UserError, match="is measuring into "):
        put(given, {record: rows}, replaces=True)
    assert tables() == before
    put(given, {record: rows}, replaces=True)
    assert tables()[record] == rows


def test_a_full_disk_leaves_the_old_machine_and_says_so(given, monkeypatch):
    put(given)
    before = tables()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match="the disk is full"):
        put(given, {Run: []}, replaces=True)
    assert tables() == before
    assert not [path for path in (DATA / "machines/box").iterdir() if path.is_dir()]
