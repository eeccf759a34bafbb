"""Read, write and append typed rows as CSV; the header is a record's fields. A writer may die at any moment.

The rows of a child table belong to rows of a parent table, as samples belong to a run. Children are written first;
their parent's row commits them. Nobody reads uncommitted children, and the next measurement replaces them.
"""

import csv
import dataclasses
import errno
import io
import itertools
import os
import platform
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import IO, Any, Generic, TypeVar

from measure.domain.schema import TABLES, Column
from measure.domain.values import now
from measure.errors import UserError, quote

Record = TypeVar("Record")
Columns = dict[str, list[Any]]  # the cells of a table by the record's fields, in their order
Numbered = list[tuple[int, Record]]  # rows with their last lines in the file

FORMULA = re.compile(r"[=+\-@\t\r]")
NAME = ".lock"  # a folder's lock file; it may stay behind, the system releases the lock when its holder dies
PIECE = 256  # rows parsed together: so few stay in the processor's cache
MOST_TEXTS = 2**14  # the texts of a column with stored values
WAIT_S = 0.5  # for another holder to let go, or to write its name


def as_text(cell: Any) -> Any:
    """Put an apostrophe before a text that a spreadsheet would run (OWASP, CSV Injection). The cache goes without."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


class UnreadableError(UserError):
    """``read`` would refuse these rows, and with them the whole table. Nothing was written."""


class _RowError(Exception):
    """A wrong row, or header: ``place`` is its line and column."""

    def __init__(self, problem: object, line: int, column: str = "", remedy: str = "correct the line or delete it"):
        super().__init__(problem)
        self.column, self.remedy = f", column {column}" if column else "", remedy
        self.place = f", line {line}{self.column}"


def _lines(path: Path) -> tuple[bytes, bytes]:
    """Return the complete lines of a file, and its torn last line if a killed writer left one. A missing file is empty.

    Raises UserError if the file cannot be read or has no complete line: no writer leaves such a file.
    """
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return b"", b""
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror}); restore the file or move it away") from None
    end = content.rfind(b"\n") + 1
    if not end:
        raise UserError(f"{path}: has no complete line, ended by a line feed; restore the file or move it away")
    return content[:end], content[end:]


def folders_with(name: str, folder: Path) -> list[str]:
    """Return the sorted names of the subfolders that have a file of this name. A missing folder has none.

    Raises UserError for a folder that cannot be read: ``Path.glob`` would leave it out without a word.
    """
    found, there = [], folder
    try:
        for there in [folder / each for each in os.listdir(folder)]:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.stat(there / name)
                found.append(there.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as problem:
        raise UserError(f"{there}: cannot be read ({problem.strerror}); restore the folder or move it away") from None
    return sorted(found)


def set_torn_line_aside(path: Path) -> Path | None:
    """Move a torn last line to a file next to the table, and return that file. Raises UserError if it cannot."""
    complete, torn = _lines(path)
    if not torn:
        return None
    aside = path.with_suffix(path.suffix + ".torn")
    with durably(aside):
        with aside.open("ab") as file:
            file.write(torn + b"\n")
            _flush(file)
        os.truncate(path, len(complete))
    return aside


def read(path: Path, record: type[Record]) -> list[Record]:
    """Read a table; a missing file is empty. Raises UserError with file, line and column of a wrong cell or header."""
    return rows_of(record, columns(path, record))


def read_some(path: Path, record: type[Record], names: Sequence[str], wanted: Container[Any]) -> list[Record]:
    """Return the rows with a ``wanted`` tuple of cells in the columns ``names``. Raises UserError as ``read`` does."""
    return rows_of(record, _select(columns(path, record), names, wanted))


def _select(columns: Columns, names: Sequence[str], wanted: Container[Any]) -> Columns:
    are_wanted = [cells in wanted for cells in zip(*(columns[name] for name in names), strict=True)]
    if all(are_wanted):  # a second list of each column would take as much memory again
        return columns
    return {name: [*itertools.compress(cells, are_wanted)] for name, cells in columns.items()}


quick: Callable[[Path, type], Columns | None] | None = None
"""Reads a table as ``columns`` does, but faster, or returns None. Set by a program that has a library for it."""


def columns(path: Path, record: type, only: Collection[str] = ()) -> Columns:
    """Return the cells of a table by column, which is faster than rows; ``only`` some columns are faster still.

    Raises UserError as ``read`` does. Other columns are not checked.
    """
    if hasattr(record, "problem"):
        return _read_columns(path, record)[1]
    found = quick(path, record) if quick else None
    return _read_columns(path, record, only=only)[1] if found is None else found


def rows_of(record: type[Record], columns: Columns) -> list[Record]:
    return [*map(record, *columns.values())]


def numbered(path: Path, record: type[Record], key: Sequence[str] = ()) -> Numbered[Record]:
    """Return the rows with their last lines; with ``key`` only the first row per value of these columns.

    A torn last line is skipped. A table written by hand may have one.
    """
    numbers, found = _read_columns(path, record, key)
    return [*zip(numbers, rows_of(record, found), strict=True)]


def checked(path: Path, record: type[Record]) -> Numbered[Record]:
    """Return the rows with their last lines. Raises UserError for a torn last line, and for a row that contradicts an
    earlier one: it has the same key and other values.

    No writer leaves both (``merged``). The same row twice, as after a merge by git, does no harm.
    """
    numbers, found = _read_columns(path, record, whole=True)
    rows, names = [*zip(numbers, rows_of(record, found), strict=True)], TABLES[record].key
    keys = [*zip(*(found[name] for name in names), strict=True)]
    if len(set(keys)) < len(keys):
        first: dict[Any, tuple[int, Any]] = {}
        for key, (line, row) in zip(keys, rows, strict=True):
            before, earlier = first.setdefault(key, (line, row))
            if row != earlier:
                name = next(name for name, cell in vars(row).items() if cell != getattr(earlier, name))
                raise UserError(
                    f"{path}, line {line}, column {name}: contradicts line {before}, which has the same "
                    f"{', '.join(names)}; delete the wrong line"
                )
    return rows


def _read_columns(
    path: Path, record: type, key: Sequence[str] = (), whole: bool = False, only: Collection[str] = ()
) -> tuple[list[int], Columns]:
    content, torn = _lines(path)
    facts = TABLES[record]
    if not content:
        return [], {name: [] for name in facts.columns}
    if facts.by_hand:
        content += torn
    elif torn and whole:
        line = content.count(b"\n") + 1
        raise UserError(f"{path}, line {line}: incomplete row; restore the file or delete the line")
    try:
        return _parse(record, content, key, only)
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8 or delete it") from None
    except _RowError as wrong:
        raise UserError(f"{path}{wrong.place}: {wrong}; {wrong.remedy}") from None


def _absent(header: Sequence[str], record: type[Any]) -> list[str]:
    """Return the columns that a table lacks and may lack: people write it, and an older one had none of these."""
    facts = TABLES[record]
    defaults = {field.name for field in dataclasses.fields(record) if field.default is not dataclasses.MISSING}
    return [name for name in facts.columns if facts.by_hand and name in defaults and name not in header]


def _check_header(header: Sequence[str], record: type) -> None:
    columns, absent = TABLES[record].columns, _absent(header, record)
    problems = [f"duplicate column {quote(name)} in the header" for name in header if header.count(name) > 1]
    problems += [f"unknown column {quote(name)}" for name in header if name not in columns]
    problems += [f"the column {name!r} is missing" for name in columns if name not in {*header, *absent}]
    if problems:
        remedy = "correct the header, or update this checkout if a newer version wrote the table"
        raise _RowError(problems[0], 1, remedy=remedy)


def from_cells(
    path: Path, record: type[Record], header: Sequence[str], numbered_cells: Sequence[tuple[int, Sequence[str]]]
) -> Numbered[Record]:
    """Parse cells, as many as the header has, to rows with their lines. Raises UserError as ``read`` does."""
    numbers = [line for line, _ in numbered_cells]
    try:
        _check_header(header, record)
        found = _values(record, header, numbers, [cells for _, cells in numbered_cells], _absent(header, record))
    except _RowError as wrong:
        raise UserError(f"{path}{wrong.place}: {wrong}; {wrong.remedy}") from None
    return [*zip(numbers, rows_of(record, found), strict=True)]


def _parse(
    record: type, content: bytes, key: Sequence[str] = (), only: Collection[str] = ()
) -> tuple[list[int], Columns]:
    """Return the lines of the rows in a table's bytes, and the columns. Raises _RowError for a wrong row."""
    lines = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""))  # "sig": a spreadsheet's mark
    numbers: list[int] = []
    try:
        header = next(lines, [])
        _check_header(header, record)
        value_of = itemgetter(*map(header.index, key)) if key else None
        places = [place for place, name in enumerate(header) if not only or name in only]
        pick = itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))

        def rows() -> Iterator[Sequence[str]]:
            seen = set()
            for cells in lines:
                if len(cells) != len(header):
                    raise _RowError(f"{len(cells)} cells where the header has {len(header)}", lines.line_num)
                if value_of:
                    value = value_of(cells)
                    if value in seen:
                        continue  # the rest of the row is not parsed, which is faster
                    seen.add(value)
                numbers.append(lines.line_num)
                yield pick(cells) if only else cells

        absent = [name for name in _absent(header, record) if not only or name in only]
        return numbers, _values(record, list(pick(header)), numbers, rows(), absent)
    except csv.Error as problem:
        raise _RowError(problem, lines.line_num) from None


