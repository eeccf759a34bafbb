"""Tables as CSV files: typed rows read, written whole, and appended, so that a writer may die at any moment.

A table is a dataclass of ``records``: its field names are the header, in order.
"""

import csv
import errno
import io
import os
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from measure.cache.columns import COLUMNS, Form
from measure.cache.records import KEYS
from measure.errors import UserError

Record = TypeVar("Record")


def _column_types(record: type) -> dict[str, tuple[type, bool]]:
    """Column name to (type, whether the cell may be empty), in the order of the header."""
    columns = {}
    for name, hint in typing.get_type_hints(record).items():
        if isinstance(hint, types.UnionType):
            (plain,) = [part for part in typing.get_args(hint) if part is not types.NoneType]
            columns[name] = (plain, True)
        else:
            columns[name] = (hint, False)
    return columns


ABOVE_ZERO = ("batch", "block", "latency_s", "latency_low_s", "latency_high_s")
ANY_SIGN = ("temperature_c",)
"""The numbers that may not be 0, and those that may be below it."""


def _is_allowed(name: str, number: float) -> bool:
    if number == 0:
        return name not in ABOVE_ZERO
    return (-inf if name in ANY_SIGN else 0) < number < inf


def _parse(name: str, texts: Sequence[str], plain: type, optional: bool, form: Form | None) -> list[Any]:
    """The cells of a column. Raises ValueError where one is no value of its type, or not of the column's form."""
    if form and not all(form.fits(text) for text in set(texts) - {""}):
        raise ValueError
    if "" in texts and not optional:
        raise ValueError
    values = [plain(text) if text else None for text in texts] if optional else list(map(plain, texts))
    if plain is not str and not all(_is_allowed(name, each) for each in set(values) if each is not None):
        raise ValueError
    return values


SHOWN = 60
"""So many characters of a cell stand in a complaint."""


def _complaint(name: str, text: str, plain: type, optional: bool, form: Form | None) -> str | None:
    """What is wrong with a cell that does not parse; None of one that does."""
    try:
        _parse(name, [text], plain, optional, form)
    except ValueError:
        if not text:
            return "is empty"
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "…"
        least = "" if name in ANY_SIGN else " above 0" if name in ABOVE_ZERO else " from 0 on"
        return f"is {shown!r}, not {form.told if form else f'a number{least}'}"
    return None


def _complete(path: Path) -> tuple[bytes, bytes]:
    """The file's complete lines, and the last one that a killed writer left torn (empty: none).

    Raises UserError where it cannot be read.
    """
    try:
        text = path.read_bytes()
    except OSError as problem:
        raise UserError(
            f"{path}: cannot be read ({problem.strerror}); restore the file or move it away"
        ) from None
    end = text.rfind(b"\n") + 1
    return text[:end], text[end:]


def set_torn_line_aside(path: Path) -> Path | None:
    """Moves a torn last line to the end of a file beside the table; that file, or None where no line is torn."""
    if not path.exists():
        return None
    complete, torn = _complete(path)
    if not torn:
        return None
    aside = path.with_suffix(path.suffix + ".torn")
    with aside.open("ab") as file:
        file.write(torn + b"\n")
        _flush(file)
    with path.open("r+b") as file:
        file.truncate(len(complete))
        _flush(file)
    return aside


def read(path: Path, record: type[Record]) -> list[Record]:
    """All rows of a table, typed. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell does not parse or is not of its column's form, and for
    a header that this version does not know.
    """
    return [row for _, row in numbered(path, record)]


def read_firsts(path: Path, record: type[Record], key: Sequence[str]) -> list[Record]:
    """The first row for each value of the key's columns; of the others no cell is looked at, which is faster."""
    return [row for _, row in numbered(path, record, key)]


