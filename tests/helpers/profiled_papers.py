"""The tiny cache with operators counted and timed, for the tests of waterfalls: of its CPU and its GPU, or the CPU's.

Milliseconds by hand. The CPU's roof is 100 GFLOP/s and 10 GB/s, the GPU's 8 TFLOP/s and 500 GB/s.
"""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from helpers.papers import REFERENCES
from helpers.places import TESTS
from helpers.rows import cell_columns, operator
from measure.cache.folders import MachineFolder
from measure.cache.records import OperatorTime, Profile
from measure.cache.table import write
from measure.cache.workload_records import Operator
from measure.domain.words import EAGER, INFERENCE
from report.paper import Paper, load

COUNTED = {
    # model, batch: (kind, operator, FLOP, byte) of each. Least times on the CPU:
    ("lean", 1): [
        ("convolution", "convolution", 90e6, 10e6),  # max(0.9, 1.0)
        ("activation", "relu_", 0e6, 5e6),  # 0.5
        ("linear", "addmm", 10e6, 5e6),  # max(0.1, 0.5)
    ],
    ("lean", 8): [
        ("convolution", "convolution", 720e6, 73e6),  # max(7.2, 7.3)
        ("activation", "relu_", 0e6, 40e6),  # 4.0
        ("linear", "addmm", 80e6, 20e6),  # max(0.8, 2.0)
    ],
    ("deep", 1): [
        ("convolution", "convolution", 4900e6, 48e6),  # max(49, 4.8)
        ("normalisation", "native_batch_norm", 0e6, 11e6),  # 1.1
        ("linear", "addmm", 100e6, 3.5e6),  # max(1.0, 0.35)
    ],
    ("broad", 1): [("convolution", "convolution", 510e6, 120e6)],
}
"""What the cells ask for in inference."""

TIMED = {
    # environment, model, batch: a plain call, one under the profiler, (path, operator, ms) of each
    ("cpu-new", "lean", 1): (3.92, 4.5, [("features", "conv2d", 1.5), ("act", "relu_", 0.7), ("head", "linear", 0.6)]),
    ("cpu-new", "lean", 8): (16.5, 18.0, [("features", "conv2d", 8.3), ("act", "relu_", 2.0), ("head", "linear", 2.4)]),
    ("cpu-new", "deep", 1): (
        98.2,
        99.2,
        [("features", "conv2d", 90.0), ("norm", "batch_norm", 3.0), ("head", "linear", 2.0), (None, "zeta", 0.5)],
    ),
    ("gpu-1", "lean", 1): (
        1.0,
        2.0,
        [("features", "conv2d", 0.050), ("act", "relu_", 0.015), ("head", "linear", 0.035)],
    ),
}
"""What the profiler saw."""


def operators() -> list[Operator]:
    """What ``COUNTED`` says, as the table has it."""
    return [
        operator(model, batch, name, int(flop), input_shape="3x224x224", layer_kind=kind, other_flop=0, byte=int(byte))
        for (model, batch), calls in COUNTED.items()
        for kind, name, flop, byte in calls
    ]


def put_profiles(folder: MachineFolder, environment: str) -> None:
    """Adds what ``TIMED`` says of a machine, and a cell that ran out of memory."""
    for (where, model, batch), (plain_ms, profiled_ms, timed) in TIMED.items():
        if where == environment:
            cell = cell_columns(model, batch, INFERENCE, EAGER, environment)
            # A tenth of the time of two threads passes in the operating system.
            asked = {"system_s": 0.2 * plain_ms / 1e3, "page_faults": 1200.0}
            times = {"steps": 10, "plain_s": plain_ms / 1e3, "profiled_s": profiled_ms / 1e3}
            went = {"status": "ok", "reason": None, "recorded_at": "2026-01-02"}
            operator_times = [
                OperatorTime(**cell, stage=INFERENCE, path=path, operator=name, calls=1, time_s=ms / 1e3)
                for path, name, ms in timed
            ]
            folder.put_profile(Profile(**cell, **went, **times, **asked), operator_times)
    cell = cell_columns("broad", 1, INFERENCE, EAGER, environment)
    reason = "needs 9 GB where 8 GB are free"
    folder.put_profile(Profile(**cell, status="oom", reason=reason, recorded_at="2026-01-02"), [])


@cache
def profiled(gpu: bool = True) -> Paper:
    """Written as a cache, with the GPU or without, and loaded."""
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        shutil.copytree(TESTS / "data", data)
        write(data / "workload" / "operators.csv", Operator, operators())
        put_profiles(MachineFolder(data, "example-cpu"), "cpu-new")
        if gpu:
            put_profiles(MachineFolder(data, "example-gpu"), "gpu-1")
        else:
            shutil.rmtree(data / "machines" / "example-gpu")
        return load(data, REFERENCES)
