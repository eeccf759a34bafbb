"""The facts of the paper: every number of its text with a stable name and a source.

A chapter's ``facts.py`` has classes of ``Facts`` with fields of ``Value`` and ``Name``, and one function ``of(paper)``
that returns the outermost. The text and ``facts.json`` use the same name: ``training.step.over_forward``. The meaning
of a field follows it, after ``#:`` or in a string on the next line.
"""

import dataclasses
import inspect
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, TypeVar, dataclass_transform

from measure.cache.project import MACHINES
from measure.errors import unknown
from report import UNDISTURBED, options
from report.markdown import Markup
from report.paper import Paper
from report.stats.value import Name, Source, Value

CHAPTERS = (
    "here", "puzzle", "bound", "cause", "energy", "chips", "networks", "latency", "utilisation", "training", "tokens",
    "several", "prediction", "remedies", "method", "counting", "machine", "published",
)  # fmt: skip

MEANING = re.compile(r'^    (\w+): [^\n]*?(?:  #: ([^\n]+)|\n    "+(.+?)"+$)', re.MULTILINE | re.DOTALL)
"""A field and its meaning."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Facts:
    """A group of facts: its classes are frozen dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        dataclasses.dataclass(frozen=True, repr=False, eq=False)(cls)  # unused, and slow to compile


Group = TypeVar("Group")


CONCLUSIVE = ("puzzle", "latency", "utilisation", "method")
"""Chapters with undisturbed facts for the findings, the advice and the last lines of the command."""


@cache
def of_chapter(name: str, paper: Paper) -> Any:
    """Compute the facts of a chapter, once for a paper. Each has its key, and each value its origin."""
    key = f"{UNDISTURBED}{name}" if paper.is_undisturbed else name

    def change(value: Value | Name, key: str) -> dict[str, Any]:
        return {"key": key, "origin": origin(value.source, paper)} if isinstance(value, Value) else {"key": key}

    return _changed(import_module(f"report.chapters.{name}.facts").of(paper), key, change)


def origin(source: Source | None, paper: Paper) -> str:
    """Return whose machine measured a value in a reader's paper: ``own``, ``reference``, or empty if none did.

    What others published, predictions and imported traces are ``reference``, counts and datasheets empty. Traces that a
    command measures are machines'. A table of several machines is of GPUs if its command measures one.
    """
    if source is None or not paper.is_readers:
        return ""
    folder, _, rest = source.table.partition("/")
    if folder in ("published", "prediction") or (folder == "traces" and source.command is None):
        return "" if rest.rpartition("/")[2].startswith("count") else "reference"
    if folder not in ("machines", "traces"):
        return ""
    of_gpus = "--device cuda" in (source.command or "")
    named = [part.partition("/")[0] for part in f"/{source.table}".split("machines/")[1:]]
    folders = [name for name in named if name != "*"] or [
        each.folder for each in paper.machines if of_gpus == (each.chip_kind == "gpu")
    ]
    return "reference" if set(folders) <= set(MACHINES) else "own"


def source_of(table: str, rows: str, sections: str) -> Source:
    """Return the source of values from these sections of a measurement."""
    return Source(table, rows, options.measure_command(f"--sections {sections}"))


