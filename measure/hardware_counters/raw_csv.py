"""Reads what Nsight Compute writes as CSV (``ncu --csv --page raw``): a line a launch of a kernel, a column a metric.

Above the table stand the program's own output and lines that begin with ``==``; below its header a line holds the unit
of each column. Numbers have commas between thousands. A metric that the GPU does not have is ``n/a``, or has no column.
The metrics are described in NVIDIA's Nsight Compute Profiling Guide.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain, dropwhile
from typing import NamedTuple

from measure.cache.conventions import FLOP_PER_INSTRUCTION
from measure.errors import UserError

KERNEL, CAPABILITY, DETAILS = "Kernel Name", "CC", "Metric Name"
"""Columns of what a line is about; only the page of details, which has a line for each metric, has the last."""

TIME = ("gpu__time_duration.sum",)
DRAM_READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
DRAM_WRITE = ("dram__bytes_write.sum", "dram__bytes_op_write.sum")
L2, L1 = ("lts__t_bytes.sum",), ("l1tex__t_bytes.sum",)
"""A metric under the names that it has had: the first that a GPU has is taken."""

VECTOR = {
    precision: {
        f"sm__sass_thread_inst_executed_op_{letter}{operation}_pred_on.sum": flop
        for operation, flop in (("add", 1), ("mul", 1), ("fma", 2))
    }
    for precision, letter in (("fp64", "d"), ("fp32", "f"), ("fp16", "h"))
}
"""By precision, the FLOP that each instruction of a thread is counted with. A packed instruction at fp16, which does
the work of two, is counted as one."""

TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"

TENSOR_FLOP = tuple(
    f"sm__ops_path_tensor_src_{source}.sum"
    for source in ("fp64", "tf32_dst_fp32", "bf16_dst_fp32", "fp16_dst_fp16", "fp16_dst_fp32")
)
"""Operations in the tensor cores, a multiply-add being two; counted from the compute capability 8.0 on."""

ALL = (*TIME, *DRAM_READ, *DRAM_WRITE, *L2, *L1, *chain(*VECTOR.values()), TENSOR_INSTRUCTIONS, *TENSOR_FLOP)
"""Every metric that is read."""

PREFIX = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SECOND = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
LONG_SECOND = {"nsecond": "ns", "usecond": "us", "msecond": "ms", "second": "s"}


class CountedKernel(NamedTuple):
    """The counters of one kernel, in one step: as in ``KernelCounters``."""

    kernel: str
    calls: int
    time_s: float
    dram_read_byte: float | None
    dram_write_byte: float | None
    l2_byte: float | None
    l1_byte: float | None
    fp64_flop: float | None
    fp32_flop: float | None
    fp16_flop: float | None
    tensor_flop: float | None
    tensor_instruction: float | None


class Counted(NamedTuple):
    """The kernels of a table, the compute capability of the GPU, and why the FLOP of tensor cores are not known."""

    kernels: tuple[CountedKernel, ...]
    capability: str | None
    tensor_gap: str | None


Launch = dict[str, float]
"""The metrics of one launch, in base units."""


def parse(lines: Iterable[str], name: str, steps: int) -> Counted:
    """Return the kernels, as means of so many steps, as they were first launched.

    Raises UserError that names the file (``name``) where it holds no such table, or a cell that cannot be read.
    """
    header, units, *rows = _table(lines, name)
    if KERNEL not in header or TIME[0] not in header:
        raise UserError(
            f"{name}: this is not a table with the columns {KERNEL!r} and {TIME[0]!r}; add --metrics {TIME[0]} to ncu"
        )
    unit_of = dict(zip(header, units, strict=True))
    lines_of = [dict(zip(header, row, strict=True)) for row in rows]
    by_kernel: dict[str, list[Launch]] = {}
    for number, cells in enumerate(lines_of, 1):
        by_kernel.setdefault(cells[KERNEL], []).append(_launch(cells, unit_of, name, number))
    capability = lines_of[0].get(CAPABILITY) or None
    kernels = tuple(_counted(kernel, launches, capability, steps) for kernel, launches in by_kernel.items())
    return Counted(kernels, capability, tensor_gap(kernels, capability))


def _table(lines: Iterable[str], name: str) -> list[list[str]]:
    """Return the header, the units and the rows."""
    said = [line for line in lines if line.strip() and not line.startswith("==")]
    table = list(csv.reader(dropwhile(lambda line: not re.match('"?ID"?,', line), said)))
    if table and DETAILS in table[0]:
        raise UserError(f"{name}: this is the page of details; export it with ncu --csv --page raw")
    if len(table) < 3 or table[1][0]:
        raise UserError(
            f"{name}: holds no kernel; export it with ncu --csv --page raw, which writes a line that begins with "
            '"ID", a line of units and a line a kernel'
        )
    for number, row in enumerate(table[1:]):
        if len(row) != len(table[0]):
            what = f"kernel {number}" if number else "the line of units"
            raise UserError(
                f"{name}: {what} has {len(row)} cells where the header has {len(table[0])}; export it again"
            )
    return table


def _launch(cells: dict[str, str], units: dict[str, str], name: str, number: int) -> Launch:
    """Return the metrics of one line that are read here, those that the GPU has."""
    launch = {}
    for metric in ALL:
        text = cells.get(metric, "").strip()
        if text and not text.startswith(("n/a", "(!)")):
            try:
                launch[metric] = float(text.replace(",", "")) * _size(units[metric])
            except ValueError:
                raise UserError(
                    f"{name}: kernel {number}, column {metric}: {text!r} in {units[metric]!r} cannot be read; export "
                    "it with --print-units base, in an English locale (LC_ALL=C)"
                ) from None
    if TIME[0] not in launch:
        raise UserError(f"{name}: kernel {number} has no {TIME[0]}; count it again with ncu")
    return launch


def _size(unit: str) -> float:
    """Return the size of a unit in seconds, bytes or ones. Raises ValueError for another one."""
    unit = LONG_SECOND.get(unit, unit)
    if unit in SECOND:
        return SECOND[unit]
    match = re.fullmatch(r"([KMGT]?)(byte|inst|ops?|)", unit)
    if not match:
        raise ValueError(unit)
    return PREFIX[match[1]]


def _counted(kernel: str, launches: Sequence[Launch], capability: str | None, steps: int) -> CountedKernel:
    def mean(names: Sequence[str]) -> float | None:
        """Return the sum over launches of the first metric that all have."""
        known = next((name for name in names if all(name in launch for launch in launches)), None)
        return None if known is None else math.fsum(launch[known] for launch in launches) / steps

    def flop(weights: dict[str, int]) -> float | None:
        executed = {name: count for name in weights if (count := mean([name])) is not None}
        if len(executed) < len(weights):
            return None
        return math.fsum(count * weights[name] for name, count in executed.items())

    fp64_flop, fp32_flop, fp16_flop = map(flop, VECTOR.values())
    instructions = mean([TENSOR_INSTRUCTIONS])
    time_s = mean(TIME)
    assert time_s is not None
    operations = [value for name in TENSOR_FLOP if (value := mean([name])) is not None]
    return CountedKernel(
        kernel=kernel,
        calls=round(len(launches) / steps),
        time_s=time_s,
        dram_read_byte=mean(DRAM_READ),
        dram_write_byte=mean(DRAM_WRITE),
        l2_byte=mean(L2),
        l1_byte=mean(L1),
        fp64_flop=fp64_flop,
        fp32_flop=fp32_flop,
        fp16_flop=fp16_flop,
        tensor_flop=_tensor_flop(operations, instructions, capability),
        tensor_instruction=instructions,
    )


def _tensor_flop(operations: Sequence[float], instructions: float | None, capability: str | None) -> float | None:
    """Return the FLOP of tensor cores: none without instructions, else counted, else by what each instruction does."""
    if instructions == 0:
        return 0.0
    if operations:
        return math.fsum(operations)
    each = FLOP_PER_INSTRUCTION.get(capability or "")
    return None if each is None or instructions is None else instructions * each


def tensor_gap(kernels: Iterable[CountedKernel], capability: str | None) -> str | None:
    """Say why the FLOP of tensor cores are not known of some kernels; None where they are known of all."""
    unknown = [kernel for kernel in kernels if kernel.tensor_flop is None]
    if not unknown:
        return None
    if any(kernel.tensor_instruction is None for kernel in unknown):
        return "the instructions of tensor cores were not counted"
    return (
        f"the GPU, of compute capability {capability or 'unknown'}, counts the instructions of its tensor cores, but "
        "not their operations, and one instruction may be of several sizes"
    )
