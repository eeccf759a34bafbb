"""The paper's settings, from `_quarto.yml` and the front matter of its one document."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.cache.project import SETTINGS_FILE
from measure.errors import UserError
from report.engine.settings import DOCUMENT_SCHEMA, read_settings


@dataclass(frozen=True)
class Project:
    """A folder with a `_quarto.yml` and the document that it renders.

    `settings` are those of `_quarto.yml` with the document's front matter laid over them; paths in it are
    relative to `root`. `body_line` is the line of `document` at which its text begins, counted from 1.
    `passed_over` says what the embedded engine cannot honour, a sentence each.
    """

    root: Path
    document: str
    settings: dict[str, Any]
    body_line: int
    passed_over: tuple[str, ...] = ()

    def format(self, name: str) -> dict[str, Any]:
        """Return the options of one output format, `html` or `typst`."""
        return dict((self.settings.get("format") or {}).get(name) or {})

    def execute(self, option: str, default: bool) -> bool:
        """Return a cell option's default for the whole document."""
        return bool((self.settings.get("execute") or {}).get(option, default))

    def output_name(self, name: str) -> str:
        """Return the name of the file in one format, `html` or `pdf`."""
        options = self.format({"html": "html", "pdf": "typst"}[name])
        return str(options.get("output-file", f"{Path(self.document).stem}.{name}"))

    @property
    def output_folder(self) -> Path:
        """The folder that is rendered to: by Quarto below the project, by `python -m report` below the current one."""
        return Path((self.settings.get("project") or {}).get("output-dir", "_site"))

    @property
    def output_directory(self) -> Path:
        """The folder that Quarto renders to."""
        return self.root / self.output_folder

    @property
    def roofwright(self) -> dict[str, Any]:
        """The settings under `roofwright`, which only this project has."""
        return dict(self.settings.get("roofwright") or {})

    def chosen(self, key: str) -> list[str]:
        """Return the names that the variable ROOFWRIGHT_KEY or else `roofwright: key:` chooses; none for all."""
        given = os.environ.get(f"ROOFWRIGHT_{key.upper()}", "")
        return [name for name in given.split(",") if name] or list(self.roofwright.get(key, []))

    @property
    def filters(self) -> list[str]:
        """The Lua filters that pandoc runs once it has read the document."""
        listed = self.settings.get("filters", [])
        for item in listed:
            if not isinstance(item, dict) or set(item) != {"at", "path"} or item["at"] != "pre-ast":
                raise UserError(f"{SETTINGS_FILE}: a filter is a 'path' with 'at: pre-ast', not {item!r}")
        return self.files([item["path"] for item in listed])

    def files(self, *settings: Any) -> list[str]:
        """Return the paths that settings of one path or a list of paths name; each must exist below the root."""
        paths = [path for setting in settings for path in _listed(setting)]
        for path in paths:
            if not isinstance(path, str) or not (self.root / path).is_file():
                raise UserError(
                    f"{SETTINGS_FILE} names the file {path!r}, which is not there; restore it, or name another"
                )
        return paths

    @property
    def font_folders(self) -> list[str]:
        """The folders of fonts that a PDF may use besides those in the typst package."""
        folders = _listed(self.format("typst").get("font-paths"))
        for folder in folders:
            if not (self.root / str(folder)).is_dir():
                raise UserError(f"{SETTINGS_FILE} names the folder {folder!r}, which is not there; restore it")
        return [str(self.root / folder) for folder in folders]

    def header_texts(self, name: str) -> list[str]:
        """Return what `include-in-header` adds to one format: each item is a file, or a mapping `text:`/`file:`."""
        texts = []
        for item in _listed(self.format(name).get("include-in-header")):
            if isinstance(item, dict) and set(item) == {"text"}:
                texts.append(str(item["text"]))
            else:
                path = item["file"] if isinstance(item, dict) and set(item) == {"file"} else item
                texts += [read_text(self.root / found) for found in self.files(path)]
        return texts


def _listed(setting: Any) -> list[Any]:
    if setting is None:
        return []
    return setting if isinstance(setting, list) else [setting]


def read_text(path: Path) -> str:
    """Return a source's text. Raise UserError where it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror}); restore the file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it in UTF-8") from None


def cannot_write(path: Path, problem: OSError) -> UserError:
    return UserError(f"cannot write {path}: {problem.strerror}; choose another folder with --out")


def read_project(root: Path) -> Project:
    """Read `root/_quarto.yml` and the front matter of the document that it renders."""
    file = root / SETTINGS_FILE
    if not file.is_file():
        raise UserError(f"there is no {SETTINGS_FILE} in {root}; run it in a clone of the project, or install it again")
    passed_over: list[str] = []
    settings = read_settings(read_text(file), SETTINGS_FILE, 1, DOCUMENT_SCHEMA, passed_over)
    documents = (settings.get("project") or {}).get("render") or ["index.qmd"]
    if len(documents) != 1 or not (root / str(documents[0])).is_file():
        raise UserError(f"{SETTINGS_FILE}: 'render' must name one document that is there, not {documents}")
    document = str(documents[0])
    lines = read_text(root / document).split("\n")
    if lines[0].rstrip() != "---":
        return Project(root, document, settings, 1, tuple(passed_over))
    ends = [number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"]
    if not ends:
        raise UserError(f"{document}:1: the front matter has no closing '---'; add it")
    front_matter = read_settings("\n".join(lines[1 : ends[0]]), document, 2, DOCUMENT_SCHEMA, passed_over)
    return Project(root, document, _merged(settings, front_matter), ends[0] + 2, tuple(passed_over))


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
