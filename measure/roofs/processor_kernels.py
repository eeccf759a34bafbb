"""Vectors of numbers as wide as the processor's registers, for kernels that Numba compiles.

A compiler decides by rules of its own how wide vectors are, and none of its rules gives a store that goes past the
caches. A roof must not depend on that: these are the processor's own loads, stores and multiply-adds. Only what
measures on a processor imports this module, since it imports Numba.

Threads that work at the same time, each on its own share.

Multiply-adds in registers on a processor: the arithmetic of its vector units, with nothing to wait for.

Only what measures on a processor imports this module, since it imports Numba.

A processor's clock, from the time of a chain of additions, each of which needs the sum before it.

Virtual machines often show no frequency, and a printed one is not the one that a processor runs at. An addition of
integers takes one cycle on every processor in question, so a chain of them counts cycles. A second chain adds
floating-point numbers, at a few whole cycles an addition: a check of the first. Only what measures on a processor
imports this module, since it imports Numba.

Streams through a processor's memory: read, write, copy and triad, the last three as STREAM has them.

STREAM counts the bytes that a program reads and writes, each vector once, whatever a cache moves besides. Source:
J. McCalpin, STREAM: sustainable memory bandwidth in high performance computers. Only what measures on a processor
imports this module, since it imports Numba.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import float64, int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from measure.domain.words import STREAM_ARRAYS

VECTOR_BYTE = 64 if get_host_cpu_features().get("avx512f") else 32
"""A register's width with AVX-512 and with AVX; on Arm a vector takes two registers, of which it has twice as many."""


class Vector(types.Type):
    """Numba's type of a vector of ``lanes`` numbers of a type."""

    def __init__(self, dtype: types.Type) -> None:
        self.dtype = dtype
        self.lanes = lanes(dtype)
        super().__init__(f"Vector({dtype}, {self.lanes})")


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """In machine code a vector is a value of LLVM's vector type."""

    def __init__(self, manager: Any, kind: Vector) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.lanes))


def lanes(dtype: types.Type) -> int:
    """Return how many numbers of a type a vector holds."""
    return VECTOR_BYTE * 8 // dtype.bitwidth


def _address(context: Any, builder: Any, array: types.Array, data: Any, at: Any) -> Any:
    """Return where in an array the vector begins whose first number has the index ``at``."""
    first = cgutils.create_struct_proxy(array)(context, builder, value=data).data
    vector = context.get_value_type(Vector(array.dtype))
    return builder.bitcast(builder.gep(first, [at]), vector.as_pointer())


@intrinsic
def load(_typing: Any, array: types.Array, at: types.Integer) -> Any:
    """Load the vector at an index, which must be a multiple of the lanes, of an array aligned to vectors."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.load(_address(context, builder, signature.args[0], *values), align=VECTOR_BYTE)

    return Vector(array.dtype)(array, at), generate


def _storing(past_caches: bool) -> Any:
    def typed(_typing: Any, array: types.Array, at: types.Integer, vector: Vector) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            address = _address(context, builder, signature.args[0], *values[:2])
            instruction = builder.store(values[2], address, align=VECTOR_BYTE)
            if past_caches:
                one = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
                instruction.set_metadata("nontemporal", one)
            return context.get_dummy_value()

        return types.void(array, at, vector), generate

    return intrinsic(typed)


store = _storing(past_caches=False)
"""Puts a vector where ``load`` would find it, into a line that the cache first reads from memory."""

stream = _storing(past_caches=True)
"""As ``store``, past the caches: memory is written without being read first, where the processor can."""


@intrinsic
def fill(_typing: Any, number: types.Number) -> Any:
    """Make the vector that holds a number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        one = builder.insert_element(ir.Constant(kind, ir.Undefined), values[0], ir.Constant(ir.IntType(32), 0))
        lanes_of_first = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), None)
        return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), lanes_of_first)

    return Vector(number)(number), generate


@intrinsic
def add(_typing: Any, left: Vector, right: Vector) -> Any:
    """Add two vectors' numbers, lane by lane."""

    def generate(_context: Any, builder: Any, signature: Any, values: Any) -> Any:
        whole = isinstance(signature.args[0].dtype, types.Integer)
        return (builder.add if whole else builder.fadd)(*values)

    return left(left, right), generate


