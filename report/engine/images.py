"""The pictures of a document: where their files are and what they show."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure.errors import UserError
from report.engine.pandoc import Element, plain_text, transform
from report.engine.places import Places


@dataclass(frozen=True)
class Picture:
    """A picture: its path below the root, its alternative text, its width as a share of the text (`80%`)."""

    path: str
    alternative: str
    width: str | None


def with_pictures(
    blocks: list[Element], root: Path, places: Places, change: Callable[[Picture], Element]
) -> list[Element]:
    """The blocks with each image replaced by what `change` makes of it.

    Raises UserError, with file and line, for a picture from a network, outside the root, not there, or with
    attributes other than an alternative text and a width in per cent.
    """

    def replace(element: Element) -> list[Element] | None:
        if element["t"] != "Image":
            return None
        (_, _, pairs), description, (path, _) = element["c"]
        place = places.of(path)
        given = dict(pairs)
        width = given.pop("width", None)
        alternative = given.pop("fig-alt", None) or plain_text(description)
        if given or not re.fullmatch(r"[\d.]+%", width or "100%"):
            raise UserError(f"{place}: of a picture's attributes only fig-alt and width=…% are known")
        if (
            re.match(r"\w+:", path)
            or not (root / path).is_file()
            or root not in (root / path).resolve().parents
        ):
            raise UserError(f"{place}: the picture {path} is no file in the project")
        return [change(Picture((root / path).resolve().relative_to(root).as_posix(), alternative, width))]

    return list(transform(blocks, replace))
