"""Traces of torch.profiler: ``measure import-trace`` and ``measure trace``."""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from measure.cache.project import read_both
from measure.cache.traces import StoredTrace, read_trace
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.collectives import collective_times, matched_share
from measure.domain.roofs import Roof
from measure.domain.step_parts import ARITHMETIC, StepPart, difference, step_parts
from measure.domain.trace_records import COMMUNICATION, LAYOUT, TraceDevice, TraceOperator
from measure.domain.values import latency, percent, plain, si
from measure.errors import UserError, as_called, one_line, quote
from measure.published.records import Chip
from measure.verbs.compared import term_rows
from measure.verbs.flags import Verbs, add_formats, add_verb, check_writable, parse_count
from measure.verbs.terminal import Line, Table, aligned, markdown, text
from roofwright.command_line import data_flag

if TYPE_CHECKING:
    from measure.traces.summary import TraceSummary

MOST_LISTED = 8  # operators without counts that the text names
LONGEST_NAME = 100
NUMBERS = ("calls", "time", "share", "idle before", "FLOP/s", "B/s", "of the roof", "A", "B", "B/A", "term")
# A compiler fuses them, and saves their memory traffic
FUSED = ("pointwise", "normalisation", "activation", "reduction", "copy")
MATERIALISED = ("_softmax", "bmm", "baddbmm")  # attention that writes its scores to memory
KIND = attrgetter("kind")
GAP, PART, CONVERSIONS = 0.2, 0.25, 0.05  # the least idle time, part and conversions of a step for a remedy
IDLE = (
    "The device is idle for {} of the step: it waits for the host. Try CUDA graphs, "
    "torch.compile(mode='reduce-overhead') or a larger batch."
)
ATTENTION = (
    "Attention as separate products and softmax takes {} of the kernels' time: it writes its scores to memory. Try "
    "scaled_dot_product_attention."
)
UNFUSED = "Operators that a compiler fuses take {} of the kernels' time. Try torch.compile."
FEWER = "The algorithm needs fewer FLOP than direct convolution, which is what counts."
CACHED = "A cache serves some of the bytes."
FASTER = "The datasheet's peak does not hold for it."
CONVERTED = (
    "Conversions between layouts take {} of the kernels' time: the library computes in another order of axes than the "
    "tensors have. Try model.to(memory_format=torch.channels_last), and the same for its input."
)
WAITING = (
    "Collectives take {} of the kernels' time, with the wait for other ranks. Import the traces of all ranks together, "
    "which tells the two apart; try a larger batch on each device."
)
UNEVEN = (
    "Ranks wait for each other for {} of the kernels' time. The rank with the shortest wait holds the others up: find "
    "what delays it, or give each the same work."
)
TRANSFER = "Collectives transfer for {} of the kernels' time. Try a larger batch on each device."


def add_verbs(verbs: Verbs) -> None:
    add = add_verb(verbs, "import-trace", import_traces).add_argument
    about = "traces as torch.profiler exports them, JSON or gzip; of several ranks together, or merged into one"
    add("files", nargs="+", metavar="FILE", help=about)
    add("--chip", metavar="NAME", help="the chip, as in data/chips.csv (default: by the driver's name in the trace)")
    about = "the network's name (default: as in the trace, if it has one)"
    add("--name", type=_parse_name, metavar="NETWORK", help=about)
    add("--source", type=_parse_name, metavar="TEXT", help="where the trace was published")
    add("--licence", type=_parse_name, metavar="TEXT", help="its licence there")
    about = "traces of the captures of the CUDA graphs that FILE replays: they have the operators of its kernels"
    add("--captured-by", nargs="+", default=[], metavar="FILE", help=about)
    add("--plan", action="store_true", help="print the findings, and store nothing")
    add("--json", action="store_true", help="print a JSON object a trace, each on a line of its own (docs/json.md)")
    flags = add_verb(verbs, "trace", print_trace)
    flags.for_more = "measure compare A B"
    flags.add_argument("name", metavar="NAME", help="an imported trace, by its folder in data/traces")
    about = "the number of operators to list (default: %(default)s)"
    flags.add_argument("--operators", type=parse_count, default=10, metavar="N", help=about)
    add_formats(flags, {"--json": "print JSON (docs/json.md)", "--markdown": "print Markdown"})


