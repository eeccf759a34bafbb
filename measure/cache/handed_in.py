"""Copy one machine's tables, and those in ``workload`` below it, out of an untrusted folder or zip.

They are copied under their own names. No path from a zip is ever written to.
"""

import hashlib
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from io import FileIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO

from measure.cache.folders import FILES
from measure.cache.records import Environment
from measure.cache.schema import TABLES
from measure.cache.workload_records import Layer, Operator, Workload
from measure.errors import UserError

MOST_FILES = 1000
MOST_BYTE = 2**29  # all tables together; a hundred times those from a day of measuring

# The tables of a machine and of its owner's own models, relative to the machine's folder
WANTED = {*FILES.values(), *(TABLES[record].path for record in (Workload, Layer, Operator))}

SUMS = "SHA256SUMS"  # in a zip of ``pack``: a line for each table, as sha256sum writes it
SUMS_BYTE = 2**16  # the most that is read of it

# The files in a folder or zip, each with a way to open it, or None for a link, a pipe or a device
Members = dict[PurePosixPath, Callable[[], IO[bytes]] | None]


@dataclass(frozen=True)
class HandedIn:
    """Copies of one machine's tables in ``folder``."""

    folder: Path
    name: str | None  # of the original folder, if known
    left_out: list[str]  # the files that are not tables
    changed: list[str]  # the tables that are not what ``pack`` put into the zip; empty without its sums


@contextmanager
def opened(source: Path) -> Iterator[HandedIn]:
    """Copy the tables of the only machine in a folder or zip, for as long as the context lasts.

    Raises UserError for no machine or several, for a table that is not a regular file, and beyond the size limits. A
    UserError about a copy, raised in the context, is raised again about the original file.
    """
    with TemporaryDirectory(prefix="roofwright-") as temporary:
        folder = Path(temporary)
        try:
            if source.is_dir():
                home, *found = _copy_tables(source, _list_folder(source), folder)
            else:
                with zipfile.ZipFile(source) as archive:
                    home, *found = _copy_tables(source, _list_zip(archive), folder)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or problem
            raise UserError(f"{source}: cannot be read ({reason}); name a machine's folder or a zip of it") from None
        name = home.name or (source.resolve().name if source.is_dir() else None)
        try:
            yield HandedIn(folder, name, *found)
        except UserError as problem:
            raise UserError(str(problem).replace(temporary, str(source / home))) from None


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
    for entry in archive.infolist():
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others are unpacked whole
            raise zipfile.BadZipFile(f"{entry.filename} is not compressed with deflate")
        if not entry.is_dir():
            is_regular = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)  # 0 in a zip from Windows
            members[PurePosixPath(entry.filename)] = partial(archive.open, entry) if is_regular else None
    return members


def _copy_tables(source: Path, members: Members, folder: Path) -> tuple[PurePosixPath, list[str], list[str]]:
    """Copy the tables of the only machine among the files. Return its folder, the files that were left out, and the
    tables that changed since ``pack`` made their sums.
    """
    if len(members) > MOST_FILES:
        raise UserError(f"{source}: holds more than {MOST_FILES} files; name the machine's own folder, or a zip of it")
    homes = sorted({path.parent for path in members if path.name == FILES[Environment]})
    if len(homes) != 1:
        names = ", ".join(repr(str(home)[:80]) for home in homes)
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
        (folder / inside).parent.mkdir(exist_ok=True)
        with open_member() as original, (folder / inside).open("wb") as copy:
            while chunk := original.read(2**20):
                size_byte += copy.write(chunk)
                if size_byte > MOST_BYTE:  # the size that a zip states may be too small
                    raise UserError(f"{source}: its tables exceed {MOST_BYTE // 2**20} MiB; name fewer")
    if sums is None:
        return home, left_out, []
    digests = sums_of({path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()})
    return home, left_out, [name for name in sorted(digests.keys() | sums) if digests.get(name) != sums.get(name)]


def sums_of(tables: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each table by its name in a zip."""
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in tables.items()}
