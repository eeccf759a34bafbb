"""Measures own models that misbehave, and checks how each run ends.

    python benchmarks/misbehaving.py
    python benchmarks/misbehaving.py --models hangs segfaults

Each is measured in a run with a model that behaves. The run must end with a row of the first, or refuse it in one
sentence. It must have an ``ok`` row of the second, unless the command refused to begin, and leave no process behind.
Exit code 1 if a run does not.
"""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from harness import Command, Failure, count

from measure.cache.folders import MachineFolder, machine_names
from measure.domain.records import Run

LIMIT_S = 300.0  # of a run on a busy machine; alone on it a run takes about ten seconds
MOST_CHARACTERS = 700  # of a refusal: a model's name and a reason of at most 500
SELECTION = "--device cpu --sections inference --variants eager --batch-sizes 1 --max-rounds 1 --call-limit 5s"
PRELUDE = """
import os, signal, sys, threading, time
import torch
class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.calls = torch.nn.Linear(3, 2), 0
    def forward(self, x):
        self.calls += 1
        return self.odd(self.layer(x), x)
def net(batch_size):
    return Odd(), torch.ones(batch_size, 3)
"""
"""Begins each module. A model adds the method ``odd``, or replaces ``net``."""


def making(*lines: str) -> str:
    """Return a model that runs some lines when it is made."""
    body = "\n    ".join((*lines, "return torch.nn.Linear(3, 2), torch.ones(batch_size, 3)"))
    return f"def net(batch_size):\n    {body}\n"


def call(*lines: str) -> str:
    """Return a model that runs some lines in each call, with its output as ``y`` and its input as ``x``."""
    body = "\n    ".join((*lines, "return y"))
    return f"def odd(self, y, x):\n    {body}\nOdd.odd = odd\n"


