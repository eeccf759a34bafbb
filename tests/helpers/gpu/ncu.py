"""Nsight Compute on a GPU that is not there: ``python -m helpers.gpu.ncu``, which ``bin/ncu`` starts.

It runs the program, which leaves the kernels that it launched between cudaProfilerStart and cudaProfilerStop in a file,
and writes the counters of a GPU of that compute capability. Arithmetic at 16 bits and in TF32 is the tensor cores';
the rest is multiply-adds.
"""

import csv
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers.gpu import here
from helpers.gpu.stream import STREAM, Kernel

LAUNCHES = "ROOFWRIGHT_TEST_LAUNCHES"  # names the file for a program's kernels
TIME, READ, WRITTEN = "gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"
CACHES = ("lts__t_bytes.sum", "l1tex__t_bytes.sum")
UNITS = {TIME: "ns", READ: "byte", WRITTEN: "byte", **dict.fromkeys(CACHES, "byte")}  # else the instruction or none
MULTIPLY_ADDS = {
    precision: f"sm__sass_thread_inst_executed_op_{letter}fma_pred_on.sum"
    for precision, letter in (("fp64", "d"), ("fp32", "f"), ("fp16", "h"))
}
TENSOR_INSTRUCTIONS, FLOP_PER_INSTRUCTION = "sm__inst_executed_pipe_tensor.sum", 512
# By major compute capability, how ``measure.profiling.ncu`` asks for tensor operations.
TENSOR = {
    8: "sm__ops_path_tensor_src_{}_dst_fp32.sum",
    9: "sm__ops_path_tensor_op_hgmma_src_{}_dst_fp32_sparsity_off.sum",
}


class Counting:
    """Writes the kernels between the marks of CUDA's profiler to the file, if there is one."""

    def __init__(self):
        self._kernels = []

    def _watch(self, kernel, _start_ns):
        self._kernels.append(dataclasses.asdict(kernel))

    def start(self):
        STREAM.watchers.append(self._watch)
        return 0

    def stop(self):
        STREAM.watchers.remove(self._watch)
        if LAUNCHES in os.environ:
            Path(os.environ[LAUNCHES]).write_text(json.dumps(self._kernels))
        return 0


def counted(gpu, kernel):
    """A kernel's counters by the names of all metrics."""
    tensor = TENSOR.get(gpu.capability[0])
    operations = {each: tensor.format(each) for each in ("tf32", "bf16", "fp16")} if tensor else {}
    others = [name.replace("fma", other) for name in MULTIPLY_ADDS.values() for other in ("fma", "add", "mul")]
    values = dict.fromkeys([*others, TENSOR_INSTRUCTIONS, *operations.values()], 0)
    values |= {TIME: kernel.time_ns, READ: kernel.read_byte, WRITTEN: kernel.written_byte}
    values |= dict.fromkeys(CACHES, kernel.read_byte + kernel.written_byte)
    if kernel.precision in ("tf32", "bf16", "fp16"):
        values[TENSOR_INSTRUCTIONS] = kernel.flop // FLOP_PER_INSTRUCTION
        if tensor:
            values[operations[kernel.precision]] = kernel.flop
    else:
        values[MULTIPLY_ADDS[kernel.precision]] = kernel.flop // 2
    return values


def write(path, gpu, kernels, metrics):
    """Write the page of raw values."""
    about = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Device", "CC")
    capability = ".".join(map(str, gpu.capability))
    with path.open("w", newline="") as file:
        file.write("==PROF== Connected to process 1\n")
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow([*about, *metrics])
        rows.writerow([*("" for _ in about), *(UNITS.get(name, "") for name in metrics)])
        for number, kernel in enumerate(kernels):
            values = counted(gpu, kernel)
            where = [number, 1, "python", "host", kernel.name, 1, 7, 0, capability]
            rows.writerow([*where, *(values.get(name, "n/a") for name in metrics)])


def main(words):
    gpu = here().seen_by_cuda(os.environ)[0]
    if words == ["--version"]:
        print("NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 0.0.0.0 (test double)")
        return 0
    if words == ["--query-metrics"]:
        nothing = Kernel("", "fp32", 0, 0, 0, 0)
        print("\n".join(f"{name.removesuffix('.sum')}  Counter" for name in counted(gpu, nothing)))
        return 0
    table = Path(words[words.index("--log-file") + 1])
    with tempfile.TemporaryDirectory() as folder:
        launches = Path(folder) / "launches.json"
        program = words[words.index("--target-processes") + 2 :]
        code = subprocess.run(program, env={**os.environ, LAUNCHES: str(launches)}, check=False).returncode
        kernels = [Kernel(**each) for each in json.loads(launches.read_text())] if launches.exists() else []
    write(table, gpu, kernels, words[words.index("--metrics") + 1].split(","))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
