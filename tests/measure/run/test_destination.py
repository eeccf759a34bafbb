from pathlib import Path

import pytest

from measure.errors import UserError
from measure.verbs.flags import check_folder, check_writable, data_flag


def test_a_file_is_no_folder_and_what_is_not_there_may_become_one(tmp_path):
    check_folder(tmp_path, "--data")
    check_folder(tmp_path / "new", "--data")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^--data: .*/file is a file; name a folder$"):
        check_folder(tmp_path / "file", "--data")


@pytest.mark.parametrize("name", ["workload", "machines"])
def test_a_file_in_the_place_of_the_caches_own_folders_is_said_before_measuring(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"/{name} is a file"):
        check_writable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_further_command_is_told_where_the_cache_is_unless_it_is_the_usual_one():
    assert data_flag(Path("data")) == ""
    assert data_flag(Path("my data")) == " --data 'my data'"
