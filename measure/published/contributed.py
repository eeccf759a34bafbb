"""Copy the tables of one machine, and of its ``workload`` folder, out of an untrusted folder or zip.

The copies get the tables' own names: a path from a zip is never written to.
"""

import hashlib
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import FileIO
from os import fstat
from pathlib import Path, PurePosixPath
from tempfile import gettempdir
from typing import IO, TypeVar

from measure.cache.folders import FILES
from measure.cache.scratch import scratch
from measure.domain.records import Environment
from measure.domain.schema import TABLES
from measure.domain.workload_records import Layer, Operator, Workload
from measure.errors import UserError, quote

Record = TypeVar("Record")

MOST_FILES = 1000
MOST_BYTE = 5 * 10**7  # all tables together, five times the project's own machine: half a minute and 0.5 GB to check
PIECE_BYTE = 2**20  # read at once; no list of a zip's files, and no line of a table, is as long
LONGEST_PATH = 1000  # letters of a file's path in a zip

# The tables of a machine and of its owner's own models, relative to the machine's folder
WANTED = {*FILES.values(), *(TABLES[record].path for record in (Workload, Layer, Operator))}

SUMS = "SHA256SUMS"  # in a zip of ``pack``: a line for each table, as sha256sum writes it
SUMS_BYTE = 2**16  # only so much of it is read

# The files in a folder or zip, each with a way to open it, or None for a link, a pipe or a device
Members = dict[PurePosixPath, Callable[[], IO[bytes]] | None]


class _Zip(FileIO):
    """A zip that refuses a large read: only its list of files, of a length that the zip itself states, is one."""

    def read(self, size: int | None = -1) -> bytes:
        piece = fstat(self.fileno()).st_size - self.tell() if size is None or size < 0 else size
        if piece > 2 * PIECE_BYTE:
            raise zipfile.BadZipFile(f"it lists more than {MOST_FILES} files")
        return super().read(size)


@dataclass(frozen=True)
class Contribution:
    """One machine's tables, copied to ``folder``."""

    folder: Path
    name: str | None  # of the original folder, if known
    left_out: list[str]  # other files
    changed: list[str]  # tables that differ from the sums of ``pack``; empty without sums


@contextmanager
def opened(source: Path) -> Iterator[Contribution]:
    """Copy the tables of the only machine in a folder or zip, while the context lasts.

    Raises UserError for no machine or several, for a table that is not a regular file, and beyond the size limits. A
    UserError about a copy, raised in the context, names the original file instead.
    """
    with ExitStack() as stack:
        with _writing():
            folder = stack.enter_context(scratch())
        try:
            if source.is_dir():
                home, *found = _copy_tables(source, _list_folder(source), folder)
            elif source.exists() and not source.is_file():
                raise ValueError("it is not a regular file")
            else:
                with _Zip(source) as file, zipfile.ZipFile(file) as archive:
                    home, *found = _copy_tables(source, _list_zip(archive), folder)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise UserError(f"{source}: cannot be read ({reason}); name a machine's folder or a zip of it") from None
        name = home.name or (source.resolve().name if source.is_dir() else None)
        try:
            yield Contribution(folder, name, *found)
        except UserError as problem:
            raise UserError(str(problem).replace(str(folder), str(source / home))) from None


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        place = f"the temporary folder {gettempdir()} cannot be written ({problem.strerror})"
        raise UserError(f"{place}; make room there, or name another one in the variable TMPDIR") from None


def _list_folder(source: Path) -> Members:
    """List the files below a folder. Links are not followed."""
    members: Members = {}
    for path in source.rglob("*"):
        mode = path.lstat().st_mode
        if not stat.S_ISDIR(mode):
            inside = PurePosixPath(path.relative_to(source).as_posix())
            members[inside] = partial(FileIO, path) if stat.S_ISREG(mode) else None
        if len(members) > MOST_FILES:
            break
    return members


def _list_zip(archive: zipfile.ZipFile) -> Members:
    members: Members = {}
    for entry in archive.infolist()[: MOST_FILES + 1]:
        path = PurePosixPath(entry.filename)
        if not path.name or len(entry.filename) > LONGEST_PATH:  # Python cuts a name at a NUL
            raise zipfile.BadZipFile(f"{quote(entry.filename)} is not the name of a file")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked whole
            raise zipfile.BadZipFile(f"{quote(entry.filename)} is not compressed with deflate")
        if path in members:
            raise zipfile.BadZipFile(f"it holds {quote(entry.filename)} twice")
        if not entry.is_dir():
            is_regular = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)  # 0 in a zip from Windows
            members[path] = partial(archive.open, entry) if is_regular else None
    return members


def _copy_tables(source: Path, members: Members, folder: Path) -> tuple[PurePosixPath, list[str], list[str]]:
    """Copy the tables of the only machine among the files. Return its folder, other files, and changed tables."""
    if len(members) > MOST_FILES:
        raise UserError(f"{source}: holds more than {MOST_FILES} files; name the machine's own folder, or a zip of it")
    homes = sorted({path.parent for path in members if path.name == FILES[Environment]})
    if len(homes) != 1:
        names = ", ".join(quote(str(home)) for home in homes[:5])
        found = f"{len(homes)} machines ({names})" if homes else f"no {FILES[Environment]}, and so no machine"
        raise UserError(f"{source}: holds {found}; name one machine's folder, or a zip of it")
    home, left_out, size_byte = homes[0], [], 0
    sums: dict[str, str] | None = None
    for path, open_member in members.items():
        inside = path.relative_to(home).as_posix() if path.is_relative_to(home) else ""
        if inside == SUMS and open_member:
            with open_member() as listed:
                lines = listed.read(SUMS_BYTE).decode("utf-8", "replace").splitlines()
            sums = {name.lstrip(" *"): digest for digest, _, name in (line.partition(" ") for line in lines)}
            continue
        if inside not in WANTED:
            if not path.name.startswith("."):  # locks, and files that systems leave in folders
                left_out.append(str(path))
            continue
        if open_member is None:
            raise UserError(f"{source}/{path}: is not a regular file; put the table itself there")
        with open_member() as original:
            while piece := original.read(PIECE_BYTE):
                size_byte += len(piece)
                if size_byte > MOST_BYTE:  # the size that a zip states may be too small
                    raise UserError(f"{source}: its tables exceed {MOST_BYTE / 1e6:g} MB; name fewer")
                if len(piece) == PIECE_BYTE and b"\n" not in piece:  # its cells would take ten times as much memory
                    raise UserError(f"{source}/{path}: has a line of more than a million letters; restore the table")
                with _writing():
                    (folder / inside).parent.mkdir(exist_ok=True)
                    with (folder / inside).open("ab") as copy:
                        copy.write(piece)
    if sums is None:
        return home, left_out, []
    digests = sums_of({path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()})
    return home, left_out, [name for name in sorted(digests.keys() | sums) if digests.get(name) != sums.get(name)]


def sums_of(tables: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each table by its name in a zip."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in tables.items()}


def shareable(row: Record) -> Record:
    """Cut the text of an exception off a row: it may name files, hosts or passwords. Its type, before a colon, stays.

    Our own reasons stay as they are.
    """
    if not (reason := getattr(row, "reason", None)):
        return row
    kind = re.sub(r"\S*[/\\]\S*", "…", reason.partition(": ")[0])  # a file that could not be written, for example
    return replace(row, reason=kind)  # type: ignore[type-var]