class _ValueByText(dict[str, Any]):
    """The values of a column's texts. Each text is parsed once, and equal cells share their value."""

    def __init__(self, column: Column, by_hand: bool) -> None:
        self._column, self._by_hand = column, by_hand

    def __missing__(self, text: str) -> Any:
        value = self[text] = self._column.value(text.strip() if self._by_hand else text)
        return value


def _values(
    record: type, header: Sequence[str], numbers: Sequence[int], rows: Iterable[Sequence[str]], absent: Sequence[str]
) -> Columns:
    """Return the cells as values by column; those of ``absent`` ones are empty. Raises _RowError for a wrong cell."""
    columns, by_hand = TABLES[record].columns, TABLES[record].by_hand
    found: Columns = {name: [] for name in columns if name in {*header, *absent}}  # in the order of the record's fields
    values = {name: _ValueByText(columns[name], by_hand) for name in header}
    wrong: dict[str, _RowError] = {}
    rows, begin = iter(rows), 0
    while piece := [*itertools.islice(rows, PIECE)]:  # the texts of a whole table would take ten times its size
        for name, texts in zip(header, zip(*piece, strict=True), strict=True):
            if name in wrong:
                continue
            try:
                found[name] += map(values[name].__getitem__, texts)
            except ValueError as complaint:
                place = next(place for place, text in enumerate(texts) if text not in values[name])
                wrong[name] = _RowError(f"the cell {complaint}", numbers[begin + place], name)
            if len(values[name]) > MOST_TEXTS:  # few values recur
                values[name].clear()
        begin += len(piece)
    for name in filter(wrong.__contains__, header):
        raise wrong[name]
    for name in absent:
        found[name] = [columns[name].value("")] * len(numbers)
    if hasattr(record, "problem"):  # a check across columns
        checked: list[Any] = rows_of(record, found)
        for line, row in zip(numbers, checked, strict=True):
            name, problem = row.problem()
            if problem:
                raise _RowError(problem, line, name)
    return found


