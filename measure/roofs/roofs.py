"""The roofs of this machine, measured: matrix products, multiply-adds, streams through its memory, and its clock."""

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
"""So often a kernel is timed, while others use the processor, before its load is written down beside its time."""

PAUSE_S = 1.0
"""A longer pause lets a chip cool."""

CALL_S, CALL_S_PER_THREAD = 0.005, 0.001
"""How long a call lasts at least, so that starting the threads, some 10 µs for each, vanishes in it."""

MATMUL_ROWS = {"cpu": (512, 1024, 2048, 4096), "cuda": (2048, 4096, 8192, 16384), "mps": (1024, 2048, 4096, 8192)}
FIRST_ROWS = 1
"""The place of the one whose product gives a first roof."""

BURST_ROWS = 2
"""So many of them, the smallest, take milliseconds: the others are no burst."""

LONGEST_PRODUCT_S = 1.5
"""A product that takes longer is left out with all larger ones, unless it is the smallest. A dozen of them would take a
good part of a short run, and on so slow a device the next smaller one, of an eighth of the work, reaches the same
rate."""

TRIED_S, GLANCE_BYTE = 0.05, 2**28
"""How long something is called to see how fast it is, roughly, and the working set of a stream that is."""

PRODUCT_BYTE = {FP8: 1 + 1 + 2, INT8: 1 + 1 + 4}
"""The bytes that an element of two matrices and of their product takes, where the product's is a wider one."""

FMA_PER_CORE, FMA_ON_GPU = 12 * 2**26, 2**36
"""Multiply-adds in a call: some milliseconds, and whole rounds of every kernel's loops."""

CHAINS = (("int64", 2**28), ("fp64", 2**26))
"""Precision and additions of each chain: some 0.1 s."""

STREAM_PRECISION = {"cpu": "fp64", "cuda": "fp32", "mps": "fp32"}
"""STREAM's own; many GPUs have few units for it."""

LEAST_BYTE_PER_CORE, STREAM_UNIT_BYTE = 8 * 1024, 6 * 256
"""The smallest working set of a core, and what that of all its kernels is a multiple of: whole lines of each array."""

GPU_BYTE = (2**20, 2**30)
"""The smallest and the largest working set of a GPU: 8 KB for each of some hundred multiprocessors, and far more than
any cache."""


def roof_kernels(device_kind: str, precisions: Sequence[str]) -> list[tuple[str, str, int, str, int | None]]:
    """List the roof kernels of a kind of device: name, precision, size, pace, round. A clock is a processor's alone.

    Every kernel is measured at a sustained pace; those whose calls are short, and of the streams those through the
    largest working set, at a burst as well. These streams, which the memory's roof is read from, have several rounds.
    """
    rows, sets = MATMUL_ROWS[device_kind], _working_sets(device_kind)
    sustained: list[tuple[str, str, int]] = [("matmul", precision, size) for precision in precisions for size in rows]
    burst = [task for task in sustained if task[2] in rows[:BURST_ROWS]]
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
    rounds = [(*task, SUSTAINED, number) for number in range(ROUNDS) for task in through_memory]
    return [*rounds, *((*task, SUSTAINED, None) for task in sustained), *((*task, BURST, None) for task in burst)]


@cache
def first_kernels(device_kind: str, precisions: tuple[str, ...]) -> list[tuple[str, str, int, str, int | None]]:
    """List those of them that a first roof is read from: a product at each precision, one stream through memory.

    The matrices of the product are large, but no larger than takes a moment.
    """
    rows = MATMUL_ROWS[device_kind][FIRST_ROWS]
    return [
        (kernel, precision, size, pace, number)
        for kernel, precision, size, pace, number in roof_kernels(device_kind, precisions)
        if (kernel, number) == ("stream_triad", 0) or (kernel, size, pace) == ("matmul", rows, SUSTAINED)
    ]


def _working_sets(device_kind: str) -> list[int]:
    """Return bytes, two for each factor of two, from well within the first cache to well beyond the last."""
    unit, (least, most) = STREAM_UNIT_BYTE, GPU_BYTE
    if device_kind == "cpu":
        cores, caches = processor.physical_cores(), processor.caches()
        unit, least = cores * unit, cores * LEAST_BYTE_PER_CORE
        most = max(MEMORY_BYTE, CACHE_MULTIPLE * caches[-1].byte if caches else 0)
    steps = ceil(2 * log2(most / least))
    *smaller, largest = (least * 2 ** (step / 2) / unit for step in range(steps + 1))
    return [*(round(units) * unit for units in smaller), ceil(largest) * unit]


LIBRARY, TRITON, NUMBA = "torch_kernels", "triton_kernels", "processor_kernels"
"""The modules of kernels, which are imported when one of theirs is measured."""


def _home(kernel: str, device_kind: str) -> str:
    """Return the module that holds a kernel for a kind of device."""
    if kernel.endswith("matmul") or device_kind == "mps":
        return LIBRARY
    if device_kind == "cuda":
        return TRITON
    return NUMBA


@cache
def triton_gap(device: Device) -> str | None:
    """Return why Triton's kernels do not run on a GPU; None where they do, as the smallest stream shows once.

    Triton is not there on Windows, and nothing runs where it finds no C compiler or does not know the GPU.
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
    """Return what does a kernel's work so many times in a row; on a GPU without Triton the streams are torch's.

    Raises NotImplementedError where what the kernel is written in does not import or run, or the device has no TF32 or
    would emulate the precision.
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


def _clock(kernel: str) -> Callable[[], int]:
    """Return what a kernel is timed by. Whatever else runs takes none of a processor's cycles from its time."""
    if kernel == "chain":
        import torch

        from measure.roofs.processor_kernels import processor_ns

        return partial(processor_ns, torch.get_num_threads())
    return time.perf_counter_ns


