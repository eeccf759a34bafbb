"""The machine code that Numba writes."""

FUSED = {"x86_64": "vfmadd", "AMD64": "vfmadd", "aarch64": "fmla", "arm64": "fmla"}
"""How a fused multiply-add of vectors is called, by machine."""


def assembly(function):
    """All code of a compiled function."""
    return "\n".join(function.inspect_asm().values())


def has(flag):
    """Whether this processor has the feature that LLVM calls so."""
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(flag))
