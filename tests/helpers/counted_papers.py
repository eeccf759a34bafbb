"""The profiled paper with hardware counters, for the tests of kernels; numbers for arithmetic by hand, none measured.

The GPU's counters are of inference of lean at batch size 1. Those of a step of resnet50, of a GPU of which nothing else
is known, lack the FLOP of tensor cores.
"""

from dataclasses import replace
from functools import cache

import pandas as pd

from helpers.papers import REFERENCES
from helpers.places import ROOT
from helpers.profiled_papers import profiled
from measure.cache.records import HardwareCounterProfile, KernelCounters, KernelTime
from measure.cache.words import EAGER, INFERENCE, STEP
from measure.import_ncu import unknown_but
from report.load import bibliography, hand_tables
from report.load.paper import Machine, Paper, frame

SGEMM = "ampere_sgemm_128x64_nn"
MULTIPLY = "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float> >(int)"
TURING = "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_nn"
LEAN = {
    # kernel: calls, s, bytes read, written, of L2, of L1, FLOP at fp64, fp32, fp16, of tensor cores, their instructions
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


def _with_counters(of: Machine, cell: tuple[object, ...], kernels: dict, gap: str | None) -> Machine:
    profile = HardwareCounterProfile(*cell, "ok", None, "2026-01-02", "ncu", "7.5", 1, gap)
    rows = [KernelCounters(*cell, name, *numbers) for name, numbers in kernels.items()]
    return replace(
        of,
        hardware_counter_profiles=frame([profile], HardwareCounterProfile),
        hardware_counters=frame(rows, KernelCounters),
    )


@cache
def counted() -> Paper:
    cpu, gpu = profiled().machines
    nothing = {name: getattr(gpu, name).iloc[:0] for name in ("profiles", "operators", "kernels", "steps", "cells")}
    imported = replace(gpu, folder="imported", environment=unknown_but("NVIDIA T4"), levels=(), **nothing)
    identity = imported.environment.environment_id
    # Kernels run for 0.1 of the 1.0 ms that a call takes without the profiler.
    cell = ("gpu-1", "lean", 1, "fp32", INFERENCE, EAGER)
    launched = [KernelTime(*cell, INFERENCE, *names, 1, ms / 1e3) for *names, ms in LAUNCHED]
    gpu = replace(
        gpu, profiles=gpu.profiles.assign(busy_s=pd.Series([0.1e-3, None])), kernels=frame(launched, KernelTime)
    )
    keys = bibliography.read_keys(REFERENCES)
    return replace(
        profiled(),
        machines=(cpu, _with_counters(gpu, cell, LEAN, None)),
        imported=(_with_counters(imported, (identity, "resnet50", 64, "fp32", STEP, EAGER), RESNET, GAP),),
        training_steps=hand_tables.training_steps(ROOT / "data" / "published" / "training_steps.csv", keys),
    )
