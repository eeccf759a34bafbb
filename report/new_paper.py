"""A paper of a reader's own: a folder with settings, the chapters by name and a discussion."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from measure.cache.project import ROOT, SETTINGS_FILE, project_folder
from measure.errors import UserError
from report.files import read_text, write_file

# Below a reader's folder: the package's files, replaced by the folder's own, to render
RENDERED = Path("_cache/paper")
SHARED = ("bib", "data", "published.qmd", "index.qmd")  # every paper needs them and the package
OWN_FILES = "own-files.txt"  # lists the folder's own files there
DISCUSSION = "discussion.qmd"
STARTER = Path(__file__).with_name("starter")  # the files of a new folder

COLOPHON = """\
```{python}
#| label: colophon
author_cells.colophon()
```

"""


def new(folder: Path) -> list[Path]:
    """Write a folder that is ready to render; return its files. Raises UserError if it is not empty.

    Nothing is left of a folder that could not be written completely.
    """
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        is_file = not missing and not folder.is_dir()
        is_taken = not missing and not is_file and any(folder.iterdir())
    except OSError as problem:  # such as an unreadable folder or a long name
        raise UserError(f"{folder}: cannot be used ({problem.strerror}); name another folder") from None
    if is_file:
        raise UserError(f"{folder} is a file; name a folder that is new")
    if is_taken:
        raise UserError(f"{folder} is there already and not empty; name a folder that is new")
    root = project_folder()
    shared = re.search(r"(?ms)^citeproc:.*?(?=^# A paper of your own)", read_text(root / SETTINGS_FILE))
    # Without the project's title and its PDF standard, which fails for a picture without alternative text
    formats = re.sub(r"(?m)^ +(- text|pdf-standard):.*\n", "", shared[0] if shared else "")
    # Without the authors' abstract and findings, and the studies that they compared with
    index = re.sub(r"\{\{< include report/chapters/(front|published)/.*>\}\}\n\n", "", read_text(root / "index.qmd"))
    before, heading, after = index.partition("# What you could measure next")
    contents = {
        SETTINGS_FILE: read_text(STARTER / "settings.yml").replace("# FORMATS\n", formats),
        "index.qmd": f"{before}{{{{< include {DISCUSSION} >}}}}\n\n{COLOPHON}{heading}{after}",
        **{name: read_text(STARTER / name) for name in (DISCUSSION, "own.bib")},
    }
    try:
        for name, text in contents.items():
            write_file(folder / name, text.encode())
    except BaseException:  # Ctrl-C too
        with suppress(OSError):
            for name in contents:
                (folder / name).unlink(missing_ok=True)
            for each in missing:
                each.rmdir()
        raise
    return [folder / name for name in contents]


def stands_in(folder: Path) -> bool:
    """Return whether a folder is a reader's paper: outside the project, with settings for ``roofwright``."""
    settings = folder / SETTINGS_FILE
    is_ours = folder.resolve() in (ROOT.resolve(), project_folder().resolve())
    return not is_ours and settings.is_file() and bool(re.search(r"(?m)^roofwright:", read_text(settings)))


def assemble(folder: Path) -> Path:
    """Copy the package's files, then the folder's own, into one place for both engines; return it."""
    try:
        return _assemble(folder)
    except OSError as problem:
        raise UserError(
            f"{folder / RENDERED}: the paper cannot be put together ({problem.strerror or problem}); it needs a folder "
            "that can be written, with room"
        ) from None


def _assemble(folder: Path) -> Path:
    root, package, there = (folder / RENDERED).resolve(), Path(__file__).parent, project_folder()
    for old in root.glob("[!_]*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    for name in SHARED:
        copy = shutil.copytree if (there / name).is_dir() else shutil.copy2
        root.mkdir(parents=True, exist_ok=True)
        copy(there / name, root / name)
    shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    theirs = [path for path in folder.rglob("*") if path.is_file() and _is_theirs(path.relative_to(folder))]
    for path in theirs:
        target = root / path.relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    listed = root / OWN_FILES
    listed.write_text("\n".join(path.relative_to(folder).as_posix() for path in theirs), "utf-8")
    os.utime(listed, (0, 0))  # so that the outputs of the last render stay valid
    return root


def _is_theirs(path: Path) -> bool:
    """Return whether a file belongs to the paper: not an output, an environment or a measurement."""
    parts = path.parts
    return parts[0] != "data" and not any(part.startswith((".", "_")) for part in parts if part != SETTINGS_FILE)
