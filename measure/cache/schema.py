"""Declare tables: a record's field holds the facts of a column, its class those of the table.

The header, the reader, the checks and the data dictionary follow from them. Columns that several tables share are
declared here once.

Plain dataclasses with ``typing.Annotated`` suffice. msgspec and pydantic would read the largest table in two thirds
of the time, but measuring needs to run with torch alone, and neither names file, line, column and unit of an error.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from pathlib import Path, PurePosixPath
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

from measure.domain.variants import NAMES, OPTIMIZERS
from measure.domain.words import EAGER, INFERENCE, LAYER_KINDS, PRECISIONS, STAGES, STEP

MOST = 10**18
"""The largest number in a column that does not say otherwise."""

SHOWN = 60
"""So many characters of a cell stand in a complaint."""

NUMBER = "1"
"""The unit of what has none: counts, ratios, ordinals."""

UNITS = {
    "s": "s", "byte": "B", "flop": "FLOP", "mac": "multiply-adds", "hz": "Hz", "c": "°C", "w": "W", "j": "J",
    "count": NUMBER, "cycle": "cycle",
}  # fmt: skip
"""Units by the words with which names of columns end."""

UNIT = re.compile(rf"(?:.*?_)??({'|'.join(UNITS)})(?:_per_({'|'.join(UNITS)}))?(?:_as_printed)?")


@dataclass(frozen=True)
class Form:
    """What the cells of a column of texts have to be; ``description`` says it after "is not"."""

    fits: Callable[[str], object]
    description: str


def one_of(words: Iterable[str]) -> Form:
    """Return the form of a column that holds one of these words."""
    known = tuple(words)
    return Form(known.__contains__, f"one of {', '.join(known)}")


def some_of(words: Sequence[str], sign: str, alone: Iterable[str] = ()) -> Form:
    """Return the form of a column that holds one of these words, or several, each once, joined by ``sign``; a word
    that stands ``alone`` is joined with none.
    """
    joined = frozenset(words)
    one = one_of((*alone, *words))

    def fits(text: str) -> bool:
        parts = text.split(sign)
        return bool(one.fits(text)) or (joined.issuperset(parts) and len(set(parts)) == len(parts))

    return Form(fits, f"{one.description}, or several joined by {sign!r}")


def several(pattern: str, description: str) -> Form:
    """Return the form of a column whose cells are matches of a pattern, joined by ``;``."""
    compiled = re.compile(f"{pattern}(?:;{pattern})*")
    return Form(compiled.fullmatch, f"{description} joined by ';'")


@dataclass(frozen=True)
class Column:
    """The facts of a column, given in the ``Annotated`` type of a record's field; a text alone is its meaning.

    ``unit`` is needed if the column's name does not end with it. Numbers lie from ``least`` to ``most``. ``empty`` is
    the value of an empty cell, if that does not mean unknown. The field gives the name, the type, and whether a cell
    may be empty.
    """

    meaning: str
    unit: str = ""
    least: float = 0
    most: float = MOST
    form: Form | None = None
    empty: str | None = None
    name: str = ""
    type: type = str
    optional: bool = False

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
            number = self._number(text)
            if number is not None and self.least <= number <= self.most:
                return number
            wanted = "a whole number" if self.type is int else "a number"
            if number is not None:
                unit = "" if self.unit == NUMBER else f" {self.unit}"
                wanted += f" from {self.least:g} to {self.most:g}{unit}"
            elif self.least >= 0:
                wanted += " above 0" if self.least else " from 0 on"
        shown = text if len(text) <= SHOWN else text[:SHOWN] + "…"
        raise ValueError(f"is {shown!r}, not {wanted}")

    def _number(self, text: str) -> Any:
        """Return the number of the column's type and sign that a text is, None where it is none."""
        if "_" in text or not text.isascii():  # digits of other scripts, and 1_000, are numbers to Python alone
            return None
        try:
            number = self.type(text)
            if self.least > 0:
                return number if 0 < number < inf else None
            return number if (0 if self.least == 0 else -inf) <= number < inf else None
        except (ValueError, ArithmeticError):
            return None


def _columns(record: Any) -> dict[str, Column]:
    """Return the columns of a record by name, in the order of the header."""
    hints = get_type_hints(record, include_extras=True)
    found = {}
    for field in fields(record):
        hint, *_, declared = get_args(hints[field.name])
        facts = declared if isinstance(declared, Column) else Column(declared)
        (type_,) = set(get_args(hint) or (hint,)) - {NoneType}
        found[field.name] = replace(
            facts,
            name=field.name,
            type=type_,
            unit=facts.unit or ("" if type_ is str else unit(field.name)),
            optional=NoneType in get_args(hint) or facts.empty is not None,
        )
    return found