def numbered(path: Path, record: type[Record], key: Sequence[str] = ()) -> list[tuple[int, Record]]:
    """The rows, each with the line in which it ends; with a key those of ``read_firsts``."""
    if not path.exists():
        return []
    columns, forms = _column_types(record), COLUMNS.get(record, {})
    try:
        lines = csv.reader(io.StringIO(_complete(path)[0].decode(), newline=""))
        header = next(lines, None)
        if header is None:
            return []
        _check_header(path, header, columns)
        numbers, rows = [], []
        places = [header.index(name) for name in key if name in header]
        value_of, seen = itemgetter(*places) if places else None, set()
        for cells in lines:
            if len(cells) != len(header):
                raise UserError(
                    f"{path}, line {lines.line_num}: {len(cells)} cells where the header has {len(header)}; "
                    "mend the line or delete it"
                )
            if value_of:
                value = value_of(cells)
                if value in seen:
                    continue
                seen.add(value)
            numbers.append(lines.line_num)
            rows.append(cells)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; restore the file or delete it") from None
    except csv.Error as problem:
        raise UserError(f"{path}, line {lines.line_num}: {problem}; mend the line or delete it") from None
    if not rows:
        return []
    values: dict[str, Sequence[Any]] = dict.fromkeys(columns, [None] * len(rows))
    for name, texts in zip(header, zip(*rows, strict=True), strict=True):  # by columns, which is faster
        try:
            values[name] = _parse(name, texts, *columns[name], forms.get(name))
        except ValueError:
            complaints = (_complaint(name, text, *columns[name], forms.get(name)) for text in texts)
            number, complaint = next(pair for pair in zip(numbers, complaints, strict=True) if pair[1])
            raise UserError(
                f"{path}, line {number}, column {name}: the cell {complaint}; mend the line or delete it"
            ) from None
    return list(zip(numbers, map(record, *values.values()), strict=True))


def _check_header(path: Path, header: Sequence[str], known: dict[str, tuple[type, bool]]) -> None:
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise UserError(f"{path}, line 1: the column {sorted(repeated)[0]!r} stands twice; mend the header")
    newer = [name for name in header if name not in known]
    if newer:
        raise UserError(
            f"{path}, line 1: unknown column {newer[0]!r}, so a newer version wrote this table; update this checkout"
        )
    missing = [name for name, (_, optional) in known.items() if name not in header and not optional]
    if missing:
        raise UserError(
            f"{path}, line 1: the column {missing[0]!r} is missing, so an older version wrote this table; "
            "move the file away and measure again"
        )


def _format(rows: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if value is None else value for value in vars(row).values()])
    return text.getvalue()


def _header(record: type) -> str:
    return ",".join(_column_types(record)) + "\n"


def _flush(file: typing.IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _durably(path: Path, undo: Callable[[], object]) -> Iterator[None]:
    """Undoes a write that fails, and raises UserError that says why."""
    try:
        yield
    except OSError as problem:
        undo()
        what = "the disk is full" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else problem.strerror
        raise UserError(
            f"{path}: could not be written ({what}); what stood there is intact: "
            "mend that and run the same command again"
        ) from None


def write(path: Path, record: type[Record], rows: Iterable[Record]) -> None:
    """Replaces a whole table, atomically: readers see the old file or the new one.

    Raises UserError where that fails; the old table is intact then.
    """
    part = path.with_suffix(".csv.part")
    with _durably(path, lambda: part.unlink(missing_ok=True)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write((_header(record) + _format(rows)).encode())
            _flush(file)
        part.replace(path)


def append(path: Path, record: type[Record], rows: Sequence[Record]) -> None:
    """Adds rows at the end of a table, durably; one with an older header is written anew with today's.

    Raises UserError where that fails; the old rows are intact then.
    """
    if not path.exists():
        write(path, record, rows)
        return
    complete, _torn = _complete(path)
    if complete.partition(b"\n")[0].decode() + "\n" != _header(record):
        write(path, record, [*read(path, record), *rows])
        return
    with path.open("r+b") as file, _durably(path, lambda: os.truncate(path, len(complete))):
        file.seek(len(complete))
        file.truncate()
        file.write(_format(rows).encode())
        _flush(file)


def merged(old: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """The old rows, those with a key of the new ones replaced, and the new ones at the end."""
    if not new:
        return list(old)
    key = KEYS[type(new[0])]
    fresh = {tuple(getattr(row, name) for name in key) for row in new}
    return [row for row in old if tuple(getattr(row, name) for name in key) not in fresh] + list(new)
