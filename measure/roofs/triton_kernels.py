"""Kernels of a GPU in Triton: multiply-adds in registers and streams through memory.

Import this module only where a GPU is measured, because it imports Triton.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl

from measure.domain.words import STREAM_ARRAYS

# Numbers per program of ``fma``, eight per thread; multiply-adds of each per round; rounds. Programs are short compared
# with the whole, so the last ones leave no unit idle for long.
CHAINS, UNROLLED, ROUNDS = 1024, 16, 32
# Programs of a stream per multiprocessor, numbers that a program moves at once, and its groups of 32 threads. Together
# they keep about 64 KB in flight per multiprocessor, which hides the latency of memory.
PROGRAMS_PER_UNIT, BLOCK, WARPS = 4, 4096, 8
ACCESS = 4  # the most numbers that a thread moves with one instruction
STEP = 16  # the unit of a program's part of each array (numbers), so that every access is as wide as possible
SCALE = 3.0
# Streams of an NVIDIA GPU read past the L1: a kernel of a network finds nothing there that another left. On AMD's GPUs
# the same hint also evicts from the L2.
PAST_L1 = tl.constexpr(".cg" if torch.version.hip is None else "")


@triton.jit(do_not_specialize=["passes"])
def fma(result, factor, term, passes, CHAINS: tl.constexpr, ROUNDS: tl.constexpr, UNROLLED: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: N803
    """Store the sum of a program's numbers, after all multiply-adds, in ``result``, of shape ``(programs,)``."""
    numbers = tl.arange(0, CHAINS).to(result.dtype.element_ty) / CHAINS
    for _round in range(passes * ROUNDS):
        for _step in tl.static_range(UNROLLED):
            numbers = numbers * factor + term
    tl.store(result + tl.program_id(0), tl.sum(numbers))


@triton.jit(do_not_specialize=["passes"])
def stream(  # type: ignore[no-untyped-def]
    a, b, c, sums, scale, size, share, passes, KERNEL: tl.constexpr, BLOCK: tl.constexpr  # noqa: N803
):  # fmt: skip
    """Stream through a program's share of the arrays. A read stores its sum in ``sums``, of shape ``(programs,)``."""
    first = tl.program_id(0).to(tl.int64) * share
    last = tl.minimum(first + share, size)
    total = tl.zeros((BLOCK,), tl.float32)
    for _pass in range(passes):
        for at in range(first, last, BLOCK):
            place = at + tl.arange(0, BLOCK)
            inside = place < last
            if KERNEL == "stream_read":
                total += tl.load(b + place, inside, 0.0, cache_modifier=PAST_L1)
            elif KERNEL == "stream_write":
                tl.store(a + place, tl.zeros((BLOCK,), tl.float32) + scale, inside)
            elif KERNEL == "stream_copy":
                tl.store(a + place, tl.load(b + place, inside, cache_modifier=PAST_L1), inside)
            else:
                factors = tl.load(c + place, inside, cache_modifier=PAST_L1)
                tl.store(a + place, tl.load(b + place, inside, cache_modifier=PAST_L1) + scale * factors, inside)
    if KERNEL == "stream_read":
        tl.store(sums + tl.program_id(0), tl.sum(total))


def prepare(kernel: str, precision: str, size: int, device: str, _threads: int) -> Callable[[int], object]:
    """Return a function that runs a kernel ``passes`` times: ``size`` multiply-adds or a stream over ``size`` bytes."""
    if kernel == "fma":
        programs = size // (CHAINS * UNROLLED * ROUNDS)
        kind = {"fp32": torch.float32, "fp64": torch.float64}[precision]
        result = torch.empty(programs, device=device, dtype=kind)
        # x becomes 1 - x and x again: numbers that stay the same would take the units less power.
        return lambda passes: fma[(programs,)](result, -1.0, 1.0, passes, CHAINS, ROUNDS, UNROLLED)
    programs = torch.cuda.get_device_properties(device).multi_processor_count * PROGRAMS_PER_UNIT
    arrays = STREAM_ARRAYS[kernel]
    elements = size // (arrays * 4)
    made = [torch.rand(elements, device=device) for _ in range(arrays)]
    a, b, c = (*made, made[-1], made[-1])[:3]
    sums = torch.empty(programs, device=device)
    share = triton.cdiv(triton.cdiv(elements, programs), STEP) * STEP
    block = min(BLOCK, triton.next_power_of_2(share))
    warps = min(WARPS, triton.cdiv(block, 32 * ACCESS))
    return lambda passes: stream[(programs,)](
        a, b, c, sums, SCALE, elements, share, passes, kernel, block, num_warps=warps
    )
