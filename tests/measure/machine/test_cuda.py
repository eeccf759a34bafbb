import platform
import sys
from dataclasses import replace
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest
import torch
from helpers.gpu import pretend
from helpers.gpu.catalogue import A100_IN_SLICES, A100_SLICE, H100, MACHINES, MIB, T4, WHOLE_BOARD, Machine

from measure.errors import UserError
from measure.machine import cuda, devices, settings

# A GPU that shares the system's memory, in a Jetson, with a driver that reports less (nvidia-smi of JetPack 6,
# github.com/ultralytics/ultralytics/pull/20680)
ORIN = replace(T4, name="Orin (nvgpu)", memory_byte=None, uuid="", untold=WHOLE_BOARD | {"UUID"})
SHARED_BYTE = psutil.virtual_memory().total

T4_SAYS = {"name": "Tesla T4", "memory": str(15360 * MIB), "pci": "1eb810de"}
SLICE_SAYS = {"name": "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "memory": str(4864 * MIB), "pci": "20b010de"}


@pytest.mark.parametrize(
    ("gpu", "identity", "memory_byte", "capability"),
    [
        (T4, T4_SAYS, 15360 * MIB, "7.5"),
        (A100_IN_SLICES, SLICE_SAYS, 4864 * MIB, "8.0"),
        (ORIN, {"name": "Orin (nvgpu)"}, SHARED_BYTE, "7.5"),
        (replace(T4, untold=frozenset({"CudaComputeCapability"})), T4_SAYS, 15360 * MIB, None),
    ],
    ids=["T4", "a slice", "Jetson", "capability not told"],
)
def test_a_gpu_is_identified_by_its_driver(monkeypatch, gpu, identity, memory_byte, capability):
    pretend(monkeypatch, Machine((gpu,)))
    found = devices.find("cuda")
    assert (found.identity(), found.memory_byte(), found.capability()) == (identity, memory_byte, capability)
    assert found.driver() == "000.00 (test double)"


@pytest.mark.parametrize(
    ("gpu", "limit_w"),
    [
        (T4, 70.0),  # NVIDIA's datasheet
        (A100_IN_SLICES, 400.0),  # the board's, which its slices share
        (replace(T4, untold=frozenset({"EnforcedPowerLimit"})), None),
    ],
)
def test_a_gpu_has_the_power_limit_of_its_board(monkeypatch, gpu, limit_w):
    pretend(monkeypatch, Machine((gpu,)))
    assert devices.find("cuda").power_limit_w() == limit_w
    assert devices.find("cpu").power_limit_w() is None


@pytest.mark.parametrize(
    ("version", "cudnn"),
    [(lambda: 91002, {"cudnn": "91002"}), (lambda: None, {}), (Mock(side_effect=RuntimeError("incompatible")), {})],
)
def test_torch_tells_a_gpus_l2_and_its_cudnn(monkeypatch, version, cudnn):
    pretend(monkeypatch, Machine((T4,)))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(L2_cache_size=4 * MIB))
    monkeypatch.setattr(torch.backends.cudnn, "version", version)
    assert devices.find("cuda").facts() == {"caches": "2:4194304:1", **cudnn}
    assert devices.find("cpu").facts() == {}


OTHER_T4 = replace(T4, uuid="GPU-1")
NO_KERNELS = "has no kernels for Tesla T4 of compute capability 7.5, only for sm_80, sm_90; install another"
MISTAKEN = [
    (T4, T4, T4.uuid, NO_KERNELS),
    (T4, None, "", "cannot use the GPU; install one that is built for this driver"),
    (T4, H100, H100.uuid, "reports Tesla T4 .GPU-39cd.*torch uses NVIDIA H100 NVL .GPU-8932"),
    (T4, OTHER_T4, OTHER_T4.uuid, "set CUDA_VISIBLE_DEVICES to the UUID"),  # it has other sensors
    # For a slice torch may tell the UUID of its board.
    (A100_IN_SLICES, A100_SLICE, A100_IN_SLICES.uuid, "has no kernels for NVIDIA A100-SXM4-40GB MIG 1g.5gb of"),
    (A100_IN_SLICES, A100_IN_SLICES, A100_IN_SLICES.uuid, "MIG 1g.5gb .*torch uses NVIDIA A100-SXM4-40GB "),
    # The driver and torch name a Jetson's only GPU differently.
    (ORIN, replace(ORIN, name="Orin"), "GPU-87", "has no kernels for Orin .nvgpu. of"),
]