def _parse_name(text: str) -> str:
    if text != one_line(text) or len(text) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"{quote(text)} is not a name; use a line of at most {LONGEST_NAME} characters"
        )
    return text


def import_traces(flags: argparse.Namespace) -> int:
    """Import traces of torch.profiler, recorded on any GPU: where the time of a step goes, operator by operator
    (docs/traces.md). Recorded with record_shapes=True they have FLOP and bytes too. Of a trace only names, shapes and
    times are stored.
    """
    from measure.traces import reading, replays, store
    from measure.traces.summary import summarise  # late: it imports torch

    if len(set(flags.files)) < len(flags.files):
        raise UserError("FILE: the same file is named twice; name each once")
    chips = store.chip_names(flags.data)
    chip = None if flags.chip is None else store.chosen_chip(flags.chip, chips)
    labels = store.TraceLabels(chip, flags.name, flags.source, flags.licence)
    if not flags.plan:
        check_writable(flags.data)
    folders: dict[Path, None] = {}  # of several ranks one
    for trace in (trace for name in flags.files for trace in reading.read(Path(name))):
        if flags.captured_by:
            replays.join(trace, [capture for name in flags.captured_by for capture in reading.read(Path(name))])
        found = summarise(trace)
        devices = store.device_rows(found, chips, labels)
        rows = store.TraceRows(devices, found.steps, found.operators, found.collectives)
        folder = None if flags.plan else store.put(flags.data, rows)
        if folder is not None:
            folders[folder] = None
        if flags.json:
            print(json.dumps(import_as_json(found, devices, folder), allow_nan=False))
        else:
            print("\n".join(import_lines(found, devices, folder)))
    if not flags.json:
        for folder in folders:
            print(f"Next: {as_called('measure trace')} {folder.name}{data_flag(flags.data)}")
    return 0


def import_as_json(found: "TraceSummary", devices: list[TraceDevice], folder: Path | None) -> dict[str, Any]:
    """Return the keys of ``docs/json.md``."""
    of_device = "chip", "device_name", "network", "rank", "world_size", "torch"
    of_trace = "kernels", "kernel_time_s", "operator_share", "counted_share"
    return {
        "file": str(found.trace.path),
        "folder": None if folder is None else str(folder),
        "devices": len(devices),
        **{name: getattr(devices[0], name) for name in of_device},
        "steps": found.step_count,
        **{name: getattr(found, name) for name in of_trace},
        **{name: found.of_a_step(name) for name in ("flop", "other_flop", "recompute_flop")},
        "kinds": found.by_kind(),
        "without_counts": found.left_out(),
        "left_out": dict(found.trace.left_out),
    }


def import_lines(found: "TraceSummary", devices: list[TraceDevice], folder: Path | None) -> list[str]:
    from measure.traces.matching import BEFORE, UNMATCHED

    first, trace = devices[0], found.trace
    chip = first.chip or (first.device_name and f"{first.device_name} (not in data/chips.csv; name it with --chip)")
    rank = f", rank {first.rank} of {first.world_size}" if first.world_size > 1 else ""
    several = f" ({len(devices)} devices)" if len(devices) > 1 else ""
    network = first.network or "unnamed network (name it with --name)"
    unknown = "an unknown chip" + (" (name it with --chip)" if trace.work else "")
    head = f"{network} on {chip or unknown}{several}{rank}"
    steps = f"{found.step_count} step{'s' if found.step_count != 1 else ''}"
    result = [head, f"{steps}, {found.kernels} kernels, {latency(found.kernel_time_s)} of kernels in all"]
    if found.kernels:
        operator, counted = (percent(share or 0.0) for share in (found.operator_share, found.counted_share))
        counts = f" and {counted} is counted" if trace.has_shapes else ""
        result.append(f"of the kernels' time {operator} found its operator{counts}")
    elif trace.work:
        result.append("no kernels, only copies and fills of memory")
    else:
        result.append("no kernels: the times are the host's")
    if trace.has_shapes:
        work = [si(found.of_a_step(name), "FLOP") for name in ("flop", "other_flop", "recompute_flop")]
        parts = f"{work[0]} of products, convolutions and attention, {work[1]} of others, {work[2]} recomputed"
        result.append(f"a step: {parts}")
    else:
        result.append("no FLOP or bytes: the trace records no shapes; record it with record_shapes=True to count them")
    kinds = found.by_kind()
    result += ["", *_times("kind, in a step", kinds, sum(kinds.values()))]
    if found.outside_s:
        result.append(f"and {latency(found.outside_s)} of kernels that no step launched")
    left = {reason: time_s for reason, time_s in found.left_out().items() if time_s}
    if not trace.has_shapes:
        left = {reason: time_s for reason, time_s in left.items() if reason in UNMATCHED}
    if left:
        total_s = sum(row.time_s for row in found.operators)
        result += ["", *_times("without counts, in all", dict(list(left.items())[:MOST_LISTED]), total_s)]
        if len(left) > MOST_LISTED:
            result.append(f"and {len(left) - MOST_LISTED} more, {latency(sum(list(left.values())[MOST_LISTED:]))}")
        if BEFORE in left:
            result.append("The GPU still ran an earlier step as the recording began: synchronise before each step.")
    result += [f"left out: {number} {reason}" for reason, number in trace.left_out.items()]
    return [*result, "" if folder is None else f"into {folder}"]


