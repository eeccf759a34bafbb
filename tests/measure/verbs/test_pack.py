import dataclasses
import zipfile

import pytest
from helpers.rows import ENVIRONMENT, layer, machine_in, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import FILES, MachineFolder, Workloads
from measure.cache.table import write
from measure.cache.workload_records import Layer, Operator, Workload

OWN = {"model": "mine:net", "source": "own", "parameter_byte": 20, "traffic_byte": 96, "forward_other_flop": 2}


def own_workload(**columns):
    return dataclasses.replace(workload(**{"model": "mine:net"}), **(OWN | columns))


def operators():
    sums = {"flop": 10, "other_flop": 2, "recompute_flop": 0, "byte": 96, "calls": 1}
    where = {"model": "mine:net", "input_shape": "3x2x2", "batch": 1, "precision": "fp32", "autocast": None}
    return [Operator(**where, stage="inference", layer_kind="linear", operator="addmm", **sums)]


@pytest.fixture
def cache(tmp_path):
    """A cache in which a machine measured a library's model and its owner's own, and counted another own one."""
    data = tmp_path / "data"
    box = machine_in(data / "machines" / "box")
    timed = [dataclasses.replace(sample, model="mine:net") for sample in samples(3)]
    box.put_run(dataclasses.replace(run(), model="mine:net"), timed)
    Workloads(data).put(
        [
            (workload(), [], []),
            (own_workload(), [layer("mine:net")], operators()),
            (own_workload(model="mine:other"), [], []),
        ]
    )
    return data


def pack(data, *words):
    return command.main(["pack", *map(str, words), "--data", str(data)])


def add(data, *words):
    return command.main(["add-machine", *map(str, words), "--data", str(data)])


def test_what_is_packed_is_added_elsewhere_with_the_counts_of_its_owners_models(cache, tmp_path, capsys):
    assert pack(cache, tmp_path / "box.zip") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{tmp_path}/box.zip: {cache}/machines/box, with the counts of mine:net, ")
    elsewhere = tmp_path / "elsewhere"
    assert add(elsewhere, tmp_path / "box.zip") == 0
    assert "Added the counts of models of its owner: mine:net\n" in capsys.readouterr().out
    box = MachineFolder(cache, "box")
    assert MachineFolder(elsewhere, "box").tables() == box.tables()
    assert [row.model for row in Workloads(elsewhere).rows(Workload)] == ["mine:net"]
    assert Workloads(elsewhere).rows(Layer) == [layer("mine:net")]
    assert Workloads(elsewhere).rows(Operator) == operators()
    # The same once more changes nothing
    assert add(elsewhere, tmp_path / "box.zip") == 0
    assert "holds all of this already" in capsys.readouterr().out


def test_it_holds_tables_alone(cache, tmp_path):
    box = cache / "machines" / "box"
    (box / "notes.txt").write_text("Ada's machine")
    assert pack(cache, tmp_path / "box.zip", "--machine", "box") == 0
    with zipfile.ZipFile(tmp_path / "box.zip") as archive:
        tables = [f"box/{name}" for name in FILES.values()]
        counts = [f"box/workload/{name}.csv" for name in ("models", "layers", "operators")]
        assert sorted(archive.namelist()) == sorted(tables + counts)


def test_without_a_name_it_is_called_as_the_machine_is(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert pack(cache) == 0
    assert (tmp_path / "box.zip").is_file()


def test_of_several_machines_it_is_the_one_measured_last(cache, tmp_path, capsys):
    """A clone holds the machine that the project measured."""
    machine_in(cache / "machines" / "a-later", dataclasses.replace(ENVIRONMENT, recorded_at="2026-01-02"))
    machine_in(cache / "machines" / "z-earlier", dataclasses.replace(ENVIRONMENT, recorded_at="2025-12-31"))
    assert pack(cache, tmp_path / "mine.zip") == 0
    assert f"{cache}/machines/a-later" in capsys.readouterr().out


def test_a_model_that_is_another_network_elsewhere_is_refused(cache, tmp_path, capsys):
    pack(cache, tmp_path / "box.zip")
    elsewhere = tmp_path / "elsewhere"
    for columns in ({"forward_flop": 11}, {"input_shape": "3x4x4"}):
        Workloads(elsewhere).put([(own_workload(**columns), [], [])])
        assert add(elsewhere, tmp_path / "box.zip") == 2
        assert "mine:net: is another network here, by its counts" in capsys.readouterr().err
        assert not (elsewhere / "machines").exists()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"source": "torchvision"}, "mine:net is not a model of the machine's owner"),
        ({"forward_flop": 12}, "the layers of mine:net do not sum to its forward_flop"),
    ],
)
def test_counts_that_cannot_be_are_refused(columns, message, tmp_path, capsys):
    box = machine_in(tmp_path / "given" / "box").folder
    write(box / "workload" / "models.csv", Workload, [own_workload(**columns)])
    write(box / "workload" / "layers.csv", Layer, [layer("mine:net")])
    assert add(tmp_path / "data", box) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_bad_input(cache, tmp_path, capsys):
    assert pack(cache, tmp_path) == 2
    assert f"{tmp_path} cannot be written (Is a directory); name another file" in capsys.readouterr().err
    assert pack(cache, tmp_path / "nowhere" / "box.zip") == 2
    assert "cannot be written (No such file or directory); name another file" in capsys.readouterr().err
    assert pack(cache, "--machine", "bix") == 2
    assert "--machine: 'bix' is not one of box" in capsys.readouterr().err
    assert pack(tmp_path / "empty") == 2
    assert "no measurements in" in capsys.readouterr().err
    for table in (cache / "machines" / "box").glob("[!m]*.csv"):
        table.unlink()
    assert pack(cache, "--machine", "box") == 2
    assert "nothing was measured yet" in capsys.readouterr().err
