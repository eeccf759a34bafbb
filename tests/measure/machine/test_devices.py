import os

import pytest

from measure.cache.memory_levels import Cache
from measure.errors import UserError
from measure.machine import devices


def test_cpu_is_always_there():
    assert devices.available_names()[-1] == "cpu"
    assert devices.find("cpu").torch_name == "cpu"


def test_auto_takes_the_first_device():
    assert devices.find("auto").torch_name == devices.available_names()[0]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "", "CPU "])
def test_a_word_that_is_no_device_is_answered_with_those_that_are(name):
    with pytest.raises(UserError, match="use cpu, cuda, cuda:N, mps or auto"):
        devices.find(name)


def test_a_device_that_is_not_there_is_answered_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    with pytest.raises(UserError, match="there is no cuda:1 on this machine; use cuda:0 or cpu"):
        devices.find("cuda:1")


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert not [name for name in devices.available_names() if name.startswith("cuda")]


def test_torch_counts_gpus_as_the_driver_does(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 2)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", lambda index: f"GPU {index}")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "")
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert devices.nvidia_handles() == ["GPU 0", "GPU 1"]
    assert os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert devices.nvidia_handles() == ["GPU 1"]


@pytest.mark.parametrize(
    ("caches", "byte"),
    [
        ((Cache(1, 2**16, 2), Cache(3, 2**26, 2)), 4 * 2**26),  # four times its last level, all of its caches together
        ((), 4 * 2**25),
    ],
)
def test_a_processors_caches_are_cleared_by_reading_and_writing_more_than_they_hold(monkeypatch, caches, byte):
    pytest.importorskip("torch", reason="caches are cleared with torch")
    monkeypatch.setattr(devices.processor, "caches", lambda: caches)
    clear = devices.find("cpu").cache_clearer()
    buffer = clear()
    assert buffer.untyped_storage().nbytes() == byte
    assert float(buffer[-1]) == 1.0
    assert float(clear()[-1]) == 2.0


def test_only_nvidias_gpus_have_tf32():
    cpu = devices.find("cpu")
    cpu.allow_tf32(False)
    with pytest.raises(NotImplementedError, match="this device has none"):
        cpu.allow_tf32(True)


def test_a_processor_has_no_stopwatch_but_the_hosts():
    assert devices.find("cpu").events() is None


@pytest.mark.gpu
def test_a_gpu_times_itself_and_clears_its_cache():
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    gpu.prepare(1)
    clear = gpu.cache_clearer()
    cache_byte = torch.cuda.get_device_properties(0).L2_cache_size
    assert clear().untyped_storage().nbytes() >= 4 * cache_byte
    events = gpu.events()
    events.start()
    clear()
    events.stop()
    gpu.synchronize()
    assert events.elapsed_s() > 0


@pytest.mark.gpu
def test_a_gpu_says_how_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    reading = devices.find("cuda").sensors().read()
    assert reading.core_s > 0
    assert reading.temperature_c is None or 0 < reading.temperature_c < 120
    assert reading.clock_hz is None or 1e8 < reading.clock_hz < 1e10


@pytest.mark.gpu
def test_a_gpu_says_who_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    assert "NVIDIA" in gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
