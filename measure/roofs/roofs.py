"""Measure a machine's roofs: matrix products, multiply-adds, streams through its memory; its clock and idle power.

Sources: S. Williams et al., Roofline (2009), for roofs of computation and memory; J. McCalpin, STREAM, for the streams;
Y. J. Lo et al., Roofline Model Toolkit (2014), for a sweep of working sets through all caches (ERT).
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from math import ceil, inf, log2
from typing import Any, NamedTuple

from measure.domain import words
from measure.domain.statistics import estimate_median
from measure.domain.words import BURST, FULL_PRECISION, ROOF_KERNELS, STREAM_ARRAYS, SUSTAINED, stored_as
from measure.errors import in_short
from measure.machine import processor
from measure.machine.device import Device
from measure.machine.sensors import load_since
from measure.timing.sampling import Sampling, Timing, sample
from measure.timing.stopwatch import Stopwatch

_log = logging.getLogger(__name__)

_SHORT = Sampling(warm_up_s=2.0, limit_s=3.0, fewest=6)
SAMPLINGS = {
    SUSTAINED: replace(_SHORT, trend_s=0.1, block_s=words.SUSTAINED_BLOCK_S, least_s=0.25),
    BURST: replace(_SHORT, trend_s=0.0, block_s=words.BURST_BLOCK_S, least_s=0.0),
}

TRIES = 3  # of timing a kernel while other programs use the processor
PAUSE_S = 1.0  # a longer pause lets a chip cool
CALL_S, CALL_S_PER_THREAD = 0.005, 0.001  # the shortest call, so that starting threads (10 µs each) is negligible
LONGEST_PRODUCT_S = 1.5  # on so slow a device the next smaller product reaches the same rate
GLANCES = 5  # calls for a rough look at a kernel's speed; the first pays for set-up

MATMUL_ROWS = {"cpu": (512, 1024, 2048, 4096), "cuda": (2048, 4096, 8192, 16384), "mps": (1024, 2048, 4096, 8192)}
FIRST_ROWS, BURST_ROWS = 1, 2  # the index of a first roof's product, the number of products short enough for a burst
PRODUCT_BYTE = {words.FP8: 1 + 1 + 2, words.INT8: 1 + 1 + 4}  # an element of both matrices and of their wider product
FMA_PER_CORE, FMA_ON_GPU = 12 * 2**26, 2**36  # multiply-adds: some milliseconds, whole rounds of every kernel's loops
CLOCK_CHAINS = (("int64", 2**28), ("fp64", 2**26))  # precision and additions; about 0.1 s
STREAM_PRECISION = {"cpu": "fp64", "cuda": "fp32", "mps": "fp32"}  # STREAM uses fp64; many GPUs have few units for it
LEAST_BYTE_PER_CORE, STREAM_UNIT_BYTE = 8 * 1024, 6 * 256  # working sets are whole cache lines of 1, 2 or 3 arrays
GPU_BYTE = (2**20, 2**30)  # working sets from 8 KB for each of a hundred multiprocessors to far beyond any cache
# Places of a GPU's working sets that its L2 holds: 1.4 to 2.8 MiB up to a T4's of 4 MiB, 16 to 32 MiB from an A100's of
# 40 MiB on. Three make a level. The last of each three is streamed long enough for its energy.
L2_PLACES = ((1, 2, 3), (8, 9, 10))
LEVEL_STREAMS = ("stream_read", "stream_triad")  # the fastest stream of most GPUs, and STREAM's own
IDLE_MS = 10  # short, as the sensors are read between two waits

KernelRound = tuple[str, str, int, str, int | None]  # name, precision, size, pace and round
Work = Callable[[int], object]  # does a kernel's work so many times
Beat = Callable[[], None]  # gives a sign of life


def roof_kernels(device_kind: str, precisions: Sequence[str]) -> list[KernelRound]:
    """List the roof kernels of a kind of device, in the order of measuring: at rest first, as work warms the chip.

    Every kernel has a sustained pace. Kernels with short calls have a burst too. So have the streams through the
    largest working set, which give the memory's roof and have several rounds.
    """

    def having(*kernels: tuple[str, str, int]) -> list[tuple[str, str, int]]:
        return [kernel for kernel in kernels if device_kind in ROOF_KERNELS[kernel[0]].devices]

    rows, precision, sizes = MATMUL_ROWS[device_kind], STREAM_PRECISION[device_kind], _working_sets(device_kind)
    fma_size = FMA_PER_CORE * processor.physical_cores() if device_kind == "cpu" else FMA_ON_GPU
    products = [("matmul", each, size) for each in precisions for size in rows]
    numpy = having(*(("numpy_matmul", "fp32", size) for size in rows if "fp32" in precisions))
    fma = having(*(("fma", each, fma_size) for each in ("fp32", "fp64")))
    streams = having(*((kernel, precision, size) for size in reversed(sizes) for kernel in STREAM_ARRAYS))
    memory, caches = ([each for each in streams if (each[2] == sizes[-1]) == is_memory] for is_memory in (True, False))
    chains = having(*(("chain", *each) for each in CLOCK_CHAINS))
    idle = having(("idle", FULL_PRECISION, IDLE_MS))
    sustained = [*products, *numpy, *fma, *caches, *chains]
    burst = [*(product for product in products if product[2] in rows[:BURST_ROWS]), *fma, *memory]
    # Memory comes first: a sweep that is cut short must not show a cache as the last level.
    rounds = [(*each, SUSTAINED, number) for number in range(words.ROUNDS) for each in memory]
    alone = [(*each, pace, None) for pace, kernels in ((SUSTAINED, sustained), (BURST, burst)) for each in kernels]
    return [*((*each, SUSTAINED, None) for each in idle), *rounds, *alone]


@cache
def first_kernels(device_kind: str, precisions: tuple[str, ...]) -> list[KernelRound]:
    """List the kernels of a first roof: streams through memory, and a product at each precision.

    On a GPU a read is the fastest, on a processor a triad is faster (42 against 31 GB/s on the reference machine).
    """
    rows, byte = MATMUL_ROWS[device_kind][FIRST_ROWS], _working_sets(device_kind)[-1]
    products: list[KernelRound] = [("matmul", precision, rows, SUSTAINED, None) for precision in precisions]
    streams = LEVEL_STREAMS[device_kind == "cpu" :]
    return [*((each, STREAM_PRECISION[device_kind], byte, SUSTAINED, 0) for each in streams), *products]


@cache
def second_kernels(device_kind: str) -> list[KernelRound]:
    """List the kernels that follow a first roof: the idle power of a CUDA device, and streams through its L2."""
    if device_kind != "cuda":
        return []
    sizes, precision = _working_sets(device_kind), STREAM_PRECISION[device_kind]
    streams = [(each, sizes[place]) for places in L2_PLACES for place in places for each in LEVEL_STREAMS]
    idle: KernelRound = ("idle", FULL_PRECISION, IDLE_MS, SUSTAINED, None)
    return [idle, *((each, precision, size, SUSTAINED, None) for each, size in streams)]


def sampling_of(device_kind: str, kernel: str, size: int, pace: str) -> Sampling:
    """Return how a kernel is sampled: with energy on a GPU, which takes longer, if it gives that of a kind of work.

    Such kernels are multiply-adds, a product at each precision, reads and triads of memory and L2, and idle time.
    """
    if pace == BURST or device_kind != "cuda":
        return SAMPLINGS[pace]
    sizes = _working_sets(device_kind)
    streamed = {sizes[place] for place in (*(places[-1] for places in L2_PLACES), -1)}
    is_of_level = kernel in LEVEL_STREAMS and size in streamed
    is_product = kernel == "matmul" and size == MATMUL_ROWS[device_kind][FIRST_ROWS]
    return replace(SAMPLINGS[pace], has_energy=kernel in ("fma", "idle") or is_of_level or is_product)


def _working_sets(device_kind: str) -> list[int]:
    """Return bytes, two per factor of two, from well within the first cache to well beyond the last."""
    unit, (least, most) = STREAM_UNIT_BYTE, GPU_BYTE
    if device_kind == "cpu":
        cores, caches = processor.physical_cores(), processor.caches()
        unit, least = cores * unit, cores * LEAST_BYTE_PER_CORE
        most = max(words.MEMORY_BYTE, words.CACHE_MULTIPLE * caches[-1].byte if caches else 0)
    steps = ceil(2 * log2(most / least))
    *smaller, largest = (least * 2 ** (step / 2) / unit for step in range(steps + 1))
    return [*(round(units) * unit for units in smaller), ceil(largest) * unit]


def flop_and_byte(kernel: str, precision: str, size: int) -> tuple[int, int]:
    """Return FLOP and bytes of a kernel's work; for a product of integers, operations and bytes.

    Additions of integers are no FLOP, and registers move no bytes.
    """
    if kernel in STREAM_ARRAYS:
        element_byte = {"fp32": 4, "fp64": 8}[precision]
        return ROOF_KERNELS[kernel].flop * size // (STREAM_ARRAYS[kernel] * element_byte), size
    if kernel == "fma":
        return 2 * size, 0
    if kernel in ("chain", "idle"):
        return (size if (kernel, precision) == ("chain", "fp64") else 0), 0
    byte = PRODUCT_BYTE[precision] if precision in PRODUCT_BYTE else 3 * words.PRECISION_BYTE[stored_as(precision)]
    return 2 * size**3, byte * size**2


@cache
def triton_gap(device: Device) -> str | None:
    """Return why Triton's kernels do not run on a GPU, such as a missing compiler; None if the smallest stream does."""
    import torch

    try:
        triton = import_module("measure.roofs.triton_kernels")
        triton.prepare("stream_copy", STREAM_PRECISION["cuda"], GPU_BYTE[0], device.torch_name, 1)(1)
        device.synchronize()
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as problem:  # compilers, linker and driver fail in their own ways
        gap = f"which does not run here ({in_short(problem)}); pip install triton or mend it, then measure with --force"
        _log.warning("streams through memory are torch's, not Triton's, %s", gap)
        return gap
    return None


