"""The GPUs that tests stand in for: what the driver says of each, what torch says, and how fast it is.

These are inputs of tests and no data: what is "measured" on them shows that the program works, and nothing of a chip.
Names, memory, multiprocessors and caches are as nvidia-smi and ``torch.cuda.get_device_properties`` print them where a
comment says so. Peaks, bandwidths and power are those of the datasheets in ``data/chips.csv``, or near them: they only
have to tell milliseconds from seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

MIB = 2**20

DRIVER = "000.00 (test double)"
"""The driver's version: no table that the paper is made from may hold it."""

WHEEL = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
"""The architectures that torch's wheels for CUDA 13 are built for."""


@dataclass(frozen=True, eq=False)
class Gpu:
    """A GPU, or a slice of one (NVIDIA's MIG device), whose UUID begins with ``MIG-``.

    ``memory_byte`` is what NVML tells, None where it does not; ``torch_memory_byte`` what torch tells, which lacks what
    the driver keeps for itself. A GPU that is ``sliced`` is in MIG mode. ``untold`` are NVML's other questions that
    are Not Supported, by their names without ``nvmlDeviceGet``. After ``capped_after_s`` of work the clock falls to
    ``capped_clock_mhz``, since the power is at its cap.
    """

    name: str
    uuid: str
    pci_device: int
    capability: tuple[int, int]
    units: int
    l2_byte: int
    memory_byte: int | None
    torch_memory_byte: int
    flop_per_s: Mapping[str, float]
    byte_per_s: float
    clock_mhz: int
    power_w: int
    capped_clock_mhz: int | None = None
    capped_after_s: float = 0.1  # of a real one it is seconds, but tests are short
    untold: frozenset[str] = frozenset()
    sliced: tuple["Gpu", ...] | None = None

    @property
    def is_slice(self) -> bool:
        return self.uuid.startswith("MIG-")

    @property
    def is_integrated(self) -> bool:
        """Whether it is a part of a chip whose memory it shares."""
        return self.memory_byte is None

    def runs(self, architecture: str) -> bool:
        """Return whether it runs code for this architecture: of its own major version, and no newer than it is."""
        major, minor = divmod(int(architecture.removeprefix("sm_")), 10)
        return major == self.capability[0] and minor <= self.capability[1]


@dataclass(frozen=True)
class Machine:
    """The GPUs of a machine in the order of its bus, its driver, and the architectures that torch is built for.

    CUPTI does not see the first ``unseen_kernels`` of each profile; a user may read the hardware counters unless these
    ``are_counters_forbidden``.
    """

    gpus: tuple[Gpu, ...]
    wheel: tuple[str, ...] = WHEEL
    is_driver_too_old: bool = False
    unseen_kernels: float = 0
    are_counters_forbidden: bool = False
    driver: str = field(default=DRIVER, init=False)

    def seen_by_cuda(self, environment: Mapping[str, str]) -> list[Gpu]:
        """Return the devices that CUDA shows to a process with these environment variables, in its order.

        The rules are those of the CUDA C++ programming guide ("CUDA Environment Variables"): fastest first unless the
        bus decides; numbers, or as much of a UUID as tells it from the others; nothing from the first invalid name on.
        For slices they are those of NVIDIA's MIG user guide ("Device Enumeration"): a process sees one slice at most,
        and where it sees one, no whole GPU.
        """
        ordered = list(self.gpus)
        if environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            ordered.sort(key=lambda gpu: -gpu.flop_per_s["fp32"])
        visible = environment.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            ordered = _chosen(ordered, visible)
        found = [each for gpu in ordered for each in ([gpu] if gpu.sliced is None else gpu.sliced)]
        return [gpu for gpu in found if gpu.is_slice][:1] or found


