"""Reads what Nsight Compute writes as CSV (``ncu --csv --page raw``): a line a launch of a kernel, a column a metric.

Above the table stand the program's own output and lines that begin with ``==``; below its header a line holds the unit
of each column. Numbers are English: commas between thousands, a point before the decimals; others are refused, since
``1,5`` would be 15. A metric that the GPU does not have is ``n/a``, or has no column.
The metrics are described in NVIDIA's Nsight Compute Profiling Guide.

The operations of tensor cores, from metrics of which one may count as a whole what others count in parts.

A metric is named after what it counts: ``sm__ops_path_tensor``, then perhaps the instruction (``_op_hgmma``), the
sources and perhaps the destination (``_src_bf16_dst_fp32``), and perhaps whether the sources are sparse
(``_sparsity_off``). It counts whatever its name leaves open. What ncu lists depends on the GPU and on its own version:
``src_bf16_dst_fp32``, or its ``sparsity_off`` and ``sparsity_on``, or all three; on Hopper ``op_hmma_src_...`` and
``op_hgmma_src_...`` as well, of which a product uses one. A multiply-add is two operations.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, dropwhile
from typing import NamedTuple

from measure.cache.schema import MOST, SHOWN
from measure.domain.words import FLOP_PER_INSTRUCTION
from measure.errors import UserError

NAME = re.compile(
    r"sm__ops_path_tensor(?:_op_([a-z]+))?"
    r"_src_([a-z]+[0-9]+(?:_[a-z]+[0-9]+)*)(?:_dst_([a-z]+[0-9]+))?(?:_sparsity_(off|on))?"
)

Kinds = tuple[frozenset[str] | None, ...]
"""The instructions, sources, destinations and sparsity that a metric counts; None: whatever they are."""


@cache
def kinds(metric: str) -> Kinds | None:
    """Return which operations a metric counts; None for one that counts no floating-point operations of tensor cores.

    Integers are counted by metrics of their own, in which they are the source.
    """
    match = NAME.fullmatch(metric.removesuffix(".sum"))
    if not match or "int" in match[2]:
        return None
    return tuple(None if part is None else frozenset(part.split("_")) for part in match.groups())


def total(counted: Mapping[str, float]) -> float:
    """Return the operations that metrics counted, by their names, and none twice.

    Of metrics that may have counted the same operation the one with most is taken: it is the whole, or the others do
    not see some instruction.
    """
    taken: list[Kinds] = []
    operations = 0.0
    for metric, count in sorted(counted.items(), key=lambda item: item[1], reverse=True):
        counts = kinds(metric)
        if counts is not None and not any(_overlap(counts, other) for other in taken):
            taken.append(counts)
            operations += count
    return operations


def _overlap(one: Kinds, other: Kinds) -> bool:
    """Return whether an operation may be counted by both."""
    return all(this is None or that is None or this & that for this, that in zip(one, other, strict=True))


KERNEL, CAPABILITY, DETAILS = "Kernel Name", "CC", "Metric Name"
"""Columns of what a line is about; only the page of details, which has a line for each metric, has the last."""

TIME = ("gpu__time_duration.sum",)
DRAM_READ = ("dram__bytes_read.sum", "dram__bytes_op_read.sum")
DRAM_WRITE = ("dram__bytes_write.sum", "dram__bytes_op_write.sum")
L2, L1 = ("lts__t_bytes.sum",), ("l1tex__t_bytes.sum",)
"""A metric under the names that it has had: the first that a GPU has is taken."""

INSTRUCTIONS = "sass_thread_inst_executed_op"
OPERATIONS = (("add", 1), ("mul", 1), ("fma", 2))
"""What a thread does with one instruction, and how many FLOP that is."""

VECTOR = {
    precision: {f"sm__{INSTRUCTIONS}_{letter}{operation}_pred_on.sum": flop for operation, flop in OPERATIONS}
    for precision, letter in (("fp64", "d"), ("fp32", "f"), ("fp16", "h"))
}
"""By precision, the FLOP that each instruction of a thread is counted with. A packed instruction at fp16, which does
the work of two, is counted as one."""

PACKED = {f"smsp__{INSTRUCTIONS}_f{operation}2_pred_on.sum": 2 * flop for operation, flop in OPERATIONS}
"""Likewise of the instructions at fp32 that do the work of two. Blackwell has them: the rules that come with Nsight
Compute ask for them at the compute capabilities 10.0 and 10.3, under these names."""

TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"

NAMED = (*TIME, *DRAM_READ, *DRAM_WRITE, *L2, *L1, *chain(*VECTOR.values()), *PACKED, TENSOR_INSTRUCTIONS)
"""The metrics that are read under names known here; beside them those of ``tensor_operations``."""

OPTIONAL = {*DRAM_READ[1:], *DRAM_WRITE[1:], *PACKED}
"""Those that some GPUs do not have, and are asked for where ncu lists them."""

NUMBER = re.compile(r"([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?(e[+-]?[0-9]+)?", re.IGNORECASE)

LONGEST_NAME = 4000
"""Characters of a kernel's name that are kept; of tables that are handed in no cell may have more."""

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
    unit_of = {metric: unit for metric, unit in zip(header, units, strict=True) if metric in NAMED or kinds(metric)}
    lines_of = [dict(zip(header, row, strict=True)) for row in rows]
    by_kernel: dict[str, list[Launch]] = {}
    for number, cells in enumerate(lines_of, 1):
        if not cells[KERNEL].strip():
            raise UserError(f"{name}: kernel {number} has no name in the column {KERNEL!r}; export it again")
        launches = by_kernel.setdefault(cells[KERNEL][:LONGEST_NAME], [])
        launches.append(_launch(cells, unit_of, name, number))
    capability = lines_of[0].get(CAPABILITY) or None
    kernels = tuple(_counted(kernel, launches, capability, steps) for kernel, launches in by_kernel.items())
    has_operations = any(map(kinds, unit_of))
    return Counted(kernels, capability, tensor_gap(kernels, capability, has_operations))


