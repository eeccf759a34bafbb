"""Computes facts of the paper from the CSV by arithmetic of its own, and compares them with ``_site/facts.json``.

    python benchmarks/recompute.py                     # the facts of the last render, from data/
    python benchmarks/recompute.py --facts FILE --data DIR

It shares no code with the paper: ``benchmarks/recomputing`` has pandas, SciPy and NumPy alone, and the definitions of
``docs/method.md`` and ``docs/facts.md``. A fact is compared to its last printed digit, and so are the ends of its
interval. Exit code 1 if any differs.
"""

import argparse
import json
import re
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # however it is started

from recomputing import counts, elsewhere, machine, several, tokens, training, utilisation
from recomputing.statistics import Found

ROOT = Path(__file__).parents[1]
NUMBER = re.compile(r"−?\d[\d,]*(?:\.\d+)?")
PREFIXES = {"p": 1e-12, "n": 1e-9, "µ": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
NOT_BINARY = 1e-9  # half of a digit is not exact in binary


def printed(fact: dict[str, Any]) -> tuple[list[float], float]:
    """Return the printed numbers of a fact in its unit, and half the unit of their last digit.

    The zeros at the end of 3880, or of 150 (80–200), come from rounding. A count has all its digits.
    """
    text, unit = fact["printed"], fact["unit"]
    tail = text.rpartition("\u00a0")[2] if unit else ""
    scale = 0.01 if unit == "%" else PREFIXES[tail.removesuffix(unit)]
    numbers = [number.replace(",", "").replace("−", "-") for number in NUMBER.findall(text.removesuffix(tail))]
    place = -len(numbers[0].partition(".")[2])
    if place == 0 and not isinstance(fact["value"], int):
        zeros = [len(number) - len(number.rstrip("0")) for number in numbers]
        place = min(zeros) if len(numbers) > 1 else min(zeros[0], max(0, len(numbers[0]) - 3))
    return [float(number) * scale for number in numbers], 0.5 * 10.0**place * scale


def agrees(fact: dict[str, Any], found: Found) -> bool:
    numbers, half = printed(fact)
    ends = list(found) if len(numbers) == 3 else [found.number]
    off = [abs(end - number) if end is not None else inf for end, number in zip(ends, numbers, strict=True)]
    return max(off) <= half * (1 + NOT_BINARY)


def main(words: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--facts", type=Path, default=ROOT / "_site" / "facts.json", metavar="FILE")
    flags.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR")
    arguments = flags.parse_args(words)
    facts = json.loads(arguments.facts.read_text("utf-8"))
    recomputed = {}
    for module in (counts, machine, training, utilisation, elsewhere, tokens, several):
        recomputed |= module.facts(arguments.data)
    different = 0
    for key, found in sorted(recomputed.items()):
        fact = facts.get(key)
        is_right = fact is not None and fact["value"] is not None and agrees(fact, found)
        different += not is_right
        text = fact["printed"] if fact else "no such fact"
        ends = "" if is_right else ", ".join(f"{each:.6g}" for each in found if each is not None)
        print(f"{'agrees' if is_right else 'DIFFERS':8} {key:42} {text:32} {ends}".rstrip())
    print(f"\n{len(recomputed)} of {len(facts)} facts recomputed, {different or 'none'} differ")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
