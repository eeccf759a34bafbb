"""What a render ends with: where the paper is, what it says in short, and what to do next."""

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure.domain.values import percent, plain, si
from roofwright.command_line import data_flag


def lines(written: Sequence[Path], data: Path) -> list[str]:
    """Return where the files are, with the page's address, what the paper says of a machine, and what to do next."""
    said = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in written]
    said += [f"Open {path.resolve().as_uri()}" for path in written if path.suffix == ".html"]
    facts = [json.loads(path.read_text("utf-8")) for path in written if path.suffix == ".json"]
    about = headline(facts[0]) if facts else []
    if not about:
        return said
    python, flag = _python(), data_flag(data)
    following = [
        (f"{python} -m measure model resnet50{flag}", "what one model waits for, layer by layer"),
        (f"{python} -m measure --budget 20m{flag}", "more models and rounds; render again afterwards"),
        (f"{python} -m measure doctor{flag}", "what would spoil a measurement on this machine"),
    ]
    width = max(len(command) for command, _ in following)
    return [*said, "", *about, "", "Next:", *(f"  {command:<{width}}  {what}" for command, what in following)]


def headline(facts: dict[str, dict[str, Any]]) -> list[str]:
    """Return at most two lines from the paper's facts about the machine at hand; none without a machine."""
    of = {key: fact["value"] for key, fact in facts.items()}
    if not (machine := of.get("machine.at_hand.name")):
        return []
    first = f"{machine}: its roof was not measured"
    peak, bandwidth = of["utilisation.roofs.peak"], of["utilisation.roofs.bandwidth"]
    if peak and bandwidth:
        first = f"{machine}: {si(peak, 'FLOP/s')} at fp32 and {si(bandwidth, 'B/s')} from memory"
    if share := of["utilisation.gap.layers"]:
        first += f"; networks typically reach {percent(share)} of the roofline layer by layer"
    said = [first]
    ratio, fewer = of["puzzle.here.ratio"], of["puzzle.needs.fewer"]
    if ratio and fewer:
        said.append(
            f"At batch {of['puzzle.here.batch']}, MobileNet-v2 needs {plain(fewer)} times fewer FLOP than ResNet-18 "
            f"and takes {plain(ratio)} times as long"
        )
    return said


def _python() -> str:
    """Return what runs this Python from the present folder: ``python`` where that is the one on the PATH."""
    there = Path(sys.executable)
    found = shutil.which("python")
    if found and os.path.samefile(found, there) and Path(found).parent == there.parent:
        return "python"
    return str(there.relative_to(Path.cwd())) if there.is_relative_to(Path.cwd()) else str(there)
