"""The precisions that a device has units for, and those in which it is measured unless others are named."""

from collections.abc import Collection

from measure.cache.records import Environment
from measure.cache.words import EIGHT_BITS, FP8, FULL_PRECISION, INT8, PRECISIONS, TF32

FIRST_CAPABILITY = {INT8: (7, 5), TF32: (8, 0), "bf16": (8, 0), FP8: (8, 9)}
"""The compute capability from which tensor cores take a format, by NVIDIA's whitepapers of Turing, Ampere and Ada."""


def has_units(capability: tuple[int, ...], precision: str) -> bool:
    """Return whether a GPU of this compute capability has units for a precision."""
    return capability >= FIRST_CAPABILITY.get(precision, ())


def _says_units(environment: Environment, precision: str) -> bool:
    """Return whether the device is a GPU by whose compute capability it has units for a precision."""
    told = environment.capability
    return told is not None and has_units(tuple(map(int, told.split("."))), precision)


def usual(environment: Environment) -> tuple[str, ...]:
    """Return the precisions of cells where none are named: fp32, and on an NVIDIA GPU one of 16 bits as well."""
    if environment.device != "cuda":
        return (FULL_PRECISION,)
    return (FULL_PRECISION, "bf16" if _says_units(environment, "bf16") else "fp16")


def lower(environment: Environment) -> str:
    """Return the precision of 16 bits that a device is tried in first."""
    *_, last = usual(environment)
    return last if last != FULL_PRECISION else "fp16" if environment.device == "mps" else "bf16"


def of_products(environment: Environment, asked: Collection[str]) -> list[str]:
    """Return the precisions of matrix products: those asked for, all that a GPU has units for, a processor's int8."""
    every = (*PRECISIONS, *EIGHT_BITS)
    further = [INT8] if environment.device == "cpu" else [each for each in every if _says_units(environment, each)]
    return [each for each in every if each in asked or each in further]


def lacks_units(environment: Environment, asked: Collection[str]) -> bool:
    """Return whether the device is a GPU by whose compute capability it has units for none of these precisions."""
    return environment.capability is not None and not any(_says_units(environment, each) for each in asked)
