"""The profiled paper with hardware counters, for the tests of kernels; numbers for arithmetic by hand, none measured.

The GPU's counters are of inference of lean at batch size 1. Those of a step of resnet50, of a GPU of which nothing else
is known, lack the FLOP of tensor cores.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from helpers.papers import REFERENCES
from helpers.places import ROOT
from helpers.profiled_papers import profiled
from helpers.rows import cell_columns
from measure.cache.records import HardwareCounterProfile, KernelCounters, KernelTime
from measure.domain.words import EAGER, INFERENCE, STEP
from measure.verbs.import_ncu import unknown_but
from report.paper import Machine, Paper, frame, hand_tables

SGEMM = "ampere_sgemm_128x64_nn"
MULTIPLY = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float> >(int)"
TURING = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn"
NUMBERS = (
    "calls", "time_s", "dram_read_byte", "dram_write_byte", "l2_byte", "l1_byte", "fp64_flop", "fp32_flop",
    "fp16_flop", "tensor_flop", "tensor_instruction",
)  # fmt: skip
"""What the hardware counters below say of each kernel."""

LEAN = {
    SGEMM: (2, 0.4e-3, 6e6, 2e6, 30e6, 60e6, 0.0, 90e6, 0.0, 0.0, 0.0),
    MULTIPLY: (1, 0.1e-3, 2e6, 2e6, 5e6, 5e6, 0.0, 1e6, 0.0, 0.0, 0.0),
}
RESNET = {
    TURING: (50, 0.3, 20e9, 10e9, 90e9, 120e9, 0.0, 5e9, 0.0, None, 4e9),
    MULTIPLY: (50, 0.1, 6e9, 4e9, 10e9, 10e9, 0.0, 1e9, 0.0, 0.0, 0.0),
}
LAUNCHED = (
    # path, operator, kernel, ms of each, as the operators of profiled_papers
    ("features", "conv2d", SGEMM, 0.050), ("act", "relu_", MULTIPLY, 0.015), ("head", "linear", TURING, 0.035),
)  # fmt: skip
GAP = "one instruction may be of several sizes"


def kernel_times(cell: dict[str, Any]) -> list[KernelTime]:
    """What ``LAUNCHED`` says, as the table has it."""
    return [
        KernelTime(**cell, stage=INFERENCE, path=path, operator=name, kernel=kernel, calls=1, time_s=ms / 1e3)
        for path, name, kernel, ms in LAUNCHED
    ]


def counter_rows(
    cell: dict[str, Any], kernels: dict[str, Any], gap: str | None
) -> tuple[HardwareCounterProfile, list[KernelCounters]]:
    """The rows of a cell's profile and of its kernels' hardware counters."""
    went = {"status": "ok", "reason": None, "recorded_at": "2026-01-02"}
    profile = HardwareCounterProfile(**cell, **went, tool="ncu", capability="7.5", steps=1, tensor_gap=gap)
    known = {name: dict(zip(NUMBERS, numbers, strict=True)) for name, numbers in kernels.items()}
    return profile, [KernelCounters(**cell, kernel=name, **numbers) for name, numbers in known.items()]


def _with_counters(machine: Machine, cell: dict[str, Any], kernels: dict[str, Any], gap: str | None) -> Machine:
    _, rows = counter_rows(cell, kernels, gap)
    return replace(machine, hardware_counters=frame(rows, KernelCounters))


@cache
def counted() -> Paper:
    cpu, gpu = profiled().machines
    nothing = {name: getattr(gpu, name).iloc[:0] for name in ("profiles", "operators", "steps", "cells")}
    imported = replace(gpu, folder="imported", environment=unknown_but("NVIDIA T4"), levels=(), **nothing)
    # Kernels run for 0.1 of the 1.0 ms that a call takes without the profiler.
    cell = cell_columns("lean", 1, INFERENCE, EAGER, "gpu-1")
    step = cell_columns("resnet50", 64, STEP, EAGER, imported.environment.environment_id)
    gpu = replace(gpu, profiles=gpu.profiles.assign(busy_s=pd.Series([0.1e-3, None])))
    keys = hand_tables.read_keys(REFERENCES)
    return replace(
        profiled(),
        machines=(cpu, _with_counters(gpu, cell, LEAN, None)),
        imported=(_with_counters(imported, step, RESNET, GAP),),
        published=hand_tables.published(ROOT / "data" / "published", keys),
    )
