"""Declare tables: a record's fields describe the columns, its class describes the table.

The header, the reader, the checks and the data dictionary follow from them. Columns of several tables are defined here.

msgspec and pydantic would read the largest table in two thirds of the time, but measuring must run with torch alone,
and neither names file, line, column and unit of an error.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_type_hints

from measure.domain.variants import NAMES, OPTIMIZERS
from measure.domain.words import EAGER, INFERENCE, LAYER_KINDS, PRECISIONS, STAGES, STEP
from measure.errors import quote

MOST = 10**18  # the largest number in a column that sets no other limit
NUMBER = "1"  # the unit of counts, ratios and ordinals
DAY_S = 86_400.0

# Units by the last word of a column's name
UNITS = {
    "s": "s", "byte": "B", "flop": "FLOP", "mac": "multiply-adds", "hz": "Hz", "c": "°C", "w": "W", "j": "J",
    "count": NUMBER, "cycle": "cycle",
}  # fmt: skip
UNIT = re.compile(rf"(?:.*?_)??({'|'.join(UNITS)})(?:_per_({'|'.join(UNITS)}))?(?:_as_printed)?")


@dataclass(frozen=True)
class Form:
    """A test of the texts in a column, and the ``description`` that follows "is not" in its error."""

    fits: Callable[[str], object]
    description: str
    words: tuple[str, ...] = ()  # all texts that fit, if they are few


def one_of(words: Iterable[str]) -> Form:
    words = tuple(words)
    return Form(words.__contains__, f"one of {', '.join(words)}", words)


def some_of(words: Sequence[str], sign: str, alone: Iterable[str] = ()) -> Form:
    """Return the form of one or several of these words, each once, joined by ``sign``, or of one word ``alone``."""

    def fits(text: str) -> bool:
        parts = text.split(sign)
        return text in alone or (set(parts) <= set(words) and len(set(parts)) == len(parts))

    return Form(fits, f"one of {', '.join((*alone, *words))}, or several joined by {sign!r}")


def several(pattern: str, description: str) -> Form:
    """Return the form of one or more matches of a pattern, joined by ``;``."""
    return Form(re.compile(f"{pattern}(?:;{pattern})*").fullmatch, f"{description} joined by ';'")


@dataclass(frozen=True)
class Column:
    """The facts of a column, in the ``Annotated`` type of a record's field. A text alone is the meaning."""

    meaning: str
    unit: str = ""  # needed if the column's name does not end with it
    least: float = 0
    most: float = MOST
    form: Form | None = None
    empty: str | None = None  # the value of an empty cell, unless that means unknown
    type: type = str  # by the field
    optional: bool = False  # by the field: whether a cell may be empty

    def value(self, text: str) -> Any:
        """Parse a cell. Raises ValueError with the text and the expected form."""
        if not text:
            if self.optional:
                return self.empty
            raise ValueError("is empty")
        if self.type is str:
            if self.form is None or self.form.fits(text):
                return text
            wanted = self.form.description
        else:
            try:
                number = self.type(text)
                # Only Python takes 1_000, or digits of other scripts
                if self.least <= number <= self.most and "_" not in text and text.isascii():
                    return number
            except (ValueError, ArithmeticError):
                pass  # reported below
            unit = "" if self.unit == NUMBER else f" {self.unit}"
            limits = f"of at least {self.least:g}" if self.most == MOST else f"from {self.least:g} to {self.most:g}"
            wanted = f"a {'whole ' if self.type is int else ''}number {limits}{unit}"
        raise ValueError(f"is {quote(text)}, not {wanted}")


def unit(name: str) -> str:
    """Return the unit at the end of a column's name, else an empty text."""
    found = UNIT.fullmatch(name)
    return "/".join(UNITS[part] for part in found.groups() if part) if found else ""


@dataclass(frozen=True)
class Table:
    """The facts of a table."""

    path: str  # below ``data``
    key: tuple[str, ...]  # the columns that identify a row
    columns: dict[str, Column]  # by name, in the header's order
    by_hand: bool  # whether people write it

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


