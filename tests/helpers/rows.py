"""Rows of every table for tests of what reads and writes them, and a machine's folder as another person hands it in."""

import zipfile

from measure.cache.folders import MachineFolder
from measure.cache.records import (
    Ceiling,
    CounterProfile,
    Environment,
    KernelCounters,
    KernelTime,
    Layer,
    Operator,
    OperatorTime,
    Profile,
    Run,
    Sample,
    Workload,
)

ENVIRONMENT = Environment(
    "e1",
    "h1",
    "cpu",
    "Chip, of 2 cores",
    2,
    2,
    1024,
    None,
    None,
    "Linux",
    "3.11",
    "2.9",
    None,
    None,
    "2026-01-01",
)


def workload(model="net", batch=1, flop=10, **columns):
    return Workload(
        model, "torchvision", "plain", "3x2x2", batch, "fp32", None, "ok", None, forward_flop=flop, **columns
    )


def layer(model="net", batch=1, position=0, flop=10):
    return Layer(
        model, "3x2x2", batch, "fp32", None, position, "head", "Linear", "linear", 1, 5, 20, 8, 96, flop, 2, None,
        None, None, None, None,
    )  # fmt: skip


def operator(model="net", batch=1, name="mm", flop=10, calls=1):
    return Operator(model, "3x2x2", batch, "fp32", None, "inference", "linear", name, flop, 2, 0, 96, calls)


def ceiling(size=8, latency_s=0.5):
    return Ceiling("e1", "matmul", "fp32", size, 1024, 768, "ok", None, latency_s, 0.4, 0.6, 6)


def run(model="net", batch=1, status="ok", reason=None, round_=0, phase="inference"):
    return Run(
        "e1", model, batch, "fp32", phase, "eager", status, reason, "2026-01-01T00:00:00+00:00", round_
    )


def samples(count, model="net", batch=1, round_=0, phase="inference"):
    return [
        Sample("e1", model, batch, "fp32", phase, "eager", index, 4, 0.1 + index, round_)
        for index in range(count)
    ]


def profile(model="net", batch=1, status="ok", reason=None, phase="inference"):
    times = (5, 0.5, 0.625) if status == "ok" else (None, None, None)
    return Profile(
        "e1", model, batch, "fp32", phase, "eager", status, reason, "2026-01-01T00:00:00+00:00", *times
    )


def operator_time(model="net", batch=1, path="head", name="linear", time_s=0.25, phase="inference"):
    return OperatorTime(
        "e1", model, batch, "fp32", phase, "eager", "inference", path, name, calls=1, time_s=time_s
    )


def kernel_time(model="net", batch=1, kernel="sgemm", time_s=0.25):
    return KernelTime(
        "e1", model, batch, "fp32", "inference", "eager", "inference", "head", "linear", kernel, 1, time_s
    )


def counter_profile(model="net", batch=1, status="ok", reason=None):
    about = ("ncu 1.2", "8.0", 2, None) if status == "ok" else (None, None, None, None)
    return CounterProfile(
        "e1", model, batch, "fp32", "step", "eager", status, reason, "2026-01-01T00:00:00+00:00", *about
    )


def kernel_counters(model="net", batch=1, kernel="sgemm", time_s=0.25):
    return KernelCounters("e1", model, batch, "fp32", "step", "eager", kernel, 3, time_s, 8e6, 4e6)


COUNTED = [workload(flop=10)]
"""10 FLOP in 0.1 s at least are 100 FLOP/s; the fastest kernel of ``ceiling`` does 1024 FLOP in 0.5 s: 2048 FLOP/s."""


def machine_in(folder, environment=ENVIRONMENT):
    """Fills the folder, and is its tables."""
    machine = MachineFolder(folder.parent, folder.name, folder)
    machine.put_environment(environment)
    machine.put_ceilings([ceiling()])
    machine.put_run(run(), samples(3))
    machine.put_run(run(batch=64, status="oom", reason="needs 9 GB"), [])
    machine.put_profile(profile(), [operator_time()], [kernel_time()])
    machine.put_counters(counter_profile(), [kernel_counters()])
    return machine


def zipped(path, folder, inside=""):
    """A zip of a folder's files, below the folder ``inside``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{inside}{file.name}")
    return path
