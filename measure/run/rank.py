"""One rank of a group: ``torchrun -m measure.run.rank FILE`` times the items of the task pickled in the file.

Rank 0 reports each item's time, and any rank its exception. Nothing imports this module.
"""

import logging
import os
import pickle
import sys
import threading
import time
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

from measure.domain.groups import BACKENDS
from measure.domain.statistics import estimate_median
from measure.machine import devices
from measure.machine.sensors import load_since
from measure.run.group import BEAT_S, report
from measure.run.group_tasks import GroupOrder
from measure.run.processes import START_LIMIT_S
from measure.run.worker import classify
from measure.timing.groups import GroupLoad, GroupStopwatch, agree
from measure.timing.sampling import sample

UNSUPPORTED = "unsupported"
SETTLE_S = 1.0  # for the report of a rank that failed first, before the failures that follow from it


def _end_with_input() -> None:
    """Exit when the standard input closes: its other end is held by the process that wants the result."""
    while os.read(0, 1):
        """Nobody writes."""
    os._exit(1)


class Beats:
    """Reports a sign of life, once a second at most."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self) -> None:
        if time.monotonic() - self._last > BEAT_S:
            self._last = time.monotonic()
            report(alive=True)


def measure(order: GroupOrder, rank: int) -> None:
    """Join the group and time each item. Raises the exceptions of torch and of the task."""
    from torch import distributed

    device = devices.find(order.device_kind if order.device_kind == "cpu" else f"cuda:{rank}")
    device.prepare(order.threads)
    beat = Beats() if rank == 0 else lambda: None
    backends = dict.fromkeys(("cpu", order.device_kind))  # the ranks agree between processors
    names = ",".join(f"{kind}:{BACKENDS[kind]}" for kind in backends)
    if device.kind == "cuda":
        device.torch.cuda.set_device(rank)
    report(alive=True)
    patience = timedelta(seconds=order.limit_s + START_LIMIT_S)  # the launching process gives up first
    distributed.init_process_group(names, timeout=patience)
    prepare = order.task.prepare(device)
    agree([0])
    if rank == 0:
        report(ready=True)
    load = GroupLoad()
    for number, item in enumerate(order.task.items):
        try:
            call, facts = prepare(item)
            call()
        except Exception as problem:
            failure = classify(problem)
            if failure.status != UNSUPPORTED:
                raise
            if rank == 0:  # it is so on all ranks, before any of them sends anything
                report(item=number, **asdict(failure))
            continue
        beat()
        opening = load.read()
        timing = sample(GroupStopwatch(call, device.synchronize, beat), order.sampling)
        share = load_since(opening, load)
        device.release_memory()
        if rank == 0:
            found = estimate_median(timing.latencies_s)
            ends = found.low or min(timing.latencies_s), found.high or max(timing.latencies_s)
            named = ("latency_s", "latency_low_s", "latency_high_s")
            times = dict(zip(named, (found.median, *ends), strict=True))
            about = {"sample_count": len(timing.samples), "block": timing.block, "load": share}
            report(item=number, **times, **about, flags=list(timing.flags), **facts)
    distributed.destroy_process_group()


def main() -> None:
    threading.Thread(target=_end_with_input, daemon=True).start()
    logging.getLogger("torch").setLevel(logging.ERROR)
    rank = int(os.environ["RANK"])
    try:
        measure(pickle.loads(Path(sys.argv[1]).read_bytes()), rank)
    except Exception as problem:  # torch and a model may raise anything
        failure = classify(problem)
        report(rank=rank, status=failure.status, reason=failure.reason)
        time.sleep(SETTLE_S)
        os._exit(1)


if __name__ == "__main__":
    main()
