"""Measure a machine's roofs: matrix products, multiply-adds, streams through its memory, and its clock.

Sources: S. Williams et al., Roofline (2009), for roofs of computation and memory; J. McCalpin, STREAM, for the streams;
Y. J. Lo et al., Roofline Model Toolkit (2014), for a sweep of working sets through all caches (ERT).
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from math import ceil, inf, log2
from typing import NamedTuple

from measure.domain.roofs import Rates
from measure.domain.statistics import estimate_median
from measure.domain.words import (
    BURST,
    BURST_BLOCK_S,
    CACHE_MULTIPLE,
    EIGHT_BITS,
    FP8,
    FULL_PRECISION,
    HEAT_S,
    INT8,
    LOAD,
    MEMORY_BYTE,
    PRECISION_BYTE,
    REST_S,
    ROUNDS,
    STREAM_ARRAYS,
    SUSTAINED,
    SUSTAINED_BLOCK_S,
    TF32,
    stored_as,
)
from measure.errors import in_short
from measure.machine import processor
from measure.machine.device import Device
from measure.machine.sensors import load_since
from measure.timing.sampling import Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch

_log = logging.getLogger(__name__)

SAMPLINGS = {
    SUSTAINED: Sampling(trend_s=0.1, block_s=SUSTAINED_BLOCK_S, warm_up_s=2.0, least_s=0.25, limit_s=3.0, fewest=6),
    BURST: Sampling(trend_s=0.0, block_s=BURST_BLOCK_S, warm_up_s=2.0, least_s=0.0, limit_s=3.0, fewest=6),
}

TRIES = 3
"""The most times a kernel is timed while other programs use the processor. Its time is then stored with their load."""

PAUSE_S = 1.0
"""A longer pause lets a chip cool."""

CALL_S, CALL_S_PER_THREAD = 0.005, 0.001
"""The shortest call, so that starting the threads, about 10 µs each, is negligible."""

MATMUL_ROWS = {"cpu": (512, 1024, 2048, 4096), "cuda": (2048, 4096, 8192, 16384), "mps": (1024, 2048, 4096, 8192)}
FIRST_ROWS, BURST_ROWS = 1, 2
"""The index of the product of a first roof, which is large but takes only a moment; and the number of small products
that take milliseconds, since others are too long for a burst."""

LONGEST_PRODUCT_S = 1.5
"""A longer product is skipped with all larger ones, unless it is the smallest. A dozen would fill much of a short run,
and on so slow a device the next smaller one, with an eighth of the work, reaches the same rate."""

GLANCE_S, GLANCE_BYTE = 0.05, 2**28
"""The time of a rough look at a kernel's speed, and the working set of its stream."""

PRODUCT_BYTE = {FP8: 1 + 1 + 2, INT8: 1 + 1 + 4}
"""Bytes per element of two matrices and their product, where the product is wider than the matrices."""

FMA_PER_CORE, FMA_ON_GPU = 12 * 2**26, 2**36
"""Multiply-adds per call: some milliseconds, and whole rounds of every kernel's loops."""

CHAINS = (("int64", 2**28), ("fp64", 2**26))
"""Precision and additions of each chain; about 0.1 s."""

STREAM_PRECISION = {"cpu": "fp64", "cuda": "fp32", "mps": "fp32"}
"""STREAM uses fp64, for which many GPUs have few units."""

LEAST_BYTE_PER_CORE, STREAM_UNIT_BYTE = 8 * 1024, 6 * 256
"""The smallest working set per core, and the unit of working sets: whole cache lines of one, two or three arrays."""

GPU_BYTE = (2**20, 2**30)
"""The smallest and largest working set of a GPU: 8 KB for each of about a hundred multiprocessors, and far more than
any cache."""

RoofKernel = tuple[str, str, int, str, int | None]
"""Name, precision, size, pace and round of a kernel."""