def flop_and_byte(kernel: str, precision: str, size: int) -> tuple[int, int]:
    """Return FLOP and bytes of a kernel's work, once: of a product of integers its operations.

    Additions of integers are no FLOP, registers move no bytes.
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


class KernelTiming(NamedTuple):
    """A kernel's time a call, as in ``RoofMeasurement``; all are None where it was not measured."""

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
        """Call until the chip has worked for ``HEAT_S``: not at all where it has just done so."""
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
"""This process's."""


def _passes(run: Callable[[int], object], threads: int, size: int, longest_s: float, beat: Callable[[], None]) -> int:
    """Return how often a call must do the work to last long enough.

    Raises NotImplementedError where doing it once, a product of so many rows, takes longer than ``longest_s``.
    """
    passes = 1
    run(passes)  # pays for what is set up once
    while True:
        beat()
        start = time.perf_counter()
        run(passes)
        took_s = time.perf_counter() - start
        if took_s > passes * longest_s:
            raise NotImplementedError(
                f"{size} x {size} takes {took_s:.2g} s (limit {longest_s:g} s); the roof uses the smaller sizes"
            )
        if took_s >= max(CALL_S, CALL_S_PER_THREAD * threads):
            return passes
        passes *= 2


def _do(work: Callable[[int], object], device: Device, passes: int) -> None:
    """Do the work so many times, and wait until it is done."""
    work(passes)
    device.synchronize()


def measure(
    device: Device, kernel: str, precision: str, size: int, pace: str, beat: Callable[[], None]
) -> KernelTiming:
    """Time a kernel at one size and pace.

    A product is tried at all smaller sizes first, so that one that would take minutes is never begun. A kernel that
    others disturb is timed up to ``TRIES`` times, and the least disturbed time is kept with its load.

    Raises NotImplementedError for a product that takes too long or is not worth its time, besides what ``prepare``
    raises, and whatever a library raises where the product does not fit or is not supported.
    """
    import torch

    smaller = [rows for rows in MATMUL_ROWS[device.kind] if rows < size] if kernel.endswith("matmul") else []
    if smaller and precision in EIGHT_BITS:
        _refuse_slow_bytes(device, kernel, precision, smaller[0])
    longest_s = LONGEST_PRODUCT_S if smaller else inf
    for tried in (*smaller, size):
        work = prepare(device, kernel, precision, tried)
        run = partial(_do, work, device)
        passes = _passes(run, torch.get_num_threads(), tried, longest_s, beat)

    def rest() -> None:
        beat()
        time.sleep(REST_S)
        run(passes)  # wakes threads and clock, which is no part of a burst

    is_sustained = pace == SUSTAINED
    if is_sustained:
        HEAT.build(partial(run, passes), beat)
    call, sign_of_life = partial(work, passes), beat if is_sustained else rest
    stopwatch = Stopwatch(call, device.synchronize, _clock(kernel), sign_of_life)
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


def _least_disturbed(take: Callable[[], Timing], device: Device) -> tuple[float | None, Timing]:
    """Time a kernel until others leave the processor alone; return the load and the timing of the quietest try.

    The load of the host says nothing about the kernels of a GPU, so they are timed once, without one.
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
        _log.info("others used %.0f %% of the cores meanwhile", 100 * load)
    return min(tries, key=lambda each: each[0] or 0.0)


def _refuse_slow_bytes(device: Device, kernel: str, precision: str, rows: int) -> None:
    """Raise NotImplementedError where a product of 8 bits is slower than one at fp32, both of so many rows.

    A processor without instructions for them (VNNI, AMX) multiplies bytes one by one, many times slower than fp32. No
    roof of anything lies there, and a product of 4096 rows would take a minute.
    """
    tried = {each: _rate(device, kernel, each, rows) for each in (precision, FULL_PRECISION)}
    if tried[precision] < tried[FULL_PRECISION]:
        slow, fast = (f"{rate / 1e9:.3g}" for rate in tried.values())
        raise NotImplementedError(
            f"{precision} products are slower than fp32 here ({slow} GOP/s against {fast} GFLOP/s at {rows} x {rows}); "
            "larger ones are not worth their time"
        )


def _rate(device: Device, kernel: str, precision: str, rows: int) -> float:
    """Return the operations per second of the quickest of some products of so many rows."""
    work = prepare(device, kernel, precision, rows)
    return flop_and_byte(kernel, precision, rows)[0] / _quickest_s(work, device)


def _quickest_s(work: Callable[[int], object], device: Device) -> float:
    """Do some work for ``TRIED_S`` and return the time of the quickest call."""
    _do(work, device, 1)  # pays for what is set up once
    began, quickest_s = time.perf_counter(), inf
    while time.perf_counter() - began < TRIED_S:
        start = time.perf_counter()
        _do(work, device, 1)
        quickest_s = min(quickest_s, time.perf_counter() - start)
    return quickest_s


def glance(device: Device, precisions: Sequence[str]) -> Rates:
    """Look at a roof for a fraction of a second: the quickest of some products, and of torch's triads through memory.

    The chip has not warmed up, and its caches may hold part of the triad's arrays. It tells a user what to expect while
    the roof is measured, and goes into no table. Raises whatever a library raises at a precision.
    """
    import torch

    rows, stream = MATMUL_ROWS[device.kind][FIRST_ROWS], "stream_triad"
    peaks = {each: _rate(device, "matmul", each, rows) for each in precisions}
    triad = import_module(f"measure.roofs.{LIBRARY}").prepare(
        stream, FULL_PRECISION, GLANCE_BYTE, device.torch_name, torch.get_num_threads()
    )
    return Rates(peaks, GLANCE_BYTE / _quickest_s(triad, device), stream)
