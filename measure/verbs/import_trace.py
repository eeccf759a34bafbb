"""Import traces of torch.profiler: ``measure import-trace``."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measure.cache.trace_records import TraceDevice
from measure.domain.values import latency, percent, si
from measure.errors import UserError, as_called, one_line
from measure.traces import reading, store
from measure.traces.matching import BEFORE, UNMATCHED
from measure.traces.summary import TraceSummary, summarise
from measure.verbs.flags import Verbs, add_verb, check_writable
from measure.verbs.terminal import aligned
from roofwright.command_line import data_flag

MOST_LISTED = 8  # operators without counts that the text names
LONGEST_NAME = 100


def add_verbs(verbs: Verbs) -> None:
    """Declare import-trace."""
    text = (
        "Import traces of torch.profiler, recorded on any GPU: where the time of a step goes, operator by operator "
        "(docs/traces.md). Recorded with record_shapes=True they have FLOP and bytes too. Of a trace only names, "
        "shapes and times are stored."
    )
    flags = add_verb(verbs, "import-trace", main, text)
    add = flags.add_argument
    text = "traces as torch.profiler exports them, JSON or gzip; those of several ranks together, or merged into one"
    add("files", nargs="+", metavar="FILE", help=text)
    add("--chip", metavar="NAME", help="the chip, as in data/chips.csv (default: by the driver's name in the trace)")
    text = "the network's name (default: as in the trace, if it has one)"
    add("--name", type=_parse_name, metavar="NETWORK", help=text)
    add("--source", type=_parse_name, metavar="TEXT", help="where the trace was published")
    add("--licence", type=_parse_name, metavar="TEXT", help="its licence there")
    add("--plan", action="store_true", help="only print what was found")
    add("--json", action="store_true", help="print a JSON object a trace, each on a line of its own (docs/json.md)")


def _parse_name(text: str) -> str:
    if text != one_line(text) or len(text) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"{text[:40]!r} is not a name; use one line of at most {LONGEST_NAME} characters"
        )
    return text


def main(asked: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input."""
    if len(set(asked.files)) < len(asked.files):
        raise UserError("FILE: the same file is named twice; name each once")
    chips = store.chip_names(asked.data)
    chip = None if asked.chip is None else store.chosen_chip(asked.chip, chips)
    said = store.Said(chip, asked.name, asked.source, asked.licence)
    if not asked.plan:
        check_writable(asked.data)
    for found in (summarise(trace) for name in asked.files for trace in reading.read(Path(name))):
        devices = store.device_rows(found, chips, said)
        folder = None if asked.plan else store.put(asked.data, store.TraceRows(devices, found.steps, found.operators))
        if asked.json:
            print(json.dumps(as_json(found, devices, folder), allow_nan=False))
        else:
            print("\n".join(lines(found, devices, folder)))
    if not asked.json and not asked.plan:
        print(f"Next: {as_called('report')}{data_flag(asked.data)}")
    return 0


def as_json(found: TraceSummary, devices: list[TraceDevice], folder: Path | None) -> dict[str, Any]:
    """Return the keys of ``docs/json.md``."""
    first = devices[0]
    return {
        "file": str(found.trace.path),
        "folder": None if folder is None else str(folder),
        "chip": first.chip,
        "device_name": first.device_name,
        "devices": len(devices),
        "network": first.network,
        "rank": first.rank,
        "world_size": first.world_size,
        "torch": first.torch,
        "steps": found.step_count,
        "kernels": found.kernels,
        "kernel_time_s": found.kernel_time_s,
        "operator_share": found.operator_share,
        "counted_share": found.counted_share,
        "flop": found.of_a_step("flop"),
        "other_flop": found.of_a_step("other_flop"),
        "recompute_flop": found.of_a_step("recompute_flop"),
        "kinds": found.by_kind(),
        "without_counts": found.left_out(),
        "left_out": dict(found.trace.left_out),
    }


def lines(found: TraceSummary, devices: list[TraceDevice], folder: Path | None) -> list[str]:
    """Return what was found as text."""
    first, trace = devices[0], found.trace
    chip = first.chip or (first.device_name and f"{first.device_name} (not in data/chips.csv; name it with --chip)")
    rank = f", rank {first.rank} of {first.world_size}" if first.world_size > 1 else ""
    several = f" ({len(devices)} devices)" if len(devices) > 1 else ""
    head = f"{first.network or 'unnamed network (name it with --name)'} on {chip or 'an unknown chip'}{several}{rank}"
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