def roof_kernels(device_kind: str, precisions: Sequence[str]) -> list[RoofKernel]:
    """List the roof kernels of a kind of device, in the order of measuring. Only a processor has a clock.

    Every kernel has a sustained pace. Kernels with short calls, and the streams through the largest working set, have a
    burst too. These streams give the memory's roof, so they have several rounds.
    """
    rows, sets = MATMUL_ROWS[device_kind], _working_sets(device_kind)
    sustained: list[tuple[str, str, int]] = [("matmul", precision, size) for precision in precisions for size in rows]
    burst = [kernel for kernel in sustained if kernel[2] in rows[:BURST_ROWS]]
    if device_kind == "cpu" and "fp32" in precisions:
        sustained += [("numpy_matmul", "fp32", size) for size in rows]
    if device_kind != "mps":
        size = FMA_ON_GPU if device_kind == "cuda" else FMA_PER_CORE * processor.physical_cores()
        multiply_adds = [("fma", precision, size) for precision in ("fp32", "fp64")]
        sustained += multiply_adds
        burst += multiply_adds
    # Memory comes first: a sweep that is cut short must not show a cache as the last level.
    streams = [(kernel, STREAM_PRECISION[device_kind], size) for size in sets[::-1] for kernel in STREAM_ARRAYS]
    through_memory, within = streams[: len(STREAM_ARRAYS)], streams[len(STREAM_ARRAYS) :]
    sustained += within
    burst += through_memory
    if device_kind == "cpu":
        sustained += [("chain", precision, size) for precision, size in CHAINS]
    rounds = [(*kernel, SUSTAINED, number) for number in range(ROUNDS) for kernel in through_memory]
    return [
        *rounds,
        *((*kernel, SUSTAINED, None) for kernel in sustained),
        *((*kernel, BURST, None) for kernel in burst),
    ]


@cache
def first_kernels(device_kind: str, precisions: tuple[str, ...]) -> list[RoofKernel]:
    """List the kernels of a first roof: a product at each precision, and one stream through memory."""
    rows = MATMUL_ROWS[device_kind][FIRST_ROWS]
    return [
        (kernel, precision, size, pace, number)
        for kernel, precision, size, pace, number in roof_kernels(device_kind, precisions)
        if (kernel, number) == ("stream_triad", 0) or (kernel, size, pace) == ("matmul", rows, SUSTAINED)
    ]


def _working_sets(device_kind: str) -> list[int]:
    """Return bytes, two per factor of two, from well within the first cache to well beyond the last."""
    unit, (least, most) = STREAM_UNIT_BYTE, GPU_BYTE
    if device_kind == "cpu":
        cores, caches = processor.physical_cores(), processor.caches()
        unit, least = cores * unit, cores * LEAST_BYTE_PER_CORE
        most = max(MEMORY_BYTE, CACHE_MULTIPLE * caches[-1].byte if caches else 0)
    steps = ceil(2 * log2(most / least))
    *smaller, largest = (least * 2 ** (step / 2) / unit for step in range(steps + 1))
    return [*(round(units) * unit for units in smaller), ceil(largest) * unit]


