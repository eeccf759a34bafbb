"""Compare this program's timing with torch's own: ``python benchmarks/timing.py``.

Ten cells are timed by this program's sampling loop and by ``torch.utils.benchmark.Timer``, in turn, each cell in a
process of its own, with the same network and input for both. Nothing else should run.
"""

import argparse
import logging
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from process import apart, prepare

from measure.domain.latency import Cell
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE
from measure.machine import devices
from measure.models import catalog
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch

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


if __name__ == "__main__":
    argparse.ArgumentParser(description="Compare this program's timing with torch's own.").parse_args()
    compare()
