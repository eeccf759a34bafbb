"""NVIDIA's GPUs as CUDA shows them, by the driver's library (NVML), without torch."""

import logging
import os
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)

BUS_ORDER = "PCI_BUS_ID"
"""The value of CUDA_DEVICE_ORDER that counts GPUs as NVML and nvidia-smi do."""


def nvidia_handles() -> list[Any]:
    """Return the driver's handles of the GPUs that torch sees, in its order; none without driver or library.

    Of GPUs that are cut into slices (MIG devices), CUDA shows the first slice, and no whole GPU beside it (NVIDIA's
    Multi-Instance GPU user guide, "Device Enumeration").
    """
    _count_as_the_driver()
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception:  # no library, no driver, no permission: whatever it is, there is no GPU to use
        return []
    handles = (ask(index, pynvml.nvmlDeviceGetHandleByIndex) for index in range(count))
    gpus = [gpu for gpu in handles if gpu is not None]  # the driver has no handle of a GPU that it lost
    parts = [_parts(gpu) for gpu in gpus]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        parts = _chosen(visible, gpus, parts)
    seen = [part for parts_of_one in parts for part in parts_of_one]
    return [part for part in seen if board_of(part) is not None][:1] or seen


def _count_as_the_driver() -> None:
    """Let CUDA count GPUs as the driver does, in this process and those that it starts: its own order is fastest first.

    What is identified here and what is measured there would be two GPUs otherwise.
    """
    order = os.environ.get("CUDA_DEVICE_ORDER", BUS_ORDER)
    if order != BUS_ORDER:
        _log.info("GPUs are counted by their place on the bus, as nvidia-smi does; CUDA_DEVICE_ORDER was %s", order)
    os.environ["CUDA_DEVICE_ORDER"] = BUS_ORDER


def _parts(gpu: Any) -> list[Any]:
    """Return what CUDA makes of a GPU: the GPU itself, or its slices where it is in MIG mode."""
    import pynvml

    is_sliced, *_ = ask(gpu, pynvml.nvmlDeviceGetMigMode) or (False,)  # now, and after the next start
    if not is_sliced:
        return [gpu]
    places = range(ask(gpu, pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0)
    found = (ask(gpu, pynvml.nvmlDeviceGetMigDeviceHandleByIndex, place) for place in places)
    return [part for part in found if part is not None]


def _chosen(visible: str, gpus: list[Any], parts: list[list[Any]]) -> list[list[Any]]:
    """Return the parts of the GPUs that CUDA_VISIBLE_DEVICES names, by number or by the beginning of a UUID.

    Like CUDA, ignore everything from the first invalid name on. The beginning of two UUIDs is invalid.
    """
    by_number = {str(number): parts_of_one for number, parts_of_one in enumerate(parts)}
    by_uuid: dict[str, list[Any]] = {}
    for gpu, parts_of_one in zip(gpus, parts, strict=True):
        by_uuid |= {uuid_of(part): [part] for part in parts_of_one} | {uuid_of(gpu): parts_of_one}
    found: list[list[Any]] = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        named = [by_number[name]] if name in by_number else []
        named += [parts_of_one for uuid, parts_of_one in by_uuid.items() if uuid.startswith(name)]
        if len(named) != 1:
            break
        found += named
    return found


def nvidia_driver() -> str | None:
    """Return the driver's version, None where it does not tell it."""
    import pynvml

    try:
        return text_of(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return None


def uuid_of(handle: Any) -> str:
    """Return the UUID of a GPU or a slice, empty where the driver does not tell it."""
    import pynvml

    return text_of(ask(handle, pynvml.nvmlDeviceGetUUID) or "")


def text_of(value: str | bytes) -> str:
    """Return what older versions of NVML's module answer as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def ask(handle: Any, question: Callable[..., Any], *arguments: int) -> Any:
    """Return what the driver answers about a GPU, None where this GPU has no answer or this user gets none."""
    import pynvml

    try:
        return question(handle, *arguments)
    except pynvml.NVMLError:
        return None


def board_of(handle: Any) -> Any:
    """Return the GPU of which this is a slice (MIG device); None where it is a whole GPU."""
    import pynvml

    is_slice = ask(handle, pynvml.nvmlDeviceIsMigDeviceHandle)
    return ask(handle, pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle) if is_slice else None
