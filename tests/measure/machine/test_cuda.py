import platform
import sys
import weakref
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, L4, MACHINES, MIB, ORIN, T4, Machine

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
    with pytest.raises(UserError, match=r"reports Tesla T4 .GPU-39cd.*torch uses NVIDIA L4 .GPU-8932"):
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
def rocm(monkeypatch, tmp_path):
    """Put a torch in the place of ours that is built for ROCm and sees one GPU; return the GPU's properties."""
    (tmp_path / "version.py").write_text("hip: Optional[str] = '7.2.1-abc'\n")
    torch = ModuleType("torch")
    torch.__version__ = "2.14.1+rocm7.2"
    torch.__spec__ = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    gpu = SimpleNamespace(name="AMD Instinct MI300X", total_memory=192 * 2**30, gcnArchName="gfx942:sramecc+:xnack-")
    torch.cuda = SimpleNamespace(
        device_count=lambda: 1,
        is_available=lambda: True,
        set_device=lambda _: None,
        get_device_properties=lambda _: gpu,
        get_arch_list=lambda: ["gfx90a"],
        is_tf32_supported=lambda: True,
    )
    torch.backends = SimpleNamespace(
        cuda=SimpleNamespace(matmul=Switch(obeys=True)), cudnn=SimpleNamespace(allow_tf32=None)
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cuda, "AMDGPU_VERSION", tmp_path / "amdgpu-version")
    return gpu


def test_a_torch_for_rocm_describes_the_gpu(monkeypatch, tmp_path, rocm):
    pytest.importorskip("psutil", reason="the load is read with psutil")
    pretend(monkeypatch, MACHINES["t4"])  # a torch for ROCm cannot use it
    assert devices.available_names() == ["cuda:0", "cpu"]
    gpu = devices.find("auto")
    assert gpu.identity() == {"name": "AMD Instinct MI300X", "memory": str(192 * 2**30)}
    assert (gpu.kind, gpu.torch_name, gpu.is_nvidia) == ("cuda", "cuda:0", False)
    assert (gpu.memory_byte(), gpu.driver(), gpu.capability()) == (192 * 2**30, platform.release(), None)
    (tmp_path / "amdgpu-version").write_text("6.10.5\n")
    assert gpu.driver() == "6.10.5"
    reading = gpu.sensors().read()
    assert reading.core_s > 0
    assert (reading.clock_hz, reading.temperature_c, reading.power_w, reading.energy_j) == (None,) * 4


@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("AMD Instinct MI250X", "AMD Instinct MI250X (one of two dies)"),
        ("AMD Instinct MI250", "AMD Instinct MI250 (one of two dies)"),
        ("", "gfx942"),
    ],
)
def test_one_die_of_two_is_not_called_the_whole_board_and_no_name_is_empty(rocm, told, name):
    rocm.name = told
    assert devices.find("cuda").identity()["name"] == name


def test_a_torch_for_rocm_that_has_no_kernels_for_a_gpu_says_so(monkeypatch, rocm):
    def launch(*_, **__):
        raise RuntimeError("HIP error: invalid device function\nHIP kernel errors might be asynchronously reported")

    monkeypatch.setattr("torch.ones", launch, raising=False)
    with pytest.raises(UserError, match=r"no kernels for AMD Instinct MI300X of gfx942, only for gfx90a;"):
        devices.find("cuda").prepare(1)


def test_an_amd_gpus_cache_may_be_larger_than_torch_says(rocm):
    assert devices.find("cuda").cache_byte() == 256 * MIB


@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=SimpleNamespace(device_count=lambda: 0))])
def test_a_torch_for_rocm_that_does_not_import_or_sees_no_gpu_leaves_the_processor(monkeypatch, torch):
    monkeypatch.setattr(devices, "hip_version", lambda: "7.2.1")
    monkeypatch.setitem(sys.modules, "torch", torch)  # None: importing it fails
    assert devices.available_names() == ["cpu"]


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ("hip: Optional[str] = '6.2.41133-dd7f95766'", "6.2.41133-dd7f95766"),
        ("hip = '5.7.31921'", "5.7.31921"),
        ("hip: Optional[str] = None", None),
        ("rocm: Optional[str] = '7.0'", None),
    ],
)
def test_what_torch_is_built_for_is_read_without_importing_it(monkeypatch, tmp_path, line, version):
    spec = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda _: spec)
    assert cuda.hip_version() is None
    (tmp_path / "version.py").write_text(f"__version__ = '2.9.0'\ncuda: Optional[str] = '13.0'\n{line}\n")
    assert cuda.hip_version() == version
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda _: None)
    assert cuda.hip_version() is None


def test_this_torch_is_built_for_what_it_says():
    torch = pytest.importorskip("torch", reason="torch says what it is built for")
    assert cuda.hip_version() == torch.version.hip


def test_an_amd_gpu_has_tf32_if_torch_says_so(monkeypatch, rocm):
    gpu, backends = devices.find("cuda"), sys.modules["torch"].backends
    for allowed in (True, False):
        gpu.allow_tf32(allowed)
        assert (backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32) == (allowed, allowed)
    monkeypatch.setattr("torch.cuda.is_tf32_supported", lambda: False)
    with pytest.raises(NotImplementedError, match="this device has none"):
        gpu.allow_tf32(True)
    monkeypatch.delattr("torch.cuda.is_tf32_supported")  # torch 2.6
    with pytest.raises(NotImplementedError, match="this device has none"):
        gpu.allow_tf32(True)


def test_what_stays_fp32_is_not_called_tf32(monkeypatch, rocm):
    monkeypatch.setattr("torch.backends.cuda.matmul", Switch(obeys=False))
    with pytest.raises(NotImplementedError, match="HIPBLASLT_ALLOW_TF32=1"):
        devices.find("cuda").allow_tf32(True)
    devices.find("cuda").allow_tf32(False)


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
