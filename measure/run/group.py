"""Starts a group of processes on this machine with torch's own launcher, and reads what its ranks report.

``torchrun`` (``torch.distributed.run``) starts one process a rank, finds a free port, and ends all when one fails. The
ranks run ``measure.run.rank``. They report in lines of their standard output and end when their standard input closes:
the launcher puts them into sessions of their own, where no signal for this process reaches them.
"""

import json
import os
import pickle
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from measure.run.processes import END_LIMIT_S, START_LIMIT_S, oom_kills

LAUNCHER = (sys.executable, "-m", "torch.distributed.run")
MARK = "roofwright-rank "  # begins a report among the lines that libraries print
BEAT_S = 1.0  # the time between two signs of life
KILLS, STOPPED = (-9, -1), -15  # exit codes of a kill from outside, and of ranks that the launcher stops
ENDED = re.compile(r"^\s*rank\s*: (\d+) .*\n\s*exitcode\s*: (-?\d+) ", re.M)  # in the launcher's summary
ADDRESS_IN_USE = re.compile(r"EADDRINUSE|address already in use", re.I)


@dataclass(frozen=True)
class Ending:
    """How a group ended early: a status of rows, the reason, and whether all ranks had been ready by then."""

    status: str
    reason: str
    was_ready: bool = False


def report(**message: Any) -> None:
    """Tell the launching process something, from a rank. One write, which ranks do not interleave."""
    line = MARK + json.dumps(message) + "\n"
    os.write(1, line.encode())


def run_ranks(
    processes: int, threads: int, order: Any, items: int, limit_s: float, beat: Callable[[], None]
) -> tuple[dict[int, dict[str, Any]], Ending | None]:
    """Run ``order`` on some ranks. Return the reports by the number of the item, and why the group ended early, if so.

    ``order`` is pickled for the ranks, each with so many threads. A group that reports nothing for ``limit_s`` is
    ended, and so is any group when this process ends.
    """
    oom_before = oom_kills()
    with tempfile.TemporaryDirectory(prefix="roofwright-group-") as folder:
        (path := Path(folder, "order")).write_bytes(pickle.dumps(order))
        command = [*LAUNCHER, "--standalone", f"--nproc-per-node={processes}", "-m", "measure.run.rank", str(path)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": os.pathsep.join(sys.path)}
        # Unbuffered: closing a buffered pipe would wait for the thread that reads it
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "bufsize": 0}
        with (
            Path(folder, "errors").open("w+b") as errors,
            subprocess.Popen(command, env=environment, stderr=errors, **pipes) as launcher,
        ):
            heard = Heard(silence_s=START_LIMIT_S)  # for importing torch from a slow disk; then a call's limit
            try:
                _listen(launcher, limit_s, beat, heard)
            finally:
                _end(launcher)
            errors.seek(0)
            text = errors.read().decode(errors="replace")
    if len(heard.reports) == items and launcher.returncode == 0:
        return heard.reports, None
    if heard.is_silent:
        ending = Ending("timeout", f"{processes} processes gave no sign of life for {heard.silence_s:g} s")
    else:
        ending = _why(processes, heard.problems, text, launcher.returncode, oom_kills() > oom_before)
    return heard.reports, replace(ending, was_ready=heard.is_ready)


@dataclass
class Heard:
    """What ranks said: reports by item, problems, whether all were ready, if they fell silent for ``silence_s``."""

    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    problems: list[dict[str, Any]] = field(default_factory=list)
    is_ready: bool = False
    is_silent: bool = False
    silence_s: float = 0.0


def _listen(launcher: "subprocess.Popen[bytes]", limit_s: float, beat: Callable[[], None], heard: Heard) -> None:
    """Read until the launcher ends, or for as long as the ranks give signs of life."""
    assert launcher.stdout is not None
    lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_forward, args=(launcher.stdout, lines), daemon=True).start()
    silence_ends = time.monotonic() + heard.silence_s
    while True:
        beat()
        try:
            line = lines.get(timeout=BEAT_S)
        except queue.Empty:
            if time.monotonic() < silence_ends:
                continue
            heard.is_silent = not heard.problems
            return
        if line is None:
            return
        _, mark, text = line.partition(MARK.encode())  # a library may print the beginning of the line
        if not mark:
            continue
        message = json.loads(text)
        if "item" in message:
            heard.reports[message.pop("item")] = message
        elif "status" in message:
            heard.problems.append(message)
        elif "alive" in message:
            heard.silence_s = limit_s
        heard.is_ready |= "ready" in message
        silence_ends = time.monotonic() + (END_LIMIT_S if heard.problems else heard.silence_s)


def _forward(output: IO[bytes], lines: "queue.SimpleQueue[bytes | None]") -> None:
    with suppress(OSError, ValueError):  # the launcher was given up, and the pipe is closed
        for line in output:
            lines.put(line)
    lines.put(None)


def _end(launcher: "subprocess.Popen[bytes]") -> None:
    """Close the ranks' input, which ends them. After a while, or at Ctrl-C, kill the launcher and what is left."""
    import psutil  # takes long, and the plan needs none

    assert launcher.stdin is not None
    ranks: list[psutil.Process] = []
    with suppress(psutil.Error):  # the launcher has ended
        ranks = psutil.Process(launcher.pid).children(recursive=True)
    with suppress(OSError):
        launcher.stdin.close()
    try:
        with suppress(subprocess.TimeoutExpired):
            launcher.wait(END_LIMIT_S)
    finally:
        launcher.kill()
        for rank in ranks:  # one that was stopped, or hangs in a driver
            with suppress(psutil.Error):
                rank.kill()


def _why(processes: int, problems: Sequence[dict[str, Any]], text: str, code: int, is_oom: bool) -> Ending:
    """Find the cause of an early end: a rank that ended without a word, else the first rank with an exception.

    A rank that loses another one reports an exception too, so the silent one comes first.
    """
    reported = {problem["rank"] for problem in problems}
    for rank, code_of_rank in ((int(rank), int(number)) for rank, number in ENDED.findall(text)):
        if rank in reported or code_of_rank == STOPPED:
            continue
        which = f"rank {rank} of {processes}"
        if code_of_rank in KILLS:
            if is_oom:
                return Ending("oom", f"the system killed {which} (signal 9) for want of memory")
            return Ending("killed", f"{which} was killed by signal {-code_of_rank}; the next run tries again")
        how = f"ended by signal {-code_of_rank}" if code_of_rank < 0 else f"ended with exit code {code_of_rank}"
        return Ending("error", f"{which} {how}")
    if ADDRESS_IN_USE.search(text):
        return Ending("error", "torchrun found its port taken (address already in use); --force tries again")
    if problems:
        first = problems[0]
        return Ending(first["status"], f"rank {first['rank']} of {processes}: {first['reason']}")
    last = text.strip().splitlines()[-1:] or ["it printed nothing"]
    if code < 0:
        return Ending("killed", f"torchrun was killed by signal {-code}; the next run tries again")
    return Ending("error", f"torchrun ended with exit code {code}: {last[0].strip()}")