def _times(head: str, times_s: Mapping[str, float], total_s: float) -> list[str]:
    rows = [(name, latency(time_s), percent(time_s / total_s)) for name, time_s in times_s.items() if time_s]
    return aligned([(head, "time", "share"), *rows], ("time", "share")) if rows else []


def print_trace(flags: argparse.Namespace) -> int:
    """Print an imported trace: where the time of a step goes by kind of layer and by operator, how far that is from the
    chip's roof, and a first thing to try. To hold two traces against each other, use compare.
    """
    trace = read_stepped(flags.data, flags.name)
    roof = _roof(flags.data, trace)
    if flags.json:
        print(json.dumps(as_json(trace, roof), indent=2, allow_nan=False))
    else:
        print("\n".join(lines(trace, roof, markdown if flags.markdown else aligned, flags.operators)))
    return 0


def read_stepped(data: Path, name: str) -> StoredTrace:
    """Return a trace with work in its steps. Raises UserError for another."""
    trace = read_trace(data, name)
    if not any(row.time_s for row in trace.operators if row.step is not None):
        raise UserError(f"{trace.name}: nothing ran within its steps; export a trace of whole steps, and import it")
    return trace


def compared(data: Path, names: Sequence[str], show: Table | None) -> str:
    """Return two traces held against each other, as JSON without a kind of table.

    Raises UserError for a trace without work in its steps, and for a processor's with a GPU's.
    """
    traces = [read_stepped(data, name) for name in names]
    on_host = [not any(row.kernels for row in trace.operators) for trace in traces]
    if on_host[0] != on_host[1]:
        host, device = names if on_host[0] else names[::-1]
        raise UserError(f"{host} has the host's times and {device} a GPU's kernels; compare traces of one kind")
    if show is not None:
        return "\n".join(comparison_lines(traces, show))
    a, b = (as_json(trace, _roof(data, trace)) for trace in traces)
    kinds, operators = ([term._asdict() for term in terms] for terms in _terms(traces))
    return json.dumps({"a": a, "b": b, "kinds": kinds, "operators": operators}, indent=2, allow_nan=False)


def _roof(data: Path, trace: StoredTrace) -> Roof | None:
    chip = trace.devices[0].chip
    rows = rows_by_name(read_both(Chip, data)).get(fold_name(chip or ""))
    return datasheet_roof(rows) if rows else None


def _operator(row: TraceOperator) -> str:
    return row.operator or row.reason or ""


def _call(row: TraceOperator) -> str:
    what = f"{LAYOUT} in " if row.layer_kind == LAYOUT else ""
    return f"{what}{_operator(row)} {row.shape or ''}".rstrip() + (f" by {row.algorithm}" if row.algorithm else "")


def as_json(trace: StoredTrace, roof: Roof | None) -> dict[str, Any]:
    """Return the keys of ``docs/json.md``."""
    first = trace.devices[0]
    parts = {
        place: [asdict(part) | {"roof_share": part.roof_share, "bound": part.bound} for part in found]
        for place, found in (
            ("kinds", step_parts(trace.operators, roof, KIND)),
            ("operators", step_parts(trace.operators, roof, _call)),
        )
    }
    head = {"trace": trace.name, "network": first.network, "chip": first.chip}
    times = collective_times(trace.collectives)
    waits = {"collectives": [asdict(each) for each in times], "matched_share": matched_share(times)}
    return head | {"steps": [asdict(step) for step in trace.steps]} | parts | waits


