"""Compares many sides with each other, pair by pair, over the cells that all of them have."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from measure.cache.records import Cell
from measure.cache.words import same_shape
from measure.comparing.comparison import FASTER, SLOWER, WITHIN_ERROR, Comparison, compare, geometric_mean_ratio
from measure.comparing.sides import Measured, Side


@dataclass(frozen=True)
class Pair:
    """B against A, by their places among the sides: the geometric mean of B's times over A's, and what changed.

    ``slower`` and ``faster`` are the cells in which B is so significantly, corrected for the number of this pair's
    cells; of the others ``within_error`` could be tested.
    """

    a: int
    b: int
    ratio: float
    slower: int
    faster: int
    within_error: int


def common_cells(sides: Sequence[Side]) -> list[Cell]:
    """Return the cells of which all sides have a result with inputs of one shape, in the first side's order."""
    return [cell for cell in sides[0].cells if all(_is_like(side, sides[0], cell) for side in sides)]


def _is_like(side: Side, first: Side, cell: Cell) -> bool:
    measured, like = side.cells.get(cell), first.cells[cell]
    if measured is None or measured.repeats is None or like.repeats is None:
        return False
    return same_shape(measured.input_shape, like.input_shape)


def pairs(sides: Sequence[Side], cells: Sequence[Cell]) -> list[Pair]:
    """Return each side against each one before it, over these cells, which all of them have."""
    wanted = set(cells)
    only = [Side(side.folder, side.environment, _of(side, wanted), {}) for side in sides]
    return [_pair(a, b, compare(only[a], only[b])) for b in range(len(only)) for a in range(b)]


def _of(side: Side, wanted: set[Cell]) -> dict[Cell, Measured]:
    return {cell: measured for cell, measured in side.cells.items() if cell in wanted}


def _pair(a: int, b: int, rows: Sequence[Comparison]) -> Pair:
    changes = Counter(row.change for row in rows)
    return Pair(a, b, geometric_mean_ratio(rows), changes[SLOWER], changes[FASTER], changes[WITHIN_ERROR])


def means(count: int, found: Sequence[Pair]) -> list[list[float]]:
    """Return the time of each side (a row) over that of each (a column), of so many sides."""
    ratios = [[1.0] * count for _ in range(count)]
    for pair in found:
        ratios[pair.b][pair.a], ratios[pair.a][pair.b] = pair.ratio, 1 / pair.ratio
    return ratios