def _chosen(gpus: list[Gpu], visible: str) -> list[Gpu]:
    everything = [*gpus, *(each for gpu in gpus for each in gpu.sliced or ())]
    chosen = []
    for name in visible.split(","):
        if name.startswith(("GPU-", "MIG-")):
            matching = [gpu for gpu in everything if gpu.uuid.startswith(name)]
        else:
            matching = [gpu for number, gpu in enumerate(gpus) if str(number) == name]
        if len(matching) != 1:
            break
        chosen += matching
    return chosen


WHOLE_BOARD = frozenset(
    {"PciInfo", "MigMode", "ClockInfo", "Temperature", "PowerUsage", "TotalEnergyConsumption"}
    | {"CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "UtilizationRates", "PersistenceMode"}
)
"""What is a board's and no slice's: the least that a driver may tell of a slice."""

T4 = Gpu(
    name="Tesla T4",
    uuid="GPU-39cd9454-0976-646a-acef-01a35ad02034",  # github.com/NVIDIA/nvidia-docker/issues/1628
    pci_device=0x1EB810DE,  # the PCI ID repository
    capability=(7, 5),
    units=40,
    l2_byte=4 * MIB,
    memory_byte=15360 * MIB,
    torch_memory_byte=15095 * MIB,  # printed by torch with 40 multiprocessors and "L2_cache_size=4MB"
    flop_per_s={"fp32": 8.1e12, "fp16": 65e12, "bf16": 4e12, "int8": 130e12, "fp64": 0.25e12},
    byte_per_s=320e9,
    clock_mhz=1590,
    power_w=70,
    capped_clock_mhz=900,
)
L4 = Gpu(
    name="NVIDIA L4",
    uuid="GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",  # the example of CUDA's guide to CUDA_VISIBLE_DEVICES
    pci_device=0x27B810DE,
    capability=(8, 9),
    units=58,
    l2_byte=48 * MIB,
    memory_byte=23034 * MIB,  # nvidia-smi: "70W / 72W | 4172MiB / 23034MiB"
    torch_memory_byte=22600 * MIB,
    flop_per_s={"fp32": 30e12, "tf32": 60e12, "fp16": 121e12, "bf16": 121e12, "fp64": 0.47e12}
    | {"fp8": 242e12, "int8": 242e12},
    byte_per_s=300e9,
    clock_mhz=2040,
    power_w=72,
    capped_clock_mhz=1200,
)
A100_SLICE = Gpu(
    name="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    uuid="MIG-8c4c5a27-e508-5556-b2ea-7e549465741e",  # github.com/hashicorp/nomad-device-nvidia/pull/53
    pci_device=0x20B010DE,
    capability=(8, 0),
    units=14,
    l2_byte=5 * MIB,
    memory_byte=4864 * MIB,  # nvidia-smi
    torch_memory_byte=4864 * MIB,  # "4.75 GiB total capacity" in torch's messages
    flop_per_s={"fp32": 2.5e12, "tf32": 20e12, "fp16": 40e12, "bf16": 40e12, "int8": 80e12, "fp64": 1.2e12},
    byte_per_s=190e9,
    clock_mhz=1410,
    power_w=400,
    untold=WHOLE_BOARD,
)
A100_IN_SLICES = Gpu(
    name="NVIDIA A100-SXM4-40GB",
    uuid="GPU-6109dd5c-d378-24ee-f344-79b537574ea6",  # the same listing
    pci_device=0x20B010DE,
    capability=(8, 0),
    units=108,
    l2_byte=40 * MIB,
    memory_byte=40960 * MIB,
    torch_memory_byte=40327 * MIB,
    flop_per_s={"fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12, "int8": 624e12, "fp64": 9.7e12},
    byte_per_s=1555e9,
    clock_mhz=1410,
    power_w=400,
    untold=frozenset({"UtilizationRates"}),  # github.com/XuehaiPan/nvitop/issues/5, in MIG mode
    sliced=(A100_SLICE,),
)
H100_NVL = Gpu(
    name="NVIDIA H100 NVL",
    uuid="GPU-00000000-0000-0000-0000-000000000090",  # made up
    pci_device=0x232110DE,  # github.com/akash-network/provider-configs/pull/91
    capability=(9, 0),
    units=132,
    l2_byte=60 * MIB,
    memory_byte=95830 * MIB,  # nvidia-smi: "372W / 400W | 95247MiB / 95830MiB"
    torch_memory_byte=95000 * MIB,
    flop_per_s={"fp32": 60e12, "tf32": 417e12, "fp16": 835e12, "bf16": 835e12, "fp64": 30e12}
    | {"fp8": 1670e12, "int8": 1670e12},
    byte_per_s=3938e9,
    clock_mhz=1785,
    power_w=400,
)
GB10 = Gpu(
    name="NVIDIA GB10",
    uuid="GPU-2dee1e25-b3b5-007e-2b55-79f2d0f2ebe5",  # github.com/leptonai/gpud/pull/1170
    pci_device=0x2E1210DE,
    capability=(12, 1),
    units=48,
    l2_byte=24 * MIB,
    memory_byte=None,  # Not Supported: github.com/XuehaiPan/nvitop/pull/208
    torch_memory_byte=127600748 * 1024,  # all of the system's, in the same thread
    flop_per_s={"fp32": 30e12, "tf32": 50e12, "fp16": 100e12, "bf16": 100e12, "fp64": 0.5e12}
    | {"fp8": 200e12, "int8": 200e12},
    byte_per_s=273e9,
    clock_mhz=2400,
    power_w=140,
)
ORIN = Gpu(
    name="Orin (nvgpu)",  # nvidia-smi of JetPack 6 (github.com/ultralytics/ultralytics/pull/20680), as what follows
    uuid="",
    pci_device=0,
    capability=(8, 7),
    units=16,
    l2_byte=4 * MIB,
    memory_byte=None,
    torch_memory_byte=60000 * MIB,
    flop_per_s={"fp32": 5e12, "tf32": 20e12, "fp16": 40e12, "bf16": 40e12, "int8": 80e12, "fp64": 0.1e12},
    byte_per_s=200e9,
    clock_mhz=1300,
    power_w=60,
    untold=WHOLE_BOARD | {"UUID"},
)
SLOW = replace(
    L4,
    flop_per_s={precision: peak / 100 for precision, peak in L4.flop_per_s.items()},
    byte_per_s=L4.byte_per_s / 100,
    capped_clock_mhz=None,
)
"""Beside a hundredth of an L4 the host takes no time, however busy it is."""

P100 = Gpu(
    name="Tesla P100-PCIE-16GB",
    uuid="GPU-00000000-0000-0000-0000-000000000060",  # made up
    pci_device=0x15F810DE,
    capability=(6, 0),
    units=56,
    l2_byte=4 * MIB,
    memory_byte=16384 * MIB,
    torch_memory_byte=16280 * MIB,  # printed by torch with 56 multiprocessors
    flop_per_s={"fp32": 9.3e12, "fp16": 18.7e12, "bf16": 4e12, "fp64": 4.7e12},
    byte_per_s=732e9,
    clock_mhz=1328,
    power_w=250,
    untold=frozenset({"TotalEnergyConsumption"}),  # for Volta and later, says NVML's reference
)

MACHINES = {
    "t4": Machine((T4,)),
    "l4": Machine((L4,)),
    "a100-slice": Machine((A100_IN_SLICES,)),
    "h100-nvl": Machine((H100_NVL,)),
    "gb10": Machine((GB10,)),
    "orin": Machine((ORIN,)),
    "p100-new-wheel": Machine((P100,)),  # CUDA 13 has no code for Pascal
    "t4-old-driver": Machine((T4,), is_driver_too_old=True),
    "t4-and-l4": Machine((T4, L4)),
    "slow": Machine((SLOW,), unseen_kernels=40),  # as CUPTI of CUDA 12.6 Update 2 to 13.0 sees them
    "t4-restricted": Machine((T4,), unseen_kernels=inf, are_counters_forbidden=True),
}
