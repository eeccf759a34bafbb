"""A folder of before tables and columns got other names: it is read, checked, planned for and written on as it is."""

import csv
from dataclasses import replace

import pytest
from helpers.rows import counter_profile, kernel_counters, layer, operator, roof_measurement, workload
from helpers.whole_cache import write_whole

from measure import __main__ as measuring
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.hand_kept import Chip
from measure.cache.schema import TABLES, file_of
from measure.cache.table import append, read
from measure.cache.workload_records import ProgramCount
from measure.machine import devices, processor
from measure.machine.environment import current
from report import __main__ as reporting

FORMER_FILES = {
    "machines/NAME/roofs.csv": "ceilings.csv",
    "machines/NAME/hardware_counter_profiles.csv": "counter_profiles.csv",
    "machines/NAME/hardware_counters.csv": "counters.csv",
    "workload/counting_programs.csv": "counters.csv",
}
FORMER_COLUMNS = {
    "machines/NAME/roofs.csv": {"roof_kernel": "kernel"},
    "workload/layers.csv": {"layer_kind": "kind"},
    "workload/operators.csv": {"layer_kind": "kind"},
    "workload/counting_programs.csv": {"program": "counter"},
    "chips.csv": {"chip_kind": "kind"},
}


def test_these_are_all_former_names():
    files = {facts.path: facts.formerly for facts in TABLES.values() if facts.formerly}
    assert files == {path: (name,) for path, name in FORMER_FILES.items()}
    columns = {
        (facts.path, name): column.formerly
        for facts in TABLES.values()
        for name, column in facts.columns.items()
        if column.formerly
    }
    assert columns == {
        (path, name): (former,) for path, names in FORMER_COLUMNS.items() for name, former in names.items()
    }


def age(data):
    """Give tables and columns their former names."""
    for path in sorted({*FORMER_FILES, *FORMER_COLUMNS}):
        for file in data.glob(path.replace("NAME", "*")):
            header, _, rows = file.read_text("utf-8").partition("\n")
            names = [FORMER_COLUMNS.get(path, {}).get(name, name) for name in next(csv.reader([header]))]
            file.write_text(",".join(names) + "\n" + rows, "utf-8")
            file.rename(file.with_name(FORMER_FILES.get(path, file.name)))


@pytest.fixture
def folders(tmp_path):
    """The same cache with the names of today, and with the former ones."""
    here = current(devices.find("cpu"), processor.physical_cores())
    for name in ("today", "before"):
        write_whole(tmp_path / name)
        machine = MachineFolder(tmp_path / name, "here")
        machine.put_environment(here)
        machine.put_roof_measurements([replace(roof_measurement(), environment_id=here.environment_id)])
    age(tmp_path / "before")
    assert (tmp_path / "before/machines/example-gpu/ceilings.csv").exists()
    assert (tmp_path / "before/machines/example-gpu/counters.csv").exists()
    return tmp_path / "today", tmp_path / "before"


def content(data):
    """All rows, by what each is."""
    workloads = Workloads(data)
    counted = [workloads.models(), workloads.layers(), workloads.operators()]
    others = [read(file_of(record, data), record) for record in (ProgramCount, Chip)]
    return [*counted, *others, *(MachineFolder(data, name).tables() for name in machine_names(data))]


def test_the_rows_are_the_same(folders):
    today, before = folders
    assert content(before) == content(today)


def test_it_is_checked_and_planned_for(folders, capsys):
    said = []
    for data in folders:
        assert reporting.main(["check", "--data", str(data)]) == 0
        arguments = ["--plan", "--data", str(data), "--machine", "here", "--models", "alexnet", "--seed", "1"]
        assert measuring.main([*arguments, "--sections", "roofs", "workload", "inference"]) == 0
        said.append(capsys.readouterr().out.replace(str(data), "DATA"))
    assert said[0] == said[1]


def test_what_is_written_takes_the_names_of_today_and_loses_no_row(folders):
    today, before = folders
    for data in folders:
        Workloads(data).put([(workload(), [layer()], [operator()])])
        programs = file_of(ProgramCount, data)
        append(programs, ProgramCount, read(programs, ProgramCount)[:1])
        machine = MachineFolder(data, "example-gpu")
        machine.put_roof_measurements([roof_measurement()])
        machine.put_hardware_counters(counter_profile(), [kernel_counters()])
    assert content(before) == content(today)
    for path in ("machines/example-gpu", "workload"):
        assert _names(before / path) == _names(today / path)


def _names(folder):
    """The files of a folder with their headers."""
    return {file.name: file.read_text("utf-8").partition("\n")[0] for file in folder.iterdir()}