def missing(kind: type[Group]) -> Group:
    """Return a group of missing facts."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        of: Any = field.type
        if of in (Value, Name):
            found[field.name] = of(None)
        elif isinstance(of, type) and dataclasses.is_dataclass(of):
            found[field.name] = missing(of)
        else:  # no condition and no claim holds
            found[field.name] = of()
    return kind(**found)


def sourced(facts: Group, source: Source) -> Group:
    """Give this source to every value without one."""
    return _changed(facts, "", lambda value, _key: {"source": value.source or source})


def _changed(facts: Any, key: str, change: Callable[[Value | Name, str], dict[str, Any]]) -> Any:
    """Replace fields of each value by the result of ``change(value, key)``."""
    if isinstance(facts, Value | Name):
        return dataclasses.replace(facts, **change(facts, key))
    if not dataclasses.is_dataclass(facts) or isinstance(facts, type):
        return facts
    fields = ((field.name, getattr(facts, field.name)) for field in dataclasses.fields(facts))
    return dataclasses.replace(facts, **{name: _changed(value, f"{key}.{name}", change) for name, value in fields})


def conditions(name: str, facts: Any) -> Markup:
    """Return the metadata block that shows or hides a chapter's blocks.

    ``when-meta="training.step"`` holds if a group has any value that is not missing, or a field of type bool is true.
    A field ``claims`` (names and truths) does the same for blocks of class ``reference``.
    """
    text = json.dumps({name: _conditions(facts)}, indent=1)
    return Markup(f"---\n{text}\n---\n")  # JSON is YAML


def _conditions(facts: Any) -> Any:
    found: dict[str, Any] = {}
    for field in dataclasses.fields(facts):
        value = getattr(facts, field.name)
        if isinstance(value, bool):
            found[field.name] = value
        elif field.name == "claims":
            found["claims"] = {name: bool(holds) for name, holds in value.items()}
        elif isinstance(value, Value | Name):
            found[field.name] = not value.is_missing
        elif dataclasses.is_dataclass(value):
            found[field.name] = any(not each.is_missing for _, each, _ in entries("", value))
    return found


def entries(key: str, facts: Any) -> Iterator[tuple[str, Value | Name, str]]:
    """Yield the key, value and meaning of each fact of the chapter or group at ``key``."""
    kind: Any = type(facts)
    meanings = _meanings(kind)
    for field in dataclasses.fields(facts):
        value, own = getattr(facts, field.name), f"{key}.{field.name}"
        if isinstance(value, Value | Name):
            yield own, value, meanings.get(field.name, "")
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from entries(own, value)


@cache
def _meanings(kind: Any) -> dict[str, str]:
    found = MEANING.findall(_sources(kind.__module__)[kind.__name__])
    return {name: " ".join((after or below).split()) for name, after, below in found}


@cache
def _sources(module: str) -> dict[str, str]:
    """Return the text of each class of a module. ``inspect`` would parse the module for each."""
    text = inspect.getsource(import_module(module))
    return dict(re.findall(r"^class (\w+)(.*?\n)(?=\S|\Z)", text, re.MULTILINE | re.DOTALL))


def of_paper(paper: Paper, *chapters: str) -> dict[str, dict[str, Any]]:
    """Return the facts of chapters, by default all, by key as values of JSON."""
    sources = [(name, name, paper) for name in chapters or CHAPTERS]
    if paper.undisturbed is not paper:
        chosen = [name for name in CONCLUSIVE if name in (chapters or CHAPTERS)]
        sources += [(f"{UNDISTURBED}{name}", name, paper.undisturbed) for name in chosen]
    return {
        key: as_json(value, meaning)
        for start, name, of in sources
        for key, value, meaning in entries(start, of_chapter(name, of))
    }


def as_json(value: Value | Name, meaning: str) -> dict[str, Any]:
    """Convert a fact to JSON. A missing one has a null ``value``."""
    source = value.source or Source("")
    where = {"table": source.table, "rows": source.rows, "command": source.command}
    if isinstance(value, Name):
        return {"value": value.text, "meaning": meaning, **where}
    return {
        "value": None if value.is_missing else value.number, "unit": value.unit, "low": value.low, "high": value.high,
        "count": value.count, "counted": value.counted,
        "name": None if value.number is None else value.name or None, "printed": value.printed(),
        "meaning": meaning, **where,
    }  # fmt: skip


def why(paper: Paper, name: str) -> str:
    """Describe a fact, or all facts of a group. Raises UserError for an unknown name."""
    facts = of_paper(paper)
    found = {key: fact for key, fact in facts.items() if key == name or key.startswith(f"{name}.")}
    if not found:
        raise unknown("why", name, sorted(facts))
    return "\n\n".join(_described(key, fact) for key, fact in found.items())


def _described(key: str, fact: dict[str, Any]) -> str:
    lines = [f"{key}: {fact.get('printed', fact['value'])}", fact["meaning"]]
    if fact.get("count") is not None:
        lines.append(f"rests on {fact['count']} {fact['counted']}")
    if fact["table"]:
        lines.append(f"from data/{fact['table']} ({fact['rows']})")
    if fact["command"]:
        lines.append(f"its data come from {fact['command']}")
    return "\n  ".join(filter(None, lines))


def dictionary() -> str:
    """Return the meanings of all facts as Markdown."""
    lines = [DICTIONARY]
    for name in CHAPTERS:
        kind = inspect.signature(import_module(f"report.chapters.{name}.facts").of).return_annotation
        lines.append(f"\n## {name}\n\n| fact | meaning |\n|:--|:--|")
        lines += [f"| `{key}` | {meaning} |" for key, _, meaning in entries(name, missing(kind))]
    return "\n".join(lines) + "\n"


DICTIONARY = """\
# Facts

Every number of the paper's text has a name. `_site/facts.json` holds all of them with unit, interval, number of
samples, source and the command that measures them again; `python -m report why NAME` prints one.
Where other programs used a machine while it was measured, `undisturbed.NAME` is the same fact without those cells.
`python -m report.dictionary` writes this file from the fields in `report/chapters/*/facts.py`.
"""