def _table(lines: Iterable[str], name: str) -> list[list[str]]:
    """Return the header, the units and the rows."""
    said = [line for line in lines if line.strip() and not line.startswith("==")]
    try:
        table = list(csv.reader(dropwhile(lambda line: not re.match('"?ID"?,', line), said)))
    except csv.Error as problem:
        raise UserError(f"{name}: is no CSV ({problem}); export it again with ncu --csv --page raw") from None
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
    for metric, unit in units.items():
        text = cells[metric].strip()
        if text and not text.startswith(("n/a", "(!)")):
            try:
                launch[metric] = _value(text, unit)
            except ValueError:
                raise UserError(
                    f"{name}: kernel {number}, column {metric}: {text[:SHOWN]!r} in {unit!r} cannot be read; export "
                    "it with --print-units base, in an English locale (LC_ALL=C)"
                ) from None
    if TIME[0] not in launch:
        raise UserError(f"{name}: kernel {number} has no {TIME[0]}; count it again with ncu")
    return launch


def _value(text: str, unit: str) -> float:
    """Return the number that a cell holds in the base unit. Raises ValueError for what no table may hold."""
    if not NUMBER.fullmatch(text):
        raise ValueError(text)
    value = float(text.replace(",", "")) * _size(unit)
    if value > MOST:
        raise ValueError(text)
    return value


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

    def flop(weights: Mapping[str, int]) -> float | None:
        executed = {name: count for name in weights if (count := mean([name])) is not None}
        if len(executed) < len(weights):
            return None
        return math.fsum(count * weights[name] for name, count in executed.items())

    fp64_flop, fp32_flop, fp16_flop = map(flop, VECTOR.values())
    if fp32_flop is not None:
        fp32_flop += math.fsum((mean([name]) or 0.0) * each for name, each in PACKED.items())
    instructions = mean([TENSOR_INSTRUCTIONS])
    time_s = mean(TIME)
    assert time_s is not None
    operations = {name: count for name in launches[0] if kinds(name) and (count := mean([name])) is not None}
    return CountedKernel(
        kernel=kernel,
        calls=max(1, round(len(launches) / steps)),
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


def _tensor_flop(operations: Mapping[str, float], instructions: float | None, capability: str | None) -> float | None:
    """Return the FLOP of tensor cores: none without instructions, else counted, else by what each instruction does.

    Instructions whose operations were counted as none did some that no metric sees: how many is not known.
    """
    if instructions == 0:
        return 0.0
    if operations:
        done = total(operations)
        return done if done or not instructions else None
    each = FLOP_PER_INSTRUCTION.get(capability or "")
    return None if each is None or instructions is None else instructions * each


def tensor_gap(kernels: Iterable[CountedKernel], capability: str | None, has_operations: bool) -> str | None:
    """Say why the FLOP of tensor cores are not known of some kernels; None where they are known of all.

    ``has_operations`` tells whether their operations were among what was counted.
    """
    unknown = [kernel for kernel in kernels if kernel.tensor_flop is None]
    if not unknown:
        return None
    if any(kernel.tensor_instruction is None for kernel in unknown):
        return "the instructions of tensor cores were not counted"
    gpu = f"the GPU, of compute capability {capability or 'unknown'},"
    if has_operations:
        return f"{gpu} counts instructions of its tensor cores that no metric of their operations sees"
    return (
        f"{gpu} counts the instructions of its tensor cores, but not their operations, and one instruction may be of "
        "several sizes"
    )
