import dataclasses

import pytest
from helpers.rows import ENVIRONMENT, machine_in, roof_measurement, run, samples, workload, zipped

from measure import __main__ as command
from measure.cache.folders import Folder, MachineFolder, Workloads, machine_names
from measure.cache.records import Environment, RoofMeasurement, Run, Sample
from measure.errors import UserError
from measure.verbs import add_machine


def add(data, source, *flags):
    return command.main(["add-machine", str(source), *flags, "--data", str(data)])


def call(*words):
    return command.main(["add-machine", *words])


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


@pytest.fixture
def given(tmp_path):
    return machine_in(tmp_path / "given" / "box").folder


def test_a_folder_is_added_and_what_comes_next_is_told(data, given, capsys):
    Workloads(data).put([(workload(batch=batch), [], []) for batch in (1, 64)])
    (given / "plot.py").write_text("import os")
    assert add(data, given) == 0
    output = capsys.readouterr().out
    assert f"Added Chip, of 2 cores to {data}/machines/box; rows: 1 in machine.csv, 1 in roofs.csv" in output
    assert "3 in samples.csv" in output
    assert "Left out, not tables of a machine: 'plot.py'\n" in output
    assert "Not counted" not in output
    assert output.endswith(f"Next: python -m report --data {data}\n")
    assert MachineFolder(data, "box").tables() == Folder(given).tables()
    assert not (data / "machines/box/plot.py").exists()
    assert add(data, given) == 0
    assert f"{data}/machines/box holds all of this already; nothing was added" in capsys.readouterr().out


def test_a_zip_without_a_folder_is_named_after_the_hardware(data, given, tmp_path, capsys):
    assert add(data, zipped(tmp_path / "results (1).zip", given)) == 0
    assert machine_names(data) == ["chip-of-2-cores-2c-h1"]
    assert add(data, given, "--machine", "mine") == 0
    assert machine_names(data) == ["chip-of-2-cores-2c-h1", "mine"]


def test_the_same_machine_goes_where_it_is(data, given, tmp_path, capsys):
    assert add(data, given, "--machine", "mine") == 0
    assert add(data, given) == 0
    assert machine_names(data) == ["mine"]


def test_models_that_are_not_counted_are_named_with_the_command_that_counts_them(data, given, capsys):
    runs = given / "runs.csv"
    runs.write_text(runs.read_text().replace("e1,net,64", "e1,$(reboot),64"))
    assert add(data, given) == 0
    output = capsys.readouterr().out
    assert "Not counted here, and so without FLOP and bytes: $(reboot), net. To count them:\n" in output
    counting = f"python -m measure --sections workload --models '$(reboot)' net --batch-sizes 1 64 --data {data}"
    assert f"  {counting}\n" in output


def test_models_that_are_not_counted_at_another_input_shape_are_named(data, tmp_path, capsys):
    machine = machine_in(tmp_path / "given" / "box")
    short = dataclasses.replace(run("wav2vec2_base"), input_shape="16000")
    machine.put_run(short, samples(2, "wav2vec2_base"))
    counted = [workload(batch=batch) for batch in (1, 64)] + [
        dataclasses.replace(workload("wav2vec2_base"), input_shape="160000")
    ]
    Workloads(data).put([(row, [], []) for row in counted])
    assert add(data, machine.folder) == 0
    output = capsys.readouterr().out
    said = "Not counted here at inputs of this shape, and so without FLOP and bytes: wav2vec2_base at 16000\n"
    assert said in output
    assert "To count them" not in output


def test_other_results_of_a_cell_are_refused_at_whatever_input_shape(data, tmp_path, capsys):
    first, second = (machine_in(tmp_path / name / "box") for name in ("first", "second"))
    first.put_run(run("wav2vec2_base"), samples(2, "wav2vec2_base"))
    longer = dataclasses.replace(run("wav2vec2_base"), input_shape="160000")
    second.put_run(longer, samples(2, "wav2vec2_base"))
    assert add(data, first.folder) == 0
    assert add(data, second.folder) == 2
    error = capsys.readouterr().err
    assert "runs.csv: has other results for 1 of the same rows, such as 'wav2vec2_base 1 fp32 inf" in error
    assert error.count("\n") == 1
    assert add(data, second.folder, "--replace") == 0
    assert "160000" in {row.input_shape for row in MachineFolder(data, "box").rows(Run)}


@pytest.mark.parametrize("name", ["=cmd()", "<script>", "$x$|y", '"a", b', "#eval(`x`)", "ñ\\'é", " blank "])
def test_names_that_may_be_anything_are_kept_to_the_letter(data, tmp_path, name):
    machine = machine_in(tmp_path / "given" / "box", dataclasses.replace(ENVIRONMENT, name=name))
    machine.put_run(run(name), samples(2, name))
    assert add(data, machine.folder) == 0
    assert MachineFolder(data, "box").tables() == machine.tables()


@pytest.mark.parametrize("name", ["a b", "<script>", "-x", "x" * 65, "=cmd()"])
def test_a_folder_name_that_is_not_plain_is_refused(data, given, capsys, name):
    assert add(data, given.rename(given.with_name(name))) == 2
    output = capsys.readouterr().err
    assert "is not a valid folder name; use letters" in output
    assert output.count("\n") == 1
    assert not (data / "machines").exists()
    assert add(data, given.with_name(name), "--machine", "plain") == 0


