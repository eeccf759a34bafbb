from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT

from measure.domain import precisions


def on(device, capability=None):
    return replace(ENVIRONMENT, device=device, capability=capability)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (on("cpu"), ("fp32",)),
        (on("mps"), ("fp32",)),
        (on("cuda", "7.5"), ("fp32", "fp16")),  # Turing
        (on("cuda", "8.0"), ("fp32", "bf16")),  # Ampere
        (on("cuda", "12.1"), ("fp32", "bf16")),  # a number, and no text: "12.1" comes before "8.0"
        (on("cuda"), ("fp32", "fp16")),  # what the driver does not tell
    ],
)
def test_a_gpu_is_measured_at_fp32_and_at_the_16_bits_that_it_has_units_for(environment, expected):
    assert precisions.default_precisions(environment) == expected


@pytest.mark.parametrize(
    ("environment", "asked", "expected"),
    [
        (on("cpu"), ["fp32"], ["fp32", "int8"]),
        (on("cpu"), ["bf16", "fp32"], ["fp32", "bf16", "int8"]),
        (on("mps"), ["fp32"], ["fp32"]),
        (on("cuda"), ["fp32", "fp16"], ["fp32", "fp16"]),
        (on("cuda", "6.0"), ["fp32"], ["fp32", "fp16"]),  # Pascal
        (on("cuda", "7.5"), ["fp32"], ["fp32", "fp16", "int8"]),
        (on("cuda", "7.5"), ["fp32", "bf16"], ["fp32", "fp16", "bf16", "int8"]),  # refused when it is measured
        (on("cuda", "8.0"), ["fp32"], ["fp32", "tf32", "fp16", "bf16", "int8"]),
        (on("cuda", "8.9"), ["fp32"], ["fp32", "tf32", "fp16", "bf16", "fp8", "int8"]),  # Ada
    ],
)
def test_products_are_measured_at_what_is_asked_for_and_at_all_that_a_gpu_has_units_for(environment, asked, expected):
    assert precisions.product_precisions(environment, asked) == expected


def test_units_are_known_by_the_compute_capability():
    assert not precisions.is_native(on("cuda", "7.5"), "bf16")
    assert precisions.is_native(on("cuda", "7.5"), "fp16")
    assert precisions.is_native(on("cuda", "8.0"), "tf32")
    assert not precisions.is_native(on("cuda"), "bf16")  # nobody knows
