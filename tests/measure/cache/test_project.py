from helpers.places import ROOT

from measure.cache.hand_kept import Chip
from measure.cache.project import kept_by_hand


def test_a_table_of_the_data_folder_comes_before_this_projects(tmp_path):
    assert kept_by_hand(Chip, tmp_path) == ROOT / "data" / "chips.csv"
    (tmp_path / "chips.csv").touch()
    assert kept_by_hand(Chip, tmp_path) == tmp_path / "chips.csv"
