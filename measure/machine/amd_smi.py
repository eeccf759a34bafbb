"""One AMD GPU as AMD SMI tells of it: the driver's library, by its package ``amdsmi`` where that is installed."""

from functools import cached_property
from operator import attrgetter
from typing import Any

from measure.errors import in_short

UNTOLD = (2**16 - 1, 2**32 - 1, 2**64 - 1)
"""What a number is where a GPU does not tell it, and the library does not say ``N/A``."""

RESIDENCIES = {
    "ppt_residency_acc": "power cap",
    "socket_thm_residency_acc": "thermal",
    "vr_thm_residency_acc": "voltage regulator thermal",
    "hbm_thm_residency_acc": "memory thermal",
    "prochot_residency_acc": "hardware thermal",
}
"""The counters that rise while the clock of an MI300 or a later Instinct is lowered, and why it is. Of other GPUs the
library tells only that it is, not why. ``amdsmi_get_violation_status`` tells the same, but sleeps for 100 ms."""


class AmdSmi:
    """What the library tells of one GPU; what it does not tell is None.

    It is loaded with the first question: where torch measures too, after torch, which loads the copy of it that goes
    with its own libraries (torch/cuda/__init__.py).
    """

    def __init__(self, bus: str) -> None:
        """``bus`` is the GPU's PCI address, such as ``0000:03:00.0``."""
        self._bus = bus

    @property
    def gap(self) -> str | None:
        """Why nothing at all is told."""
        _, handle, problem = self._found
        return f"it shows no GPU at {self._bus}" if handle is None and problem is None else problem

    @cached_property
    def _found(self) -> tuple[Any, Any, str | None]:
        """Return the package, its handle of the GPU, and what went wrong."""
        try:
            import amdsmi

            amdsmi.amdsmi_init()
            handles = amdsmi.amdsmi_get_processor_handles()
            by_bus = {amdsmi.amdsmi_get_gpu_device_bdf(handle).lower(): handle for handle in handles}
        except Exception as problem:  # no package, library, driver or permission: whatever it is
            return None, None, in_short(problem)
        return amdsmi, by_bus.get(self._bus), None

    def market_name(self) -> str | None:
        name = (self._ask("amdsmi_get_gpu_asic_info") or {}).get("market_name", "N/A")
        return None if name == "N/A" else str(name)

    def clock_hz(self) -> float | None:
        """Return the clock of the compute units: ``clk``, which was ``cur_clk`` before ROCm 6.2."""
        return _number(self._ask("amdsmi_get_clock_info", "AmdSmiClkType.GFX"), 1e6, "clk", "cur_clk")

    def temperature_c(self, metric: str = "CURRENT") -> float | None:
        """Return the temperature of the hottest spot, or of the edge where that is all there is.

        ``metric`` may be ``CRITICAL``, its limit. The answer is in degrees, whatever the library's guide says of
        thousandths: ``amdsmi_get_temp_metric`` in ``amd_smi.cc`` divides by 1000.
        """
        for sensor in ("JUNCTION", "EDGE"):
            asked = (f"AmdSmiTemperatureType.{sensor}", f"AmdSmiTemperatureMetric.{metric}")
            told = _known(self._ask("amdsmi_get_temp_metric", *asked))
            if told is not None:
                return told
        return None

    def power_w(self) -> float | None:
        """Return the power: an MI300 and later ones tell the current one, others an average."""
        return _number(self._ask("amdsmi_get_power_info"), 1.0, "current_socket_power", "average_socket_power")

    def energy_j(self) -> float | None:
        """Return the energy used since some start; the counter was called ``power`` at first."""
        told = self._ask("amdsmi_get_energy_count")
        count, unit_j = _number(told, 1.0, "energy_accumulator", "power"), _number(told, 1e-6, "counter_resolution")
        return None if count is None or unit_j is None else count * unit_j

    def residencies(self) -> dict[str, float]:
        """Return how long the clock has been lowered since some start, in some unit, by the reason."""
        told = self._ask("amdsmi_get_gpu_metrics_info")
        found = {reason: _number(told, 1.0, name) for name, reason in RESIDENCIES.items()}
        return {reason: number for reason, number in found.items() if number is not None}

    def busy(self) -> float | None:
        """Return the part of the last moment in which it computed."""
        return _number(self._ask("amdsmi_get_gpu_activity"), 0.01, "gfx_activity")

    def used_byte(self) -> int | None:
        """Return the memory in use, which the library tells in MiB."""
        used = _number(self._ask("amdsmi_get_gpu_vram_usage"), 2**20, "vram_used")
        return None if used is None else int(used)

    def _ask(self, question: str, *details: str) -> Any:
        """Return an answer; None where this GPU has none, this user gets none or this version knows no such question.

        ``details`` are names in the package.
        """
        smi, handle, _ = self._found
        if handle is None:
            return None
        try:
            return attrgetter(question)(smi)(handle, *(attrgetter(name)(smi) for name in details))
        except (smi.AmdSmiException, AttributeError):
            return None


def _number(told: Any, unit: float, *names: str) -> float | None:
    """Return the first number that an answer has under these names, in a unit; None where it has none."""
    numbers = (_known((told or {}).get(name)) for name in names)
    return next((number * unit for number in numbers if number is not None), None)


def _known(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value not in UNTOLD else None
