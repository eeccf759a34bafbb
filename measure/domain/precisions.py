"""The precisions of a device: supported ones, and the defaults to measure."""

from collections.abc import Collection

from measure.domain.records import Environment
from measure.domain.words import EIGHT_BITS, FP8, FULL_PRECISION, INT8, PRECISIONS, TF32

# The first compute capability with tensor cores for a format (NVIDIA's whitepapers of Turing, Ampere and Ada)
FIRST_CAPABILITY = {INT8: (7, 5), TF32: (8, 0), "bf16": (8, 0), FP8: (8, 9)}


def has_units(capability: tuple[int, ...], precision: str) -> bool:
    return capability >= FIRST_CAPABILITY.get(precision, ())


def is_native(environment: Environment, precision: str) -> bool:
    """Return whether the device reports a compute capability with units for a precision."""
    reported = environment.capability
    return reported is not None and has_units(tuple(map(int, reported.split("."))), precision)


def default_precisions(environment: Environment) -> tuple[str, ...]:
    """Return the precisions of cells if the user names none: fp32, and on CUDA a 16-bit one as well."""
    if environment.device != "cuda":
        return (FULL_PRECISION,)
    return (FULL_PRECISION, "bf16" if is_native(environment, "bf16") else "fp16")


def low_precision(environment: Environment) -> str:
    """Return the 16-bit precision to try first on a device."""
    return {"mps": "fp16", "cuda": default_precisions(environment)[-1]}.get(environment.device, "bf16")


def product_precisions(environment: Environment, requested: Collection[str]) -> list[str]:
    """Return the precisions of the matrix products: the requested ones, and all with units on a GPU (int8: a CPU)."""
    every = (*PRECISIONS, *EIGHT_BITS)
    native = [INT8] if environment.device == "cpu" else [each for each in every if is_native(environment, each)]
    return [each for each in every if each in requested or each in native]
