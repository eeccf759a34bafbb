"""NVIDIA's GPUs in CUDA's order, read from the driver (NVML) without torch."""

import os
from typing import Any


def nvidia_handles() -> list[Any]:
    """Return NVML handles of the GPUs that torch sees, in its order; none without a driver or its library.

    If any GPU is cut into MIG slices, CUDA shows the first slice only and no whole GPU (NVIDIA's Multi-Instance GPU
    user guide, "Device Enumeration").
    """
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # NVML's order, for child processes too; CUDA's is fastest first
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception:  # no library, driver or permission: there is no GPU to use
        return []
    handles = (ask("DeviceGetHandleByIndex", index) for index in range(count))
    slices = [(gpu, _slices(gpu)) for gpu in handles if gpu is not None]  # a lost GPU has no handle
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = [each for _, of_one in slices for each in of_one] if visible is None else _select(visible, slices)
    return [each for each in seen if board_of(each) is not None][:1] or seen


def _slices(gpu: Any) -> list[Any]:
    """Return the slices of a GPU in MIG mode, else the GPU itself."""
    is_sliced, *_ = ask("DeviceGetMigMode", gpu) or (False,)  # now, and after the next start
    if not is_sliced:
        return [gpu]
    places = range(ask("DeviceGetMaxMigDeviceCount", gpu) or 0)
    found = (ask("DeviceGetMigDeviceHandleByIndex", gpu, place) for place in places)
    return [each for each in found if each is not None]


def _select(visible: str, slices: list[tuple[Any, list[Any]]]) -> list[Any]:
    """Return the GPUs and slices that CUDA_VISIBLE_DEVICES names by number or by the start of a UUID.

    Like CUDA, ignore everything from the first invalid name on. The start of two UUIDs is invalid.
    """
    named = {str(number): of_one for number, (_, of_one) in enumerate(slices)}
    for gpu, of_one in slices:
        named |= {ask("DeviceGetUUID", each) or "": [each] for each in of_one}
        named[ask("DeviceGetUUID", gpu) or ""] = of_one
    found: list[Any] = []
    for name in filter(None, map(str.strip, visible.split(","))):
        matches = [name] if name in named else [key for key in named if key.startswith(name)]
        if len(matches) != 1:
            break
        found += named[matches[0]]
    return found


def board_of(handle: Any) -> Any:
    """Return the GPU that a MIG slice belongs to; None for a whole GPU."""
    is_slice = ask("DeviceIsMigDeviceHandle", handle)
    return ask("DeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_slice else None


def ask(question: str, *arguments: Any) -> Any:
    """Return NVML's answer to a question, named without ``nvml``; None if it has none or this user may not know it."""
    import pynvml

    function = getattr(pynvml, f"nvml{question}", None)
    try:
        return function(*arguments) if function else None
    except pynvml.NVMLError:
        return None
