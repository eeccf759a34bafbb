"""A comparison of many sides as lines of a terminal or of Markdown."""

from collections.abc import Callable, Sequence

from measure.cache.records import Cell
from measure.cli.tables import Line
from measure.comparing.comparison_text import described
from measure.comparing.matrix import Pair, means
from measure.comparing.sides import Side

WIDEST = 8
"""Of more sides than these a table of pairs is too wide to read: their order is shown instead."""

Table = Callable[[Sequence[Line], Sequence[str]], list[str]]


def lines(sides: Sequence[Side], cells: Sequence[Cell], found: Sequence[Pair], table: Table, mark: str) -> list[str]:
    """Return the sides, a table of them, and what it shows; ``mark`` begins a line that stands for a side."""
    names = [_letters(place) for place in range(len(sides))]
    said = [f"{mark}{name}  {described(side)}" for name, side in zip(names, sides, strict=True)]
    shared = f"{len(cells)} cell{'' if len(cells) == 1 else 's'} that all {len(sides)} have"
    body = _of_pairs(names, found, table) if len(sides) <= WIDEST else _in_order(names, found, table)
    what = (
        "The time of the row over that of the column, in brackets the cells in which the row is significantly slower "
        "and faster"
        if len(sides) <= WIDEST
        else "The time of each over that of the fastest, in brackets the cells in which it is significantly slower and "
        "faster"
    )
    return [*said, "", *body, "", f"{what}; geometric means over the {shared}."]


def _of_pairs(names: Sequence[str], found: Sequence[Pair], table: Table) -> list[str]:
    ratios, changes = means(len(names), found), _changes(found)
    rows = [
        (
            name,
            *("" if row == column else f"{ratios[row][column]:.3f} ({changes[row, column]})" for column in _all(names)),
        )
        for row, name in enumerate(names)
    ]
    return table([("", *names), *rows], names)


def _in_order(names: Sequence[str], found: Sequence[Pair], table: Table) -> list[str]:
    """Return the sides, the fastest first: their geometric means rank all alike, since all have the same cells."""
    ratios, changes = means(len(names), found), _changes(found)
    fastest = min(_all(names), key=lambda row: ratios[row][0])
    order = sorted(_all(names), key=lambda row: ratios[row][fastest])
    head = ("", "over the fastest", "cells")
    rows = [
        (names[row], f"{ratios[row][fastest]:.3f}", f"({changes[row, fastest]})" if row != fastest else "")
        for row in order
    ]
    return table([head, *rows], head[1:])


def _all(names: Sequence[str]) -> range:
    return range(len(names))


def _changes(found: Sequence[Pair]) -> dict[tuple[int, int], str]:
    """Return of each row against each column the cells in which it is slower, and faster."""
    changes = {(pair.b, pair.a): f"{pair.slower}, {pair.faster}" for pair in found}
    return changes | {(pair.a, pair.b): f"{pair.faster}, {pair.slower}" for pair in found}


def _letters(place: int) -> str:
    """Return A to Z, then AA, AB and so on."""
    return ("" if place < 26 else _letters(place // 26 - 1)) + chr(ord("A") + place % 26)