def prepare(device: Device, kernel: str, precision: str, size: int) -> Work:
    """Return a function that does a kernel's work ``passes`` times.

    Through a GPU's memory the faster of Triton's and torch's stream counts; without Triton, torch streams. Smaller sets
    need Triton's, whose passes share a launch. Raises NotImplementedError if the kernel's library does not import or
    run, or the device lacks the precision.
    """
    import torch

    if kernel == "idle":
        return lambda passes: time.sleep(passes * size / 1e3)
    device.refuse_emulation(precision)
    device.allow_tf32(precision == words.TF32)
    home = {"cpu": "processor_kernels", "cuda": "triton_kernels", "mps": "torch_kernels"}[device.kind]
    if kernel.endswith("matmul"):
        home = "torch_kernels"
    elif home == "triton_kernels" and (gap := triton_gap(device)):
        if kernel not in STREAM_ARRAYS:
            raise NotImplementedError(f"{kernel} is measured with Triton, {gap}")
        home = "torch_kernels"
    try:
        module: Any = import_module(f"measure.roofs.{home}")
    except ImportError as problem:
        gap = f"does not import ({problem}); pip install numba, then measure with --force"
        raise NotImplementedError(f"{kernel} is measured with Numba, which {gap}") from None
    arguments = kernel, precision, size, device.torch_name, torch.get_num_threads()
    work: Work = module.prepare(*arguments)
    if home == "triton_kernels" and kernel in STREAM_ARRAYS and size >= GPU_BYTE[-1]:
        libraries = import_module("measure.roofs.torch_kernels").prepare(*arguments)
        return min(work, libraries, key=lambda each: min(_run(each, device, GLANCES) for _ in range(GLANCES)))
    return work


class KernelTiming(NamedTuple):
    """The time of a kernel's work and its conditions, as in ``RoofMeasurement``; all None if it was not measured."""

    latency_s: float | None = None
    latency_low_s: float | None = None
    latency_high_s: float | None = None
    sample_count: int | None = None
    load: float | None = None
    clock_hz: float | None = None
    power_w: float | None = None
    throttle: str | None = None
    energy_j: float | None = None


class Heat:
    """Keeps account of how long this process has kept the chip at work, and ``until`` when."""

    _since = until = -inf

    def build(self, call: Callable[[], object], beat: Beat) -> None:
        """Call until the chip has worked for ``HEAT_S``: not at all if it has just done so."""
        if time.perf_counter() - self.until > PAUSE_S:
            self._since = time.perf_counter()
        while time.perf_counter() - self._since < words.HEAT_S:
            call()
            beat()
        self.until = time.perf_counter()


HEAT = Heat()


def measure(device: Device, kernel: str, precision: str, size: int, pace: str, beat: Beat) -> KernelTiming:
    """Time a kernel at one size and pace.

    A product is tried at all smaller sizes first, so that none is begun that would take minutes. A burst is too short
    for sensors. Raises NotImplementedError for a product that takes too long and for idle power without an energy
    counter, and the exceptions of ``prepare`` and the libraries.
    """
    import torch

    sensors = device.sensors()
    if kernel == "idle" and sensors.read().energy_j is None:
        raise NotImplementedError("idle power needs a counter of energy, and this device reports none")
    smaller = [rows for rows in MATMUL_ROWS[device.kind] if rows < size] if kernel.endswith("matmul") else []
    if smaller and precision in words.EIGHT_BITS:  # without instructions for bytes (VNNI, AMX) they take a minute
        rows, works = smaller[0], [prepare(device, kernel, each, smaller[0]) for each in (precision, FULL_PRECISION)]
        slow, fast = (2e-9 * rows**3 / min(_run(work, device, 1) for _ in range(GLANCES)) for work in works)
        if slow < fast:
            raise NotImplementedError(
                f"{precision} products are slower than fp32 here ({slow:.3g} GOP/s against {fast:.3g} GFLOP/s at "
                f"{rows} x {rows}); larger ones are not worth their time"
            )
    threads, longest_s = torch.get_num_threads(), LONGEST_PRODUCT_S if smaller else inf
    for tried in (*smaller, size):
        work = prepare(device, kernel, precision, tried)
        passes = _count_passes(work, device, threads, tried, longest_s, beat)

    def rest() -> None:
        beat()
        time.sleep(words.REST_S)
        _run(work, device, passes)  # wakes threads and clock, which is no part of a burst

    # Other programs take none of a processor's cycles from the process time of a chain.
    clock = (lambda: time.process_time_ns() // threads) if kernel == "chain" else time.perf_counter_ns
    stopwatch = Stopwatch(partial(work, passes), device.synchronize, clock, beat if pace == SUSTAINED else rest)
    sampling = sampling_of(device.kind, kernel, size, pace)
    heats = pace == SUSTAINED and kernel != "idle"
    if heats:
        HEAT.build(lambda: _run(work, device, passes), beat)
    load, timing = _least_disturbed(lambda: sample(stopwatch, sampling, sensors if pace == SUSTAINED else None), device)
    if heats:
        HEAT.until = time.perf_counter()
    estimate = estimate_median([latency / passes for latency in timing.latencies_s])  # at least six have an interval
    found = timing.conditions
    energy_j = None if found.energy_j is None else found.energy_j / passes
    conditions = load, found.clock_hz, found.power_w, found.throttle, energy_j
    return KernelTiming(estimate.median, estimate.low, estimate.high, len(timing.samples), *conditions)


def _run(work: Work, device: Device, passes: int) -> float:
    """Do the work ``passes`` times, wait until it is done, and return the time (s)."""
    start = time.perf_counter()
    work(passes)
    device.synchronize()
    return time.perf_counter() - start


def _count_passes(work: Work, device: Device, threads: int, size: int, longest_s: float, beat: Beat) -> int:
    """Return the passes of a call that is long enough, twice: the host may have paused in one.

    Raises NotImplementedError if a pass takes over ``longest_s``.
    """
    least_s = max(CALL_S, CALL_S_PER_THREAD * threads)
    passes = 1
    _run(work, device, passes)  # pays for set-up
    while True:
        beat()
        elapsed_s = _run(work, device, passes)
        if elapsed_s > passes * longest_s:
            raise NotImplementedError(
                f"{size} x {size} takes {elapsed_s:.2g} s (limit {longest_s:g} s); the roof uses the smaller sizes"
            )
        if elapsed_s >= least_s:
            beat()
            if _run(work, device, passes) >= least_s:
                return passes
        passes *= 2


def _least_disturbed(take: Callable[[], Timing], device: Device) -> tuple[float | None, Timing]:
    """Time a kernel until other programs leave the processor alone. Return load and timing of the quietest try."""
    if device.kind != "cpu":  # the host's load does not affect a GPU's kernels
        return None, take()
    sensors, tries = device.sensors(), list[tuple[float | None, Timing]]()
    while len(tries) < TRIES and (not tries or (tries[-1][0] or 0.0) >= words.LOAD):
        opening, timing = sensors.read(), take()
        tries.append((load_since(opening, sensors), timing))
    return min(tries, key=lambda each: each[0] or 0.0)
