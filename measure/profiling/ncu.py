"""NVIDIA's Nsight Compute (``ncu``), which reads a GPU's hardware counters: its command line, and what goes wrong.

Kernels are replayed, as many times as there are groups of counters, each time with its inputs restored and with cold
caches; clocks are left as they are. Only what runs between cudaProfilerStart and cudaProfilerStop is counted.

A cell under the GPU's hardware counters: what each kernel of a forward pass, or of a training step, did.
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
from dataclasses import dataclass
from pathlib import Path

from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.errors import UserError
from measure.machine.device import Device
from measure.profiling import counted_step, ncu_csv
from measure.profiling.ncu_csv import DRAM_READ, DRAM_WRITE, NAMED, OPTIONAL, Counted

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""What ncu says where counters are not for every user."""

PERMISSION = (
    f"this user may not read the GPU's hardware counters ({FORBIDDEN}); an administrator allows it with the option "
    "NVreg_RestrictProfilingToAdminUsers=0 of the module nvidia, or starts the container with --cap-add SYS_ADMIN; "
    "then measure with --force"
)

LIMIT_S = 1800.0
"""The longest that counting one cell may take."""

QUERY_LIMIT_S = 120.0
"""The longest that ncu may take to list a GPU's metrics."""


def find() -> str:
    """Return where ncu is. Raises UserError where it is not on the PATH."""
    found = shutil.which("ncu")
    if found is None:
        raise UserError(
            "--sections hardware-counters: NVIDIA Nsight Compute (ncu) is not on the PATH; it comes with the CUDA "
            "toolkit, in its folder nsight-compute"
        )
    return found


def version(ncu: str) -> str:
    """Return how the table names the tool: ``ncu 2025.3.1.0``."""
    text = subprocess.run([ncu, "--version"], capture_output=True, text=True, timeout=QUERY_LIMIT_S).stdout
    found = re.search(r"Version (\S+)", text)
    return f"ncu {found[1]}" if found else "ncu"


def metrics(known: str) -> list[str]:
    """Return what to ask for on a GPU, given ncu's list of its metrics (``--query-metrics``).

    Those that only some GPUs have are asked for where they are listed.
    """
    names = set(re.findall(r"\w+__\w+", known))
    asked = [name for name in NAMED if name not in OPTIONAL or name.removesuffix(".sum") in names]
    asked += [f"{name}.sum" for name in sorted(names) if ncu_csv.kinds(name)]
    for renamed in (DRAM_READ, DRAM_WRITE):
        if renamed[1] in asked and renamed[0].removesuffix(".sum") not in names:
            asked.remove(renamed[0])
    return asked


def command(ncu: str, asked: Sequence[str], output: Path, program: Sequence[str]) -> list[str]:
    """Return the command line that counts a program's kernels into a file of CSV."""
    return [
        ncu, "--csv", "--page", "raw", "--print-units", "base", "--log-file", str(output),
        "--metrics", ",".join(asked), "--replay-mode", "kernel", "--clock-control", "none", "--cache-control", "all",
        "--profile-from-start", "off", "--target-processes", "all", *program,
    ]  # fmt: skip


def count(program: Sequence[str], beat: Callable[[], None]) -> tuple[list[str], str]:
    """Run a program under ncu, beating; return the lines of the table, and the tool's name and version.

    Raises UserError without ncu, PermissionError where counters are forbidden, NotImplementedError where the program
    raises that, and RuntimeError with the last line that was said where it or ncu fails, or takes too long.
    """
    ncu = find()
    listed = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=QUERY_LIMIT_S)
    beat()
    with tempfile.TemporaryDirectory(prefix="roofwright-") as folder:
        table, said = Path(folder) / "kernels.csv", Path(folder) / "said.txt"
        line = command(ncu, metrics(listed.stdout), table, program)
        with said.open("wb") as output:
            environment = os.environ | {"LC_ALL": "C"}
            process = subprocess.Popen(
                line, stdout=output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )
            try:
                code = _ended(process, beat)
            finally:
                _end(process)
        text = table.read_text(errors="replace") if table.exists() else ""
        _check(code, text, said.read_text(errors="replace"))
    return text.splitlines(), version(ncu)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End ncu and the program that it counts, which would go on and keep the GPU's memory."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # both have ended
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _ended(process: "subprocess.Popen[bytes]", beat: Callable[[], None]) -> int:
    ends = time.monotonic() + LIMIT_S
    while time.monotonic() < ends:
        try:
            return process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            beat()
    raise RuntimeError(f"counting took longer than {LIMIT_S:g} s")


def _check(code: int, table: str, said: str) -> None:
    """Raise what ``count`` says, by the exit code, what ncu wrote and what the program said."""
    if FORBIDDEN in table or FORBIDDEN in said:
        raise PermissionError(PERMISSION)
    last = said.strip().rpartition("\n")[2]
    if code and last.startswith(NotImplementedError.__name__):
        raise NotImplementedError(last.partition(": ")[2])
    if code:
        complaints = [line.removeprefix("==ERROR== ") for line in table.splitlines() if line.startswith("==ERROR==")]
        raise RuntimeError((complaints or [last or f"ncu ended with exit code {code}"])[-1])


STEPS = 2
"""The steps that are counted; more would say the same, and take longer by as much."""


@dataclass(frozen=True)
class CountedCell:
    """What the counters said of the kernels of so many steps, and what read them."""

    steps: int
    tool: str
    counted: Counted


def check(device: Device) -> None:
    """Raise UserError where hardware counters cannot be read, before anything is measured."""
    if not device.is_nvidia:
        raise UserError(
            f"--sections hardware-counters: {device.torch_name} is not an NVIDIA GPU, the only kind whose hardware "
            "counters are read; leave the section out or name another --device"
        )
    find()


def measure(device: Device, model: Model, cell: Cell, beat: Callable[[], None]) -> CountedCell:
    """Count inference or a training step in a process of its own.

    Raises NotImplementedError, with a reason, where counters are forbidden, what ``forward.prepare`` does, and
    RuntimeError where counting fails.
    """
    import torch

    cell = cell._replace(model=model.selector)
    program = counted_step.arguments_of(device.torch_name, torch.get_num_threads(), cell, STEPS)
    try:
        lines, tool = count(program, beat)
    except PermissionError as problem:
        raise NotImplementedError(str(problem)) from None
    try:
        return CountedCell(STEPS, tool, ncu_csv.parse(lines, "what ncu wrote", STEPS))
    except UserError as problem:
        raise RuntimeError(str(problem)) from None