def _header(record: type) -> str:
    return ",".join(TABLES[record].columns) + "\n"


def _encode(path: Path, record: type, rows: Iterable[Any]) -> bytes:
    """Return new rows as a table's lines. Raises UnreadableError if ``read`` would refuse them."""
    rows = list(rows)
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n", quoting=quoting).writerows(vars(row).values() for row in rows)
        if "\r" not in text.getvalue():  # which needs quotes, and gets them from Python 3.13 on
            break
    lines = text.getvalue().encode(errors="replace")  # UTF-8 has no half characters
    try:
        _parse(record, _header(record).encode() + lines)
    except _RowError as wrong:
        raise UnreadableError(f"{path}{wrong.column}: {wrong}; nothing was written; correct its source") from None
    return lines


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def durably(path: Path, undo: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Undo a failed write, and raise UserError with the reason."""
    try:
        yield
    except OSError as problem:
        with suppress(OSError):  # a write that never began needs no undoing
            undo()
        reason = "the disk is full" if problem.errno in (errno.ENOSPC, errno.EDQUOT) else problem.strerror
        remedy = "its old content is intact: correct that and run the same command again"
        raise UserError(f"{path}: could not be written ({reason}); {remedy}") from None


def write(path: Path, record: type[Record], rows: Iterable[Record]) -> None:
    """Replace a whole table, atomically: readers see the old file or the new one.

    Raises UserError if that fails, UnreadableError for rows that could not be read again. The old table stays intact.
    """
    content = _header(record).encode() + _encode(path, record, rows)
    part = path.with_suffix(".csv.part")
    with durably(path, lambda: part.unlink(missing_ok=True)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            _flush(file)
        part.replace(path)


def append(path: Path, record: type[Record], rows: Sequence[Record]) -> None:
    """Add rows at the end of a table, durably. A table with its columns in another order is written anew.

    Raises UserError if that fails, UnreadableError for rows that could not be read again. The old rows stay intact.
    """
    complete, _torn = _lines(path)
    if not complete.startswith(_header(record).encode()):
        write(path, record, [*read(path, record), *rows])
        return
    lines = _encode(path, record, rows)
    with durably(path, lambda: os.truncate(path, len(complete))), path.open("r+b") as file:
        file.seek(len(complete))
        file.truncate()
        file.write(lines)
        _flush(file)


def merged(old: Sequence[Record], new: Sequence[Record]) -> list[Record]:
    """Return the old rows without the new rows' keys, then the new rows."""
    if not new:
        return list(old)
    key = attrgetter(*TABLES[type(new[0])].key)
    replaced = set(map(key, new))
    return [*(row for row in old if key(row) not in replaced), *new]


def put(path: Path, record: type[Record], old: Sequence[Record], rows: Sequence[Record]) -> None:
    """Append rows to the old rows of a table, or write it anew if they replace some."""
    together = merged(old, rows)
    if len(together) == len(old) + len(rows):
        append(path, record, rows)
    else:
        write(path, record, together)


class ChildTable(Generic[Record]):
    """A child table. The columns ``key`` name a child's parent row."""

    def __init__(self, path: Path, record: type[Record], key: Sequence[str]) -> None:
        self.path = path
        self._record, self._names, self._key = record, key, attrgetter(*key)
        self.owners: set[Any] | None = None  # the keys of rows with children, once ``put`` has looked

    def columns_of(self, rows: Collection[Any], only: Collection[str] = ()) -> Columns:
        """Return the children of these parent rows by column, or ``only`` some columns of them."""
        needed = {*self._names, *only} if only else ()
        return _select(columns(self.path, self._record, needed), self._names, set(map(self._key, rows)))

    def put(self, children: Sequence[tuple[Any, Sequence[Record]]]) -> None:
        """Add the children of some parent rows, replacing their earlier children."""
        if self.owners is None:
            self.owners = {self._key(row) for _, row in numbered(self.path, self._record, self._names)}
        new = {self._key(row): rows for row, rows in children}
        again = new.keys() & self.owners
        owners = (self.owners - again) | {owner for owner, rows in new.items() if rows}
        if again:
            together: list[Record] = []
            for owner, old in itertools.groupby(read(self.path, self._record), key=self._key):
                together += new.pop(owner, ()) if owner in again else list(old)
            write(self.path, self._record, together)
        if added := [child for rows in new.values() for child in rows]:
            append(self.path, self._record, added)
        self.owners = owners


@contextmanager
def held(path: Path, refusal: str = "") -> Iterator[None]:
    """Hold a lock file. If another process holds it, wait, or raise UserError with its name and ``refusal``.

    The holder's name is in a file next to the lock, because Windows lets nobody read a locked file.
    """
    import filelock  # only writers need it, and start-up stays fast

    holder = path.with_name(path.name + ".holder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A soft lock would outlive a killed holder. Ray may release in another thread.
        lock = filelock.FileLock(path, timeout=WAIT_S if refusal else -1, fallback_to_soft=False, thread_local=False)
        release = lock.acquire()
    except TimeoutError:
        name = ""
        with suppress(OSError):
            name = holder.read_text(errors="replace").strip()
        raise UserError(f"{name or 'another process'} {refusal}") from None
    except OSError as problem:
        raise UserError(f"{path}: cannot be locked ({problem.strerror}); correct that or use another folder") from None
    with release:
        with suppress(OSError):  # a full disk may refuse the name; the lock does not depend on it
            holder.write_text(f"process {os.getpid()} on {platform.node()}, since {now()},")
        try:
            yield
        finally:
            with suppress(OSError):
                holder.unlink()


def locked(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder's lock. Raises UserError that names the process that already holds it."""
    return held(folder / NAME, f"is measuring into {folder}; wait for it or name another --machine")


def in_turn(folder: Path) -> AbstractContextManager[None]:
    """Hold the folder's lock for a moment. Other processes wait."""
    return held(folder / NAME)
