"""Copy one machine's tables out of an untrusted folder or zip.

Only a machine's tables, and those of workloads in the folder ``workload`` next to them, are copied, under their own
names. No path from a zip is ever written to.
"""

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from measure.cache.folders import FILE_NAMES, FILES
from measure.cache.records import Environment
from measure.cache.schema import file_of
from measure.cache.workload_records import Layer, Operator, Workload
from measure.errors import UserError

MOST_FILES = 1000
MOST_BYTE = 2**28
"""The largest table: about a hundred times the largest from a day of measuring."""
MOST_BYTE_TOGETHER = 2**29
CHUNK_BYTE = 2**20

COUNTED = frozenset(file_of(record, Path()) for record in (Workload, Layer, Operator))
"""The tables of the owner's own models, relative to the machine's folder."""
(COUNTS,) = {path.parent for path in COUNTED}

CLUTTER = re.compile(r"(.*/)?(\.lock(\.holder)?|\.DS_Store|Thumbs\.db|desktop\.ini|\._[^/]*)|__MACOSX/.*")
"""Files that systems and this program leave in folders. They are left out silently."""


class Member(NamedTuple):
    """A file in a folder or zip. ``is_regular`` is false for a link, a pipe, a device or a folder."""

    path: PurePosixPath
    is_regular: bool
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class HandedIn:
    """Copies of one machine's tables in ``folder``.

    ``name`` is the name of the original folder, if known. ``origin`` names the source in error messages. ``left_out``
    lists the files that are not tables.
    """

    folder: Path
    name: str | None
    origin: str
    left_out: tuple[str, ...]

    @contextmanager
    def named(self) -> Iterator[None]:
        """Make error messages about the copies name the original files."""
        try:
            yield
        except UserError as problem:
            raise UserError(str(problem).replace(str(self.folder), self.origin)) from None


@contextmanager
def opened(source: Path) -> Iterator[HandedIn]:
    """Copy the tables of the only machine in a folder or zip, for as long as the context lasts.

    Raises UserError for no machine or several, for a table that is not a regular file, and beyond the size limits.
    """
    with TemporaryDirectory(prefix="roofwright-") as temporary:
        try:
            if source.is_dir():
                handed_in = _copy_tables(source, source.resolve().name, _list_folder(source), Path(temporary))
            else:
                with zipfile.ZipFile(source) as archive:
                    members = _list_zip(archive)
                    handed_in = _copy_tables(source, None, members, Path(temporary))
        except OSError as problem:
            raise UserError(
                f"{source}: cannot be read ({problem.strerror or problem}); name a machine's folder or a zip of it"
            ) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as problem:
            raise UserError(f"{source}: is not a readable zip ({problem}); zip the folder again") from None
        yield handed_in


def _list_folder(source: Path) -> list[Member]:
    """List the files below a folder, but only the top level of a machine's folder. Links are not followed."""
    members: list[Member] = []
    for directory, below, names in os.walk(source):
        if FILES[Environment] in names:
            names += sorted(FILE_NAMES.intersection(below))  # refuse a folder named like a table, do not skip it
            below[:] = [name for name in below if name == COUNTS.name]
        for name in names:
            path = Path(directory) / name
            inside = PurePosixPath(path.relative_to(source).as_posix())
            members.append(Member(inside, stat.S_ISREG(path.lstat().st_mode), partial(FileIO, path)))
        if len(members) > MOST_FILES:
            break
    return members


def _list_zip(archive: zipfile.ZipFile) -> list[Member]:
    """List the files in a zip, and folders that are named like a table."""
    members = []
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked whole
            raise zipfile.BadZipFile(f"{entry.filename} is not compressed with deflate")
        path, kind = PurePosixPath(entry.filename), stat.S_IFMT(entry.external_attr >> 16)  # 0 in a zip from Windows
        if not entry.is_dir() or path.name in FILE_NAMES:
            is_regular = not entry.is_dir() and kind in (0, stat.S_IFREG)
            members.append(Member(path, is_regular, partial(archive.open, entry)))
    return members


def _copy_tables(source: Path, folder_name: str | None, members: list[Member], folder: Path) -> HandedIn:
    """Copy the tables of the only machine among the files."""
    if len(members) > MOST_FILES:
        raise UserError(
            f"{source}: holds more than {MOST_FILES} files; name the machine's own folder, or a zip of that alone"
        )
    homes = sorted({member.path.parent for member in members if member.path.name == FILES[Environment]})
    if not homes:
        raise UserError(
            f"{source}: holds no {FILES[Environment]}, and so no machine; name its folder, such as data/machines/NAME, "
            "or a zip of it"
        )
    if len(homes) > 1:
        names = ", ".join(repr(str(home)[:80]) for home in homes)
        raise UserError(f"{source}: holds {len(homes)} machines ({names}); add them one by one")
    home = homes[0]
    left_out, total_byte = [], 0
    for member in members:
        inside = Path(member.path.relative_to(home)) if member.path.is_relative_to(home) else Path("..")
        if str(inside) in FILE_NAMES or inside in COUNTED:
            total_byte += _copy(member, folder / inside, f"{source}/{member.path}")
            if total_byte > MOST_BYTE_TOGETHER:
                raise UserError(f"{source}: its tables exceed {MOST_BYTE_TOGETHER // 2**20} MiB; name fewer")
        elif not CLUTTER.fullmatch(str(member.path)):
            left_out.append(str(member.path))
    return HandedIn(folder, home.name or folder_name, str(source / home), tuple(left_out))


def _copy(member: Member, target: Path, place: str) -> int:
    """Copy a file and return its size (B). The size that a zip states may be too small."""
    if not member.is_regular:
        raise UserError(f"{place}: is not a regular file; put the table itself there")
    target.parent.mkdir(exist_ok=True)
    written = 0
    with member.open() as source, target.open("wb") as file:
        while chunk := source.read(CHUNK_BYTE):
            written += file.write(chunk)
            if written > MOST_BYTE:
                raise UserError(f"{place}: has more than {MOST_BYTE // 2**20} MiB, unlike any table")
    return written
