import pytest
from helpers.places import ROOT, TESTS
from helpers.rows import layer, machine_in, operator, workload

from measure.cache.folders import Workloads, check
from measure.errors import UserError


@pytest.fixture
def data(tmp_path):
    """A cache of one machine and one workload."""
    Workloads(tmp_path).put([(workload(), [layer()], [operator()])])
    machine_in(tmp_path / "machines" / "box")
    return tmp_path


@pytest.mark.parametrize("folder", [ROOT / "data", TESTS / "data"])
def test_the_committed_caches_are_sound(folder):
    check(folder)


def test_a_folder_without_tables_is_no_machine(data):
    (data / "machines" / "notes").mkdir()
    (data / "machines" / "notes" / "runs.txt").touch()
    check(data)


def header_alone(text):
    return text[: text.index(b"\n") + 1]


@pytest.mark.parametrize(
    ("file", "damage", "words"),
    [
        ("machines/box/runs.csv", lambda text: text[:-1], ", line 3: incomplete row"),
        ("machines/box/runs.csv", lambda text: text + b"e1,net", ", line 4: incomplete row"),
        ("machines/box/runs.csv", lambda text: text.replace(b"\n", b"\r"), ": has no complete line"),
        ("machines/box/runs.csv", lambda _: b"", ": is empty, without even a header"),
        ("machines/box/runs.csv", header_alone, ": has no row, and without one the 3 of samples.csv are not read"),
        ("machines/box/profiles.csv", header_alone, ": has no row, and without one the 1 of operators.csv are not re"),
        ("machines/box/machine.csv", header_alone, ": has no row, so the machine is not known"),
        ("machines/box/samples.csv", lambda text: text.replace(b",0.1,", b",1e9,"), ", line 2, column latency_s: the"),
        ("workload/models.csv", header_alone, ": has no row, and without one the 1 of layers.csv are not read"),
        ("workload/operators.csv", lambda text: text[:-1], ", line 2: incomplete row"),
    ],
)
def test_a_damaged_table_is_named(data, file, damage, words):
    path = data / file
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError) as caught:
        check(data)
    assert str(caught.value).startswith(f"{path}{words}")


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("machines/box/machine.csv", ": has no row, so the machine is not known"),
        ("machines/box/runs.csv", ": has no row, and without one the 3 of samples.csv are not read"),
    ],
)
def test_a_table_that_is_gone_is_missed(data, file, words):
    path = data / file
    path.unlink()
    with pytest.raises(UserError) as caught:
        check(data)
    assert str(caught.value).startswith(f"{path}{words}")
    path.mkdir()
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\); restore the file or move it away"):
        check(data)
