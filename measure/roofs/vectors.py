"""Vectors of numbers as wide as the processor's registers, for kernels that Numba compiles.

A compiler decides by rules of its own how wide vectors are, and none of its rules gives a store that goes past the
caches. A roof must not depend on that: these are the processor's own loads, stores and multiply-adds. Only what
measures on a processor imports this module, since it imports Numba.
"""

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

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