def unit(name: str) -> str:
    """Return the unit that a column's name ends with, empty where it ends with none."""
    found = UNIT.fullmatch(name)
    return "/".join(UNITS[part] for part in found.groups() if part) if found else ""


@dataclass(frozen=True)
class Table:
    """The facts of a table: its file below ``data``, the columns that tell its rows apart, and all columns by name.

    People write a table ``by_hand``.
    """

    path: str
    key: tuple[str, ...]
    columns: dict[str, Column]
    by_hand: bool

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


MACHINE = "machines/NAME"
"""The folder below ``data`` of the tables that each machine has."""

TABLES: dict[Any, Table] = {}
"""All tables, by what a row is."""

Record = TypeVar("Record")


def table(path: str, key: Iterable[str], by_hand: bool = False) -> Callable[[type[Record]], type[Record]]:
    """Declare a dataclass to be a row of a table: see ``Table``."""

    def declared(record: type[Record]) -> type[Record]:
        TABLES[record] = Table(path, tuple(key), _columns(record), by_hand)
        return record

    return declared


def file_of(record: type, data: Path) -> Path:
    """Return the file of a table that does not belong to a machine."""
    return data / TABLES[record].path


DAY_S = 86_400.0


def duration(meaning: str) -> Column:
    """Return a column of seconds that something took which did take time."""
    return Column(meaning, least=1e-12, most=DAY_S)


DEVICE = one_of(("cpu", "cuda", "mps"))
STATUSES = one_of(("ok", "oom", "timeout", "unsupported", "killed", "error"))

EnvironmentId = Annotated[
    str,
    "hash of what can change a measurement: `hardware_id`, `driver`, `torch`, `c_library`, `huge_pages`, `threads`, "
    "`tuning`",
]
Model = Annotated[str, "the model's name"]
Family = Annotated[str, "the family of networks that the model belongs to"]
SHAPE = Form(re.compile(r"[0-9]{1,18}(x[0-9]{1,18})*").fullmatch, "whole numbers joined by 'x'")
InputShape = Annotated[str, Column("the shape of one input, without the batch", form=SHAPE)]
MeasuredShape = Annotated[
    str | None,
    Column("the shape of one input that was measured, without the batch; empty where it is not known", form=SHAPE),
]
Batch = Annotated[int, Column("inputs of one call", NUMBER, least=1)]
Precision = Annotated[str, Column("the precision of weights and input", form=one_of(PRECISIONS))]
Capability = Annotated[str | None, "the compute capability of the GPU"]
Autocast = Annotated[
    str | None, Column("whose autocast decides each operator's precision; weights and input are fp32 then", form=DEVICE)
]
Phase = Annotated[
    str, Column("a forward pass, a whole training step or a stage of it", form=one_of((INFERENCE, STEP, *STAGES)))
]
Variant = Annotated[
    str,
    Column("how the network is run, besides its precision", form=some_of((*NAMES, *OPTIMIZERS), "+", alone=(EAGER,))),
]
Round = Annotated[int, Column("counts the rounds of a cell from 0", NUMBER)]
Status = Annotated[
    str,
    Column(
        "how it ended; `oom`: the memory did not suffice; `killed`: from outside, which the next run tries again",
        form=STATUSES,
    ),
]
Reason = Annotated[str | None, "why it is not `ok`"]
RecordedAt = Annotated[str, "the UTC time of the record"]
Sitting = Annotated[
    str | None,
    "the UTC time at which the command began that measured it: cells of one sitting were measured in one random order",
]
Seed = Annotated[int | None, Column("the seed of that order", NUMBER)]
Version = Annotated[str | None, "the version of Roofwright that measured it, with the commit where it is a clone"]

Load = Annotated[
    float | None,
    Column("share of the cores that other programs used meanwhile; empty where it was not looked at", NUMBER, most=1),
]

LayerKind = Annotated[str, Column("what the layer is", form=one_of(LAYER_KINDS))]
Stage = Annotated[
    str,
    Column(
        "`inference` (the forward pass in eval mode without gradients), or the stage of a training step",
        form=one_of((INFERENCE, *STAGES)),
    ),
]
OperatorName = Annotated[str, "the name that torch gives the operator, without namespace and overload"]
KernelName = Annotated[str, "the name that the device's compiler gives the GPU kernel"]
Calls = Annotated[int, Column("how often it ran in one call of the whole", NUMBER, least=1)]
Seconds = Annotated[float, Column("the device's time, of all its calls in one call of the whole", most=DAY_S)]