@pytest.mark.parametrize(("seen", "used", "uuid", "complaint"), MISTAKEN)
def test_torch_must_use_the_identified_gpu_and_have_its_kernels(monkeypatch, seen, used, uuid, complaint):
    """Here it has none for any; before an operator runs it is asked which GPU it uses."""
    pretend(monkeypatch, Machine((seen,)))
    name, is_integrated = (used.name, used.memory_byte is None) if used else ("", False)
    properties = SimpleNamespace(name=name, uuid=uuid.removeprefix("GPU-"), is_integrated=is_integrated)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: used is not None)
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    error = "CUDA error: no kernel image is available for execution on the device\nKernel errors may be reported late"
    monkeypatch.setattr(torch, "ones", Mock(side_effect=RuntimeError(error)))
    with pytest.raises(UserError, match=complaint):
        devices.find("cuda").prepare(1)


@pytest.fixture
def rocm(monkeypatch, tmp_path):
    """Put a torch in the place of ours that is built for ROCm and sees one GPU; return the GPU's properties."""
    (tmp_path / "version.py").write_text("hip: Optional[str] = '7.2.1-abc'\n")
    torch = ModuleType("torch")
    torch.__version__ = "2.14.1+rocm7.2"
    torch.__spec__ = ModuleSpec("torch", None, origin=str(tmp_path / "__init__.py"))
    gpu = SimpleNamespace(name="AMD Instinct MI300X", total_memory=192 * 2**30, gcnArchName="gfx942:sramecc+:xnack-")
    torch.cuda = SimpleNamespace(
        device_count=lambda: 1, is_available=lambda: True, set_device=lambda _: None,
        get_device_properties=lambda _: gpu, get_arch_list=lambda: ["gfx90a"], is_tf32_supported=lambda: True,
    )  # fmt: skip
    torch.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace()), cudnn=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(cuda, "AMDGPU_VERSION", tmp_path / "amdgpu-version")
    return gpu


def test_a_torch_for_rocm_describes_the_gpu(monkeypatch, tmp_path, rocm):
    pretend(monkeypatch, MACHINES["t4"])  # a torch for ROCm cannot use it
    assert devices.available_names() == ["cuda:0", "cpu"]
    gpu = devices.find("auto")
    assert gpu.identity() == {"name": "AMD Instinct MI300X", "memory": str(192 * 2**30)}
    assert (gpu.kind, gpu.torch_name, gpu.is_nvidia) == ("cuda", "cuda:0", False)
    assert (gpu.memory_byte(), gpu.driver(), gpu.capability()) == (192 * 2**30, platform.release(), None)
    (tmp_path / "amdgpu-version").write_text("6.10.5\n")
    assert gpu.driver() == "6.10.5"
    assert gpu.cache_byte() == 256 * MIB  # torch reports one die's
    reading = gpu.sensors().read()
    assert reading.core_s > 0
    assert (reading.clock_hz, reading.temperature_c, reading.power_w, reading.energy_j) == (None,) * 4
    for rocm.name, name in (("AMD Instinct MI250X", "AMD Instinct MI250X (one of two dies)"), ("", "gfx942")):
        assert gpu.identity()["name"] == name


def test_an_amd_gpu_has_tf32_if_torch_says_so(monkeypatch, rocm):
    gpu, backends = devices.find("cuda"), sys.modules["torch"].backends

    def allow(allowed):
        backends.cuda.matmul.allow_tf32 = backends.cudnn.allow_tf32 = allowed

    monkeypatch.setattr(settings, "allow_tf32", allow)
    for allowed in (True, False):
        gpu.allow_tf32(allowed)
        assert (backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32) == (allowed, allowed)
    monkeypatch.delattr("torch.cuda.is_tf32_supported")  # torch 2.6
    with pytest.raises(NotImplementedError, match="this device has none"):
        gpu.allow_tf32(True)


def test_tf32_is_allowed_after_a_mix_of_torchs_older_and_newer_flags(monkeypatch):
    matmul = torch.backends.cuda.matmul
    if not hasattr(matmul, "fp32_precision"):
        pytest.skip("torch before 2.9 has the older flags alone")
    monkeypatch.setattr(torch.cuda, "is_tf32_supported", lambda: True)
    with settings.preserve():
        settings.allow_tf32(False)
        matmul.fp32_precision = "tf32"
        with pytest.raises(RuntimeError, match="mix of the legacy and new"):
            _ = matmul.allow_tf32
        cuda.Rocm(0).allow_tf32(True)
        assert (matmul.fp32_precision, matmul.allow_tf32) == ("tf32", True)


@pytest.mark.gpu
def test_a_gpu_identifies_itself_times_and_clears_its_cache(gpu):
    assert gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
    reading = gpu.sensors().read()
    assert reading.core_s > 0
    assert reading.temperature_c is None or 0 < reading.temperature_c < 120
    assert reading.clock_hz is None or 1e8 < reading.clock_hz < 1e10
    gpu.prepare(1)
    clear = gpu.cache_clearer()
    assert clear().untyped_storage().nbytes() >= 4 * torch.cuda.get_device_properties(0).L2_cache_size
    events = gpu.events()
    events.start()
    clear()
    events.stop()
    gpu.synchronize()
    assert events.elapsed_s() > 0
