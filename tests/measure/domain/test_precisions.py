from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT

from measure.domain import precisions


def on(device, capability=None):
    return replace(ENVIRONMENT, device=device, capability=capability)


@pytest.mark.parametrize(
    ("environment", "default", "requested", "products"),
    [
        (on("cpu"), "fp32", "bf16 fp32", "fp32 bf16 int8"),
        (on("mps"), "fp32", "fp32", "fp32"),
        (on("cuda"), "fp32 fp16", "fp32", "fp32"),  # the driver does not tell
        (on("cuda", "6.0"), "fp32 fp16", "fp32", "fp32 fp16"),  # Pascal
        (on("cuda", "7.5"), "fp32 fp16", "fp32 bf16", "fp32 fp16 bf16 int8"),  # Turing; bf16 is refused later
        (on("cuda", "8.0"), "fp32 bf16", "fp32", "fp32 tf32 fp16 bf16 int8"),  # Ampere
        (on("cuda", "8.9"), "fp32 bf16", "fp32", "fp32 tf32 fp16 bf16 fp8 int8"),  # Ada
        (on("cuda", "12.1"), "fp32 bf16", "fp32", "fp32 tf32 fp16 bf16 fp8 int8"),  # as a text before "8.0"
    ],
)
def test_cells_have_fp32_and_16_bits_and_products_all_units(environment, default, requested, products):
    assert " ".join(precisions.default_precisions(environment)) == default
    assert " ".join(precisions.product_precisions(environment, requested.split())) == products


@pytest.mark.parametrize(
    ("environment", "precision"),
    [(on("cpu"), "bf16"), (on("mps"), "fp16"), (on("cuda", "7.5"), "fp16"), (on("cuda", "8.0"), "bf16")],
)
def test_metal_and_old_gpus_try_fp16_first(environment, precision):
    assert precisions.low_precision(environment) == precision
