"""Kernels for a processor's roofs, compiled by Numba: multiply-adds, chains of additions, streams through memory.

A compiler chooses the width of vectors by its own rules and offers no store past the caches. A roof must not depend on
that, so these kernels use vectors as wide as the registers. Import this module only where a processor is measured,
because it imports Numba.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial, reduce
from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from measure.domain.words import STREAM_ARRAYS

KINDS = {"fp32": types.float32, "fp64": types.float64, "int64": types.int64}
VECTOR_BYTE = 64 if get_host_cpu_features().get("avx512f") else 32  # a register, or two of Arm's many
CHAINS = 12  # of multiply-adds, each waiting for its last result: two units times five cycles; 14 of 16 registers
CHAIN_ROUND = 16  # additions per round of the loop; its counter runs in parallel
WIDTH = VECTOR_BYTE // 8  # numbers in a vector of a stream
PIECE_BYTE = 256  # the unit of a thread's part of each array: four of the widest vectors, and whole cache lines
SCALE = 3.0
REPEATED = 2**15  # random numbers of an array, which repeats itself: drawing them all takes longer than streaming
TRIES, TRY_S = 5, 0.002  # how often each kind of store is tried, and for how long at least
INT32 = ir.IntType(32)

Array = np.ndarray[Any, np.dtype[Any]]


class Vector(types.Type):
    """Numba's type of a vector of numbers as wide as ``VECTOR_BYTE``."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype, self.lanes = dtype, VECTOR_BYTE * 8 // dtype.bitwidth
        super().__init__(f"Vector({dtype}, {self.lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector in machine code: a value of LLVM's vector type."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        super().__init__(manager, kind, ir.VectorType(manager.lookup(kind.dtype).get_value_type(), kind.lanes))


def _address(context: Any, builder: Any, array: types.Array, data: Any, at: Any) -> Any:
    """Return the address of the vector that begins at index ``at`` of an array."""
    first = cgutils.create_struct_proxy(array)(context, builder, value=data).data
    return builder.bitcast(builder.gep(first, [at]), context.get_value_type(Vector(array.dtype)).as_pointer())


@intrinsic
def load(_typing: Any, array: types.Array, at: types.Integer) -> Any:
    """Load the vector at an index, a multiple of the lanes, of an array aligned to ``VECTOR_BYTE``."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *values), align=VECTOR_BYTE)

    return Vector(array.dtype)(array, at), generate


def _storing(past_caches: bool) -> Any:
    """Make a function that stores a vector where ``load`` finds it: ``store(array, at, vector)``."""

    def typed(_typing: Any, array: types.Array, at: types.Integer, vector: Vector) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, signature.args[0], *values[:2])
            instruction = builder.store(values[2], address, align=VECTOR_BYTE)
            if past_caches:
                instruction.set_metadata("nontemporal", builder.module.add_metadata([INT32(1)]))
            return context.get_dummy_value()

        return types.void(array, at, vector), generate

    return intrinsic(typed)


# A store into the caches first reads the line from memory.
store, store_past_caches = _storing(past_caches=False), _storing(past_caches=True)


@intrinsic
def fill(_typing: Any, number: types.Number) -> Any:
    """Make a vector with a number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        nothing = kind(ir.Undefined)
        one = builder.insert_element(nothing, values[0], INT32(0))
        return builder.shuffle_vector(one, nothing, ir.VectorType(INT32, kind.count)(None))

    return Vector(number)(number), generate


def _addition(builder: Any, kind: Vector) -> Any:
    return builder.add if isinstance(kind.dtype, types.Integer) else builder.fadd


@intrinsic
def add(_typing: Any, left: Vector, right: Vector) -> Any:
    return left(left, right), lambda _context, builder, _signature, values: _addition(builder, left)(*values)


@intrinsic
def multiply_add(_typing: Any, value: Vector, factor: Vector, term: Vector) -> Any:
    """Compute ``value * factor + term``, lane by lane, in one instruction rounded once if the processor has it."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = values[0].type
        name = f"llvm.fmuladd.v{kind.count}f{32 if kind.element == ir.FloatType() else 64}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return builder.call(function, values)

    return value(value, factor, term), generate


@intrinsic
def total(_typing: Any, vector: Vector) -> Any:

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = [builder.extract_element(values[0], INT32(at)) for at in range(vector.lanes)]
        return reduce(_addition(builder, vector), lanes)

    return vector.dtype(vector), generate


class Team:
    """Threads numbered from 0, which work at the same time. The work must release the GIL.

    A thread always does the work of its own number, so its data stay in its core's caches and the nearest memory.
    """

    def __init__(self, threads: int) -> None:
        self._members = [ThreadPoolExecutor(1) for _ in range(threads)]

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Call ``work`` with each thread's number and return the results. Raises a call's exception."""
        futures = [member.submit(work, number) for number, member in enumerate(self._members)]
        return [future.result() for future in futures]

    def parts(self, count: int) -> list[int]:
        ends = [count * number // len(self._members) for number in range(len(self._members) + 1)]
        return [end - start for start, end in pairwise(ends)]


def prepare(kernel: str, precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return a function that does a kernel's work ``passes`` times in a row on these threads.

    ``size`` is the multiply-adds of all threads together (``fma``), the additions of each thread (``chain``), or the
    bytes of the working set (streams).
    """
    team = Team(threads)
    if kernel == "fma":
        function, values = compile_multiply_adds(precision), team.run(lambda _: operands(precision))
        rounds = team.parts(size // values[0].size)
        # x becomes 1 - x and x again: numbers that stay the same would take the units less power.
        return lambda passes: team.run(lambda member: function(passes * rounds[member], values[member], -1, 1))
    if kernel == "chain":
        add_up = compile_chain(precision)
        return lambda passes: team.run(lambda _: add_up(passes * size // CHAIN_ROUND, 1, 1))
    streams = Streams(kernel, size, team)
    return partial(streams.run, kernel != "stream_read" and streams.is_faster_past_caches())


def _allocate(byte: int, alignment: int) -> Array:
    """Return uninitialised memory, aligned to ``alignment`` (B)."""
    memory = np.empty(byte + alignment, np.uint8)
    return memory[-memory.ctypes.data % alignment :][:byte]


def operands(precision: str) -> Array:
    """Return a random number for every lane of every chain, shape ``(CHAINS * lanes,)``."""
    numbers = _allocate(CHAINS * VECTOR_BYTE, VECTOR_BYTE).view({"fp32": np.float32, "fp64": np.float64}[precision])
    numbers[:] = np.random.default_rng(0).random(numbers.size)
    return numbers


@cache
def compile_multiply_adds(precision: str) -> Any:
    """Compile rounds of one multiply-add per number, in registers. The function returns the sum of all numbers."""

    def multiply_adds(rounds: int, values: Any, factor: float, term: float) -> float:
        width = values.size // CHAINS
        x, y = fill(factor), fill(term)
        a, b, c = load(values, 0), load(values, width), load(values, 2 * width)
        d, e, f = load(values, 3 * width), load(values, 4 * width), load(values, 5 * width)
        g, h, i = load(values, 6 * width), load(values, 7 * width), load(values, 8 * width)
        j, k, m = load(values, 9 * width), load(values, 10 * width), load(values, 11 * width)
        for _ in range(rounds):
            a, b, c = multiply_add(a, x, y), multiply_add(b, x, y), multiply_add(c, x, y)
            d, e, f = multiply_add(d, x, y), multiply_add(e, x, y), multiply_add(f, x, y)
            g, h, i = multiply_add(g, x, y), multiply_add(h, x, y), multiply_add(i, x, y)
            j, k, m = multiply_add(j, x, y), multiply_add(k, x, y), multiply_add(m, x, y)
        return (
            total(a) + total(b) + total(c) + total(d) + total(e) + total(f)
            + total(g) + total(h) + total(i) + total(j) + total(k) + total(m)
        )  # fmt: skip

    kind = KINDS[precision]
    return njit(kind(types.int64, kind[::1], kind, kind), nogil=True)(multiply_adds)


@cache
def compile_chain(precision: str) -> Callable[[int, float, float], float]:
    """Compile a chain of ``CHAIN_ROUND`` additions per round, each the sum of the two numbers before it.

    Its time gives the clock, which virtual machines often do not report. An integer addition takes one cycle on every
    processor in question; one in floating point takes a few whole cycles and checks it. No compiler can shorten the
    chain: it knows no closed form, and no operand is constant.
    """

    def fibonacci(rounds: int, first: float, second: float) -> float:
        for _ in range(rounds):
            for _ in range(CHAIN_ROUND // 2):  # the compiler unrolls this
                first += second
                second += first
        return second

    kind = KINDS[precision]
    return njit(kind(types.int64, kind, kind), nogil=True)(fibonacci)


@cache
def compile_stream(kernel: str, past_caches: bool) -> Callable[..., int]:
    """Compile a stream that writes ``a`` and reads ``b`` and ``c``, as J. McCalpin's STREAM does.

    ``past_caches`` chooses the kind of store. ``read`` returns the sum of the numbers' bits as integers, the others 0.
    """
    put = store_past_caches if past_caches else store
    value = {
        "stream_read": None,
        "stream_write": njit(lambda b, c, scale, at: fill(scale)),
        "stream_copy": njit(lambda b, c, scale, at: load(b, at)),
        "stream_triad": njit(lambda b, c, scale, at: multiply_add(load(c, at), fill(scale), load(b, at))),
    }[kernel]

    def read(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        numbers = b.view(np.int64)
        first = second = third = fourth = fill(0)  # in parallel, since a sum waits for the one before
        for _ in range(passes):
            for at in range(0, numbers.size, 4 * WIDTH):
                first, second = add(first, load(numbers, at)), add(second, load(numbers, at + WIDTH))
                third, fourth = add(third, load(numbers, at + 2 * WIDTH)), add(fourth, load(numbers, at + 3 * WIDTH))
        return total(add(add(first, second), add(third, fourth)))

    def write(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, value(b, c, scale, at))
        return 0

    numbers = types.float64[::1]
    signature = types.int64(numbers, numbers, numbers, types.float64, types.int64)
    return njit(signature, nogil=True)(write if value else read)


def make_share(arrays: int, pieces: int) -> list[Array]:
    """Make arrays of ``pieces`` pieces each, consecutive in memory that the calling thread touches first."""
    numbers = _allocate(arrays * pieces * PIECE_BYTE, PIECE_BYTE).view(np.float64)
    repeated = np.random.default_rng(0).random(min(REPEATED, numbers.size))
    for at in range(0, numbers.size, repeated.size):
        numbers[at : at + repeated.size] = repeated[: numbers.size - at]
    return list(numbers.reshape(arrays, -1))


class Streams:
    """A kernel on a working set of ``size`` bytes. Each thread of a team has a share of it."""

    def __init__(self, kernel: str, size: int, team: Team) -> None:
        self._kernel, self._team, arrays = kernel, team, STREAM_ARRAYS[kernel]
        pieces = team.parts(size // (arrays * PIECE_BYTE))
        self.shares = team.run(lambda member: make_share(arrays, pieces[member]))

    def run(self, past_caches: bool, passes: int) -> list[int]:
        """Stream through the working set ``passes`` times. Return each thread's result."""
        function = compile_stream(self._kernel, past_caches)
        arguments = [(*share, share[-1], share[-1])[:3] for share in self.shares]
        return self._team.run(lambda member: function(*arguments[member], SCALE, passes))

    def is_faster_past_caches(self) -> bool:
        """Return whether stores past the caches are faster, as they are for working sets beyond the last cache."""

        def seconds(past_caches: bool, passes: int) -> float:
            start = time.perf_counter()
            self.run(past_caches, passes)
            return time.perf_counter() - start

        passes = 1
        while seconds(False, passes) < TRY_S:
            passes *= 2
        into, past = (min(seconds(kind, passes) for _ in range(TRIES)) for kind in (False, True))
        return past < into
