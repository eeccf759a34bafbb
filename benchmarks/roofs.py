"""Compares the measured roofs with the rates of other programs in one run.

    python benchmarks/roofs.py

Memory bandwidth is compared with STREAM's triad compiled from C, library arithmetic with plain loops over NumPy's
and torch's matrix products, and multiply-adds in registers with cores times FLOP per cycle times the measured clock.
Each pair is measured in turn; the program prints the medians of the turns. Nothing else should run.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from harness import ROOT, median_s
from process import prepare

from measure.domain.records import Environment
from measure.domain.words import STREAM_ARRAYS, SUSTAINED
from measure.machine import devices, environment, processor
from measure.roofs import roofs
from report.paper import curated
from report.paper.processor import peaks

TURNS = 3
LEAST = {"triad from memory": 0.95, "fp32 matrix product": 0.98, "fp32 multiply-add": 0.95}
CPU = devices.find("cpu")


def rate(kernel: str, precision: str, size: int) -> float:
    """Return the FLOP or bytes per second of a micro-benchmark, as ``python -m measure`` measures it."""
    timing = roofs.measure(CPU, kernel, precision, size, SUSTAINED, lambda: None)
    flop, byte = roofs.flop_and_byte(kernel, precision, size)
    return (byte if kernel in STREAM_ARRAYS else flop) / timing.latency_s


def kernels(name: str) -> list[tuple[str, str, int]]:
    """Return the sustained micro-benchmarks of this name, in all precisions and sizes."""
    return [task[:3] for task in roofs.roof_kernels("cpu", ["fp32"]) if (task[0], task[3]) == (name, SUSTAINED)]


def compare(name: str, ours: Callable[[], float], theirs: Callable[[], float], unit: str, peer: str) -> list[float]:
    one, other = (median(each) for each in zip(*((ours(), theirs()) for _ in range(TURNS)), strict=True))
    verdict = f"at least {LEAST[name]:g}: {'reached' if one / other >= LEAST[name] else 'MISSED'}"
    print(f"{name}: {one / 1e9:.1f} {unit}, {one / other:.3f} of {peer} ({other / 1e9:.1f} {unit}); {verdict}")
    return [one, other]


def bandwidth(folder: Path) -> None:
    size = kernels("stream_triad")[0][2]  # the largest comes first
    if shutil.which("gcc") is None:
        print("Bandwidth: there is no gcc here to compile STREAM with, so nothing to compare with.")
        return
    program, numbers = folder / "stream", size // 24
    flags = ["-O3", "-march=native", "-fopenmp", "-mcmodel=medium", f"-DNUMBERS={numbers}"]
    subprocess.run(["gcc", *flags, str(ROOT / "benchmarks" / "stream.c"), "-o", str(program)], check=True)
    threads = os.environ | {"OMP_NUM_THREADS": str(processor.physical_cores())}

    def compiled() -> float:
        run = subprocess.run([str(program)], check=True, capture_output=True, text=True, env=threads)
        return 24 * numbers / median(map(float, run.stdout.split()))

    compare("triad from memory", lambda: rate("stream_triad", "fp64", size), compiled, "GB/s", "STREAM's in C")
    for kernel in STREAM_ARRAYS:
        print(f"    {kernel}: {rate(kernel, 'fp64', size) / 1e9:.1f} GB/s")


def products() -> float:
    """Return the FLOP per second of NumPy's or torch's fastest product in a plain loop."""
    import numpy as np
    import torch

    rates = []
    for rows in roofs.MATMUL_ROWS["cpu"]:
        matrices = [torch.randn(rows, rows) for _ in range(3)]
        for multiply, (left, right, out) in ((torch.mm, matrices), (np.matmul, [each.numpy() for each in matrices])):
            call = partial(multiply, left, right, out=out)
            call()
            rates.append(2 * rows**3 / median_s(call, 5, least_s=0.5))
    return max(rates)


def flop_per_cycle(here: Environment) -> float:
    """Return the most fp32 FLOP per cycle and core of this processor, 0 if the table lacks it."""
    keys = curated.read_keys(ROOT / "bib" / "references.bib")
    table = curated.flop_per_cycle(ROOT / "data" / "flop_per_cycle.csv", keys)
    peak = peaks(table, here, None).get("fp32")
    return peak.flop_per_cycle if peak else 0


def clock_hz() -> float:
    """Return the clock: each step of the chain of additions takes a cycle."""
    size = dict(roofs.CLOCK_CHAINS)["int64"]
    timing = roofs.measure(CPU, "chain", "int64", size, SUSTAINED, lambda: None)
    return size / timing.latency_s


def main() -> None:
    prepare()
    with tempfile.TemporaryDirectory() as folder:
        bandwidth(Path(folder))
    library = [*kernels("matmul"), *kernels("numpy_matmul")]
    others = compare(
        "fp32 matrix product", lambda: max(rate(*each) for each in library), products, "GFLOP/s", "the best plain loop"
    )
    cores = processor.physical_cores()
    registers, per_cycle = partial(rate, *kernels("fma")[0]), flop_per_cycle(environment.current(CPU, cores))
    if per_cycle:
        peer = "cores × FLOP/cycle × clock"
        highest, _ = compare("fp32 multiply-add", registers, lambda: cores * per_cycle * clock_hz(), "GFLOP/s", peer)
    else:
        print("Multiply-adds: data/flop_per_cycle.csv lacks this processor, so no peak can be derived.")
        highest = registers()
    verdict = "reached" if highest > max(others) else "MISSED"
    print(f"multiply-add above every fp32 product, by {highest / max(others):.3f}: {verdict}")


if __name__ == "__main__":
    main()
