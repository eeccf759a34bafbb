"""Reading and writing text files, with errors that a user can act on."""

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from measure.errors import UserError


def read_text(path: Path) -> str:
    """Return a file's text. Raises UserError if it cannot be read."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it in UTF-8") from None
    except (OSError, ValueError) as problem:  # ValueError: a NUL in its name
        reason = getattr(problem, "strerror", None) or problem
        raise UserError(f"{path}: cannot be read ({reason}); restore the file") from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, and its folder. Raises UserError if that fails."""
    partial = path.with_name(f".{path.name}.{uuid4().hex}.part")  # another process may write the same file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as problem:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {path}: {problem.strerror}; make room or choose another folder") from problem
