"""A GPU that is not there: NVML, torch's CUDA device and profiler, Triton, ncu and its time, for tests of all that.

Nothing in ``measure/`` knows of it. ``environment(machine)`` is for programs: every Python process started with these
variables, and all that it starts, finds the GPUs of one of ``catalogue.MACHINES``. ``pretend`` is for tests of
questions to NVML alone, in this process.

It shows that the program finds a device, measures on it and stores the results. It does not show values (its tensors
have none), foreach optimisers (torch chooses by a tensor's device, and these are on meta), a GradScaler that skips
steps, cuDNN, a compiler's kernels (compiled networks launch those of their operators), the rounding of the allocator,
concurrent work, and models that read their tensors. Of autocast it does the casts of products and convolutions, each
time: not the operators that autocast keeps at fp32. Latencies below some 10 ms are the host's, except a graph's.
"""

import os
import sys
from pathlib import Path

from helpers.gpu import nvml
from helpers.gpu.catalogue import MACHINES
from helpers.places import ROOT, TESTS

VARIABLE = "ROOFWRIGHT_TEST_GPU"  # names the machine with a process's GPUs
PYTHON = "ROOFWRIGHT_TEST_PYTHON"  # the Python of ``bin/ncu``
CUDA_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def environment(machine, variables=None):
    """The environment of a program that has the GPUs of a machine, with these variables besides."""
    others = {name: value for name, value in os.environ.items() if name not in CUDA_VARIABLES}
    here = Path(__file__).parent
    python_path = os.pathsep.join(map(str, [here / "site", ROOT, TESTS]))
    path = os.pathsep.join([str(here / "bin"), os.environ["PATH"]])
    own = {"PYTHONPATH": python_path, "PATH": path, PYTHON: sys.executable, VARIABLE: machine}
    return {**others, **own, **(variables or {})}


def here():
    """The machine that this process was started on."""
    return MACHINES[os.environ[VARIABLE]]


def pretend(monkeypatch, machine, **variables):
    """Let NVML answer for a machine in this process, under these environment variables."""
    import pynvml

    for name, answer in nvml.answers(machine, pynvml).items():
        monkeypatch.setattr(pynvml, name, answer, raising=False)  # an older pynvml lacks some
    for name in CUDA_VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is put back at the end, whatever the program sets
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
