"""Golden outputs: what a command prints, one file a case. ``pytest --overwrite`` renews them; git shows the change."""

import os
import re
from pathlib import Path

from helpers.places import TESTS

GOLDEN = TESTS / "golden"
TERMINAL = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
"""A terminal's width, and none of its colours."""


def check(name: str, printed: str, *, overwrite: bool) -> None:
    """Compare a text with ``tests/golden/NAME.txt``, or write it there.

    Long fractions are rounded to six digits: the last ones depend on a machine's arithmetic.
    """
    printed = re.sub(r"\d+\.\d{7,}(e[-+]?\d+)?", lambda number: f"{float(number[0]):.6g}", printed)
    path = GOLDEN / f"{name}.txt"
    if overwrite:
        path.parent.mkdir(exist_ok=True)
        path.write_text(printed, "utf-8")
    expected = path.read_text("utf-8") if path.exists() else ""
    assert printed == expected, f"differs from {path}; renew it with pytest --overwrite"


def stale(sources: list[Path]) -> list[str]:
    """Return the golden files that no test names."""
    text = "".join(path.read_text("utf-8") for path in sources)
    return [name for name in sorted(os.listdir(GOLDEN)) if f'"{Path(name).stem}"' not in text]
