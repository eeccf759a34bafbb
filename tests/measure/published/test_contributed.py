import hashlib
import shutil
import stat
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest
from helpers.rows import machine_in, zipped
from hypothesis import given
from hypothesis import strategies as st

from measure.cache.folders import FILES
from measure.errors import UserError
from measure.published import contributed
from measure.published.contributed import opened

TABLES = FILES.values()


@pytest.fixture
def folder(tmp_path):
    return machine_in(tmp_path / "box").folder


@pytest.fixture
def path(tmp_path, folder):
    """A zip of the folder."""
    return zipped(tmp_path / "given.zip", folder, "box/")


def files_below(folder):
    return [file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()]


def refused(source):
    with pytest.raises(UserError) as caught, opened(source):
        pass
    assert str(caught.value).startswith(str(source))
    return str(caught.value)


@pytest.mark.parametrize("inside", ["", "data/machines/box/"])
def test_a_folder_or_zip_gives_its_tables_wherever_they_lie(tmp_path, inside):
    top = tmp_path / "given"
    box = machine_in(top / inside).folder
    (box / "workload").mkdir()
    (box / "plots").mkdir()
    for name in ("notes.txt", ".lock", "workload/models.csv", "workload/more.csv", "plots/models.csv"):
        (box / name).write_text("x")
    archive = Path(shutil.make_archive(str(top), "zip", top))
    for source, name in ((top, box.name), (archive, box.name if inside else None)):
        complaint = pytest.raises(UserError, match=f"{source.name}/{inside}runs.csv, line 2")  # names the original
        with complaint, opened(source) as given:
            assert {*files_below(given.folder)} == {*TABLES, "workload/models.csv"}
            assert all((given.folder / table).read_bytes() == (box / table).read_bytes() for table in TABLES)
            assert given.name == name
            left_out = [f"{inside}{each}" for each in ("notes.txt", "plots/models.csv", "workload/more.csv")]
            assert sorted(given.left_out) == left_out
            raise UserError(f"{given.folder}/runs.csv, line 2")
        assert not given.folder.exists()


NAMES = st.text(st.sampled_from("./\\:abxé"), min_size=1, max_size=12) | st.sampled_from(
    ["../runs.csv", "box/../../runs.csv", "/runs.csv", "box/workload/../../runs.csv", "box//runs.csv", "C:/a.csv"]
)


def test_a_zip_is_never_written_to_a_path_of_its_own(tmp_path, path):
    content, before = path.read_bytes(), sorted(tmp_path.rglob("*"))

    @given(st.lists(NAMES, max_size=4, unique=True))
    def check(names):
        path.write_bytes(content)
        with zipfile.ZipFile(path, "a") as archive:
            for name in names:
                archive.writestr(name, "x")
        # Two spellings of one file, or a name like "/", are refused
        with suppress(UserError), opened(path) as given:
            assert {*files_below(given.folder)} <= contributed.WANTED
        assert sorted(tmp_path.rglob("*")) == before

    check()


def test_a_hostile_zip_is_refused(path, folder):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:  # the limits on sizes would come too late
        archive.write(folder / "machine.csv", "machine.csv")
    assert "'machine.csv' is not compressed with deflate" in refused(path)
    (folder / "runs.csv").unlink()
    zipped(path, folder, "box/")
    with zipfile.ZipFile(path, "a") as archive:
        link = zipfile.ZipInfo("box/runs.csv")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "/box/runs.csv: is not a regular" in refused(path)
    whole = path.read_bytes()
    for at, value, words in (
        (8, b"\1\0", "is encrypted, password required"),
        (6, b"\x63\0", "cannot be read (zip file version 9.9)"),  # needed to extract it
    ):
        at += whole.find(b"PK\x01\x02")  # begins a file's entry in the central directory (APPNOTE 4.3.12)
        path.write_bytes(whole[:at] + value + whole[at + 2 :])
        assert words in refused(path)


def test_tables_beyond_the_limits_are_refused(folder, path, monkeypatch):
    for limit, value, words in (("MOST_BYTE", 1000, "exceed 0.001 MB"), ("MOST_FILES", 8, "holds more than 8 files")):
        monkeypatch.setattr(contributed, limit, value)
        assert words in refused(folder)
        assert words in refused(path)


def test_no_machine_or_several_are_refused_and_links_skipped(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    for name in ("one", "two"):
        machine_in(tmp_path / "data" / "machines" / name)
    assert "holds 2 machines ('machines/one', 'machines/two')" in refused(tmp_path / "data")
    (tmp_path / "empty" / "link").symlink_to(folder, target_is_directory=True)
    assert "holds no machine.csv" in refused(tmp_path / "empty")
    (folder / "runs.csv").rename(tmp_path / "elsewhere.csv")
    (folder / "runs.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert "box/runs.csv: is not a regular file" in refused(folder)


def test_tables_that_differ_from_their_sums_are_named(folder):
    """As ``sha256sum`` prints them: a digest, a blank, a blank or a star, a name."""
    names = sorted(each.name for each in folder.glob("*.csv"))
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / contributed.SUMS).write_text("".join(f"{digest} *{name}\n" for name, digest in digests.items()))
    with opened(folder) as given:
        assert given.changed == []
    assert contributed.sums_of({name: folder / name for name in names}) == digests
    with (folder / "runs.csv").open("a") as table:
        table.write("\n")
    (folder / "profiles.csv").unlink()
    with opened(folder) as given:
        assert given.changed == ["profiles.csv", "runs.csv"]
