"""The tiny cache with training measured at batch size 8, and its layers timed, for the tests of training.

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
from measure.cache.records import OperatorTime, Profile, Run, Sample
from measure.cache.table import write
from measure.cache.workload_records import Operator
from measure.domain.words import EAGER, STAGES, STEP
from report.paper import Paper, load

ROUNDS, SAMPLES = 3, 6

PLAIN = {"input_shape": "3x224x224", "other_flop": 0}
OK = {"status": "ok", "reason": None, "recorded_at": "2026-01-02"}

STEPS = {
    # environment, model: forward, backward, update (ms), the most memory (byte)
    ("cpu-new", "lean"): (10, 24, 2, 66_000_000),
    ("cpu-new", "deep"): (400, 1000, 20, 210_000_000),
    ("cpu-new", "broad"): (50, 98, 12, 306_000_000),
    ("gpu-1", "lean"): (1.0, 1.7, 0.1, None),
}

COUNTED = {
    # model, stage: (kind, operator, FLOP, byte) of each. Least times on the CPU:
    ("lean", "forward"): [
        ("convolution", "convolution", 720e6, 73e6),  # max(7.2, 7.3)
        ("activation", "relu_", 0, 40e6),  # 4.0
        ("linear", "addmm", 80e6, 19e6),  # max(0.8, 1.9)
    ],
    ("lean", "backward"): [
        ("convolution", "convolution_backward", 1360e6, 146e6),  # max(13.6, 14.6)
        ("activation", "threshold_backward", 0, 80e6),  # 8.0
        ("linear", "mm", 160e6, 38e6),  # max(1.6, 3.8)
    ],
    ("deep", "forward"): [
        ("convolution", "convolution", 39200e6, 132e6),  # max(392, 13.2)
        ("normalisation", "native_batch_norm", 0, 74e6),  # 7.4
        ("linear", "addmm", 800e6, 14e6),  # max(8.0, 1.4)
    ],
    ("deep", "backward"): [
        ("convolution", "convolution_backward", 77600e6, 264e6),  # max(776, 26.4)
        ("normalisation", "native_batch_norm_backward", 0, 148e6),  # 14.8
        ("linear", "mm", 1600e6, 28e6),  # max(16, 2.8)
    ],
}
"""What the steps ask for."""

TIMED = {
    # environment, model: (stage, path, operator, ms) of each
    ("cpu-new", "lean"): [
        ("forward", "features", "conv2d", 6), ("forward", "act", "relu_", 1), ("forward", "head", "linear", 2),
        ("forward", None, "cross_entropy_loss", 0.5), ("backward", "features", "convolution_backward", 12),
        ("backward", "act", "threshold_backward", 4), ("backward", "head", "mm", 3), ("backward", "head", "sum", 2),
        ("backward", None, "nll_loss_backward", 0.5), ("update", None, "_foreach_add_", 2),
    ],
    ("cpu-new", "deep"): [
        ("forward", "features", "conv2d", 360), ("forward", "norm", "batch_norm", 20),
        ("forward", "head", "linear", 12),
        ("backward", "features", "convolution_backward", 900), ("backward", "norm", "native_batch_norm_backward", 60),
        ("backward", "head", "mm", 25), ("update", None, "_foreach_add_", 20),
    ],
    ("gpu-1", "lean"): [
        ("forward", "features", "conv2d", 0.3), ("forward", "act", "relu_", 0.1), ("forward", "head", "linear", 0.2),
        ("backward", "features", "convolution_backward", 0.6), ("backward", "act", "threshold_backward", 0.3),
        ("backward", "head", "mm", 0.4),
    ],
}  # fmt: skip
"""What the profiler saw."""


def operators() -> list[Operator]:
    """What ``COUNTED`` says, as the table has it."""
    return [
        operator(model, 8, name, int(flop), stage=stage, layer_kind=kind, byte=int(byte), **PLAIN)
        for (model, stage), calls in COUNTED.items()
        for kind, name, flop, byte in calls
    ]


def put_steps(folder: MachineFolder, environment: str) -> None:
    """Adds what ``STEPS`` and ``TIMED`` say of a machine."""
    profiles, times = [], []
    for (where, model), (*stages_ms, peak_byte) in STEPS.items():
        if where != environment:
            continue
        for number in range(ROUNDS):
            rounds = []
            for phase, ms in zip((*STAGES, STEP), (*stages_ms, sum(stages_ms)), strict=True):
                cell = cell_columns(model, 8, phase, EAGER, environment)
                run = Run(**cell, **OK, round=number, peak_byte=peak_byte)
                samples = [
                    Sample(**cell, sample=index, block=1, latency_s=ms / 1e3, round=number) for index in range(SAMPLES)
                ]
                rounds.append((run, samples))
            *stages, (run, samples) = rounds
            folder.put_run(run, samples, stages)
    for (where, model), timed in TIMED.items():
        if where == environment:
            cell = cell_columns(model, 8, STEP, EAGER, environment)
            profiles.append(Profile(**cell, **OK, steps=10, plain_s=0.036, profiled_s=0.040))
            times += [
                OperatorTime(**cell, stage=stage, path=path, operator=name, calls=1, time_s=ms / 1e3)
                for stage, path, name, ms in timed
            ]
    if environment == "cpu-new":
        cell = cell_columns("tokens", 8, STEP, EAGER, environment)
        failed = Run(**cell, status="oom", reason="needs 9 GB", recorded_at="2026-01-02", round=0)
        folder.put_run(failed, [], [])
        cell = cell_columns("broad", 8, STEP, EAGER, environment)
        profiles.append(Profile(**cell, status="timeout", reason="took too long", recorded_at="2026-01-02"))
    write(folder.folder / "profiles.csv", Profile, profiles)
    write(folder.folder / "operators.csv", OperatorTime, times)


@cache
def trained(gpu: bool = True) -> Paper:
    """Written as a cache, with the GPU or without, and loaded."""
    with TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        shutil.copytree(TESTS / "data", data)
        write(data / "workload" / "operators.csv", Operator, operators())
        put_steps(MachineFolder(data, "example-cpu"), "cpu-new")
        if gpu:
            put_steps(MachineFolder(data, "example-gpu"), "gpu-1")
        else:
            shutil.rmtree(data / "machines" / "example-gpu")
        return load(data, REFERENCES)
