"""The program that Nsight Compute counts: ``python -m measure.hardware_counters.counted_step``, a cell's step, warmed
up.

The kernels between cudaProfilerStart and cudaProfilerStop are those of the steps alone.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence

from measure.cache.records import INFERENCE, STEP
from measure.errors import in_short
from measure.machine import devices
from measure.models import catalog
from measure.timing import forward, training

WARM_UP = 3
"""Steps before those that are counted: the first choose kernels and allocate memory."""


def arguments_of(
    device: str, threads: int, model: str, batch: int, precision: str, variant: str, phase: str, steps: int
) -> list[str]:
    """The command line of this program, for the process that waits for it."""
    asked = {
        "device": device, "threads": threads, "model": model, "batch": batch, "precision": precision,
        "variant": variant, "phase": phase, "steps": steps, "waiting": os.getpid(),
    }  # fmt: skip
    return [sys.executable, "-m", __name__, *(f"--{name}={value}" for name, value in asked.items())]


def main(argv: Sequence[str]) -> int:
    flags = argparse.ArgumentParser()
    for name in ("device", "model", "precision", "variant"):
        flags.add_argument(f"--{name}", required=True)
    for name in ("threads", "batch", "steps", "waiting"):
        flags.add_argument(f"--{name}", required=True, type=int)
    flags.add_argument("--phase", required=True, choices=(INFERENCE, STEP))
    asked = flags.parse_args(argv)
    threading.Thread(target=_end_without, args=(asked.waiting,), daemon=True).start()
    try:
        run(asked)
    except Exception as problem:  # a model may raise anything; who waits reads the last line
        print(in_short(problem), flush=True)
        return 1
    return 0


def run(asked: argparse.Namespace) -> None:
    """Runs the cell's step some times, the last of them between the marks."""
    import torch

    device = devices.find(asked.device)
    device.prepare(asked.threads)
    (model,) = catalog.find([asked.model])
    how = (device, model, asked.batch, asked.precision, asked.variant)
    with torch.inference_mode(asked.phase == INFERENCE):
        call = forward.prepare(*how) if asked.phase == INFERENCE else training.prepare(*how)
        for _ in range(WARM_UP):
            call()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for _ in range(asked.steps):
            call()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def _end_without(process: int) -> None:
    """Ends this one when the process that waits for it was killed: nobody else would."""
    import psutil

    while psutil.pid_exists(process):
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
