"""Read a GPU's hardware counters for each kernel of a cell with NVIDIA's Nsight Compute (``ncu``).

ncu replays a kernel once per group of counters, each time with its inputs restored and with cold caches. It counts the
kernels of ``python -m measure.profiling.ncu TASK`` between cudaProfilerStart and cudaProfilerStop, after a warm-up.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from measure.cache.scratch import scratch
from measure.domain import variants
from measure.domain.cell import Cell
from measure.domain.models import Model
from measure.domain.words import INFERENCE
from measure.errors import UserError, in_short
from measure.machine import devices, settings
from measure.machine.device import Device
from measure.models import catalog
from measure.profiling import ncu_csv
from measure.profiling.ncu_csv import FIXED, OPTIONAL, RENAMED, CountedCell
from measure.timing.calls import prepare

FORBIDDEN = "ERR_NVGPUCTRPERM"  # ncu's error if only administrators may read counters
PERMISSION = (
    f"this user may not read the GPU's hardware counters ({FORBIDDEN}); an administrator allows it with the option "
    "NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia, or starts the container with --cap-add SYS_ADMIN; "
    "then measure with --force"
)
LIMIT_S, QUERY_LIMIT_S = 1800.0, 120.0  # the longest that ncu may take for a cell, and to list a GPU's metrics
WARM_UP, STEPS = 3, 2  # the first steps choose kernels and allocate memory; counting more would add nothing
OPTIONS = (
    "--csv", "--page", "raw", "--print-units", "base", "--replay-mode", "kernel", "--clock-control", "none",
    "--cache-control", "all", "--profile-from-start", "off", "--target-processes", "all",
)  # fmt: skip


def check(device: Device) -> None:
    """Raise UserError if hardware counters cannot be read, before anything is measured."""
    if not device.is_nvidia or shutil.which("ncu") is None:
        raise UserError(
            f"--sections hardware-counters: {device.torch_name} must be an NVIDIA GPU, with Nsight Compute (ncu, of "
            "the CUDA toolkit) on the PATH; leave the section out, name another --device or install ncu"
        )


def measure(device: Device, model: Model, cell: Cell, beat: Callable[[], None]) -> CountedCell:
    """Count inference or a training step in a process of its own. Raises as ``count`` does, and for a graph."""
    import torch

    if variants.is_graph(cell.variant):
        raise NotImplementedError("a graph replays the kernels that its cell runs without cuda_graph; count those")
    cell = cell._replace(model=model.selector)
    task = {"device": device.torch_name, "threads": torch.get_num_threads(), "cell": cell._asdict()}
    lines, tool = count([sys.executable, "-m", __name__, json.dumps(task | {"caller": os.getpid()})], beat)
    try:
        return ncu_csv.parse(lines, "the output of ncu", STEPS, tool)
    except UserError as problem:
        raise RuntimeError(str(problem)) from None


def count(program: Sequence[str], beat: Callable[[], None]) -> tuple[list[str], str]:
    """Run a program under ncu, and ``beat`` meanwhile. Return the lines of the table, and the tool (``ncu 2025.3.1``).

    Raises NotImplementedError if counters are forbidden or the program raises it. Raises RuntimeError, with the last
    line of output, if the program or ncu fails or takes too long.
    """

    def ask(flag: str) -> str:
        return subprocess.run(["ncu", flag], capture_output=True, errors="replace", timeout=QUERY_LIMIT_S).stdout

    metrics = choose_metrics(ask("--query-metrics"))
    beat()
    with scratch() as folder:
        table, output = folder / "kernels.csv", folder / "log.txt"
        command = ["ncu", "--log-file", str(table), "--metrics", ",".join(metrics), *OPTIONS, *program]
        environment, end = os.environ | {"LC_ALL": "C"}, time.monotonic() + LIMIT_S
        with output.open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
            try:
                while process.poll() is None:
                    if time.monotonic() > end:
                        raise RuntimeError(f"counting took longer than {LIMIT_S:g} s")
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=1.0)
                    beat()
            finally:  # ends the counted program too, which would otherwise go on and keep the GPU's memory
                process.kill()
                with suppress(ProcessLookupError, AttributeError):  # both have ended; Windows has no process groups
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        text, printed = (path.read_text(errors="replace") if path.exists() else "" for path in (table, output))
    if FORBIDDEN in text + printed:
        raise NotImplementedError(PERMISSION)
    if process.returncode:
        last = printed.strip().rpartition("\n")[2]
        if last.startswith(NotImplementedError.__name__):
            raise NotImplementedError(last.partition(": ")[2])
        complaints = [line.removeprefix("==ERROR== ") for line in text.splitlines() if line.startswith("==ERROR==")]
        raise RuntimeError((complaints or [last or f"ncu ended with exit code {process.returncode}"])[-1])
    version = re.search(r"Version (\S+)", ask("--version"))
    return text.splitlines(), f"ncu {version[1]}" if version else "ncu"


def choose_metrics(listed: str) -> list[str]:
    """Return the metrics to request, given the text of ``ncu --query-metrics``. All GPUs have the other ones."""
    names = {f"{name}.sum" for name in re.findall(r"\w+__\w+", listed)}
    replaced = {old for old, new in RENAMED if new in names and old not in names}
    metrics = [name for name in FIXED if name not in replaced and (name not in OPTIONAL or name in names)]
    return metrics + sorted(filter(ncu_csv.tensor_kinds, names))


def main(task: dict[str, Any]) -> int:
    """Warm a cell's step up, then run it ``STEPS`` times between the marks. Return the exit code."""
    import torch

    threading.Thread(target=_end_without, args=(task["caller"],), daemon=True).start()
    try:
        device, cell = devices.find(task["device"]), Cell(**task["cell"])
        device.prepare(task["threads"])
        (model,) = catalog.find([cell.model])
        with torch.inference_mode(cell.phase == INFERENCE):
            step = prepare(device, model, cell)
            for _ in range(WARM_UP):
                step()
            device.synchronize()
            torch.cuda.cudart().cudaProfilerStart()
            for _ in range(STEPS):
                step()
            device.synchronize()
            torch.cuda.cudart().cudaProfilerStop()
            settings.check(step.held, model.name)
    except Exception as problem:  # a model may raise anything; the caller reads the last line
        print(in_short(problem), flush=True)
        return 1
    return 0


def _end_without(caller: int) -> None:
    """Exit when the caller is gone. ncu runs between the two processes, so no signal arrives."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        psutil.Process(caller).wait()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