MACHINE = "machines/NAME"  # the folder below ``data`` of the tables that each machine has
TABLES: dict[Any, Table] = {}  # by record

Record = TypeVar("Record")


@dataclass_transform(frozen_default=True)
def table(path: str, key: Iterable[str], by_hand: bool = False) -> Callable[[type[Record]], type[Record]]:
    """Make a class the record of a table, a frozen dataclass: see ``Table``."""

    def declare(record: type[Record]) -> type[Record]:
        made: Any = dataclass(frozen=True)(record)
        hints = get_type_hints(made, include_extras=True)
        columns = {}
        for field in fields(made):
            hint, *_, declared = get_args(hints[field.name])
            facts = declared if isinstance(declared, Column) else Column(declared)
            (type_,) = set(get_args(hint) or (hint,)) - {NoneType}
            columns[field.name] = replace(
                facts,
                type=type_,
                unit=facts.unit or ("" if type_ is str else unit(field.name)),
                optional=NoneType in get_args(hint) or facts.empty is not None,
            )
        TABLES[made] = Table(path, tuple(key), columns, by_hand)
        return record

    return declare


def file_of(record: type, data: Path) -> Path:
    """Return the file of a table that does not belong to a machine."""
    return data / TABLES[record].path


def duration(meaning: str) -> Column:
    """Return a column of times above zero (s)."""
    return Column(meaning, least=1e-12, most=DAY_S)


DEVICE = one_of(("cpu", "cuda", "mps"))
STATUSES = one_of(("ok", "oom", "timeout", "unsupported", "killed", "error"))
SHAPE = Form(re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*").fullmatch, "whole numbers joined by 'x'")

EnvironmentId = Annotated[str, "hash of hardware, driver, torch, C library, huge pages, threads and tuning"]
Model = Annotated[str, "the model's name"]
Family = Annotated[str, "the model's family of networks"]
InputShape = Annotated[str, Column("the shape of one input, without the batch", form=SHAPE)]
Batch = Annotated[int, Column("inputs of one call", NUMBER, least=1)]
Precision = Annotated[str, Column("the precision of weights and input", form=one_of(PRECISIONS))]
Capability = Annotated[str | None, "the GPU's compute capability"]
Autocast = Annotated[str | None, Column("the device of the autocast that sets operators' precisions", form=DEVICE)]
Phase = Annotated[str, Column("a forward pass, a training step or its stage", form=one_of((INFERENCE, STEP, *STAGES)))]
Variant = Annotated[str, Column("how the network is run", form=some_of((*NAMES, *OPTIMIZERS), "+", (EAGER,)))]
Round = Annotated[int, Column("counts the rounds of a cell from 0", NUMBER)]
Status = Annotated[
    str, Column("how it ended; after `killed`, or by another version, the next run tries again", form=STATUSES)
]
Reason = Annotated[str | None, "why the status is not `ok`, or a remark on a count"]
Session = Annotated[str | None, "the UTC time of the command's start; it measures its cells in one random order"]
Seed = Annotated[int | None, Column("the seed of that order", NUMBER)]
Version = Annotated[str | None, "the version of Roofwright, with the commit in a clone"]
Code = Annotated[str | None, "hash of an own model's operators and source, or of an own configuration"]
USED = "share of the cores that others used meanwhile; on a GPU's host, of the time that its threads waited for a core"
Load = Annotated[float | None, Column(USED, NUMBER, most=1)]

LayerKind = Annotated[str, Column("the kind of layer", form=one_of(LAYER_KINDS))]
Stage = Annotated[str, Column("a forward pass, or a training step's stage", form=one_of((INFERENCE, *STAGES)))]
OperatorName = Annotated[str, "torch's name of the operator, without namespace and overload"]
KernelName = Annotated[str, "the compiler's name of the GPU kernel"]
Calls = Annotated[int, Column("how often it ran in one call of the whole", NUMBER, least=1)]
Seconds = Annotated[float, Column("the device's time of all its calls in one call of the whole", most=DAY_S)]
InputSize = Annotated[int | None, Column("pixels on each side of an input; empty: the model's own", NUMBER, least=1)]
