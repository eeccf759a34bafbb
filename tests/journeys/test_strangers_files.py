"""A stranger sends a zip: it is refused in one short sentence, in little time and memory, and obeys no terminal."""

import gzip
import json
import zipfile
from pathlib import Path

import pytest
from helpers.places import TESTS
from helpers.rows import machine_in, run, samples, zipped

from measure.__main__ import main
from measure.cache.folders import MachineFolder, machine_names
from measure.published import contributed

DATA = Path("cache")


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return machine_in(Path("given/box")).folder


def add(capsys, *sources):
    """Return the exit code and both outputs, whole lines without terminal control codes."""
    code = main(["add-machine", *map(str, sources), "--data", str(DATA)])
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))
    return code, printed.out, printed.err


def named(path, *names):
    """A zip of the machine with more entries of these names; @NUL becomes NULs."""
    with zipfile.ZipFile(zipped(path, Path("given/box"), "box/"), "a") as archive:
        for name in names:
            archive.writestr(name, "x")
    path.write_bytes(path.read_bytes().replace(b"@NUL", b"\0\0\0\0"))
    return path


@pytest.mark.parametrize(
    ("names", "culprit"),
    [
        (["@NULbox/runs.csv"], "'' is not the name of a file"),  # Python cuts a name at NUL
        (["box/" + 60_000 * "a"], "is not the name of a file"),
        (["box/runs.csv"], "it holds 'box/runs.csv' twice"),
        (["box/./notes", "box/notes"], "it holds 'box/notes' twice"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_with_names_that_are_no_files_is_refused(capsys, names, culprit):
    code, _, output = add(capsys, named(Path("bad.zip"), *names))
    assert (code, culprit in output) == (2, True)
    assert len(output) < 300
    assert machine_names(DATA) == []


def test_a_long_list_of_files_is_not_read(capsys, monkeypatch):
    monkeypatch.setattr(contributed, "PIECE_BYTE", 2**16)
    # 3,000 entries of 46 bytes and a name of 8 letters are 162 kB, more than two pieces
    code, _, output = add(capsys, named(Path("many.zip"), *(f"x/{number:06}" for number in range(3000))))
    assert (code, "it lists more than 1000 files" in output) == (2, True)
    monkeypatch.undo()


def test_a_file_that_is_not_regular_is_refused(capsys):
    code, _, output = add(capsys, "/dev/zero")
    assert (code, "it is not a regular file" in output) == (2, True)


@pytest.mark.parametrize(
    ("content", "culprit"),
    [
        (b"a," * 100_000, "incomplete row|no complete line"),
        (b"a," * 100_000 + b"\n", "duplicate column 'a'"),
        (b"," * 3_000_000 + b"\n", "has a line of more than a million letters"),
    ],
)
def test_a_header_of_very_many_columns_costs_nothing(capsys, box, content, culprit):
    (box / "runs.csv").write_bytes(content)
    code, _, output = add(capsys, zipped(Path("wide.zip"), box, "box/"))
    assert code == 2
    assert any(each in output for each in culprit.split("|"))


def test_a_full_temporary_folder_is_not_the_fault_of_the_zip(capsys, monkeypatch, box):
    path = zipped(Path("box.zip"), box)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("measure.cache.scratch.TemporaryDirectory", full)
    code, _, output = add(capsys, path)
    assert (code, "temporary folder" in output, "TMPDIR" in output, "box.zip" in output) == (2, True, True, False)


def test_a_machines_name_has_a_form_and_others_are_escaped(capsys, box):
    machine = (box / "machine.csv").read_text()
    for name in ("Chip\x1b[31m", "Chip\r@everyone", "Chip\u202e", "Box <!--<script>", 300 * "x"):
        (box / "machine.csv").write_text(machine.replace("Chip, of 2 cores", name), newline="")
        code, _, output = add(capsys, zipped(Path("bad.zip"), box, "box/"))
        assert (code, "column name" in output) == (2, True), name
    (box / "machine.csv").write_text(machine)
    for model in ("a\x1b[2Jb", "c\u202ed"):
        MachineFolder(Path(), "", box).put_run(run(model), samples(2, model))
    (box / "SHA256SUMS").write_text("0000  \x1b]0;title\x07runs.csv\n")
    code, output, _ = add(capsys, named(Path("box.zip"), "box/\x1b[31mplot"))
    assert code == 0
    assert "\\x1b[2J" in output
    assert main(["show", "--data", str(DATA)]) == 0
    table = capsys.readouterr().out
    assert "\\x1b[2J" in table
    assert all(line.isprintable() for line in table.split("\n"))


def test_many_copies_are_one_line(capsys, box):
    zips = [zipped(Path(f"pupil{number}.zip"), box) for number in range(6)]
    (box / "samples.csv").write_text((box / "samples.csv").read_text().replace("0.1,", "0.75,"))
    assert add(capsys, box)[0] == 0
    code, output, _ = add(capsys, *zips)
    assert code == 0
    (line,) = [line for line in output.splitlines() if line.startswith("Warning: these machines")]
    assert line.endswith("copies: pupil0, pupil1, pupil2, pupil3, pupil4 and 1 more")  # and not box


@pytest.mark.slow
def test_the_device_of_a_trace_is_printed_as_one_plain_line(capsys):
    trace = json.loads(gzip.decompress((TESTS / "data" / "h100-vit-base-batch4.json.gz").read_bytes()))
    trace["deviceProperties"][0]["name"] = "NVIDIA \x1b[31mH100\x07\r\u202e"
    Path("trace.json").write_text(json.dumps(trace))
    assert main(["import-trace", "trace.json", "--data", str(DATA)]) == 0
    printed = capsys.readouterr().out
    assert "[31mH100" in printed
    assert all(line.isprintable() for line in printed.split("\n"))
