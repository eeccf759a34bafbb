"""Parse the CSV of Nsight Compute (``ncu --csv``): with ``--page raw`` a line per launch of a kernel and a column per
metric, else a line per metric of a launch.

The program's own output and lines that begin with ``==`` precede the table. On the raw page the line below the header
holds the units. Numbers must be English. A metric that the GPU lacks is ``n/a`` or has no column. Source of the
metrics: NVIDIA, Nsight Compute Profiling Guide.

Metrics of tensor cores overlap, so they are not simply added: each counts everything that its name leaves open. The
list depends on the GPU and on ncu's version: ``src_bf16_dst_fp32``, or its ``sparsity_off`` and ``sparsity_on``, or all
three. On Hopper a product uses ``op_hmma_src_...`` or ``op_hgmma_src_...``. A multiply-add is two operations.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, dropwhile
from math import fsum, inf
from typing import NamedTuple

from measure.domain.schema import MOST
from measure.domain.words import FLOP_PER_INSTRUCTION
from measure.errors import UserError, quote

KERNEL, CAPABILITY = "Kernel Name", "CC"  # columns that describe a line
LONG = ("Metric Name", "Metric Unit", "Metric Value")  # columns of a line per metric
LONGEST_NAME = 4000  # characters kept of a kernel's name: no cell of a contributed table may have more

TIME = "gpu__time_duration.sum"
RENAMED = [(f"dram__bytes_{way}.sum", f"dram__bytes_op_{way}.sum") for way in ("read", "write")]  # old and new name
DRAM = "dram__bytes.sum"  # both ways
L2, L1, TENSOR_INSTRUCTIONS = "lts__t_bytes.sum", "l1tex__t_bytes.sum", "sm__inst_executed_pipe_tensor.sum"
# HFMA2.MMA, which compilers use to write constants, passes the tensor cores' pipe without a product of matrices.
NO_PRODUCTS = "sm__inst_executed_pipe_tensor_op_hmma_type_hfma2.sum"

# The FLOP of each instruction of a thread, by precision. A packed fp16 instruction, twice the work, counts as one.
INSTRUCTIONS, FLOP = "sass_thread_inst_executed_op", {"add": 1, "mul": 1, "fma": 2}
VECTOR = [
    {f"sm__{INSTRUCTIONS}_{letter}{operation}_pred_on.sum": flop for operation, flop in FLOP.items()}
    for letter in ("d", "f", "h")  # fp64, fp32, fp16
]
HALF_FMA, WARP = f"sm__{INSTRUCTIONS}_hfma_pred_on.sum", 32  # counts threads; the pipe's instructions are of a warp
# Packed fp32 instructions of Blackwell: ncu's rules request these names at the compute capabilities 10.0 and 10.3.
PACKED = {f"smsp__{INSTRUCTIONS}_f{operation}2_pred_on.sum": 2 * flop for operation, flop in FLOP.items()}

OPTIONAL = {*(new for _, new in RENAMED), *PACKED, NO_PRODUCTS}  # some GPUs lack them: requested only if ncu lists them
FIXED = (TIME, *chain(*RENAMED), L2, L1, *chain(*VECTOR), *PACKED, TENSOR_INSTRUCTIONS, NO_PRODUCTS)  # no tensor_kinds
READ = (*FIXED, DRAM)

TENSOR_OPERATIONS = re.compile(
    r"sm__ops_path_tensor(?:_op_([a-z]+))?"
    r"_src_([a-z]+[0-9]+(?:_[a-z]+[0-9]+)*)(?:_dst_([a-z]+[0-9]+))?(?:_sparsity_(off|on))?(?:\.sum)?"
)
NUMBER = re.compile(r"([0-9]+|[0-9]{1,3}(,[0-9]{3})+)(\.[0-9]+)?(e[+-]?[0-9]+)?", re.IGNORECASE)
AMBIGUOUS = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")  # ncu writes by the locale: 1.000 is a German thousand

PREFIXES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
SECONDS = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
UNITS = {prefix + unit: size for prefix, size in PREFIXES.items() for unit in ("", "byte", "inst", "op", "ops")}
UNITS |= {prefix + unit: size for prefix, size in SECONDS.items() for unit in ("s", "second")}

TensorKinds = tuple[frozenset[str] | None, ...]  # instructions, sources, destinations and sparsity; None for all


class CountedKernel(NamedTuple):
    """The counters of a kernel in one step; the fields are columns of ``KernelCounters``."""

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
    dram_byte: float | None = None  # both ways, where the two are not known


@dataclass(frozen=True)
class CountedCell:
    """The kernels of a cell as means of ``steps`` steps, and the tool that counted them."""

    steps: int
    tool: str
    kernels: tuple[CountedKernel, ...]
    capability: str | None  # the GPU's compute capability
    tensor_gap: str | None  # why the FLOP of tensor cores are unknown for some kernels, if they are
    missing: tuple[str, ...] = ()  # metrics of all GPUs that no launch has
    uneven: str | None = None  # a kernel with a number of launches that ``steps`` does not divide


def parse(lines: Iterable[str], name: str, steps: int, tool: str) -> CountedCell:
    """Return the kernels in the order of their first launch.

    Raises UserError, which begins with ``name``, if there is no such table or a cell cannot be read.
    """
    lines = list(lines)
    table = [line for line in lines if line.strip() and not line.startswith("==")]
    table = [*dropwhile(lambda line: not _is_header(line), table)]
    try:
        rows = list(csv.DictReader(table))
    except csv.Error:  # a cell of over 128 KiB
        rows = []
    is_long = bool(rows) and rows[0].keys() >= {*LONG}
    if not is_long and (len(rows) < 2 or rows[0]["ID"]):
        errors = [line.removeprefix("==ERROR==").strip() for line in lines if line.startswith("==ERROR==")]
        problem = f"ncu failed: {quote(errors[-1])}" if errors else "no table of kernels"
        raise UserError(f"{name}: {problem}; export it with ncu --csv --page raw and --metrics {TIME}")
    units = {} if is_long else rows.pop(0)
    if None in units.values():
        line = lines.index(table[1]) + 1
        raise UserError(f"{name}, line {line}: units are missing for some columns of the header; export it again")
    kernels = _join_metrics(rows, units, name) if is_long else rows
    _check_locale(kernels, name)
    launches = []
    for number, row in enumerate(kernels, 1):
        place = f"{name}: kernel {number}"
        is_whole = None not in row and None not in row.values()
        launch = _read_launch(row, units, place) if is_whole else {}
        if TIME not in launch or not row[KERNEL].strip():
            needed = f"{len(units)} cells" if not is_long else "its metrics"
            raise UserError(f"{place} is incomplete: it needs a name, {TIME} and {needed}; export it again")
        launches.append((row[KERNEL], launch))
    return summarise(launches, kernels[0].get(CAPABILITY) or None, steps, tool)


def _is_header(line: str) -> bool:
    # The program's own output may begin with "ID," too.
    names = set(next(csv.reader([line]))) if re.match('"?ID"?,', line) else set()
    return KERNEL in names and (TIME in names or names >= {*LONG})


def _join_metrics(rows: Iterable[dict[str, str]], units: dict[str, str], name: str) -> list[dict[str, str]]:
    """Return a row per launch, with a column per metric, from a row per metric; add the units to ``units``."""
    launches: dict[str, dict[str, str]] = {}
    for row in rows:
        metric, unit, value = (row[column] or "" for column in LONG)
        if not is_read(metric):
            continue  # another metric, or a line of advice
        if units.setdefault(metric, unit) != unit:
            raise UserError(f"{name}: {metric} has several units; export it with --print-units base")
        described = {column: row[column] or "" for column in (KERNEL, CAPABILITY) if column in row}
        launches.setdefault(row["ID"], described)[metric] = value
    if not launches:
        raise UserError(f"{name}: none of its metrics is read here; export it with --metrics {TIME}, and the others")
    return list(launches.values())


def _check_locale(rows: Iterable[Mapping[str, str]], name: str) -> None:
    """Raise UserError if ``1.000`` may be a thousand: no other number with a point or comma is surely English."""
    texts = [text.strip() for row in rows for metric, text in row.items() if metric and text and is_read(metric)]
    marked = [text for text in texts if re.search("[.,]", text) and NUMBER.fullmatch(text)]
    german = next((text for text in marked if "." in text), None)
    if german and all(map(AMBIGUOUS.fullmatch, marked)):
        remedy = "export it in an English locale (LC_ALL=C), or name the .ncu-rep"
        raise UserError(f"{name}: {german!r} is {german.replace('.', '')} in some locales; {remedy}")


def summarise(
    launches: Iterable[tuple[str, Mapping[str, float]]], capability: str | None, steps: int, tool: str
) -> CountedCell:
    """Return the kernels, in the order of their first launch, from the name and metrics (base units) of each launch."""
    by_kernel: dict[str, list[Mapping[str, float]]] = {}
    for kernel, launch in launches:
        by_kernel.setdefault(kernel[:LONGEST_NAME], []).append(launch)
    kernels = tuple(_kernel(name, each, capability, steps) for name, each in by_kernel.items())
    counted = {name for each in by_kernel.values() for launch in each for name in launch}
    whole = set() if DRAM in counted else {old for old, new in RENAMED if new not in counted}
    missing = (whole | {L2, L1, *chain(*VECTOR), TENSOR_INSTRUCTIONS}) - counted
    gap = f"the GPU (compute capability {capability or 'unknown'}) does not count every operation of its tensor cores"
    if TENSOR_INSTRUCTIONS in missing and not any(map(tensor_kinds, counted)):
        gap = f"{TENSOR_INSTRUCTIONS} was not counted, nor the operations of tensor cores"
    has_gap = any(kernel.tensor_flop is None for kernel in kernels)
    uneven = next((name for name, each in by_kernel.items() if len(each) % steps), None)
    return CountedCell(steps, tool, kernels, capability, gap if has_gap else None, tuple(sorted(missing)), uneven)


def _read_launch(row: Mapping[str, str], units: Mapping[str, str], place: str) -> dict[str, float]:
    """Return the metrics of one line that the GPU has, in base units."""
    launch = {}
    for metric in filter(is_read, row):
        text, unit = row[metric].strip(), units[metric]
        if text and not text.startswith(("n/a", "(!)")):
            is_number = unit in UNITS and NUMBER.fullmatch(text)
            launch[metric] = float(text.replace(",", "")) * UNITS[unit] if is_number else inf
            if launch[metric] > MOST:
                remedy = "export it with --print-units base, in an English locale (LC_ALL=C)"
                raise UserError(f"{place}, column {metric}: {quote(text)} in {quote(unit)} cannot be read; {remedy}")
    return launch


def _kernel(kernel: str, launches: Sequence[Mapping[str, float]], capability: str | None, steps: int) -> CountedKernel:
    common = [name for name in launches[0] if all(name in launch for launch in launches)]
    means = {name: fsum(launch[name] for launch in launches) / steps for name in common}

    def flop(weights: Mapping[str, int]) -> float | None:
        is_complete = weights.keys() <= means.keys()
        return fsum(means[name] * each for name, each in weights.items()) if is_complete else None

    fp64_flop, fp32_flop, fp16_flop = map(flop, VECTOR)
    if fp32_flop is not None:
        fp32_flop += fsum(means.get(name, 0.0) * each for name, each in PACKED.items())
    if TENSOR_INSTRUCTIONS in means:
        means[TENSOR_INSTRUCTIONS] -= means.get(NO_PRODUCTS, 0.0)
        # Hopper has no such metric. Each HFMA2.MMA is also counted as a multiply-add of its 32 threads in fp16: where
        # those explain all of the pipe's instructions, and no operation was counted, they only wrote constants.
        constants, fma = means[TENSOR_INSTRUCTIONS], means.get(HALF_FMA, 0.0)
        is_explained = NO_PRODUCTS not in means and 0 < constants <= fma / WARP
        if is_explained and any(map(tensor_kinds, means)) and not sum_tensor_operations(means):
            means[TENSOR_INSTRUCTIONS] = 0.0
            if fp16_flop is not None:
                fp16_flop -= FLOP["fma"] * WARP * constants
    calls = max(1, round(len(launches) / steps))
    dram_read_byte, dram_write_byte = (means.get(old, means.get(new)) for old, new in RENAMED)
    return CountedKernel(
        kernel, calls, means[TIME], dram_read_byte, dram_write_byte, means.get(L2), means.get(L1),
        fp64_flop, fp32_flop, fp16_flop, _tensor_flop(means, capability), means.get(TENSOR_INSTRUCTIONS),
        means.get(DRAM) if None in (dram_read_byte, dram_write_byte) else None,
    )  # fmt: skip


@cache
def tensor_kinds(metric: str) -> TensorKinds | None:
    """Return which operations of tensor cores a metric counts; None if none in floating point."""
    match = TENSOR_OPERATIONS.fullmatch(metric)
    if not match or "int" in match[2]:
        return None
    return tuple(None if part is None else frozenset(part.split("_")) for part in match.groups())


def is_read(metric: str) -> bool:
    return metric in READ or tensor_kinds(metric) is not None


def _tensor_flop(means: Mapping[str, float], capability: str | None) -> float | None:
    """Return the counted operations, else the instructions times the FLOP of one; None if unknown."""
    instructions = means.get(TENSOR_INSTRUCTIONS)
    if instructions == 0:
        return 0.0
    if any(map(tensor_kinds, means)):
        operations = sum_tensor_operations(means)
        return operations if operations or not instructions else None  # instructions that no metric sees
    each = FLOP_PER_INSTRUCTION.get(capability or "")
    return None if each is None or instructions is None else instructions * each


def sum_tensor_operations(counts: Mapping[str, float]) -> float:
    """Return the operations that metrics counted, each once.

    The largest of overlapping metrics counts: it is the whole, or the others miss some instruction.
    """
    taken: list[TensorKinds] = []
    operations = 0.0
    for metric, count in sorted(counts.items(), key=lambda item: item[1], reverse=True):
        kinds = tensor_kinds(metric)
        if kinds is not None and not any(
            all(this is None or that is None or this & that for this, that in zip(kinds, other, strict=True))
            for other in taken
        ):
            taken.append(kinds)
            operations += count
    return operations
