"""AMD's GPUs that are not there: what Linux's kernel tells of them in files, and AMD SMI's package.

These are inputs of tests and no data: nothing of a chip is measured on them.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from measure.machine import rocm

MIB = 2**20


@dataclass(frozen=True, eq=False)
class Board:
    """A node of the kernel's topology that computes: its properties, its caches (level and KiB) and its memory."""

    properties: Mapping[str, int]
    revision: str
    caches: tuple[tuple[int, int], ...]
    memory_byte: int
    product_name: str | None = None

    @property
    def bus(self) -> str:
        """Its address; every board here is device 0 of its bus."""
        return f"0000:{self.properties['location_id'] // 256:02x}:00.0"

    def moved(self, bus: int) -> "Board":
        """Return another one, on this bus."""
        return replace(self, properties={**self.properties, "location_id": 256 * bus, "unique_id": bus})


RX_7900_XTX = Board(
    # As the kernel lists one in github.com/tinygrad/tinygrad (test/mockgpu/amd); caches as rocminfo prints them in
    # github.com/ollama/ollama/issues/3158.
    properties={
        "cpu_cores_count": 0,
        "simd_count": 192,
        "gfx_target_version": 110000,
        "vendor_id": 4098,
        "device_id": 29772,
        "location_id": 34304,
        "domain": 0,
        "unique_id": 11673270660693242239,
    },
    revision="c8",
    caches=((2, 6144), (3, 98304)),
    memory_byte=24560 * MIB,
)
MI300X = Board(
    # As torch prints one in github.com/ROCm/legacy-rocm-build/issues/4203: 304 compute units of four SIMDs.
    properties={
        "cpu_cores_count": 0,
        "simd_count": 1216,
        "gfx_target_version": 90402,
        "vendor_id": 4098,
        "device_id": 0x74A1,
        "location_id": 0x0500,
        "domain": 0,
        "unique_id": 0xF330DC4D00DEE22B,
    },
    revision="00",
    caches=(*[(2, 4096)] * 8, (3, 262144)),
    memory_byte=196592 * MIB,
)
MI250X_DIE = Board(
    # 110 compute units of four SIMDs, half of AMD's MI250X; the rest is made up.
    properties={
        "cpu_cores_count": 0,
        "simd_count": 440,
        "gfx_target_version": 90010,
        "vendor_id": 4098,
        "device_id": 0x7408,
        "location_id": 0xC100,
        "domain": 0,
        "unique_id": 0x00000000000000C1,
    },
    revision="00",
    caches=((2, 8192),),
    memory_byte=65520 * MIB,
)

TORCHS_UUID = "66333330-6463-3464-3030-646565323262"
"""What torch prints for the MI300X above, in the same thread."""

NAMES = """# List of AMDGPU IDs
#
# Syntax:
# device_id,	revision_id,	product_name        <-- single tab after comma

1.0.0
7408,	00,	AMD Instinct MI250X
744C,	C8,	AMD Radeon RX 7900 XTX
744C,	CC,	AMD Radeon RX 7900 XT
74A1,	00,	AMD Instinct MI300X
"""
"""Lines of libdrm's amdgpu.ids."""


def pretend(monkeypatch: pytest.MonkeyPatch, folder: Path, *boards: Board, **variables: str) -> Path:
    """Let the kernel tell of these boards, torch be built for ROCm and no AMD SMI be there; return where it tells."""
    system = folder / "sys"
    nodes = system / rocm.NODES
    _write(nodes / "0/properties", "cpu_cores_count 32\nsimd_count 0\n")
    for number, board in enumerate(boards, 1):
        _write_board(nodes / str(number), board)
        pci = system / rocm.PCI_DEVICES / board.bus
        _write(pci / "revision", f"0x{board.revision}\n")
        if board.product_name:
            _write(pci / "product_name", f"{board.product_name}\n")
    _write(folder / "amdgpu.ids", NAMES)
    monkeypatch.setattr(rocm, "SYSTEM", system)
    monkeypatch.setattr(rocm, "NAMES", (str(folder / "amdgpu.ids"),))
    monkeypatch.setattr(rocm, "hip_version", lambda: "6.2.41133-dd7f95766")
    monkeypatch.setitem(sys.modules, "amdsmi", None)  # does not import
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return system


def _write_board(node: Path, board: Board) -> None:
    bank = {"heap_type": 1, "size_in_bytes": board.memory_byte, "flags": 0, "width": 384}
    system_memory = {"heap_type": 0, "size_in_bytes": 2**36, "flags": 0, "width": 64}
    _write(node / "properties", _listing(board.properties))
    for number, each in enumerate((bank, system_memory) if board.memory_byte else (system_memory,)):
        _write(node / f"mem_banks/{number}/properties", _listing(each))
    for number, (level, kibibyte) in enumerate(board.caches):
        _write(node / f"caches/{number}/properties", _listing({"level": level, "size": kibibyte}))


def _listing(numbers: Mapping[str, int]) -> str:
    return "".join(f"{name} {number}\n" for name, number in numbers.items())


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


QUESTIONS = (
    "gpu_asic_info", "clock_info", "temp_metric", "power_info", "energy_count", "gpu_metrics_info", "gpu_activity",
    "gpu_vram_usage",
)  # fmt: skip


def pretend_smi(monkeypatch: pytest.MonkeyPatch, *boards: Board, **answers: Any) -> ModuleType:
    """Let AMD SMI show these boards and give answers, by its questions' names after ``amdsmi_get_``.

    An answer may be a function of the details that a question names. What has none is not supported.
    """
    smi: Any = ModuleType("amdsmi")

    class AmdSmiException(Exception):  # noqa: N818 - the package calls it so
        pass

    def answering(question: str) -> Any:
        def answer(handle: Board, *details: str) -> Any:
            assert handle in boards
            told = answers.get(question)
            told = told(*details) if callable(told) else told
            if told is None:
                raise AmdSmiException("AMDSMI_STATUS_NOT_SUPPORTED - Feature not supported")
            return told

        return answer

    for question in QUESTIONS:
        setattr(smi, f"amdsmi_get_{question}", answering(question))
    smi.AmdSmiException = AmdSmiException
    smi.amdsmi_init = lambda: None
    smi.amdsmi_get_processor_handles = lambda: list(boards)
    smi.amdsmi_get_gpu_device_bdf = lambda board: board.bus.upper()
    smi.AmdSmiClkType = SimpleNamespace(GFX="GFX")
    smi.AmdSmiTemperatureType = SimpleNamespace(JUNCTION="JUNCTION", EDGE="EDGE")
    smi.AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="CURRENT", CRITICAL="CRITICAL")
    monkeypatch.setitem(sys.modules, "amdsmi", smi)
    return smi
