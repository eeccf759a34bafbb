"""The program that Nsight Compute counts: ``python -m measure.profiling.counted_step TASK`` runs a cell's step.

The steps between cudaProfilerStart and cudaProfilerStop follow a warm-up, so only their kernels are counted.
"""

import json
import os
import sys
import threading
import time
from typing import Any

from measure.domain.latency import Cell
from measure.domain.words import INFERENCE
from measure.errors import in_short
from measure.machine import devices
from measure.models import catalog
from measure.timing.training import prepare

WARM_UP = 3
"""Steps before the counted ones. The first ones choose kernels and allocate memory."""


def command_line(device: str, threads: int, cell: Cell, steps: int) -> list[str]:
    """Return the command line of this program for a caller that waits for it. The cell's model is a selector."""
    task = {"device": device, "threads": threads, "cell": cell._asdict(), "steps": steps, "caller": os.getpid()}
    return [sys.executable, "-m", __name__, json.dumps(task)]


def main(task: dict[str, Any]) -> int:
    threading.Thread(target=_end_without, args=(task["caller"],), daemon=True).start()
    try:
        run(task["device"], task["threads"], Cell(**task["cell"]), task["steps"])
    except Exception as problem:  # a model may raise anything; the caller reads the last line
        print(in_short(problem), flush=True)
        return 1
    return 0


def run(device_name: str, threads: int, cell: Cell, steps: int) -> None:
    """Warm the cell's step up, then run it ``steps`` times between the marks."""
    import torch

    device = devices.find(device_name)
    device.prepare(threads)
    (model,) = catalog.find([cell.model])
    with torch.inference_mode(cell.phase == INFERENCE):
        step = prepare(device, model, cell)
        for _ in range(WARM_UP):
            step()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStart()
        for _ in range(steps):
            step()
        device.synchronize()
        torch.cuda.cudart().cudaProfilerStop()


def _end_without(caller: int) -> None:
    """End this process when its caller is gone. ncu stands between the two, so no signal would."""
    import psutil

    while psutil.pid_exists(caller):
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
