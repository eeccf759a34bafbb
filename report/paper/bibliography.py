"""The keys of a BibTeX file."""

import re
from pathlib import Path

from measure.errors import UserError

ENTRY = re.compile(r"^\s*@(?!comment|string|preamble)\w+\s*\{\s*([^,\s]+)\s*,", re.IGNORECASE | re.MULTILINE)


def read_keys(path: Path) -> frozenset[str]:
    """Return the citation keys of all entries. Raises UserError where the file cannot be read."""
    try:
        return frozenset(ENTRY.findall(path.read_text(encoding="utf-8")))
    except OSError as problem:
        raise UserError(f"{path}: the bibliography cannot be read ({problem.strerror}); restore the file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: the bibliography is not UTF-8 text; save it in UTF-8") from None
