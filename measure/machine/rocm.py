"""AMD's GPUs as torch sees them through ROCm, by what Linux's kernel tells of them, without torch.

Their order is that of the kernel's topology: ROCm's runtime counts the nodes that compute (``BuildTopology`` in its
``amd_topology.cpp``), whatever other tools call the first.
"""

import importlib.util
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from measure.machine.processor import content_of
from measure.machine.visible import chosen

SYSTEM = Path("/sys")
NODES, PCI_DEVICES, DRIVER_VERSION = "class/kfd/kfd/topology/nodes", "bus/pci/devices", "module/amdgpu/version"

NAMES = ("/opt/amdgpu/share/libdrm/amdgpu.ids", "/usr/share/libdrm/amdgpu.ids")
"""libdrm's table of names, by device and revision; torch brings one of its own in ``share/libdrm``."""

FRAME_BUFFER = (1, 2)
"""The types of a bank that is a GPU's own memory: ``HSA_MEM_HEAP_TYPE_FB_PUBLIC`` and ``_PRIVATE`` (kfd_topology.h)."""

OF_TWO_DIES = (0x7408, 0x740C)
"""The devices of MI250X and MI250, each of which is two GPUs to a program."""


@dataclass(frozen=True)
class RocmGpu:
    """A node of the topology that computes.

    ``properties`` are its numbers as the kernel names them; ``bus`` is its address, such as ``0000:03:00.0``;
    ``memory_byte`` the size of its own memory, None where it has none; ``cache_byte`` that of its last cache.
    """

    properties: Mapping[str, int]
    bus: str
    memory_byte: int | None
    cache_byte: int

    @property
    def unique_id(self) -> str:
        """The 16 digits of its UUID, which ROCm writes ``GPU-`` before; empty where it has none."""
        number = self.properties.get("unique_id", 0)
        return f"{number:016x}" if number else ""

    @property
    def architecture(self) -> str:
        """What compilers call it: ``gfx90a`` of 90010, two digits each for the minor version and the stepping."""
        major, rest = divmod(self.properties.get("gfx_target_version", 0), 10_000)
        minor, stepping = divmod(rest, 100)
        return f"gfx{major}{minor:x}{stepping:x}"

    @property
    def pci_id(self) -> str:
        """Its kind: device and vendor, in NVML's order."""
        return f"{self.properties.get('device_id', 0):04x}{self.properties.get('vendor_id', 0):04x}"

    @property
    def is_one_of_two_dies(self) -> bool:
        return self.properties.get("device_id") in OF_TWO_DIES


def hip_version() -> str | None:
    """Return the version of HIP that the installed torch is built for; None where it is built for none."""
    folder = _torch_folder()
    text = content_of(folder / "version.py") if folder else ""
    built = re.search(r"""^hip\b.*=\s*['"]([^'"]+)['"]""", text, re.MULTILINE)
    return built[1] if built else None


def _torch_folder() -> Path | None:
    spec = importlib.util.find_spec("torch")  # does not import it
    return Path(spec.origin).parent if spec and spec.origin else None


def rocm_gpus() -> list[RocmGpu]:
    """Return the GPUs that torch sees, in its order; none where torch is not built for ROCm.

    ROCR_VISIBLE_DEVICES chooses among those of the machine, and HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES without
    it, among those that are left ("GPU isolation techniques" in ROCm's documentation).
    """
    if hip_version() is None:
        return []
    gpus = all_gpus()
    for name in ("ROCR_VISIBLE_DEVICES", _hip_variable()):
        if (visible := os.environ.get(name)) is not None:
            gpus = chosen(visible.lower(), gpus, {f"gpu-{gpu.unique_id}": gpu for gpu in gpus if gpu.unique_id})
    return gpus


def _hip_variable() -> str:
    return "HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in os.environ else "CUDA_VISIBLE_DEVICES"


def all_gpus() -> list[RocmGpu]:
    """Return the GPUs that this process may ask the kernel about, whatever torch is built for."""
    nodes = [node for node in (SYSTEM / NODES).glob("*") if node.name.isdigit()]
    told = [(node, _numbers(node / "properties")) for node in sorted(nodes, key=lambda node: int(node.name))]
    return [
        RocmGpu(properties, _bus(properties), _memory_byte(node), _cache_byte(node))
        for node, properties in told
        if properties.get("simd_count")  # not of a processor, nor of a GPU that is another container's
    ]


def _numbers(file: Path) -> dict[str, int]:
    """Return what a file says in lines of a name and a number."""
    pairs = (line.split() for line in content_of(file).splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _bus(properties: Mapping[str, int]) -> str:
    """Return the PCI address: ``location_id`` has the bus in its second byte, then device and function."""
    place, domain = properties.get("location_id", 0), properties.get("domain", 0)
    return f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 0x7}"


def _memory_byte(node: Path) -> int | None:
    banks = map(_numbers, node.glob("mem_banks/*/properties"))
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in FRAME_BUFFER) or None


def _cache_byte(node: Path) -> int:
    """Return the size of all caches of the highest level; torch tells that of one die's second level."""
    caches = [_numbers(file) for file in node.glob("caches/*/properties")]
    last = max((cache.get("level", 0) for cache in caches), default=0)
    return 1024 * sum(cache.get("size", 0) for cache in caches if cache.get("level") == last)


def listed_name(gpu: RocmGpu) -> str | None:
    """Return what libdrm's table calls a GPU, or else what its board does; None where neither knows it."""
    folder, pci = _torch_folder(), SYSTEM / PCI_DEVICES / gpu.bus
    device = gpu.properties.get("device_id", 0)
    revision = content_of(pci / "revision").removeprefix("0x")
    tables = [*([folder / "share/libdrm/amdgpu.ids"] if folder else []), *map(Path, NAMES)]
    for table in tables:
        row = re.search(rf"^{device:04X},\s*{revision},\s*(.+)$", content_of(table), re.MULTILINE | re.IGNORECASE)
        if row:
            return row[1].strip()
    return content_of(pci / "product_name") or None


def driver_version() -> str:
    """Return the version of the driver that AMD distributes; that of the kernel where its own is in use."""
    return content_of(SYSTEM / DRIVER_VERSION) or platform.release()
