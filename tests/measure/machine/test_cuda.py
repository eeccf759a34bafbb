import weakref
from dataclasses import replace
from types import SimpleNamespace

import pytest
from helpers import rocm
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, L4, MACHINES, MIB, ORIN, T4, Machine
from helpers.rocm import MI250X_DIE, MI300X, RX_7900_XTX, TORCHS_UUID, pretend_smi

from measure.errors import UserError
from measure.machine import cuda, devices
from measure.machine.environment import current


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
    silent = replace(T4, untold=frozenset({"CudaComputeCapability"}))
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


def test_the_gpu_of_a_jetson_is_known_by_its_name_alone(monkeypatch):
    pretend(monkeypatch, MACHINES["orin"])
    gpu = devices.find("auto")
    assert gpu.identity() == {"name": "Orin (nvgpu)"}
    assert gpu.driver() == "000.00 (test double)"


def test_a_driver_that_does_not_tell_its_version_leaves_it_unknown(monkeypatch):
    pretend(monkeypatch, MACHINES["orin"])
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", refuse)
    assert devices.find("cuda").driver() is None


@pytest.fixture
def using(monkeypatch):
    """Let torch use a GPU in which no operator runs."""
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")

    def use(gpu, uuid):
        properties = SimpleNamespace(
            name=gpu.name, uuid=uuid, total_memory=gpu.torch_memory_byte, is_integrated=gpu.is_integrated
        )
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
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


def test_the_one_gpu_of_a_chip_is_the_same_by_whatever_name(monkeypatch, using):
    pretend(monkeypatch, MACHINES["orin"])
    using(replace(ORIN, name="Orin"), "00000000-0000-0000-0000-000000000087")
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


def test_an_amd_gpu_is_known_by_its_name_memory_and_kind(monkeypatch, tmp_path):
    rocm.pretend(monkeypatch, tmp_path, RX_7900_XTX)
    assert devices.available_names() == ["cuda:0", "cpu"]
    gpu = devices.find("cuda")
    assert gpu.identity() == {"name": "AMD Radeon RX 7900 XTX", "memory": str(24560 * MIB), "pci": "744c1002"}
    assert gpu.memory_byte() == 24560 * MIB
    assert (gpu.kind, gpu.is_nvidia) == ("cuda", False)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("AMD Instinct MI300X VF", "AMD Instinct MI300X VF"),
        ("Radeon RX 7900 XTX", "AMD Radeon RX 7900 XTX"),  # as older tables of names have it
        ("N/A", "AMD gfx1100"),
    ],
)
def test_an_amd_gpu_has_the_name_that_its_library_tells(monkeypatch, tmp_path, told, name):
    board = replace(RX_7900_XTX, revision="ff")
    rocm.pretend(monkeypatch, tmp_path, board)
    pretend_smi(monkeypatch, board, gpu_asic_info={"market_name": told})
    assert devices.find("cuda").identity()["name"] == name


def test_one_die_of_two_is_not_called_the_whole_board(monkeypatch, tmp_path):
    rocm.pretend(monkeypatch, tmp_path, MI250X_DIE)
    assert devices.find("cuda").identity()["name"] == "AMD Instinct MI250X (one of two dies)"


def test_an_amd_gpu_without_memory_of_its_own_has_the_systems(monkeypatch, tmp_path):
    psutil = pytest.importorskip("psutil", reason="the system's memory is read with psutil")
    rocm.pretend(monkeypatch, tmp_path, replace(RX_7900_XTX, memory_byte=0))
    gpu = devices.find("cuda")
    assert "memory" not in gpu.identity()
    assert gpu.memory_byte() == psutil.virtual_memory().total


def test_an_amd_gpus_environment_has_its_driver(monkeypatch, tmp_path, untuned):
    pytest.importorskip("torch", reason="an environment names torch's version")
    system = rocm.pretend(monkeypatch, tmp_path, MI300X)
    file = system / "module/amdgpu/version"
    file.parent.mkdir(parents=True)
    file.write_text("6.10.5\n")
    environment = current(devices.find("cuda"), 1)
    assert (environment.device, environment.name, environment.driver) == ("cuda", "AMD Instinct MI300X", "6.10.5")
    assert environment.memory_byte == 196592 * MIB


@pytest.fixture
def rocms_torch(monkeypatch):
    """Let torch, as built for ROCm, use a GPU of this UUID; return its ``torch.cuda``."""
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")

    def use(uuid):
        properties = SimpleNamespace(name="AMD Example", uuid=uuid, L2_cache_size=4 * MIB)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
        monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["gfx90a", "gfx942"])

        def launch(*_, **__):
            raise RuntimeError("HIP error: invalid device function\nHIP kernel errors might be asynchronously reported")

        monkeypatch.setattr(torch, "ones", launch)

    return use


