"""The GPU's kernels, without a GPU: their results in Triton's interpreter, and their compiled code."""

import os
import re
import subprocess
import sys

import pytest
from helpers.places import ROOT

triton = pytest.importorskip("triton", reason="roofs of a GPU are measured with Triton")

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from measure.roofs import triton_kernels  # noqa: E402

INTERPRETED = """
from types import SimpleNamespace

import torch
from measure.roofs import triton_kernels
from measure.domain.words import STREAM_ARRAYS

torch.cuda.get_device_properties = lambda device: SimpleNamespace(multi_processor_count=3)
made, rand, empty = [], torch.rand, torch.empty
torch.rand = lambda *given, **how: made.append(rand(*given, **how)) or made[-1]
torch.empty = lambda *given, **how: made.append(empty(*given, **how)) or made[-1]


def arrays(kernel, size, passes, precision="fp32"):
    made.clear()
    triton_kernels.prepare(kernel, precision, size, "cpu", 1)(passes)
    return list(made)


for size in (48_000, 2_400):
    for kernel, count in STREAM_ARRAYS.items():
        found = arrays(kernel, size, 2)
        assert sum(array.nbytes for array in found[:count]) == size
        if kernel == "stream_read":
            torch.testing.assert_close(found[-1].sum(), 2 * found[0].sum())
        elif kernel == "stream_write":
            assert (found[0] == triton_kernels.SCALE).all()
        elif kernel == "stream_copy":
            assert (found[0] == found[1]).all()
        else:
            torch.testing.assert_close(found[0], found[1] + triton_kernels.SCALE * found[2])

triton_kernels.ROUNDS, triton_kernels.UNROLLED = 2, 3
for precision in ("fp32", "fp64"):
    (sums,) = arrays("fma", 2 * 1024 * 2 * 3, 1, precision)
    # Two programs of 1024 numbers k / 1024, each itself again after six steps: (0 + ... + 1023) / 1024 = 1023 / 2
    assert sums.tolist() == [511.5] * 2
print("all computed")
"""


@pytest.mark.slow
def test_the_kernels_compute_what_they_say():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, "-c", INTERPRETED]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)
    assert run.stdout == "all computed\n", run.stderr


def compiled(function, signature, constants, aligned=(), warps=4):
    """The PTX for a Hopper GPU, which needs none to be there."""
    source = ASTSource(
        fn=function,
        signature=signature | dict.fromkeys(constants, "constexpr"),
        constexprs={(function.arg_names.index(name),): value for name, value in constants.items()},
        attrs={(function.arg_names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    target = GPUTarget("cuda", 90, 32)
    return triton.compile(source, target=target, options={"num_warps": warps}).asm["ptx"]


def loop(ptx):
    """The instructions of the innermost loop."""
    (body,) = re.findall(r"This Inner Loop Header(.*?)bra", ptx, re.DOTALL) or re.findall(
        r"Loop Header(.*?)bra", ptx, re.DOTALL
    )
    return body


@pytest.mark.parametrize(("precision", "instruction"), [("fp32", "fma.rn.f32"), ("fp64", "fma.rn.f64")])
def test_multiply_adds_are_fused_and_alone_in_their_loop(precision, instruction):
    signature = {"result": f"*{precision}", "factor": "fp32", "term": "fp32", "passes": "i32"}
    constants = {"CHAINS": 1024, "ROUNDS": 32, "UNROLLED": 16}
    body = loop(compiled(triton_kernels.fma, signature, constants))
    assert body.count(instruction) == 16 * 8  # steps of eight numbers a thread: 1024 over 4 * 32
    assert "global" not in body
    assert "mul.f" not in body


@pytest.mark.parametrize(
    ("kernel", "loads", "stores"),
    [("stream_read", 1, 0), ("stream_write", 0, 1), ("stream_copy", 1, 1), ("stream_triad", 2, 1)],
)
def test_every_pass_of_a_stream_uses_the_widest_accesses_and_reads_past_the_l1(kernel, loads, stores):
    pointers = dict.fromkeys(("a", "b", "c", "sums"), "*fp32")
    signature = pointers | {"scale": "fp32"} | dict.fromkeys(("size", "share", "passes"), "i32")
    constants = {"KERNEL": kernel, "BLOCK": 4096}
    body = loop(compiled(triton_kernels.stream, signature, constants, ("a", "b", "c", "size", "share"), warps=8))
    # 4096 numbers over 8 * 32 threads are sixteen each, four to an access
    assert body.count("ld.global.cg.v4") == 4 * loads
    assert body.count("st.global.v4") == 4 * stores
    assert len(re.findall(r"(ld|st)\.global", body)) == 4 * (loads + stores)
