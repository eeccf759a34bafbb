"""The table of remedies: its words stand in the chapter."""

from collections.abc import Mapping, Sequence
from typing import Any

from report import display
from report.chapters.remedies.facts import Remedies
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.stats.value import Value


def gain(*values: Value, at: str = "") -> str:
    """Return a gain with its interval, or the least and the most, and where it holds; empty if one is missing."""
    if any(value.is_missing for value in values):
        return ""
    return escape(" to ".join(map(_short, values)) + (f", {at}" if at else ""))


def _short(value: Value) -> str:
    """Print a gain with at most three digits, and the ends of its interval likewise."""
    low, high = value.low, value.high
    if low is None or high is None or low == high:
        return str(value)
    number = f"{value}"
    is_longer = len(value.printed().split(" ")[0]) > len(number)
    return value.printed() if not is_longer else f"{number} ({Value(low)}–{Value(high)})"


def gains(header: str, rows: Mapping[str, Sequence[str]], *chapters: Any) -> display.Display:
    """Show the words of each remedy, and its gain on a processor and on a GPU; leave out a remedy without a gain.

    ``chapters`` are the facts that ``of_devices`` takes.
    """
    return display.table(_with_gains)(header, rows, of_devices(*chapters))


def _with_gains(header: str, rows: Mapping[str, Sequence[str]], found: Mapping[str, tuple[str, str]]) -> str:
    lines = [[*words, *(cell or NONE for cell in found[name])] for name, words in rows.items() if any(found[name])]
    return markdown_table(header, display.required(lines))


def of_devices(remedies: Remedies, cause: Any, latency: Any, utilisation: Any) -> dict[str, tuple[str, str]]:
    """Return the gain of each remedy on a processor and on a GPU, empty if unknown."""
    hand, batching, gpu = utilisation.gains, latency.batching, latency.gpu.batching
    tested, batch = f"{_batch(hand.batch)}, {hand.kept_high.count} networks", _batch(hand.batch)
    kept = gain(hand.kept_high, at=tested) or gain(hand.kept, at=batch)
    kept, lower = ("", "") if remedies.on_gpu else (kept, gain(hand.lower, at=batch))
    one, single = cause.host.compiled, f"{_batch(1)}, {remedies.single_device.text}, {remedies.singles.number} networks"
    graph = gain(cause.graph.least, cause.graph.most, at=single)
    layouts = (
        gain(remedies.layout, at=str(remedies.layout_device.text)),
        gain(remedies.layout_other, at=str(remedies.layout_other_device.text)),
    )
    ends = utilisation.gpu_gain.least, utilisation.gpu_gain.most
    return {
        "kept": (kept, ""),
        "batch": (
            gain(batching.peak_over_first, at=_batch(batching.peak)), gain(gpu.least, gpu.most, at=_batch(gpu.last)),
        ),
        "graph": ("", graph),
        "single": ("", "" if graph else gain(one.single_least, one.single_most, at=single)),
        "fused": ("", gain(cause.compiled.speed, at=cause.compiled.device.text)),
        "layout": ("", "; ".join(filter(None, layouts))),
        "lower": (lower, gain(*ends, at=_batch(utilisation.gpu_lower.batch))),
    }  # fmt: skip


def _batch(size: Any) -> str:
    return f"batch\N{NO-BREAK SPACE}{size}"