def lines(trace: StoredTrace, roof: Roof | None, show: Table, most: int) -> list[str]:
    kinds, calls = (step_parts(trace.operators, roof, name) for name in (KIND, _call))
    total_s = sum(part.time_s for part in kinds)
    result = [trace.label, *_step_lines(trace), "", *_table("kind", kinds, total_s, show)]
    result += ["", *_table("operator", calls[:most], total_s, show), ""]
    left_s = sum(part.uncounted_s for part in kinds)
    if left_s:
        result.append(f"{percent(left_s / total_s)} of the kernels' time has no counts.")
    if not any(part.counted_s for part in kinds):
        result.append("Record the trace with record_shapes=True for FLOP, bytes and the distance to the roof.")
    elif roof is None:
        result.append("No roof: the chip is not known; import the trace again with --chip.")
    else:
        used = {row.precision for row in trace.operators if row.flop}
        peaks = [f"{si(peak, 'FLOP/s')} in {name}" for name, peak in roof.flop_per_s.items() if name in used]
        rates = [f"{si(roof.byte_per_s or 0.0, 'B/s')} from memory", *peaks]
        result.append(f"The roof is the datasheet's: {', '.join(rates)}.")
        if cached_s := sum(part.cached_s for part in kinds):
            held = f"{percent(cached_s / total_s)} of the time moves bytes that fit the cache of"
            result.append(f"{held} {si(roof.cache_byte or 0.0, 'B')}, whose bandwidth is unknown: it has no roof.")
        worst = max(calls, key=lambda part: part.loss_s)
        rows = f"{latency(worst.loss_s)} a step, {percent(worst.loss_s / total_s)} of the kernels' time"
        result.append(f"Largest loss: {worst.name} could be faster by {rows}.")
        result += _above_roof(trace, calls)
    return [*result, *_collective_lines(trace, show), *_remedies(trace, kinds, total_s)]


def _collective_lines(trace: StoredTrace, show: Table) -> list[str]:
    """Return what the collectives of each rank send, transfer and wait in a step; of a single rank no wait."""
    times = collective_times(trace.collectives)
    if not times:
        return []
    head = ("rank", "collectives", "size", "transfer", "wait", "unmatched", "exposed", "bus")
    rows: list[Line] = [head]
    for each in times:
        size = "" if each.byte is None else si(each.byte, "B")
        spent = text(each.transfer_s, latency), text(each.wait_s, latency)
        left = latency(each.unmatched_s) if each.unmatched_s else ""
        bus = "" if each.bus_byte_per_s is None else si(each.bus_byte_per_s, "B/s")
        rows.append((str(each.rank), plain(each.calls), size, *spent, left, text(each.exposed_s, latency), bus))
    lines = ["", *show(rows, head)]
    if (share := matched_share(times)) is not None:
        lines.append(f"{percent(share)} of the collectives' time is matched between the ranks.")
    ran, here = trace.devices[0].world_size, len({row.rank for row in trace.devices})
    if here < ran:
        if here == 1:
            lines.append(f"Of {ran} ranks only 1 is imported: transfer and wait are not told apart.")
        else:
            bounds = "the wait is at least this long, and the bus at least this fast"
            lines.append(f"Of {ran} ranks {here} are imported: {bounds}.")
        lines[-1] += " Import the others too."
    return lines


def _above_roof(trace: StoredTrace, calls: Sequence[StepPart]) -> list[str]:
    """Return a line for each reason why operators beat their roof, with the operator that beats it most."""
    by_algorithm = {_call(row) for row in trace.operators if row.algorithm}
    found: dict[str, list[StepPart]] = {}
    for part in calls:
        if (part.roof_share or 0.0) > 1.0:
            reason = FEWER if part.name in by_algorithm else FASTER if part.bound == ARITHMETIC else CACHED
            found.setdefault(reason, []).append(part)
    result = []
    for reason, parts in found.items():
        most = max(parts, key=lambda part: part.roof_share or 0.0)
        number = f"{len(parts)} operators" if len(parts) > 1 else "1 operator"
        result.append(f"Above the roof: {number}, up to {text(most.roof_share, percent)} ({most.name}). {reason}")
    return result