def test_another_machine_of_that_name_is_refused_unless_told(data, given, tmp_path, capsys):
    assert add(data, given) == 0
    other = dataclasses.replace(ENVIRONMENT, hardware_id="h2", name="Other chip")
    box = machine_in(tmp_path / "other" / "box", other).folder
    assert add(data, box) == 2
    assert "holds another machine ('Chip, of 2 cores')" in capsys.readouterr().err
    assert add(data, box, "--replace") == 0
    (there,) = MachineFolder(data, "box").rows(Environment)
    assert there == other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.zip"], "nowhere.zip: cannot be read (No such file or directory)"),
        (["given", "--machine", "../up"], "--machine: '../up' is not a valid folder name"),
        (["given/box/runs.csv"], "cannot be read (File is not a zip file)"),
        ([], "FOLDER|ZIP"),
        (["given", "--merge"], "--merge"),
        (["given", "--data", "given/box/runs.csv"], "--data: given/box/runs.csv is a file; name a folder"),
    ],
)
def test_bad_input_is_answered_in_one_sentence(data, given, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert call(*arguments) == 2
    output = capsys.readouterr()
    assert output.err.startswith("python -m measure add-machine: ")
    assert words in output.err
    assert output.err.count("\n") == 1
    assert not data.exists()


def test_a_file_in_the_place_of_the_folder_is_named(data, given, capsys):
    (data / "machines").mkdir(parents=True)
    (data / "machines" / "box").write_text("")
    assert add(data, given) == 2
    assert f"--machine: {data}/machines/box is a file; name a folder" in capsys.readouterr().err


def test_an_implausible_row_is_named_by_the_file_that_was_handed_in(data, given, tmp_path, capsys):
    path = given / "samples.csv"
    path.write_text(path.read_text().replace(",0.1,", ",nan,"))
    assert add(data, zipped(tmp_path / "given.zip", given, "box/")) == 2
    assert (
        f"{tmp_path}/given.zip/box/samples.csv, line 2, column latency_s: the cell is 'nan'" in capsys.readouterr().err
    )
    assert not data.exists()


def test_an_unknown_column_or_word_is_named(data, given, capsys):
    path = given / "runs.csv"
    whole = path.read_text()
    path.write_text(whole.replace("eager", "nap"))
    assert add(data, given) == 2
    assert f"{path}, line 2, column variant: the cell is 'nap', not one of eager, autocast" in capsys.readouterr().err
    path.write_text(whole.replace("variant", "<b>"))
    assert add(data, given) == 2
    assert f"{path}, line 1: unknown column '<b>'" in capsys.readouterr().err


def test_several_machines_of_one_kind_become_machines_of_their_own(data, tmp_path, capsys):
    folders = [machine_in(tmp_path / pupil / "tesla-t4").folder for pupil in ("anna", "ben", "carl")]
    for latency, folder in zip(("0.25", "0.5"), folders[1:], strict=True):
        table = folder / "samples.csv"
        table.write_text(table.read_text().replace("0.1,", f"{latency},"))
    archive = zipped(tmp_path / "dora's results.zip", folders[0])  # the same again
    assert call(*map(str, folders), str(archive), "--data", str(data)) == 0
    assert machine_names(data) == ["dora-s-results", "tesla-t4", "tesla-t4-2", "tesla-t4-3"]
    output = capsys.readouterr().out
    assert output.count("Added Chip, of 2 cores to ") == 4
    assert output.count("Next: ") == output.count("Not counted here") == 1
    assert call(*map(str, folders), "--data", str(data)) == 0
    assert machine_names(data) == ["dora-s-results", "tesla-t4", "tesla-t4-2", "tesla-t4-3"]
    assert capsys.readouterr().out.count("holds all of this already") == 3


def test_of_several_zips_each_is_called_as_its_file(data, tmp_path, capsys):
    """Inside, the folders of machines of one kind are called the same."""
    zips = []
    for name, latency in (("ada", "0.25"), ("grace h", "0.5")):
        folder = tmp_path / name / "colab-t4"
        machine_in(folder)
        (folder / "samples.csv").write_text((folder / "samples.csv").read_text().replace("0.125", latency))
        zips.append(zipped(tmp_path / f"{name}.zip", folder, "colab-t4/"))
    assert call(*map(str, zips), "--data", str(data)) == 0
    assert machine_names(data) == ["ada", "grace-h"]


def test_of_several_machines_the_sound_ones_are_added_and_the_others_named(data, given, tmp_path, capsys):
    broken = machine_in(tmp_path / "broken" / "rack").folder
    (broken / "runs.csv").write_text("colour\n")
    assert call(str(broken), str(given), str(tmp_path / "nowhere.zip"), "--data", str(data)) == 2
    assert machine_names(data) == ["box"]
    *problems, last = capsys.readouterr().err.splitlines()
    assert f"{broken}/runs.csv, line 1: unknown column 'colour'" in problems[0]
    assert "nowhere.zip: cannot be read" in problems[1]
    assert f"2 of 3 were not added: {broken}, {tmp_path}/nowhere.zip; correct and add them" in last


def test_one_name_is_for_one_machine(data, given, capsys):
    assert call(str(given), str(given), "--machine", "box", "--data", str(data)) == 2
    assert "--machine: names one machine; give one folder or zip with it" in capsys.readouterr().err


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
    with MachineFolder(tmp_path, "box").locked(), pytest.raises(UserError, match="is measuring into "):
        add_machine.put(tmp_path, "box", tables, replace=True)


FULL = OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("problem", "raised", "words"),
    [
        (FULL, UserError, r"box: could not be written \(the disk is full\); its old content is intact"),
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
