import os
import stat

import pytest

from measure.cluster.station import Station
from measure.errors import UserError
from measure.timing.sampling import Sampling


@pytest.fixture(autouse=True)
def _own_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_device_has_one_station_at_a_time():
    first, second = (Station("cpu", "1", Sampling()) for _ in range(2))
    environment, memory_byte = first.begin()
    assert (environment.device, environment.threads) == ("cpu", 1)
    assert memory_byte == environment.memory_byte
    with pytest.raises(UserError, match=f"process {os.getpid()} on .* is measuring on this device of .*; wait"):
        second.begin()
    first.close()
    assert second.begin()[0].environment_id == environment.environment_id
    second.close()


def test_a_gpu_is_known_by_what_the_process_may_see(monkeypatch):
    station = Station("cuda", None, Sampling())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert station.lock().name == "cuda3.lock"
    assert Station("cpu", None, Sampling()).lock().name == "cpu.lock"


def test_threads_that_ray_set_are_not_ours(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    station = Station("cpu", "1", Sampling())
    station.begin()
    assert "OMP_NUM_THREADS" not in os.environ
    station.close()


def test_a_flag_that_is_wrong_is_said_where_the_station_begins():
    with pytest.raises(UserError, match="--threads: 'many' is not a valid number of threads"):
        Station("cpu", "many", Sampling()).begin()


def test_locks_lie_in_a_folder_of_this_user_alone(tmp_path):
    folder = Station("cpu", None, Sampling()).lock().parent
    assert folder == tmp_path / f"roofwright-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def writable_by_others(folder, _elsewhere):
    folder.mkdir()
    folder.chmod(0o777)


def of_another_user(folder, _elsewhere):
    folder.mkdir()
    os.chown(folder, os.getuid() + 1, -1)


ROOT_ALONE = pytest.mark.skipif(os.getuid() != 0, reason="only root gives folders away")


@pytest.mark.parametrize(
    "prepare",
    [
        writable_by_others,
        pytest.param(of_another_user, marks=ROOT_ALONE),
        lambda folder, elsewhere: folder.symlink_to(elsewhere),
        lambda folder, _: folder.write_text(""),
    ],
)
def test_a_foreign_folder_for_locks_is_refused(tmp_path, prepare):
    folder, elsewhere = tmp_path / f"roofwright-{os.getuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir()
    prepare(folder, elsewhere)
    with pytest.raises(UserError, match=f"{folder}: is not a folder that this user alone can write into; remove it or"):
        Station("cpu", "1", Sampling()).begin()
    assert list(elsewhere.iterdir()) == []
