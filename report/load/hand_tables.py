"""The lines of a table that people write by hand, with a spreadsheet or without."""

import csv
from collections.abc import Iterator
from pathlib import Path

from measure.errors import UserError


def read_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line with the line's number, the header first; nothing where there is no file.

    A byte order mark, as spreadsheets write it, is no part of the header. Raises UserError that names the file where
    it cannot be read, or the line where it is no CSV.
    """
    if not path.exists():
        return
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = csv.reader(file)
            for cells in lines:
                yield lines.line_num, cells
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror}); restore the file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8") from None
    except csv.Error as problem:
        raise UserError(f"{path}, line {lines.line_num}: {problem}; mend the line or delete it") from None
