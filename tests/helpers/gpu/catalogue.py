"""The GPUs of the double: the driver's answers, torch's answers, and the speed of each.

These are inputs of tests and no data: "measurements" on them show that the program works, and nothing of a chip.
Names, memory, multiprocessors and caches are as nvidia-smi and ``torch.cuda.get_device_properties`` print them where a
comment says so. Peaks, bandwidths and the limit of power are near the datasheets in ``data/chips.csv``: they only have
to tell milliseconds from seconds. Other powers are made up.
"""

from dataclasses import dataclass, field, replace

MIB = 2**20
DRIVER = "000.00 (test double)"  # the driver's version: no table that the paper is made from may hold it


@dataclass(frozen=True, eq=False)
class Gpu:
    """A GPU, or a slice of one (NVIDIA's MIG device) with a UUID that begins with ``MIG-``.

    ``memory_byte`` is NVML's answer, None for a GPU that shares the system's memory; ``torch_memory_byte`` lacks the
    driver's own part. A ``sliced`` GPU is in MIG mode. NVML does not support the questions ``untold`` (names without
    ``nvmlDeviceGet``). It draws ``idle_w`` always, ``arithmetic_w`` more at the peak of any precision and ``memory_w``
    more at its bandwidth; ``power_w`` is the board's limit.
    """

    name: str
    uuid: str
    pci_device: int
    capability: tuple[int, int]
    units: int
    l2_byte: int
    memory_byte: int | None
    torch_memory_byte: int
    flop_per_s: dict[str, float]
    byte_per_s: float
    clock_mhz: int
    idle_clock_mhz: int
    power_w: int
    idle_w: int
    arithmetic_w: int
    memory_w: int
    untold: frozenset[str] = frozenset()
    sliced: tuple["Gpu", ...] | None = None
    l2_gain: float = 2.0  # the bandwidth of the L2 over the memory's

    @property
    def is_slice(self):
        return self.uuid.startswith("MIG-")

    @property
    def joule_per_byte(self):
        return self.memory_w / self.byte_per_s

    def joule_per_flop(self, precision):
        return self.arithmetic_w / self.flop_per_s[precision]

    def kernel_j(self, kernel):
        """The energy of a kernel besides the idle power."""
        byte = kernel.read_byte + kernel.written_byte
        return self.joule_per_flop(kernel.precision) * kernel.flop + self.joule_per_byte * byte