def flop_and_byte(kernel: str, precision: str, size: int) -> tuple[int, int]:
    """Return FLOP and bytes of a kernel's work; for a product of integers, operations and bytes.

    Additions of integers are no FLOP, and registers move no bytes.
    """
    if kernel in STREAM_ARRAYS:
        width = {"fp32": 4, "fp64": 8}[precision]
        return (2 * size // (STREAM_ARRAYS[kernel] * width) if kernel == "stream_triad" else 0), size
    if kernel == "chain":
        return (size if precision == "fp64" else 0), 0
    if kernel == "fma":
        return 2 * size, 0
    byte = PRODUCT_BYTE[precision] if precision in PRODUCT_BYTE else 3 * PRECISION_BYTE[stored_as(precision)]
    return 2 * size**3, byte * size**2


LIBRARY, TRITON, NUMBA = "torch_kernels", "triton_kernels", "processor_kernels"


def _home(kernel: str, device_kind: str) -> str:
    """Return the module of a kernel, which is imported only to measure one."""
    if kernel.endswith("matmul") or device_kind == "mps":
        return LIBRARY
    return TRITON if device_kind == "cuda" else NUMBA


@cache
def triton_gap(device: Device) -> str | None:
    """Return why Triton's kernels do not run on a GPU; None if the smallest stream does.

    Windows has no Triton. Elsewhere it may find no C compiler or not know the GPU.
    """
    import torch

    try:
        stream = import_module(f"measure.roofs.{TRITON}").prepare(
            "stream_copy", STREAM_PRECISION["cuda"], GPU_BYTE[0], device.torch_name, torch.get_num_threads()
        )
        stream(1)
        device.synchronize()
    except torch.cuda.OutOfMemoryError:
        raise
    except ImportError as problem:
        gap = f"which does not import ({problem}); pip install triton, then measure with --force"
    except Exception as problem:  # compilers, linker and driver fail in their own ways
        gap = f"which does not run here ({in_short(problem)}); mend that, then measure with --force"
    else:
        return None
    _log.warning("streams through memory are torch's, not Triton's, %s", gap)
    return gap


def prepare(device: Device, kernel: str, precision: str, size: int) -> Callable[[int], object]:
    """Return a function that does a kernel's work ``passes`` times. On a GPU without Triton, torch streams.

    Raises NotImplementedError if the kernel's library does not import or run, or if the device has no TF32 or would
    emulate the precision.
    """
    import torch

    device.refuse_emulation(precision)
    device.allow_tf32(precision == TF32)
    home = _home(kernel, device.kind)
    if home == TRITON and (gap := triton_gap(device)):
        if kernel not in STREAM_ARRAYS:
            raise NotImplementedError(f"{kernel} is measured with Triton, {gap}")
        home = LIBRARY
    try:
        module = import_module(f"measure.roofs.{home}")
    except ImportError as problem:
        raise NotImplementedError(
            f"{kernel} is measured with Numba, which does not import ({problem}); "
            "pip install numba, then measure with --force"
        ) from None
    work: Callable[[int], object] = module.prepare(kernel, precision, size, device.torch_name, torch.get_num_threads())
    return work


class KernelTiming(NamedTuple):
    """The time of a kernel's work, as in ``RoofMeasurement``; all None if it was not measured."""

    latency_s: float | None = None
    latency_low_s: float | None = None
    latency_high_s: float | None = None
    sample_count: int | None = None
    load: float | None = None


class Heat:
    """Keeps account of how long this process has kept the chip at work, whatever the kernels."""

    def __init__(self) -> None:
        self._since = self._until = -inf

    def build(self, call: Callable[[], object], beat: Callable[[], None]) -> None:
        """Call until the chip has worked for ``HEAT_S``: not at all if it has just done so."""
        if time.perf_counter() - self._until > PAUSE_S:
            self._since = time.perf_counter()
        while time.perf_counter() - self._since < HEAT_S:
            call()
            beat()
        self.keep()

    def keep(self) -> None:
        """Note that the chip has worked until now."""
        self._until = time.perf_counter()


HEAT = Heat()


def measure(
    device: Device, kernel: str, precision: str, size: int, pace: str, beat: Callable[[], None]
) -> KernelTiming:
    """Time a kernel at one size and pace.

    A product is tried at all smaller sizes first, so that none is begun that would take minutes. A kernel that other
    programs disturb is timed up to ``TRIES`` times, and the least disturbed time is kept with its load.

    Raises NotImplementedError for a product that takes too long or is not worth its time, what ``prepare`` raises, and
    whatever a library raises if the product does not fit or is not supported.
    """
    import torch

    smaller = [rows for rows in MATMUL_ROWS[device.kind] if rows < size] if kernel.endswith("matmul") else []
    if smaller and precision in EIGHT_BITS:
        _refuse_slow_bytes(device, kernel, precision, smaller[0])
    threads, longest_s = torch.get_num_threads(), LONGEST_PRODUCT_S if smaller else inf
    for tried in (*smaller, size):
        work = prepare(device, kernel, precision, tried)
        run = partial(_run, work, device)
        passes = _count_passes(run, threads, tried, longest_s, beat)

    def rest() -> None:
        beat()
        time.sleep(REST_S)
        run(passes)  # wakes threads and clock, which is no part of a burst

    clock = time.perf_counter_ns
    if kernel == "chain":  # other programs take none of a processor's cycles from its time
        from measure.roofs.processor_kernels import processor_ns

        clock = partial(processor_ns, threads)
    is_sustained = pace == SUSTAINED
    if is_sustained:
        HEAT.build(partial(run, passes), beat)
    stopwatch = Stopwatch(partial(work, passes), device.synchronize, clock, beat if is_sustained else rest)
    load, timing = _least_disturbed(lambda: sample(stopwatch, SAMPLINGS[pace]), device)
    if is_sustained:
        HEAT.keep()
    latencies = [latency / passes for latency in timing.latencies_s]
    estimate = estimate_median(latencies)
    return KernelTiming(
        latency_s=estimate.median,
        latency_low_s=min(latencies) if estimate.low is None else estimate.low,
        latency_high_s=max(latencies) if estimate.high is None else estimate.high,
        sample_count=len(latencies),
        load=load,
    )


def _run(work: Callable[[int], object], device: Device, passes: int) -> float:
    """Do the work ``passes`` times, wait until it is done, and return the time (s)."""
    start = time.perf_counter()
    work(passes)
    device.synchronize()
    return time.perf_counter() - start


def _count_passes(
    run: Callable[[int], float], threads: int, size: int, longest_s: float, beat: Callable[[], None]
) -> int:
    """Return the passes of a call that is long enough.

    Raises NotImplementedError if one pass, a product of ``size`` rows, takes longer than ``longest_s``.
    """
    passes = 1
    run(passes)  # pays for what is set up once
    while True:
        beat()
        elapsed_s = run(passes)
        if elapsed_s > passes * longest_s:
            raise NotImplementedError(
                f"{size} x {size} takes {elapsed_s:.2g} s (limit {longest_s:g} s); the roof uses the smaller sizes"
            )
        if elapsed_s >= max(CALL_S, CALL_S_PER_THREAD * threads):
            return passes
        passes *= 2


def _least_disturbed(take: Callable[[], Timing], device: Device) -> tuple[float | None, Timing]:
    """Time a kernel until other programs leave the processor alone. Return load and timing of the quietest try.

    The host's load does not affect a GPU's kernels, so they are timed once, without a load.
    """
    if device.kind != "cpu":
        return None, take()
    sensors, tries = device.sensors(), list[tuple[float | None, Timing]]()
    while len(tries) < TRIES:
        opening = sensors.read()
        timing = take()
        load = load_since(opening, sensors)
        tries.append((load, timing))
        if load is None or load < LOAD:
            break
        _log.info("other programs used %.0f %% of the cores meanwhile", 100 * load)
    return min(tries, key=lambda each: each[0] or 0.0)


def _refuse_slow_bytes(device: Device, kernel: str, precision: str, rows: int) -> None:
    """Raise NotImplementedError if an 8-bit product is slower than fp32 at ``rows`` rows.

    A processor without instructions for bytes (VNNI, AMX) multiplies them one by one, many times slower than fp32. That
    is no roof of anything, and a product of 4096 rows would take a minute.
    """
    slow, fast = (_glance_at_product(device, kernel, each, rows) for each in (precision, FULL_PRECISION))
    if slow < fast:
        raise NotImplementedError(
            f"{precision} products are slower than fp32 here ({slow / 1e9:.3g} GOP/s against {fast / 1e9:.3g} GFLOP/s "
            f"at {rows} x {rows}); larger ones are not worth their time"
        )


def _glance_at_product(device: Device, kernel: str, precision: str, rows: int) -> float:
    """Return the operations per second of the fastest of some products."""
    work = prepare(device, kernel, precision, rows)
    return flop_and_byte(kernel, precision, rows)[0] / _fastest_s(work, device)


def _fastest_s(work: Callable[[int], object], device: Device) -> float:
    """Repeat the work for ``GLANCE_S`` and return the time of the fastest call."""
    _run(work, device, 1)  # pays for what is set up once
    start, fastest_s = time.perf_counter(), inf
    while time.perf_counter() - start < GLANCE_S:
        fastest_s = min(fastest_s, _run(work, device, 1))
    return fastest_s


def glance(device: Device, precisions: Sequence[str]) -> Rates:
    """Estimate a roof within a second, from the fastest of some products and of torch's triads through memory.

    It shows a user what to expect while the roof is measured and is stored nowhere: the chip is not warm, and its
    caches may hold part of the arrays. Raises whatever a library raises at a precision.
    """
    import torch

    rows, stream = MATMUL_ROWS[device.kind][FIRST_ROWS], "stream_triad"
    peaks = {each: _glance_at_product(device, "matmul", each, rows) for each in precisions}
    triad = import_module(f"measure.roofs.{LIBRARY}").prepare(
        stream, FULL_PRECISION, GLANCE_BYTE, device.torch_name, torch.get_num_threads()
    )
    return Rates(peaks, GLANCE_BYTE / _fastest_s(triad, device), stream)