@intrinsic
def multiply_add(_typing: Any, value: Vector, factor: Vector, term: Vector) -> Any:
    """Compute ``value * factor + term``, lane by lane: one instruction, rounded once, where the processor has it."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        kind = values[0].type
        name = f"llvm.fmuladd.v{kind.count}f{32 if kind.element == ir.FloatType() else 64}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return builder.call(function, values)

    return value(value, factor, term), generate


@intrinsic
def total(_typing: Any, vector: Vector) -> Any:
    """Add up a vector's numbers."""

    def generate(_context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        add_up = builder.add if isinstance(kind.dtype, types.Integer) else builder.fadd
        parts = [builder.extract_element(values[0], ir.Constant(ir.IntType(32), at)) for at in range(kind.lanes)]
        summed = parts[0]
        for part in parts[1:]:
            summed = add_up(summed, part)
        return summed

    return vector.dtype(vector), generate


Result = TypeVar("Result")


class Team:
    """So many threads, numbered from 0.

    A member always does the work of its own number, so that the data of its share, which it also put into memory,
    stay in the caches of its core and in the memory nearest to it. What they do at once must release the GIL.
    """

    def __init__(self, threads: int) -> None:
        self._members = [ThreadPoolExecutor(1) for _ in range(threads)]

    def run(self, work: Callable[[int], Result]) -> list[Result]:
        """Return what each member's work, called with its number, gives. Raises what one of them raises."""
        futures = [member.submit(work, number) for number, member in enumerate(self._members)]
        return [future.result() for future in futures]

    def parts(self, count: int) -> list[int]:
        """Return how many of so many things each member gets, as equal as they can be."""
        threads = len(self._members)
        return [count * (number + 1) // threads - count * number // threads for number in range(threads)]


CHAINS = 12
"""Chains of multiply-adds side by side, since each waits for the one before: at most two units times five cycles on
processors with 16 registers; with the two operands they fill 14 of these."""


def chains(rounds: int, values: Any, factor: float, term: float) -> float:
    """Return the sum of all numbers after so many rounds, in each of which every number takes one multiply-add."""
    width = values.size // CHAINS
    factors, terms = fill(factor), fill(term)
    a, b, c = load(values, 0), load(values, width), load(values, 2 * width)
    d, e, f = load(values, 3 * width), load(values, 4 * width), load(values, 5 * width)
    g, h, i = load(values, 6 * width), load(values, 7 * width), load(values, 8 * width)
    j, k, m = load(values, 9 * width), load(values, 10 * width), load(values, 11 * width)
    for _ in range(rounds):
        a = multiply_add(a, factors, terms)
        b = multiply_add(b, factors, terms)
        c = multiply_add(c, factors, terms)
        d = multiply_add(d, factors, terms)
        e = multiply_add(e, factors, terms)
        f = multiply_add(f, factors, terms)
        g = multiply_add(g, factors, terms)
        h = multiply_add(h, factors, terms)
        i = multiply_add(i, factors, terms)
        j = multiply_add(j, factors, terms)
        k = multiply_add(k, factors, terms)
        m = multiply_add(m, factors, terms)
    return (
        total(a) + total(b) + total(c) + total(d) + total(e) + total(f)
        + total(g) + total(h) + total(i) + total(j) + total(k) + total(m)
    )  # fmt: skip


@cache
def compiled_fma(precision: str) -> Any:
    """Compile ``chains`` to machine code, at fp32 or fp64."""
    kind = {"fp32": types.float32, "fp64": types.float64}[precision]
    return njit(kind(types.int64, kind[::1], kind, kind), nogil=True)(chains)


def operands(precision: str) -> np.ndarray[Any, Any]:
    """Return a number for every lane of every chain, where vectors can be loaded from."""
    byte = CHAINS * VECTOR_BYTE
    memory = np.empty(byte + VECTOR_BYTE, np.uint8)
    begin = -memory.ctypes.data % VECTOR_BYTE
    numbers = memory[begin : begin + byte].view({"fp32": np.float32, "fp64": np.float64}[precision])
    numbers[:] = np.random.default_rng(0).random(numbers.size)
    return numbers


def prepare_fma(_kernel: str, precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what does ``size`` multiply-adds, all threads together, so many times."""
    function, team = compiled_fma(precision), Team(threads)
    values = [operands(precision) for _ in range(threads)]
    rounds = team.parts(size // values[0].size)

    def work(passes: int) -> list[float]:
        # x becomes 1 - x and x again: numbers that stay the same would take the units less power.
        return team.run(lambda member: function(passes * rounds[member], values[member], -1, 1))

    return work


ROUND = 16
"""Additions in one round of the loop, whose own counting goes on beside them."""


def fibonacci(rounds: int, first: float, second: float) -> float:
    """Return the last of ``ROUND`` additions a round, each the sum of the two numbers before it.

    No compiler can shorten this chain: the sums have no closed form that it knows, and each is needed twice. No
    operand is a constant either, which some processors add without taking a cycle.
    """
    for _ in range(rounds):
        for _ in range(ROUND // 2):  # which the compiler unrolls
            first += second
            second += first
    return second


@cache
def compiled_chain(precision: str) -> Callable[[int, float, float], float]:
    """Compile ``fibonacci`` to machine code, of integers (int64) or floating-point numbers (fp64)."""
    kind = {"int64": int64, "fp64": float64}[precision]
    return njit(kind(int64, kind, kind), nogil=True)(fibonacci)


def processor_ns(threads: int) -> int:
    """Return the nanoseconds that each of so many threads of this process has computed, without others' time."""
    return time.process_time_ns() // threads


def prepare_chain(_kernel: str, precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what does a chain of ``size`` additions so many times, on each of so many threads at once.

    The clock in question is that of all cores busy.
    """
    add, team = compiled_chain(precision), Team(threads)
    return lambda passes: team.run(lambda _: add(passes * size // ROUND, 1, 1))


WIDTH = VECTOR_BYTE // 8
"""Numbers in a vector."""

PIECE_BYTE = 256
"""A thread's part of each array is a multiple of this: four vectors of the widest, and whole lines of caches."""

SCALE = 3.0

REPEATED = 2**15
"""After so many random numbers an array repeats itself: to draw them all takes longer than to stream through them."""

TRIES, TRY_S = 5, 0.002
"""How often, and at least how long, each kind of store is tried."""


@cache
def compiled_stream(kernel: str, past_caches: bool) -> Callable[[Any, Any, Any, float, int], int]:
    """Compile a kernel of arrays (``a`` is written, ``b`` and ``c`` are read), a scale and the number of passes.

    ``past_caches`` says which kind of store writes. ``read`` gives the sum of what it read, the numbers' bits taken
    as integers; all others give 0.
    """
    put = stream if past_caches else store

    def read(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        numbers = b.view(np.int64)
        first = second = third = fourth = fill(0)  # side by side, since each sum waits for the one before
        for _ in range(passes):
            for at in range(0, numbers.size, 4 * WIDTH):
                first = add(first, load(numbers, at))
                second = add(second, load(numbers, at + WIDTH))
                third = add(third, load(numbers, at + 2 * WIDTH))
                fourth = add(fourth, load(numbers, at + 3 * WIDTH))
        return total(add(add(first, second), add(third, fourth)))

    def write(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, fill(scale))
        return 0

    def copy(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, load(b, at))
        return 0

    def triad(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, multiply_add(load(c, at), fill(scale), load(b, at)))
        return 0

    function = {"stream_read": read, "stream_write": write, "stream_copy": copy, "stream_triad": triad}[kernel]
    numbers = float64[::1]
    return njit(int64(numbers, numbers, numbers, float64, int64), nogil=True)(function)


def share(arrays: int, pieces: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Make arrays of so many pieces, one behind the other in memory that the calling thread touches first."""
    byte = pieces * PIECE_BYTE
    memory = np.empty(arrays * byte + PIECE_BYTE, np.uint8)
    begin = -memory.ctypes.data % PIECE_BYTE
    numbers = memory[begin : begin + arrays * byte].view(np.float64)
    repeated = np.random.default_rng(0).random(min(REPEATED, numbers.size))
    for at in range(0, numbers.size, repeated.size):
        numbers[at : at + repeated.size] = repeated[: numbers.size - at]
    return list(numbers.reshape(arrays, -1))


class Streams:
    """One kernel on a working set of ``size`` bytes, of which each of so many threads has its share."""

    def __init__(self, kernel: str, size: int, threads: int) -> None:
        arrays, team = STREAM_ARRAYS[kernel], Team(threads)
        pieces = team.parts(size // (arrays * PIECE_BYTE))
        self._kernel, self._team = kernel, team
        self.shares = team.run(lambda member: share(arrays, pieces[member]))

    def run(self, past_caches: bool, passes: int) -> list[int]:
        """Work through all of it so many times, and return what each thread's kernel gives."""
        function = compiled_stream(self._kernel, past_caches)

        def work(member: int) -> int:
            arrays = self.shares[member]
            a, b, c = (*arrays, arrays[-1], arrays[-1])[:3]
            return function(a, b, c, SCALE, passes)

        return self._team.run(work)

    def past_caches_is_faster(self) -> bool:
        """Return whether it is quicker to store past the caches, as beyond the last, or into them, as within."""

        def seconds(past_caches: bool, passes: int) -> float:
            start = time.perf_counter()
            self.run(past_caches, passes)
            return time.perf_counter() - start

        passes = 1
        while seconds(False, passes) < TRY_S:
            passes *= 2
        into, past = (min(seconds(kind, passes) for _ in range(TRIES)) for kind in (False, True))
        return past < into


def prepare_stream(kernel: str, _precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what streams through a working set of ``size`` bytes so many times, by the faster kind of store."""
    streams = Streams(kernel, size, threads)
    return partial(streams.run, kernel != "stream_read" and streams.past_caches_is_faster())


def prepare(kernel: str, precision: str, size: int, device: str, threads: int) -> Callable[[int], object]:
    """Return what does a kernel's work so many times in a row on these threads."""
    make = {"chain": prepare_chain, "fma": prepare_fma}.get(kernel, prepare_stream)
    return make(kernel, precision, size, device, threads)
