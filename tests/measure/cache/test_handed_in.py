import os
import stat
import struct
import zipfile

import pytest
from helpers.rows import machine_in, zipped

from measure.cache import handed_in
from measure.cache.folders import FILES
from measure.cache.handed_in import opened
from measure.errors import UserError

TABLES = sorted(FILES.values())


@pytest.fixture
def folder(tmp_path):
    return machine_in(tmp_path / "box").folder


def refused(source):
    with pytest.raises(UserError) as caught, opened(source):
        pass
    assert str(caught.value).startswith(str(source))
    return str(caught.value)


@pytest.mark.parametrize("above", ["", "data/machines"])
def test_a_folder_or_one_above_it_gives_its_tables(tmp_path, above):
    box = machine_in(tmp_path / "given" / above / "box").folder
    (box / "notes.txt").write_text("mine")
    (box / ".lock").touch()
    with opened(tmp_path / "given" if above else box) as given:
        assert sorted(os.listdir(given.folder)) == TABLES
        assert (given.folder / "runs.csv").read_bytes() == (box / "runs.csv").read_bytes()
        assert given.name == "box"
        assert [path.rpartition("/")[2] for path in given.left_out] == ["notes.txt"]
        copy = given.folder
    assert not copy.exists()


@pytest.mark.parametrize(("inside", "name"), [("", None), ("box/", "box"), ("data/machines/box/", "box")])
def test_a_zip_gives_its_tables_wherever_they_lie_in_it(tmp_path, folder, inside, name):
    path = zipped(tmp_path / "given.zip", folder, inside)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("__MACOSX/._runs.csv", "x")
        archive.writestr(f"{inside}plots/figure.png", "x")
    with opened(path) as given:
        assert sorted(os.listdir(given.folder)) == TABLES
        assert (given.folder / "samples.csv").read_bytes() == (folder / "samples.csv").read_bytes()
        assert (given.name, given.left_out) == (name, [f"{inside}plots/figure.png"])


def test_complaints_name_the_file_that_was_handed_in(tmp_path, folder):
    path = zipped(tmp_path / "given.zip", folder, "box/")
    with pytest.raises(UserError, match=r"given\.zip/box/runs\.csv, line 2"), opened(path) as given:
        raise UserError(f"{given.folder}/runs.csv, line 2")


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_the_like_in_a_zip_are_refused(tmp_path, folder, kind):
    (folder / "runs.csv").unlink()
    path = zipped(tmp_path / "given.zip", folder, "box/")
    with zipfile.ZipFile(path, "a") as archive:
        entry = zipfile.ZipInfo("box/runs.csv")
        entry.create_system, entry.external_attr = 3, (kind | 0o777) << 16
        archive.writestr(entry, "/etc/passwd")
    assert "given.zip/box/runs.csv: is not a regular file" in refused(path)


def test_a_zip_that_is_unpacked_whole_is_refused(tmp_path, folder):
    """The limits on sizes would come too late."""
    path = tmp_path / "given.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(folder / "machine.csv", "machine.csv")
    assert "cannot be read (machine.csv is not compressed with deflate)" in refused(path)


def test_a_zip_is_never_written_to_a_path_of_its_own(tmp_path, folder):
    path = zipped(tmp_path / "given.zip", folder, "box/")
    names = ["../runs.csv", "box/../../runs.csv", "/runs.csv", "box/workload/../../runs.csv"]
    with zipfile.ZipFile(path, "a") as archive:
        for name in names:
            archive.writestr(name, "x")
    before = sorted(tmp_path.iterdir())
    with opened(path) as given:
        assert sorted(os.listdir(given.folder)) == TABLES
        assert given.left_out == names
    assert sorted(tmp_path.iterdir()) == before


def test_a_zip_with_a_password_is_refused(tmp_path, folder):
    path = zipped(tmp_path / "given.zip", folder)
    content = bytearray(path.read_bytes())
    at = content.find(b"PK\x01\x02") + 8  # the flags of the first file in the central directory (APPNOTE 4.3.12)
    content[at : at + 2] = struct.pack("<H", struct.unpack("<H", content[at : at + 2])[0] | 1)
    path.write_bytes(content)
    assert "is encrypted, password required" in refused(path)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [("MOST_BYTE", 200, "tables exceed 0 MiB"), ("MOST_FILES", 8, "holds more than 8 files")],
)
def test_tables_beyond_the_limits_are_refused(folder, tmp_path, monkeypatch, limit, value, words):
    monkeypatch.setattr(handed_in, limit, value)
    assert words in refused(folder)
    assert words in refused(zipped(tmp_path / "given.zip", folder))


def test_a_damaged_zip_is_refused(tmp_path, folder):
    path = zipped(tmp_path / "given.zip", folder)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "cannot be read" in refused(path)
    at = whole.find(b"PK\x03\x04") + 60  # within the first file's compressed bytes
    path.write_bytes(whole[:at] + bytes(20) + whole[at + 20 :])
    assert "cannot be read" in refused(path)


def test_what_is_neither_folder_nor_zip_is_refused(tmp_path):
    assert "cannot be read (No such file or directory)" in refused(tmp_path / "nowhere")
    (tmp_path / "table.csv").write_text("a,b\n")
    assert "cannot be read" in refused(tmp_path / "table.csv")
    (tmp_path / "empty").mkdir()
    assert "holds no machine.csv" in refused(tmp_path / "empty")


def test_several_machines_are_named(tmp_path):
    for name in ("one", "two"):
        machine_in(tmp_path / "data" / "machines" / name)
    told = refused(tmp_path / "data")
    assert "holds 2 machines ('machines/one', 'machines/two'); name one machine's folder, or a zip of it" in told


def test_links_in_a_folder_are_not_followed(tmp_path, folder):
    (folder / "runs.csv").rename(tmp_path / "elsewhere.csv")
    (folder / "runs.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(UserError, match=r"box/runs\.csv: is not a regular file"), opened(folder):
        pass
    (tmp_path / "above").mkdir()
    (tmp_path / "above" / "link").symlink_to(folder, target_is_directory=True)
    assert "holds no machine.csv" in refused(tmp_path / "above")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({6: struct.pack("<H", 99)}, "cannot be read (zip file version 9.9)"),  # the version needed to extract it
        ({8: struct.pack("<H", 1 << 11), 46: b"\xff"}, "cannot be read ('utf-8' codec"),  # a name that says UTF-8
    ],
)
def test_a_zip_of_another_make_is_refused(tmp_path, folder, changed, words):
    path = zipped(tmp_path / "given.zip", folder)
    content = bytearray(path.read_bytes())
    for place, value in changed.items():  # in the first file's entry of the central directory (APPNOTE 4.3.12)
        at = content.find(b"PK\x01\x02") + place
        content[at : at + len(value)] = value
    path.write_bytes(content)
    assert words in refused(path)


def test_the_tables_of_workloads_beside_a_machine_come_with_it_and_no_others(tmp_path, folder):
    (folder / "workload").mkdir()
    (folder / "workload" / "models.csv").write_text("x")
    (folder / "workload" / "more.csv").write_text("x")
    with opened(folder) as given:
        assert (given.folder / "workload" / "models.csv").read_text() == "x"
        assert given.left_out == ["workload/more.csv"]
    path = tmp_path / "given.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.csv")):
            archive.write(file, f"box/{file.relative_to(folder)}")
        archive.writestr("workload/models.csv", "not beside the machine")
    with opened(path) as given:
        assert (given.folder / "workload" / "models.csv").read_text() == "x"
        assert sorted(given.left_out) == ["box/workload/more.csv", "workload/models.csv"]
