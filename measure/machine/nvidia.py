"""NVIDIA's GPUs in CUDA's order, read from the driver (NVML) without torch."""

import logging
import os
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

BUS_ORDER = "PCI_BUS_ID"
"""The CUDA_DEVICE_ORDER that counts GPUs as NVML and nvidia-smi do."""


def nvidia_handles() -> list[Any]:
    """Return NVML handles of the GPUs that torch sees, in its order; none without a driver or its library.

    If any GPU is cut into MIG slices, CUDA shows the first slice only and no whole GPU (NVIDIA's Multi-Instance GPU
    user guide, "Device Enumeration").
    """
    order = os.environ.get("CUDA_DEVICE_ORDER", BUS_ORDER)
    if order != BUS_ORDER:
        _log.info("GPUs are counted in bus order, as nvidia-smi does; CUDA_DEVICE_ORDER was %s", order)
    os.environ["CUDA_DEVICE_ORDER"] = BUS_ORDER  # for child processes too: CUDA's own order is fastest first
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception:  # no library, driver or permission: there is no GPU to use
        return []
    handles = (ask(index, pynvml.nvmlDeviceGetHandleByIndex) for index in range(count))
    gpus = [gpu for gpu in handles if gpu is not None]  # a lost GPU has no handle
    slices = [_slices(gpu) for gpu in gpus]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        slices = _select(visible, gpus, slices)
    seen = [each for slices_of_one in slices for each in slices_of_one]
    return [each for each in seen if board_of(each) is not None][:1] or seen


def _slices(gpu: Any) -> list[Any]:
    """Return the slices of a GPU in MIG mode, else the GPU itself."""
    import pynvml

    is_sliced, *_ = ask(gpu, pynvml.nvmlDeviceGetMigMode) or (False,)  # now, and after the next start
    if not is_sliced:
        return [gpu]
    places = range(ask(gpu, pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0)
    found = (ask(gpu, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, place) for place in places)
    return [each for each in found if each is not None]


def _select(visible: str, gpus: list[Any], slices: list[list[Any]]) -> list[list[Any]]:
    """Return the slices that CUDA_VISIBLE_DEVICES names by number or by the start of a UUID.

    Like CUDA, ignore everything from the first invalid name on. The start of two UUIDs is invalid.
    """
    by_number = {str(number): slices_of_one for number, slices_of_one in enumerate(slices)}
    by_uuid: dict[str, list[Any]] = {}
    for gpu, slices_of_one in zip(gpus, slices, strict=True):
        by_uuid |= {uuid_of(each): [each] for each in slices_of_one} | {uuid_of(gpu): slices_of_one}
    found: list[list[Any]] = []
    for name in filter(None, map(str.strip, visible.split(","))):
        matches = [by_number[name]] if name in by_number else []
        matches += [slices_of_one for uuid, slices_of_one in by_uuid.items() if uuid.startswith(name)]
        if len(matches) != 1:
            break
        found += matches
    return found


def nvidia_driver() -> str | None:
    """Return the driver's version; None if it hides it."""
    import pynvml

    try:
        return text_of(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def uuid_of(handle: Any) -> str:
    """Return the UUID of a GPU or a slice; empty if the driver hides it."""
    import pynvml

    return text_of(ask(handle, pynvml.nvmlDeviceGetUUID) or "")


def text_of(value: str | bytes) -> str:
    """Return a text that old versions of pynvml answer as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def ask(handle: Any, question: Callable[..., Any], *arguments: int) -> Any:
    """Return the driver's answer about a GPU; None if the GPU has none or this user may not know it."""
    import pynvml

    try:
        return question(handle, *arguments)
    except pynvml.NVMLError:
        return None


def board_of(handle: Any) -> Any:
    """Return the GPU that a MIG slice belongs to; None for a whole GPU."""
    import pynvml

    is_slice = ask(handle, pynvml.nvmlDeviceIsMigDeviceHandle)
    return ask(handle, pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle) if is_slice else None