SLEEPER = "[sys.executable, '-c', 'import time; time.sleep(600)']"
ODD_ERROR = "class Mute(Exception):\n    def __str__(self):\n        raise ValueError\n"
MODELS = {
    # Its module
    "sleeps in import": "time.sleep(600)",
    "syntax error": "def net(batch_size)\n",
    "missing module": "import no_such_module_anywhere\n",
    "exits in import": "sys.exit(3)",
    "prints in import": "print('x' * 10**7)\n" + making("pass"),
    "deletes its own file": "os.remove(__file__)\n" + making("pass"),
    # Its function
    "raises": making("raise RuntimeError('no\\nweights')"),
    "raises without words": ODD_ERROR + making("raise Mute"),
    "exits": making("raise SystemExit"),
    "leaves by os._exit": making("os._exit(0)"),
    "hangs": making("while True: pass"),
    "recurs": making("return net(batch_size)"),
    "recurs beyond the stack": making("sys.setrecursionlimit(10**9)", "return net(batch_size)"),
    "segfaults": making("import ctypes", "ctypes.string_at(0)"),
    "aborts": making("os.abort()"),
    "returns nothing": making("return None"),
    "returns a generator": making("return torch.nn.Linear(3, 2), (torch.ones(1) for _ in range(batch_size))"),
    "negative shape": making("return torch.nn.Linear(3, 2), torch.ones(batch_size, -3)"),
    "no parameters": making("return torch.nn.ReLU(), torch.ones(batch_size, 3)"),
    "no elements": making("return torch.nn.Linear(0, 2), torch.ones(batch_size, 0)"),
    "eats memory": making(
        "import resource", "resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2)", "x = [bytearray(2**28)] * 1",
        "while True: x.append(bytearray(2**28))",
    ),
    "asks for a petabyte": making("torch.empty(2**48, device='cpu').fill_(1)"),
    "leaves a child": making("import subprocess", f"subprocess.Popen({SLEEPER})"),
    "leaves a fork": making("if os.fork() == 0: time.sleep(600)"),
    "returns twice": making("os.fork()"),
    "changes the folder": making("import tempfile", "os.chdir(tempfile.mkdtemp())", "os.rmdir(os.getcwd())"),
    "closes its output": making("os.close(1)", "os.close(2)"),
    "closes everything": making("os.closerange(0, 256)"),
    "no output objects": making("sys.stdout = sys.stderr = None"),
    "default type": making("torch.set_default_dtype(torch.float64)"),
    "locale": making("import locale", "locale.setlocale(locale.LC_ALL, 'C')", "os.environ.clear()"),
    "warnings are errors": making("import warnings", "warnings.simplefilter('error')"),
    "signal handlers": making("for n in (2, 15): signal.signal(n, signal.SIG_IGN)", "signal.alarm(1)"),
    "threads": making("for _ in range(50): threading.Thread(target=time.sleep, args=(600,)).start()"),
    "hangs at its exit": making("import atexit", "atexit.register(time.sleep, 600)"),
    "a stopped clock": making("time.perf_counter = time.perf_counter_ns = time.monotonic = lambda: 0"),
    "patches torch": making("torch.nn.Module.__call__ = None", "torch.empty = torch.ones_like = None"),
    "patches the program": making("import measure.timing.calls as calls", "vars(calls).clear()"),
    "hooks no imports": making("sys.modules.clear()"),
    "network access": making("import socket", "socket.create_connection(('192.0.2.1', 80))"),
    # Its call
    "raises in the call": call("raise ValueError('x' * 10**6)"),
    "raises at the tenth call": call("if self.calls > 9: raise ValueError('enough')"),
    "interrupts": call("raise KeyboardInterrupt"),
    "hangs in the call": call("time.sleep(600)"),
    "is killed in the call": call("os.kill(os.getpid(), signal.SIGKILL)"),
    "returns text": call("return 'yes'"),
    "yields": call("yield y"),
    "returns itself": call("y = [y]", "y.append(y)"),
    "is not a number": call("y.fill_(float('nan'))"),
    "changes its input": call("x.mul_(10)"),
    "grows its input": call("x.resize_(2 * x.shape[0], 3)"),
    "another precision": call("y = self.layer.double()(x.double())"),
    "draws the shape": call("return y[: int(torch.randint(0, 2, ()))]"),
    "a pool of processes": call("import multiprocessing", "multiprocessing.Pool(2).map(abs, [1])"),
    "kills its parent's group": call("os.killpg(0, signal.SIGKILL)"),
    "leaves inference mode": call("self.train()", "torch.set_grad_enabled(True)"),
}  # fmt: skip


def end_of(name: str, folder: Path) -> str:
    """Measure a model in a folder. Return its status, or "refused". Raises Failure."""
    (folder / "odd.py").write_text(PRELUDE + MODELS[name])
    (folder / "sound.py").write_text(PRELUDE + making("pass"))
    words = [sys.executable, "-m", "measure", *SELECTION.split(), "--models", "odd:net", "sound:net"]
    with Command(words, folder, folder) as run:
        if not run.ends_within(LIMIT_S):
            raise Failure(f"held the run for more than {LIMIT_S:g} s")
        run.check_it_is_gone(10.0)  # some are just ending
        code, error = run.process.returncode, run.error
    last = error.rpartition("\n")[2]
    if code not in (0, 2) or "Traceback" in error or (code == 2 and len(last) > MOST_CHARACTERS):
        raise Failure(f"exit code {code}: {error[-300:]}")
    has_reason = code == 2 and last.startswith("without a result: ")  # and the other model was measured
    if code == 2 and last.startswith("python -m measure: "):
        return "refused"
    if code == 2 and not has_reason:
        raise Failure(f"refused with: {error[-300:]}")
    folders = [MachineFolder(folder / "data", name) for name in machine_names(folder / "data")]
    status = {row.model: row.status for each in folders for row in each.rows(Run)}
    if not (has_reason or "odd:net" in status) or status.get("sound:net") != "ok":
        raise Failure(f"the rows are {status}")
    return status.get("odd:net", "refused")


def main(argv: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description="Measure own models that misbehave.")
    flags.add_argument("--models", nargs="+", default=[*MODELS], choices=MODELS, metavar="NAME", help="(default: all)")
    models = flags.parse_args(argv).models
    return int(count((name, partial(end_of, name)) for name in models) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
