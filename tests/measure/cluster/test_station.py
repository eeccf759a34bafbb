import os

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
    assert station.lock().name == "ridgepoint-cuda3.lock"
    assert Station("cpu", None, Sampling()).lock().name == "ridgepoint-cpu.lock"


def test_threads_that_ray_set_are_not_ours(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    station = Station("cpu", "1", Sampling())
    station.begin()
    assert "OMP_NUM_THREADS" not in os.environ
    station.close()


def test_a_flag_that_is_wrong_is_said_where_the_station_begins():
    with pytest.raises(UserError, match="--threads: 'many' is not a valid number of threads"):
        Station("cpu", "many", Sampling()).begin()
