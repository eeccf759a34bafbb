"""The program that Nsight Compute counts: ``python -m measure.profiling.counted_step``, a cell's step, warmed
up.

The kernels between cudaProfilerStart and cudaProfilerStop are those of the steps alone.
"""

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence

from measure.domain.latency import Cell
from measure.domain.words import INFERENCE, STEP
from measure.errors import in_short
from measure.machine import devices
from measure.models import catalog
from measure.timing import forward, training

WARM_UP = 3
"""Steps before those that are counted: the first choose kernels and allocate memory."""


def arguments_of(device: str, threads: int, cell: Cell, steps: int) -> list[str]:
    """Return the command line of this program for a process that waits for it; the cell's model is a selector."""
    asked = {"device": device, "threads": threads, **cell._asdict(), "steps": steps, "waiting": os.getpid()}
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
    """Run the cell's step some times, the last of them between the marks."""
    import torch

    device = devices.find(asked.device)
    device.prepare(asked.threads)
    (model,) = catalog.find([asked.model])
    cell = Cell.of(asked)
    with torch.inference_mode(cell.phase == INFERENCE):
        prepare = forward.prepare if cell.phase == INFERENCE else training.prepare
        call = prepare(device, model, cell)
        for _ in range(WARM_UP):
            call()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for _ in range(asked.steps):
            call()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def _end_without(process: int) -> None:
    """End this one when the process that waits for it was killed: nobody else would."""
    import psutil

    while psutil.pid_exists(process):
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