def test_torch_uses_the_amd_gpu_that_was_identified(monkeypatch, tmp_path, rocms_torch):
    rocm.pretend(monkeypatch, tmp_path, RX_7900_XTX)
    rocms_torch(TORCHS_UUID)
    with pytest.raises(
        UserError, match=r"7900 XTX .GPU-a1ffc9d1799c317f., but torch uses AMD Example .GPU-f330dc4d00dee22b"
    ):
        devices.find("cuda").prepare(1)


@pytest.mark.parametrize("uuid", [TORCHS_UUID, "00000000-0000-0000-0000-000000000000"])
def test_a_torch_that_has_no_kernels_for_an_amd_gpu_says_so(monkeypatch, tmp_path, rocms_torch, uuid):
    rocm.pretend(monkeypatch, tmp_path, MI300X)
    rocms_torch(uuid)  # its own, or none that says anything
    with pytest.raises(UserError, match=r"no kernels for AMD Instinct MI300X of gfx942, only for gfx90a, gfx942;"):
        devices.find("cuda").prepare(1)


class Switch:
    """``torch.backends.cuda.matmul``, which lets itself be switched or does not."""

    def __init__(self, obeys):
        self._obeys = obeys
        self._allowed = False

    @property
    def allow_tf32(self):
        return self._allowed

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        self._allowed = allowed and self._obeys


@pytest.fixture
def tf32(monkeypatch, tmp_path):
    """Let torch say whether an AMD GPU has TF32, and let it be switched on or not; return torch's switches."""
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")
    rocm.pretend(monkeypatch, tmp_path, MI300X)

    def let(supported, obeys):
        switches = SimpleNamespace(cuda=SimpleNamespace(matmul=Switch(obeys)), cudnn=SimpleNamespace(allow_tf32=None))
        monkeypatch.setattr(torch.backends, "cuda", switches.cuda)
        monkeypatch.setattr(torch.backends, "cudnn", switches.cudnn)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (11, 0))
        monkeypatch.setattr(torch.cuda, "is_tf32_supported", lambda: supported, raising=False)
        return switches

    return let


def test_an_amd_gpu_has_tf32_where_torch_says_so_whatever_its_number(tf32):
    switches = tf32(supported=True, obeys=True)
    devices.find("cuda").allow_tf32(True)
    assert (switches.cuda.matmul.allow_tf32, switches.cudnn.allow_tf32) == (True, True)
    devices.find("cuda").allow_tf32(False)
    assert (switches.cuda.matmul.allow_tf32, switches.cudnn.allow_tf32) == (False, False)
    tf32(supported=False, obeys=True)
    with pytest.raises(NotImplementedError, match="this device has none"):
        devices.find("cuda").allow_tf32(True)


def test_an_older_torch_has_no_tf32_on_amds_gpus(monkeypatch, tf32):
    tf32(supported=True, obeys=True)
    monkeypatch.delattr("torch.cuda.is_tf32_supported")
    with pytest.raises(NotImplementedError, match="this device has none"):
        devices.find("cuda").allow_tf32(True)


def test_what_stays_fp32_is_not_called_tf32(tf32):
    tf32(supported=True, obeys=False)
    with pytest.raises(NotImplementedError, match="HIPBLASLT_ALLOW_TF32=1"):
        devices.find("cuda").allow_tf32(True)
    devices.find("cuda").allow_tf32(False)


def test_an_amd_gpus_cache_is_all_that_the_kernel_counts(monkeypatch, tmp_path):
    rocm.pretend(monkeypatch, tmp_path, MI300X)
    monkeypatch.setattr(cuda, "swept", lambda name, byte: (name, byte))
    assert devices.find("cuda").cache_clearer() == ("cuda:0", 256 * MIB)  # torch tells 4 MiB


def test_an_amd_gpu_is_read_through_its_library_and_without_it_is_silent(monkeypatch, tmp_path):
    pytest.importorskip("psutil", reason="the system's counters are read with psutil")
    rocm.pretend(monkeypatch, tmp_path, MI300X, MI250X_DIE)
    reading = devices.find("cuda").sensors().read()
    assert (reading.clock_hz, reading.temperature_c, reading.power_w, reading.energy_j) == (None,) * 4
    assert reading.core_s > 0
    power = {"current_socket_power": 717, "average_socket_power": "N/A"}
    pretend_smi(monkeypatch, MI300X, MI250X_DIE, power_info=power, clock_info={"clk": 2100})
    whole, die = (devices.find(name).sensors().read() for name in ("cuda:0", "cuda:1"))
    assert (whole.clock_hz, whole.power_w) == (2.1e9, 717)
    assert (die.clock_hz, die.power_w) == (2.1e9, None)  # both dies' together


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