@dataclass(frozen=True)
class Machine:
    """The GPUs of a machine in the order of its bus. CUPTI misses the first ``unseen_kernels`` of each profile."""

    gpus: tuple[Gpu, ...]
    unseen_kernels: int = 0
    driver: str = field(default=DRIVER, init=False)

    def seen_by_cuda(self, environment):
        """The devices that CUDA shows to a process with these environment variables, in its order.

        The rules come from the CUDA C++ programming guide ("CUDA Environment Variables"): fastest first unless the
        bus decides; numbers, or as much of a UUID as tells it from the others; nothing from the first invalid name on.
        For slices they come from NVIDIA's MIG user guide ("Device Enumeration"): a process sees one slice at most,
        and where it sees one, no whole GPU.
        """
        gpus = list(self.gpus)
        if environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            gpus.sort(key=lambda gpu: -gpu.flop_per_s["fp32"])
        everything, chosen = [*gpus, *(each for gpu in gpus for each in gpu.sliced or ())], gpus
        if (visible := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
            chosen = []
            for name in visible.split(","):
                is_uuid = name.startswith(("GPU-", "MIG-"))
                matching = [gpu for gpu in everything if is_uuid and gpu.uuid.startswith(name)]
                matching = matching or [gpu for number, gpu in enumerate(gpus) if str(number) == name]
                if len(matching) != 1:
                    break
                chosen += matching
        found = [each for gpu in chosen for each in ([gpu] if gpu.sliced is None else gpu.sliced)]
        return [gpu for gpu in found if gpu.is_slice][:1] or found


# Properties of a board and not of a slice, which a driver may leave out for a slice.
WHOLE_BOARD = frozenset(
    {"PciInfo", "MigMode", "ClockInfo", "Temperature", "PowerUsage", "TotalEnergyConsumption"}
    | {"CurrentClocksEventReasons", "CurrentClocksThrottleReasons", "UtilizationRates", "PersistenceMode"}
    | {"FieldValues", "ViolationStatus"}
)
T4 = Gpu(
    name="Tesla T4",
    uuid="GPU-39cd9454-0976-646a-acef-01a35ad02034",  # github.com/NVIDIA/nvidia-docker/issues/1628
    pci_device=0x1EB810DE,  # the PCI ID repository
    capability=(7, 5), units=40, l2_byte=4 * MIB,
    memory_byte=15360 * MIB,
    torch_memory_byte=15095 * MIB,  # printed by torch with 40 multiprocessors and "L2_cache_size=4MB"
    flop_per_s={"fp32": 8.1e12, "fp16": 65e12, "bf16": 4e12, "int8": 130e12, "fp64": 0.25e12},
    byte_per_s=320e9, clock_mhz=1590, idle_clock_mhz=300, power_w=70, idle_w=15, arithmetic_w=32, memory_w=13,
)  # fmt: skip
A100_SLICE = Gpu(
    name="NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    uuid="MIG-8c4c5a27-e508-5556-b2ea-7e549465741e",  # github.com/hashicorp/nomad-device-nvidia/pull/53
    pci_device=0x20B010DE,
    capability=(8, 0), units=14, l2_byte=5 * MIB,
    memory_byte=4864 * MIB,  # nvidia-smi
    torch_memory_byte=4864 * MIB,  # "4.75 GiB total capacity" in torch's messages
    flop_per_s={"fp32": 2.5e12, "tf32": 20e12, "fp16": 40e12, "bf16": 40e12, "int8": 80e12, "fp64": 1.2e12},
    byte_per_s=190e9, clock_mhz=1410, idle_clock_mhz=210, power_w=400, idle_w=50, arithmetic_w=26, memory_w=15,
    untold=WHOLE_BOARD,
)  # fmt: skip
A100_IN_SLICES = Gpu(
    name="NVIDIA A100-SXM4-40GB",
    uuid="GPU-6109dd5c-d378-24ee-f344-79b537574ea6",  # the same listing
    pci_device=0x20B010DE,
    capability=(8, 0), units=108, l2_byte=40 * MIB,
    memory_byte=40960 * MIB, torch_memory_byte=40327 * MIB,
    flop_per_s={"fp32": 19.5e12, "tf32": 156e12, "fp16": 312e12, "bf16": 312e12, "int8": 624e12, "fp64": 9.7e12},
    byte_per_s=1555e9, clock_mhz=1410, idle_clock_mhz=210, power_w=400, idle_w=50, arithmetic_w=180, memory_w=120,
    untold=frozenset({"UtilizationRates"}),  # github.com/XuehaiPan/nvitop/issues/5, in MIG mode
    sliced=(A100_SLICE,),
)  # fmt: skip
H100 = Gpu(
    name="NVIDIA H100 NVL",
    uuid="GPU-8932f937-d72c-4106-c12f-20bd9faed9f6",  # the example of CUDA's guide to CUDA_VISIBLE_DEVICES
    pci_device=0x232110DE,  # github.com/akash-network/provider-configs/pull/91
    capability=(9, 0), units=132, l2_byte=60 * MIB,
    memory_byte=95830 * MIB,  # nvidia-smi: "372W / 400W | 95247MiB / 95830MiB"
    torch_memory_byte=95000 * MIB,
    flop_per_s={
        "fp32": 60e12, "tf32": 417e12, "fp16": 835e12, "bf16": 835e12, "fp64": 30e12, "fp8": 1670e12, "int8": 1670e12
    },
    byte_per_s=3938e9, clock_mhz=1785, idle_clock_mhz=345, power_w=400, idle_w=90, arithmetic_w=150, memory_w=138,
)  # fmt: skip


def slowed(gpu, factor):
    peaks = {name: peak / factor for name, peak in gpu.flop_per_s.items()}
    return replace(gpu, byte_per_s=gpu.byte_per_s / factor, flop_per_s=peaks)


# A call that takes the host longer than the device is timed for seconds that do not pass at once. So take most of the
# products of an H100's roofs, and only the smallest of a tenth of one.
HOPPER = slowed(H100, 10)
# Compared with a thousandth of an H100 the host takes no time, however busy it is.
SLOW = slowed(H100, 1000)
MACHINES = {
    "t4": Machine((T4,)),
    "t4-and-h100": Machine((T4, H100)),
    "a100-slice": Machine((A100_IN_SLICES,)),
    "h100": Machine((H100,)),
    "hopper": Machine((HOPPER,)),
    "hopper-and-t4": Machine((HOPPER, T4)),  # CUDA takes the T4 for the faster one
    "capped": Machine((replace(SLOW, power_w=120),)),
    "slow": Machine((SLOW,), unseen_kernels=40),  # as CUPTI of CUDA 12.6 Update 2 to 13.0 sees them
}
