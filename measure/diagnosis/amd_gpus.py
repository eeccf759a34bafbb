"""This machine's AMD GPUs, as far as they can spoil a measurement, by AMD SMI where it is installed."""

from dataclasses import dataclass

from measure.diagnosis.gpus import Gpu
from measure.machine import devices, rocm
from measure.machine.amd_smi import AmdSmi


@dataclass(frozen=True)
class Amd:
    """``gpus`` are those that torch sees; ``gap`` is why AMD SMI tells nothing of one of them. ``unused`` are the
    architectures of the machine's GPUs, where torch is not built for any.
    """

    gpus: tuple[Gpu, ...]
    gap: str | None
    unused: tuple[str, ...]


def observe() -> Amd:
    """Observe the GPUs that torch would see here."""
    seen = [(f"cuda:{index}", AmdSmi(gpu.bus)) for index, gpu in enumerate(rocm.rocm_gpus())]
    unused = () if rocm.hip_version() else tuple(gpu.architecture for gpu in rocm.all_gpus())
    gap = next((smi.gap for _, smi in seen if smi.gap), None)
    return Amd(tuple(_gpu(name, smi) for name, smi in seen), gap, unused)


def _gpu(torch_name: str, smi: AmdSmi) -> Gpu:
    """Return what the library tells of a GPU; the other facts are asked of NVIDIA's alone."""
    return Gpu(
        torch_name=torch_name,
        name=devices.find(torch_name).identity()["name"],
        others=None,
        used_byte=smi.used_byte(),
        busy=smi.busy(),
        persistence=None,
        ecc=None,
        uncorrected=None,
        temperature_c=smi.temperature_c(),
        limit_c=smi.temperature_c("CRITICAL"),
        throttle=None,
    )
