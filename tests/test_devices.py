import pytest

from measure import devices
from measure.errors import UserError


def test_cpu_is_always_there():
    assert devices.available_names()[-1] == "cpu"
    assert devices.find("cpu").torch_name == "cpu"


def test_auto_takes_the_first_device():
    assert devices.find("auto").torch_name == devices.available_names()[0]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "", "CPU "])
def test_a_word_that_is_no_device_is_answered_with_those_that_are(name):
    with pytest.raises(UserError, match="say cpu, cuda, cuda:N, mps or auto"):
        devices.find(name)


def test_a_device_that_is_not_there_is_answered_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    with pytest.raises(UserError, match="there is no cuda:1 on this machine; there is cuda:0, cpu"):
        devices.find("cuda:1")


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert not [name for name in devices.available_names() if name.startswith("cuda")]


@pytest.mark.gpu
def test_a_gpu_says_who_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    assert "NVIDIA" in gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
