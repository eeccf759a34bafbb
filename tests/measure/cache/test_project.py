import pytest
from helpers.places import ROOT

from measure.cache import project
from measure.cache.hand_kept import Chip
from measure.cache.project import kept_by_hand, project_folder
from measure.errors import UserError


def test_a_table_of_the_data_folder_comes_before_this_projects(tmp_path):
    assert kept_by_hand(Chip, tmp_path) == ROOT / "data" / "chips.csv"
    (tmp_path / "chips.csv").touch()
    assert kept_by_hand(Chip, tmp_path) == tmp_path / "chips.csv"


@pytest.mark.parametrize("distribution", ["no-such-project", "pytest"])
def test_an_installation_without_the_papers_sources_is_told(distribution, tmp_path, monkeypatch):
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(project, "DISTRIBUTION", distribution)
    with pytest.raises(UserError, match=f"the installation has no _quarto.yml; install {distribution} again"):
        project_folder()
