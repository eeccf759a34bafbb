"""CSV that people open in spreadsheets, which take a text that begins like a formula for one, and run it.

The cache is not written so: it is read by programs, and holds what it was given.
"""

import re
from typing import Any

FORMULA = re.compile(r"[=+\-@\t\r]")


def as_text(cell: Any) -> Any:
    """Return the cell, a text that a spreadsheet would run with an apostrophe before it (OWASP, CSV Injection)."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell
