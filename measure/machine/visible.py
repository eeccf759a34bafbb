"""The variables that choose among GPUs, such as CUDA_VISIBLE_DEVICES: the grammar that CUDA and ROCm share."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

Gpu = TypeVar("Gpu")


def chosen(visible: str, numbered: Sequence[Gpu], by_uuid: Mapping[str, Gpu]) -> list[Gpu]:
    """Return the GPUs that a variable names: by number, or by the beginning of a UUID.

    As CUDA and ROCm do, ignore everything from the first invalid name on; the beginning of two UUIDs is one.
    """
    by_number = dict(zip(map(str, range(len(numbered))), numbered, strict=True))
    found: list[Gpu] = []
    for name in filter(None, (part.strip() for part in visible.split(","))):
        named = [by_number[name]] if name in by_number else []
        named += [gpu for uuid, gpu in by_uuid.items() if uuid.startswith(name)]
        if len(named) != 1:
            break
        found += named
    return found