def _step_lines(trace: StoredTrace) -> list[str]:
    found = []
    for step in trace.steps:
        host = f"{latency(step.host_s)} on the host, " if step.host_s is not None else ""
        idle = percent(1 - step.busy_s / step.span_s) if step.span_s else "0 %"
        place = f" on device {step.device}" if len({each.device for each in trace.steps}) > 1 else ""
        found.append(f"step {step.step}{place}: {host}{latency(step.span_s)} on the device, {idle} of it idle")
    return found


def _table(head: str, parts: Sequence[StepPart], total_s: float, show: Table) -> list[str]:
    rows: list[Line] = [(head, "calls", "time", "share", "idle before", "FLOP/s", "B/s", "of the roof", "bound by")]
    for part in parts:
        rates = [
            si(amount / part.counted_s, unit) if amount and part.counted_s else ""
            for amount, unit in ((part.flop, "FLOP/s"), (part.byte, "B/s"))
        ]
        times = latency(part.time_s), percent(part.time_s / total_s) if total_s else "", latency(part.gap_s)
        calls = plain(part.calls) if part.calls else ""
        rows.append((part.name, calls, *times, *rates, text(part.roof_share, percent), part.bound or ""))
    return show(rows, NUMBERS)


def _remedies(trace: StoredTrace, kinds: Sequence[StepPart], total_s: float) -> list[str]:
    """Return remedies as hypotheses, for each loss that takes its least share of a step."""
    span_s = sum(step.span_s for step in trace.steps)
    idle = 1 - sum(step.busy_s for step in trace.steps) / span_s if span_s else 0.0
    attention_s = sum(part.time_s for part in step_parts(trace.operators, None, _operator) if part.name in MATERIALISED)
    fused_s = sum(part.time_s for part in kinds if part.name in FUSED and part.bound != ARITHMETIC)
    waiting_s = sum(part.time_s for part in kinds if part.name == COMMUNICATION)
    converted_s = sum(part.converted_s for part in kinds)
    losses = [(idle, GAP, IDLE)]
    if total_s:
        losses += [(attention_s / total_s, PART, ATTENTION), (converted_s / total_s, CONVERSIONS, CONVERTED)]
        losses.append((fused_s / total_s, PART, UNFUSED))
        times = collective_times(trace.collectives)
        if len(times) > 1:
            losses.append((fmean(each.wait_s or 0.0 for each in times) / total_s, PART, UNEVEN))
            losses.append((fmean(each.transfer_s or 0.0 for each in times) / total_s, PART, TRANSFER))
        else:
            losses.append((waiting_s / total_s, PART, WAITING))
    found = [remedy.format(percent(share)) for share, least, remedy in losses if share > least]
    return [f"{'Try first' if number == 0 else 'Then'}: {each}" for number, each in enumerate(found)]


def _terms(traces: Sequence[StoredTrace]) -> list[Any]:
    return [difference(*(step_parts(trace.operators, None, name) for trace in traces)) for name in (KIND, _operator)]


def comparison_lines(traces: Sequence[StoredTrace], show: Table) -> list[str]:
    """Return two traces as text: the ratio of their steps, and its terms by kind and by operator."""
    kinds, operators = _terms(traces)
    most = 10  # operators
    a_s, b_s = (sum(getattr(term, side) for term in kinds) for side in ("a_s", "b_s"))
    networks = {trace.devices[0].network for trace in traces}
    result = ["The networks differ, so the ratio is not one of chips or software alone."] if len(networks) > 1 else []
    result += [f"A: {traces[0].label}", f"B: {traces[1].label}"]
    result.append(f"kernels of a step: {latency(a_s)} and {latency(b_s)}, B/A {b_s / a_s:.3f}: 1 and these terms")
    for head, terms in (("kind", kinds), ("operator", operators[:most])):
        result += ["", *show(term_rows(head, terms), NUMBERS)]
    rest = sum(term.share for term in operators[most:])
    return [*result, *([f"and {rest:+.3f} of {len(operators) - most} more"] if len(operators) > most else [])]
