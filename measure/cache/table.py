"""Read, write and append typed rows as CSV. A writer may die at any moment.

A table is a dataclass whose field names are the header, in order: see ``schema``.

The rows of a child table belong to rows of another table, as samples belong to a run. Children are written first, and
their row commits them. Children without a row are not read, and the next measurement replaces them.

Locks keep a second writer out. The system releases them when their holder dies.
"""

import csv
import errno
import io
import itertools
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from measure.cache.schema import TABLES
from measure.domain.values import now
from measure.errors import UserError

Record = TypeVar("Record")

FORMULA = re.compile(r"[=+\-@\t\r]")


def as_text(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run (OWASP, CSV Injection).

    The cache is written without it, because programs read it.
    """
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


class UnreadableError(UserError):
    """``read`` would refuse these rows, and the whole table with them. Nothing was written."""


class _RowError(Exception):
    """A wrong row, with its line, and with the column of a wrong cell."""

    def __init__(self, what: object, line: int, column: str | None = None) -> None:
        super().__init__(what)
        self.line, self.column = f", line {line}", "" if column is None else f", column {column}"


def _content(path: Path) -> bytes:
    """Return a file's bytes. Raises UserError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror}); restore the file or move it away") from None


def _complete(path: Path) -> tuple[bytes, bytes]:
    """Return the file's complete lines, and the last one that a killed writer left torn (empty: none).

    Raises UserError where it cannot be read, and for bytes without a complete line, which no writer leaves.
    """
    content = _content(path)
    end = content.rfind(b"\n") + 1
    if content and not end:
        raise UserError(f"{path}: has no complete line, ended by a line feed; restore the file or move it away")
    return content[:end], content[end:]


def set_torn_line_aside(path: Path) -> Path | None:
    """Move a torn last line to the end of a file beside the table; return that file, None where no line is torn.

    Raises UserError where that fails.
    """
    complete, torn = _complete(path) if path.exists() else (b"", b"")
    if not torn:
        return None
    aside = path.with_suffix(path.suffix + ".torn")
    with _durably(aside):
        with aside.open("ab") as file:
            file.write(torn + b"\n")
            _flush(file)
        with path.open("r+b") as file:
            file.truncate(len(complete))
            _flush(file)
    return aside


def read(path: Path, record: type[Record]) -> list[Record]:
    """Return all rows of a table, typed. A file that is not there is an empty table.

    Raises UserError naming file, line and column where a cell is not what its column holds, and for a header that this
    version does not know.
    """
    return [row for _, row in numbered(path, record)]


def read_firsts(path: Path, record: type[Record], key: Sequence[str]) -> list[Record]:
    """Return the first row for each value of the key's columns. Other rows are skipped unparsed (faster)."""
    return [row for _, row in numbered(path, record, key)]


def numbered(path: Path, record: type[Record], key: Sequence[str] = ()) -> list[tuple[int, Record]]:
    """Return the rows, each with the line in which it ends; with a key only those of ``read_firsts``.

    A torn last line is no row, except in a table written by hand: not every editor ends the last line.
    """
    if not path.exists():
        return []
    content = _content(path) if TABLES[record].by_hand else _complete(path)[0]
    if not content:
        raise UserError(f"{path}: is empty, without even a header; restore the file or delete it")
    try:
        return _parsed(path, record, content, key)
    except _RowError as wrong:
        raise UserError(f"{path}{wrong.line}{wrong.column}: {wrong}; mend the line or delete it") from None


def check_whole(path: Path) -> None:
    """Raise UserError if the last line of a table that a program wrote is incomplete."""
    complete, torn = _complete(path) if path.exists() else (b"", b"")
    if torn:
        number = complete.count(b"\n") + 1
        raise UserError(f"{path}, line {number}: incomplete row; restore the file or delete the line")


def _parsed(path: Path, record: type[Record], content: bytes, key: Sequence[str] = ()) -> list[tuple[int, Record]]:
    """Return the rows in a table's bytes with their lines. Raises _RowError for one that is refused."""
    known = TABLES[record].columns
    names, numbers, rows = _cells(path, record, content, key)
    if not rows:
        return []
    values: dict[str, Iterable[Any]] = {}
    for name, texts in zip(names, zip(*rows, strict=True), strict=True):
        value_of = {}  # by columns, and each text once, which is faster
        for text in dict.fromkeys(texts):
            try:
                value_of[text] = known[name].value(text)
            except ValueError as complaint:
                raise _RowError(f"the cell {complaint}", numbers[texts.index(text)], name) from None
        values[name] = map(value_of.__getitem__, texts)
    return list(zip(numbers, map(record, *(values[name] for name in known)), strict=True))


def _cells(
    path: Path, record: type, content: bytes, key: Sequence[str]
) -> tuple[list[str], list[int], list[list[str]]]:
    """Return the header, and the lines and cells of the rows."""
    by_hand = TABLES[record].by_hand
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""))  # without a spreadsheet's mark
        header = next(lines, [])
        _check_header(path, record, header)
        numbers, rows = [], []
        places = [place for place, name in enumerate(header) if name in key]
        value_of, seen = itemgetter(*places) if places else None, set()
        for cells in lines:
            if len(cells) != len(header):
                raise _RowError(f"{len(cells)} cells where the header has {len(header)}", lines.line_num)
            if value_of:
                value = value_of(cells)
                if value in seen:
                    continue
                seen.add(value)
            numbers.append(lines.line_num)
            rows.append([cell.strip() for cell in cells] if by_hand else cells)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8 or delete it") from None
    except csv.Error as problem:
        raise _RowError(problem, lines.line_num) from None
    return header, numbers, rows


