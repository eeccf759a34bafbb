import dataclasses
import weakref
from types import SimpleNamespace

import pytest
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, L4, MACHINES, MIB, T4, Machine

from measure.cache.memory_levels import Cache
from measure.errors import UserError
from measure.machine import devices
from measure.machine.environment import current


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


def test_a_gpu_is_known_by_its_name_memory_and_kind(monkeypatch):
    pretend(monkeypatch, MACHINES["t4"])
    gpu = devices.find("cuda")
    assert gpu.identity() == {"name": "Tesla T4", "memory": str(15360 * MIB), "pci": "1eb810de"}
    assert gpu.memory_byte() == 15360 * MIB
    assert gpu.driver() == "000.00 (test double)"
    assert gpu.capability() == "7.5"


def test_a_slice_is_known_by_its_own_name_and_memory(monkeypatch):
    pretend(monkeypatch, MACHINES["a100-slice"])
    gpu = devices.find("cuda")
    assert gpu.identity()["name"] == "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
    assert gpu.memory_byte() == 4864 * MIB
    assert gpu.capability() == "8.0"


def test_a_driver_that_does_not_tell_the_compute_capability_leaves_it_unknown(monkeypatch):
    silent = dataclasses.replace(T4, untold=frozenset({"CudaComputeCapability"}))
    pretend(monkeypatch, Machine((silent,)))
    assert devices.find("cuda").capability() is None
    assert devices.find("cpu").capability() is None


def test_a_slice_has_its_boards_clock_but_not_its_power(monkeypatch):
    pytest.importorskip("psutil", reason="the system's counters are read with psutil")
    pretend(monkeypatch, MACHINES["a100-slice"])
    reading = devices.find("cuda").sensors().read()
    assert (reading.clock_hz, reading.temperature_c) == (1.41e9, 35.0)
    assert (reading.power_w, reading.energy_j) == (None, None)
    pretend(monkeypatch, MACHINES["t4"])
    assert devices.find("cuda").sensors().read().power_w == 20.0


def test_a_gpu_that_shares_the_systems_memory_has_as_much(monkeypatch, untuned):
    psutil = pytest.importorskip("psutil", reason="the system's memory is read with psutil")
    pytest.importorskip("torch", reason="an environment names torch's version")
    pretend(monkeypatch, MACHINES["gb10"])
    gpu = devices.find("auto")
    assert gpu.identity() == {"name": "NVIDIA GB10", "pci": "2e1210de"}
    assert gpu.memory_byte() == psutil.virtual_memory().total
    environment = current(gpu, 1)
    assert (environment.name, environment.memory_byte) == ("NVIDIA GB10", psutil.virtual_memory().total)


def test_an_apple_gpu_has_the_memory_that_metal_lets_it_use(monkeypatch):
    torch = pytest.importorskip("torch", reason="the GPU is asked through torch")
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12 * 2**30)
    assert devices.Mps().memory_byte() == 12 * 2**30


@pytest.fixture
def using(monkeypatch):
    """Let torch use a GPU in which no operator runs."""
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")

    def use(gpu, uuid):
        properties = SimpleNamespace(name=gpu.name, uuid=uuid, total_memory=gpu.torch_memory_byte)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        monkeypatch.setattr(torch, "ones", lambda *_, **__: pytest.fail("it is too late to ask which GPU this is"))

    return use


def test_torch_uses_the_gpu_that_was_identified(monkeypatch, using):
    pretend(monkeypatch, MACHINES["t4"])
    using(L4, L4.uuid.removeprefix("GPU-"))
    with pytest.raises(UserError, match=r"tells of Tesla T4 .GPU-39cd.*torch uses NVIDIA L4 .GPU-8932"):
        devices.find("cuda").prepare(1)
    using(T4, L4.uuid.removeprefix("GPU-"))  # another of the same kind has other sensors
    with pytest.raises(UserError, match="set CUDA_VISIBLE_DEVICES to the UUID"):
        devices.find("cuda").prepare(1)


def test_torch_uses_the_slice_that_was_identified_whosever_uuid_it_tells(monkeypatch, using):
    pretend(monkeypatch, MACHINES["a100-slice"])
    using(A100_IN_SLICES, A100_IN_SLICES.uuid.removeprefix("GPU-"))
    with pytest.raises(UserError, match=r"MIG 1g.5gb .*torch uses NVIDIA A100-SXM4-40GB "):
        devices.find("cuda").prepare(1)
    using(A100_SLICE, A100_IN_SLICES.uuid.removeprefix("GPU-"))
    with pytest.raises(pytest.fail.Exception, match="too late"):
        devices.find("cuda").prepare(1)


def test_what_a_task_left_is_collected_before_a_gpu_gives_its_memory_back(monkeypatch):
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")
    pretend(monkeypatch, MACHINES["t4"])

    class Network:
        """Anything that a task has built."""

    network = Network()
    network.itself = network  # nothing but a collection frees it
    left, given_back = weakref.ref(network), []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(left() is None))
    gpu = devices.find("cuda")
    del network
    gpu.release_memory()
    assert given_back == [True]


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


def test_bf16_is_refused_where_torch_would_convert_it(monkeypatch):
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")
    pretend(monkeypatch, MACHINES["t4"])
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    gpu = devices.find("cuda")
    gpu.refuse_emulation("fp16")
    with pytest.raises(NotImplementedError, match=r"Tesla T4 has no units for bf16 .compute capability 7.5"):
        gpu.refuse_emulation("bf16")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: True)
    gpu.refuse_emulation("bf16")
    devices.find("cpu").refuse_emulation("bf16")  # processors without such units convert it, too, and are measured so


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
    assert gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
