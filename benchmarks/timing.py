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

from measure.domain.cell import Cell
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE
from measure.machine import devices
from measure.models import catalog
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch

CELLS = {
    1: "alexnet resnet18 resnet50 squeezenet1_0 shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_large vit_b_32",
    8: "resnet18 mobilenet_v2",
}
"""Networks by batch size."""

TURNS = 31
TURN_S = 0.5
CALLS = 8
"""A turn lasts so many calls at least."""

LOWEST, HIGHEST = 0.98, 1.02


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


def main() -> None:
    """Print each cell's ratio."""
    argparse.ArgumentParser(description="Compare this program's timing with torch's own.").parse_args()
    within = total = 0
    for batch, names in CELLS.items():
        for name in names.split():
            ours_s, to_peer = apart(ratio, name, batch)
            is_within = LOWEST <= to_peer <= HIGHEST
            within, total = within + is_within, total + 1
            compared = f"{to_peer:.4f} times torch's Timer, {'within' if is_within else 'OUTSIDE'}"
            print(f"{f'{name} batch {batch}':30}{ours_s * 1e3:9.3f} ms, {compared} {LOWEST} to {HIGHEST}", flush=True)
    print(f"{within} of {total} cells within")


if __name__ == "__main__":
    main()