def _check_header(path: Path, record: type, header: Sequence[str]) -> None:
    """Raise UserError unless the columns of a header are those of the record."""
    known = TABLES[record].columns
    repeated = {name for name in header if header.count(name) > 1}
    if repeated:
        raise UserError(f"{path}, line 1: duplicate column {sorted(repeated)[0]!r} in the header; delete one of them")
    unknown = [name for name in header if name not in known]
    if unknown:
        raise UserError(
            f"{path}, line 1: unknown column {unknown[0]!r}; mend the header, or update this checkout if a newer "
            "version wrote the table"
        )
    missing = [name for name in known if name not in header]
    if missing:
        raise UserError(
            f"{path}, line 1: the column {missing[0]!r} is missing; mend the header, or move the file away and "
            "measure again"
        )


def _format(rows: Iterable[Any]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(["" if value is None else value for value in vars(row).values()])
    return text.getvalue()


def _header(record: type) -> str:
    return ",".join(TABLES[record].columns) + "\n"


def _encoded(path: Path, record: type, rows: Iterable[Any]) -> bytes:
    """Return new rows as a table's lines. Raises UnreadableError where ``read`` would refuse them."""
    try:
        lines = _format(rows).encode()
        _parsed(path, record, _header(record).encode() + lines)
    except _RowError as wrong:
        column, what = wrong.column, str(wrong)
    except UnicodeEncodeError:
        column, what = "", "a text has half a character (a lone surrogate), which UTF-8 cannot hold"
    else:
        return lines
    raise UnreadableError(
        f"{path}{column}: {what}; nothing was written, since it could not be read again: correct what it comes from"
    )


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _durably(path: Path, undo: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Undo a write that fails, and raises UserError that says why."""
    try:
        yield
    except OSError as problem:
        with suppress(OSError):  # what could not even be begun needs no undoing
            undo()
        what = "the disk is full" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else problem.strerror
        raise UserError(
            f"{path}: could not be written ({what}); what stood there is intact: "
            "mend that and run the same command again"
        ) from None


def write(path: Path, record: type[Record], rows: Iterable[Record]) -> None:
    """Replace a whole table, atomically: readers see the old file or the new one.

    Raises UserError where that fails, and UnreadableError for rows that could not be read again; the old table is
    intact then.
    """
    content = _header(record).encode() + _encoded(path, record, rows)
    part = path.with_suffix(".csv.part")
    with _durably(path, lambda: part.unlink(missing_ok=True)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            _flush(file)
        part.replace(path)


def append(path: Path, record: type[Record], rows: Sequence[Record]) -> None:
    """Add rows at the end of a table, durably; one whose header has the columns in another order is written anew.

    Raises UserError where that fails, and UnreadableError for rows that could not be read again; the old rows are
    intact then.
    """
    complete, _torn = _complete(path) if path.exists() else (b"", b"")
    if not complete.startswith(_header(record).encode()):
        write(path, record, [*read(path, record), *rows])
        return
    lines = _encoded(path, record, rows)
    with _durably(path, lambda: os.truncate(path, len(complete))), path.open("r+b") as file:
        file.seek(len(complete))
        file.truncate()
        file.write(lines)
        _flush(file)


def merged(old: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """Return the old rows, those with a key of the new ones replaced, and the new ones at the end."""
    if not new:
        return list(old)
    key = attrgetter(*TABLES[type(new[0])].key)
    fresh = set(map(key, new))
    return [*(row for row in old if key(row) not in fresh), *new]


Child = TypeVar("Child")


class ChildTable(Generic[Child]):
    """One child table. The columns ``key`` name the row that a child belongs to."""

    def __init__(self, path: Path, record: type[Child], key: Sequence[str]) -> None:
        self.path = path
        self._record = record
        self._names = key
        self._key = attrgetter(*key)
        self._owners: set[Any] | None = None

    def _read(self) -> list[Child]:
        return read(self.path, self._record)

    def of(self, rows: Collection[Any]) -> list[Child]:
        """Return the children of these rows of the other table."""
        owners = set(map(self._key, rows))
        return [child for child in self._read() if self._key(child) in owners]

    def has(self, row: Any) -> bool:
        """Return whether a row of the other table has children."""
        return self._key(row) in self._known()

    def _known(self) -> set[Any]:
        if self._owners is None:
            self._owners = set(map(self._key, read_firsts(self.path, self._record, self._names)))
        return self._owners

    def forget(self) -> None:
        """Read the table anew for what comes next: another process may have written into it."""
        self._owners = None

    def leave_out(self, models: Collection[str]) -> None:
        """Remove the children of rows of these models."""
        rows = self._read()
        model = attrgetter("model")
        stay = [row for row in rows if model(row) not in models]
        if len(stay) < len(rows):
            write(self.path, self._record, stay)
        self.forget()

    def put(self, children: Sequence[tuple[Any, Sequence[Child]]]) -> None:
        """Add the children of some rows of the other table, or replace them where they stand."""
        known = self._known()
        again = {self._key(row): rows for row, rows in children if self._key(row) in known}
        new = [child for row, rows in children if self._key(row) not in again for child in rows]
        if again:
            left = dict(again)
            together: list[Child] = []
            for owner, old in itertools.groupby(self._read(), key=self._key):
                together += left.pop(owner, ()) if owner in again else list(old)
            write(self.path, self._record, together)
        append(self.path, self._record, new)
        known |= set(map(self._key, new))
        known -= {owner for owner, rows in again.items() if not rows}


NAME = ".lock"
"""The lock file of a folder. The system releases the lock when its holder dies; the file itself may stay."""

WAIT_S = 0.5
"""A lock is refused after this long: enough for another process to let go, or to write who it is."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises UserError that names the process that already holds it."""

    def refusal(holder: str) -> str:
        return f"{folder}: {holder} is measuring into this folder; wait for it or name another --machine"

    with held(folder / NAME, refusal):
        yield


@contextmanager
def held(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold a lock file. Raises UserError with ``refusal(holder)`` if another process holds it.

    The holder's name stands in a file next to the lock, because Windows lets nobody read a locked file.
    """
    name = path.with_name(path.name + ".holder")
    try:
        release = _acquire(path, WAIT_S)
    except TimeoutError:
        holder = ""
        with suppress(OSError):
            holder = name.read_text(errors="replace").strip()
        raise UserError(refusal(holder or "another process")) from None
    with release:
        with suppress(OSError):  # a full disk may refuse the name; the lock does not depend on it
            name.write_text(f"process {os.getpid()} on {platform.node()}, since {now()},")
        try:
            yield
        finally:
            with suppress(OSError):
                name.unlink()


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Hold the folder's lock for a moment. Other processes wait."""
    with _acquire(folder / NAME, -1):
        with suppress(OSError):  # a killed holder leaves its name, which is not this process's
            (folder / f"{NAME}.holder").unlink(missing_ok=True)
        yield


def _acquire(path: Path, timeout_s: float) -> AbstractContextManager[object]:
    """Lock a file, which need not exist; return the context that releases it. A negative timeout waits forever.

    Raises TimeoutError if another process holds the lock, UserError if the file cannot be locked at all.
    """
    import filelock  # only writers need it, and start-up stays fast

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A soft lock would outlive a killed holder. Ray may release in another thread.
        lock = filelock.FileLock(path, fallback_to_soft=False, thread_local=False)
        return lock.acquire(timeout_s)
    except TimeoutError:
        raise
    except OSError as problem:
        raise UserError(f"{path}: cannot be locked ({problem.strerror}); mend that or name another --data") from None
