"""Compare this program's timing with torch's own: ``python benchmarks/timing.py``.

Ten cells are timed by this program's sampling loop and by ``torch.utils.benchmark.Timer``, in turn, each cell in a
process of its own, with the same network and input for both. Nothing else should run.
"""

import argparse
import logging
from statistics import median

import harness  # noqa: F401 - sets the import paths
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

TURNS, TURN_S, CALLS = 31, 0.5, 8  # a turn has at least these seconds and calls
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

        programs = {
            "ours": lambda: median(sample(Stopwatch(call, device.synchronize), sampling).latencies_s),
            "torch": lambda: float(peer.blocked_autorange(min_run_time=turn_s).median),
        }
        for turn in range(TURNS):
            taken_s = {name: programs[name]() for name in sorted(programs, reverse=turn % 2 == 0)}
            latencies_s.append(taken_s["ours"])
            ratios.append(taken_s["ours"] / taken_s["torch"])
    return median(latencies_s), median(ratios)


def main() -> None:
    argparse.ArgumentParser(description="Compare this program's timing with torch's own.").parse_args()
    for batch, names in CELLS.items():
        for name in names.split():
            ours_s, to_peer = apart(ratio, name, batch)
            verdict = f"{'within' if LOWEST <= to_peer <= HIGHEST else 'OUTSIDE'} {LOWEST} to {HIGHEST}"
            cell = f"{name} batch {batch}"
            print(f"{cell:30}{ours_s * 1e3:9.3f} ms, {to_peer:.4f} times torch's Timer, {verdict}", flush=True)


if __name__ == "__main__":
    main()
