"""Compares this program's timing with torch's own, and finds the share of a run spent in what it measures.

    python benchmarks/timing.py
    python benchmarks/timing.py --only share --models resnet18 --batch-sizes 1 --budget 2m

Ten cells are timed by this program's sampling loop and by ``torch.utils.benchmark.Timer``, in turn, each cell in a
process of its own, with the same network and input for both. Then one round of the default list is measured into a
temporary folder (its other rounds are alike), and the time within calls, including warm-up, is compared with the time
that passed. Nothing else should run.
"""

import argparse
import dataclasses
import logging
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from process import apart, prepare
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.latency import Cell
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE
from measure.errors import UserError
from measure.machine import devices
from measure.machine.environment import current, folder_name
from measure.models import catalog
from measure.run import plan, runner
from measure.run.estimate import MemoryFit
from measure.run.request import parse_threads
from measure.run.task import RunCache
from measure.run.worker import Worker
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch
from measure.verbs import measure as arguments

CELLS = (
    ("alexnet", 1),
    ("resnet18", 1),
    ("resnet50", 1),
    ("squeezenet1_0", 1),
    ("shufflenet_v2_x1_0", 1),
    ("mobilenet_v2", 1),
    ("mobilenet_v3_large", 1),
    ("vit_b_32", 1),
    ("resnet18", 8),
    ("mobilenet_v2", 8),
)
TURNS = 31
TURN_S = 0.5
CALLS = 8
"""A turn lasts so many calls at least."""

RATIOS = (0.98, 1.02)
SHARE = 0.7


def ratio(name: str, batch: int) -> tuple[float, float]:
    """Return this program's median (s) of a cell, and its ratio to torch's: the medians of many short turns.

    Other load on the machine changes from second to second, so turns are short and equally long, and each program
    begins every second turn.
    """
    prepare()
    import torch

    logging.disable(logging.WARNING)  # torch's extensions miss a GPU
    from torch.utils.benchmark import Timer

    from measure.timing import calls

    device = devices.find("cpu")
    latencies_s, ratios = [], []
    with torch.inference_mode():
        (model,) = catalog.find([name])
        call = calls.prepare(device, model, Cell(name, batch, FULL_PRECISION, INFERENCE, EAGER))
        peer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())

        turn_s = max(TURN_S, CALLS * float(peer.blocked_autorange(min_run_time=TURN_S).median))
        sampling = Sampling(warm_up_s=TURN_S, least_s=turn_s, limit_s=turn_s)

        def ours() -> float:
            return median(sample(Stopwatch(call, device.synchronize), sampling).latencies_s)

        def theirs() -> float:
            return float(peer.blocked_autorange(min_run_time=turn_s).median)

        for turn in range(TURNS):
            order = (ours, theirs) if turn % 2 else (theirs, ours)
            taken_s = {measured: measured() for measured in order}
            latencies_s.append(taken_s[ours])
            ratios.append(taken_s[ours] / taken_s[theirs])
    return median(latencies_s), median(ratios)


def compare() -> None:
    """Print each cell's ratio."""
    lowest, highest = RATIOS
    within = 0
    for name, batch in CELLS:
        ours_s, to_peer = apart(ratio, name, batch)
        within += lowest <= to_peer <= highest
        verdict = "within" if lowest <= to_peer <= highest else "OUTSIDE"
        cell = f"{name} batch {batch}"
        print(
            f"{cell:30}{ours_s * 1e3:9.3f} ms, {to_peer:.4f} times torch's Timer, {verdict} {lowest} to {highest}",
            flush=True,
        )
    print(f"{within} of {len(CELLS)} cells within\n", flush=True)


def share(flags: Sequence[str]) -> None:
    """Print the share of a run's time that is spent within calls."""
    asked = arguments.parser().parse_args(["--sections", "inference", *flags])
    request = dataclasses.replace(arguments.make_request(asked), rounds=1)
    device, threads = devices.find(asked.device), parse_threads(asked.threads)
    environment = current(device, threads)
    budget_s = arguments.parse_time("--budget", asked.budget) if asked.budget else None
    worker = Worker(device.torch_name, threads, arguments.make_sampling(asked))
    memory = MemoryFit(device.memory_byte(), Workloads(asked.data))
    with tempfile.TemporaryDirectory() as data:
        folder = MachineFolder(Path(data), folder_name(environment))
        cache = RunCache(Workloads(asked.data), folder, environment)
        tasks = plan.tasks_to_do(request, cache)
        start = time.monotonic()
        deadline = None if budget_s is None else start + budget_s
        try:
            with runner.RunProgress(tasks, Console()) as progress:
                progress.begin_part("rounds", tasks)
                summary = runner.run(tasks, worker, cache.put, progress, deadline, memory.refusal)
        finally:
            worker.close()
        passed_s = time.monotonic() - start
    part = summary.executing_s / passed_s
    print(
        f"{summary.statuses.total()} cells, {summary.left} left: {summary.executing_s:.1f} s of {passed_s:.1f} s "
        f"within calls: {part:.1%}, {'within' if part >= SHARE else 'BELOW'} {SHARE:.0%}"
    )


def main(argv: Sequence[str]) -> int:
    """Exit code 0, 2 for bad input."""
    flags = argparse.ArgumentParser(
        description="Compare this program's timing with torch's own, and find the share of a run that is spent in what "
        "it measures.",
        epilog="Further flags are those of python -m measure, and choose what the share is taken over.",
    )
    flags.add_argument("--only", choices=("peer", "share"), help="one of the two figures (default: both)")
    chosen, further = flags.parse_known_args(argv)
    try:
        if chosen.only != "share":
            compare()
        if chosen.only != "peer":
            share(further)
    except UserError as problem:
        print(f"benchmarks/timing.py: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
