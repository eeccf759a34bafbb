from dataclasses import replace

from helpers.places import ROOT

from measure.cache import table
from measure.cache.project import MACHINES, curated_file, own_folder, read_both
from measure.domain.schema import file_of
from measure.predicting.records import Coefficient
from measure.published.records import Chip


def test_a_table_of_the_data_folder_comes_before_this_projects(tmp_path):
    assert curated_file(Coefficient, tmp_path) == ROOT / "data" / "prediction" / "coefficients.csv"
    own = tmp_path / "prediction" / "coefficients.csv"
    own.parent.mkdir()
    own.touch()
    assert curated_file(Coefficient, tmp_path) == own


def test_chips_of_the_data_folder_join_the_projects(tmp_path):
    projects = table.read(ROOT / "data" / "chips.csv", Chip)
    assert read_both(Chip, ROOT / "data") == read_both(Chip, tmp_path) == projects
    own = [replace(projects[0], peak_flop_per_s=1e12), replace(projects[1], chip="Mine")]
    table.write(file_of(Chip, tmp_path), Chip, own)
    assert read_both(Chip, tmp_path) == [*projects[1:], *own]


def test_what_is_measured_on_an_equal_machine_is_kept_apart(tmp_path):
    (name, *_) = MACHINES
    assert own_folder(ROOT / "data", name) == f"{name}-own"
    assert own_folder(ROOT / "data", "example-2c-1234") == "example-2c-1234"
    assert own_folder(tmp_path, name) == name


def test_the_projects_machines_are_those_of_its_data():
    assert {path.name for path in (ROOT / "data" / "machines").iterdir()} >= set(MACHINES)
