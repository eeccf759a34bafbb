"""A process on a node that has its device alone and measures there as the command does locally."""

import os
import platform
import stat
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from measure.cache.records import Environment
from measure.cache.table import held
from measure.errors import UserError
from measure.machine import devices
from measure.machine.environment import current
from measure.run.request import parse_threads
from measure.run.task import Task
from measure.run.worker import BudgetSpent, Worker
from measure.timing.sampling import Sampling


class Station:
    """One device of a node; Ray makes an actor of it, in a process that sees this GPU only."""

    def __init__(self, device_name: str, threads: str | None, sampling: Sampling) -> None:
        self._device_name, self._threads, self._sampling = device_name, threads, sampling
        self._held = ExitStack()

    def begin(self) -> tuple[Environment, int]:
        """Return the row of ``machine.csv``, and the memory (B) that holds the device's tensors.

        Raises UserError where the device cannot be set up, or where another station has it: nodes of a cluster may
        share a host without Ray's knowing.
        """
        os.environ.pop("OMP_NUM_THREADS", None)  # Ray sets it, and a local run would not have it
        device = devices.find(self._device_name)
        threads = parse_threads(self._threads)
        self._held.enter_context(held(self.lock(), _is_taken))
        environment = current(device, threads)
        self._worker = Worker(device.torch_name, threads, self._sampling)
        return environment, device.memory_byte()

    def lock(self) -> Path:
        """Return a file of this host that stands for the device; for a GPU, by what Ray lets the process see."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0") if self._device_name == "cuda" else ""
        readable = "".join(letter if letter.isalnum() else "-" for letter in f"{self._device_name}{visible}")
        return _private_folder() / f"{readable}.lock"

    def run(self, task: Task, seconds: float | None) -> Any:
        """Run a task; return None if it did not end within so many seconds (clocks of nodes differ)."""
        try:
            return self._worker.run(task, None if seconds is None else time.monotonic() + seconds)
        except BudgetSpent:
            return None

    def close(self) -> None:
        """End the worker process and release the device."""
        self._worker.close()
        self._held.close()


def _is_taken(holder: str) -> str:
    return f"{holder} is measuring on this device of {platform.node()}; wait for it"


def _private_folder() -> Path:
    """Return the folder of this user's locks, which nobody else can write into. Raises UserError where it is another's.

    Its name can be guessed, and anyone may have put a folder or link of that name among the temporary files before.
    """
    folder = Path(tempfile.gettempdir()) / f"roofwright-{os.getuid()}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
            return folder
    raise UserError(f"{folder}: is not a folder that this user alone can write into; remove it or set TMPDIR")
