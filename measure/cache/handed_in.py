"""The tables of one machine that another person hands in, copied out of an untrusted folder or zip.

Only files named like a machine's tables, and like those of workloads in a folder ``workload`` beside them, are copied,
under those names: no path from a zip is ever written to, and everything else is left out.
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
"""The largest table: some hundred times the largest that a day of measuring wrote."""
MOST_BYTE_TOGETHER = 2**29
BOMB_BYTE, BOMB_RATIO = 2**24, 200
"""A file that unpacks to more than this, and to more than so many times its size in the zip, is not a table."""
CHUNK_BYTE = 2**20

COUNTED = frozenset(file_of(record, Path()) for record in (Workload, Layer, Operator))
"""The tables of the owner's own models, as they lie beside a machine's."""
(COUNTS,) = {path.parent for path in COUNTED}

BY_THE_WAY = re.compile(r"(.*/)?(\.lock(\.holder)?|\.DS_Store|Thumbs\.db|desktop\.ini|\._[^/]*)|__MACOSX/.*")
"""Files that systems and this program leave in folders: left out silently."""


class Member(NamedTuple):
    """A file in a folder or zip; one that is not ``plain`` is a link, a pipe or a device."""

    path: PurePosixPath
    plain: bool
    open: Callable[[], IO[bytes]]


@dataclass(frozen=True)
class HandedIn:
    """The tables of one machine in ``folder``, copies; ``name`` is that of the folder that they lay in, if any.

    ``origin`` names the source in error messages, ``left_out`` the files that are not tables.
    """

    folder: Path
    name: str | None
    origin: str
    left_out: tuple[str, ...]

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let error messages about the copies name the original files."""
        try:
            yield
        except UserError as problem:
            raise UserError(str(problem).replace(str(self.folder), self.origin)) from None


@contextmanager
def opened(source: Path) -> Iterator[HandedIn]:
    """Copy the tables of the one machine in a folder or zip, for as long as the context lasts.

    Raises UserError for anything else, for no machine or several, and for what a zip or folder of tables never holds:
    names that lead out of it, links, passwords, files beyond the limits.
    """
    with TemporaryDirectory(prefix="roofwright-") as temporary:
        try:
            if source.is_dir():
                handed_in = _copied(source, source.resolve().name, _in_folder(source), Path(temporary))
            else:
                with zipfile.ZipFile(source) as archive:
                    handed_in = _copied(source, None, _in_zip(source, archive), Path(temporary))
        except OSError as problem:
            raise UserError(
                f"{source}: cannot be read ({problem.strerror or problem}); name a machine's folder or a zip of it"
            ) from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as problem:
            raise UserError(f"{source}: is not a sound zip ({problem}); zip the folder again") from None
        yield handed_in


def _in_folder(source: Path) -> list[Member]:
    """Return all files below a folder, of a machine's folder only what lies right in it. Links are not followed."""
    found = []
    for directory, below, names in os.walk(source):
        if FILES[Environment] in names:
            names += sorted(FILE_NAMES.intersection(below))  # a folder in the place of a table is told, not skipped
            below[:] = [name for name in below if name == COUNTS.name]
        for name in names:
            path = Path(directory) / name
            plain = stat.S_ISREG(path.lstat().st_mode)
            inside = PurePosixPath(path.relative_to(source).as_posix())
            found.append(Member(inside, plain, partial(FileIO, path)))
        _check_number(source, len(found))
    return found


def _in_zip(source: Path, archive: zipfile.ZipFile) -> list[Member]:
    """Return all files in a zip; refuse all if one of them is what no honest zip of tables holds."""
    entries = [
        entry for entry in archive.infolist() if not entry.is_dir() or PurePosixPath(entry.filename).name in FILE_NAMES
    ]
    _check_number(source, len(entries))
    seen: set[str] = set()
    for entry in entries:
        if problem := _problem(entry, seen):
            raise UserError(f"{source}: {_shown(entry.orig_filename)} {problem}; zip the folder again")
        seen.add(entry.filename.casefold())
    return [Member(PurePosixPath(entry.filename), True, partial(archive.open, entry)) for entry in entries]


def _check_number(source: Path, count: int) -> None:
    if count > MOST_FILES:
        raise UserError(
            f"{source}: holds more than {MOST_FILES} files; name the machine's own folder, or a zip of that alone"
        )


def _problem(entry: zipfile.ZipInfo, seen: set[str]) -> str | None:
    """Say why a zip with this file is refused."""
    if entry.is_dir():
        return "is a folder, where a table should be"
    name, kind = entry.orig_filename, stat.S_IFMT(entry.external_attr >> 16)
    parts = name.split("/")
    if name.startswith("/") or re.match("[A-Za-z]:", name):
        return "has an absolute name"
    if "\\" in name or not name.isprintable() or {"", ".", ".."} & set(parts):
        return "has a name that leads elsewhere"
    if kind not in (0, stat.S_IFREG):
        return "is not a plain file"
    if entry.flag_bits & 1:
        return "is encrypted"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return "is compressed in a way other than deflate"
    if name.casefold() in seen:
        return "is there twice"
    if entry.file_size > BOMB_BYTE and entry.file_size > BOMB_RATIO * entry.compress_size:
        return f"unpacks to more than {BOMB_RATIO} times its size"
    return None


def _shown(name: str) -> str:
    return repr(name if len(name) <= 80 else name[:80] + "…")


def _copied(source: Path, folder_name: str | None, members: list[Member], folder: Path) -> HandedIn:
    """Copy the tables of the one machine among the files."""
    homes = sorted({member.path.parent for member in members if member.path.name == FILES[Environment]})
    if not homes:
        raise UserError(
            f"{source}: holds no {FILES[Environment]}, and so no machine; name its folder, such as data/machines/NAME, "
            "or a zip of it"
        )
    if len(homes) > 1:
        named = ", ".join(_shown(str(home)) for home in homes)
        raise UserError(f"{source}: holds {len(homes)} machines ({named}); add them one by one")
    home = homes[0]
    left_out, together = [], 0
    for member in members:
        inside = Path(member.path.relative_to(home)) if member.path.is_relative_to(home) else None
        if inside is None or (str(inside) not in FILE_NAMES and inside not in COUNTED):
            if not BY_THE_WAY.fullmatch(str(member.path)):
                left_out.append(str(member.path))
            continue
        place = f"{source}/{member.path}"
        if not member.plain:
            raise UserError(f"{place}: is not a plain file; put the table itself there")
        (folder / inside).parent.mkdir(exist_ok=True)
        together += _copy(member, folder / inside, place)
        if together > MOST_BYTE_TOGETHER:
            raise UserError(f"{source}: its tables exceed {MOST_BYTE_TOGETHER // 2**20} MiB; name fewer")
    return HandedIn(folder, home.name or folder_name, str(source / home), tuple(left_out))


def _copy(member: Member, target: Path, place: str) -> int:
    """Copy a file, whose stated size may be too small; return the bytes written."""
    written = 0
    with member.open() as source, target.open("wb") as file:
        while chunk := source.read(CHUNK_BYTE):
            written += file.write(chunk)
            if written > MOST_BYTE:
                raise UserError(f"{place}: has more than {MOST_BYTE // 2**20} MiB, unlike any table")
    return written
