"""Read a GPU's hardware counters for each kernel of a cell with NVIDIA's Nsight Compute (``ncu``).

ncu replays a kernel once per group of counters, each time with its inputs restored and with cold caches. Clocks stay
as they are.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.errors import UserError
from measure.machine.device import Device
from measure.profiling import counted_step, ncu_csv
from measure.profiling.ncu_csv import DRAM_READ, DRAM_WRITE, NAMED, OPTIONAL, CountedCell

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""ncu's error if only administrators may read counters."""

PERMISSION = (
    f"this user may not read the GPU's hardware counters ({FORBIDDEN}); an administrator allows it with the option "
    "NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia, or starts the container with --cap-add SYS_ADMIN; "
    "then measure with --force"
)

LIMIT_S, QUERY_LIMIT_S = 1800.0, 120.0
"""The longest that ncu may take for a cell, and to list a GPU's metrics."""

STEPS = 2
"""The counted steps. More would say the same and take proportionally longer."""


def check(device: Device) -> None:
    """Raise UserError if hardware counters cannot be read, before anything is measured."""
    if not device.is_nvidia:
        raise UserError(
            f"--sections hardware-counters: {device.torch_name} is not an NVIDIA GPU, the only kind with readable "
            "hardware counters; leave the section out or name another --device"
        )
    find()


def find() -> str:
    """Return the path of ncu. Raises UserError if it is not on the PATH."""
    found = shutil.which("ncu")
    if found is None:
        raise UserError(
            "--sections hardware-counters: NVIDIA Nsight Compute (ncu) is not on the PATH; it comes with the CUDA "
            "toolkit, in its folder nsight-compute"
        )
    return found


def measure(device: Device, model: Model, cell: Cell, beat: Callable[[], None]) -> CountedCell:
    """Count inference or a training step in a process of its own.

    Raises NotImplementedError if counters are forbidden and for what ``forward.prepare`` refuses, RuntimeError if
    counting fails.
    """
    import torch

    cell = cell._replace(model=model.selector)
    program = counted_step.command_line(device.torch_name, torch.get_num_threads(), cell, STEPS)
    lines, tool = count(program, beat)
    try:
        return ncu_csv.parse(lines, "the output of ncu", STEPS, tool)
    except UserError as problem:
        raise RuntimeError(str(problem)) from None


def count(program: Sequence[str], beat: Callable[[], None]) -> tuple[list[str], str]:
    """Run a program under ncu, and ``beat`` meanwhile. Return the lines of the table, and the tool (``ncu 2025.3.1``).

    Raises UserError without ncu, NotImplementedError if counters are forbidden or the program raises it, RuntimeError
    with the last line of output if the program or ncu fails or takes too long.
    """
    ncu = find()
    listed = _ask(ncu, "--query-metrics")
    beat()
    with tempfile.TemporaryDirectory(prefix="roofwright-") as folder:
        table, log = Path(folder) / "kernels.csv", Path(folder) / "log.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command(ncu, choose_metrics(listed), table, program),
                stdout=output, stderr=subprocess.STDOUT, env=os.environ | {"LC_ALL": "C"}, start_new_session=True,
            )  # fmt: skip
            try:
                code = _wait(process, beat)
            finally:
                _end(process)
        text = table.read_text(errors="replace") if table.exists() else ""
        _check(code, text, log.read_text(errors="replace"))
    version = re.search(r"Version (\S+)", _ask(ncu, "--version"))
    return text.splitlines(), f"ncu {version[1]}" if version else "ncu"


def _ask(ncu: str, flag: str) -> str:
    return subprocess.run([ncu, flag], capture_output=True, text=True, timeout=QUERY_LIMIT_S).stdout


def choose_metrics(listed: str) -> list[str]:
    """Return the metrics to request, given the text of ``ncu --query-metrics``.

    A metric that only some GPUs have is requested only if it is listed.
    """
    names = set(re.findall(r"\w+__\w+", listed))
    metrics = [name for name in NAMED if name not in OPTIONAL or name.removesuffix(".sum") in names]
    metrics += [f"{name}.sum" for name in sorted(names) if ncu_csv.tensor_kinds(name)]
    for first, second in (DRAM_READ, DRAM_WRITE):
        if second in metrics and first.removesuffix(".sum") not in names:
            metrics.remove(first)
    return metrics


def command(ncu: str, metrics: Sequence[str], output: Path, program: Sequence[str]) -> list[str]:
    """Return the command line that counts a program's kernels into a CSV file."""
    return [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(output),
        "--metrics", ",".join(metrics), "--replay-mode", "kernel", "--clock-control", "none", "--cache-control", "all",
        "--profile-from-start", "off", "--target-processes", "all", *program,
    ]  # fmt: skip


def _wait(process: "subprocess.Popen[bytes]", beat: Callable[[], None]) -> int:
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(timeout=1.0)
        beat()
    raise RuntimeError(f"counting took longer than {LIMIT_S:g} s")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End ncu and the program it counts, which would otherwise go on and keep the GPU's memory."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # both have ended
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _check(code: int, table: str, log: str) -> None:
    """Raise the errors of ``count``, given the exit code, ncu's file and the program's output."""
    if FORBIDDEN in table or FORBIDDEN in log:
        raise NotImplementedError(PERMISSION)
    if not code:
        return
    last = log.strip().rpartition("\n")[2]
    if last.startswith(NotImplementedError.__name__):
        raise NotImplementedError(last.partition(": ")[2])
    complaints = [line.removeprefix("==ERROR== ") for line in table.splitlines() if line.startswith("==ERROR==")]
    raise RuntimeError((complaints or [last or f"ncu ended with exit code {code}"])[-1])
