"""Places for the names of points and lines, so that no two overlap: greedy, deterministic, in pixels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin
from typing import NamedTuple

from report.charts import theme
from report.charts.theme import text_width

MARK = 4.6  # half the side of the square that a point's mark takes, unless it is larger
AWAY = 6.0  # free pixels left and right of a mark
GAP = 2.0  # free pixels around each label
RINGS = (0.0, 6.0, 14.0, 24.0, 36.0, 50.0, 66.0, 84.0, 104.0, 126.0, 150.0, 180.0)  # tried between mark and label
FARTHEST = 0.4  # the longest of them, as a share of the shorter side of the panel
STEP = 4.0  # pixels between the boxes that cover a line
DIRECTIONS = tuple(2 * pi * step / 24 for step in range(24))

Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle in pixels, y downwards."""

    left: float
    top: float
    right: float
    bottom: float

    def clear_of(self, others: "Sequence[Box]") -> bool:
        left, top, right, bottom = self
        # A generator takes twice as long, and this runs a million times
        for at, over, to, end in others:  # noqa: SIM110
            if at < right and left < to and over < bottom and top < end:
                return False
        return True

    def inside(self, other: "Box") -> bool:
        wide = other.left <= self.left and self.right <= other.right
        return wide and other.top <= self.top and self.bottom <= other.bottom

    def crossed_by(self, start: Point, end: Point) -> bool:
        """Return whether a segment runs through the box (Liang and Barsky's clipping)."""
        low, high = 0.0, 1.0
        for at, to, least, most in (
            (start[0], end[0], self.left, self.right), (start[1], end[1], self.top, self.bottom)
        ):  # fmt: skip
            if at == to:
                if not least <= at <= most:
                    return False
                continue
            enter, leave = sorted(((least - at) / (to - at), (most - at) / (to - at)))
            low, high = max(low, enter), min(high, leave)
        return low < high


@dataclass(frozen=True)
class Label:
    """The label of the point at ``index``: its box, and the end of its leader line, None if it needs none."""

    index: int
    box: Box
    leader_end: Point | None

    @property
    def center(self) -> Point:
        return (self.box.left + self.box.right) / 2, (self.box.top + self.box.bottom) / 2


def text_size(name: str, font_size: float) -> tuple[float, float]:
    """Return the width and height of a name in pixels; a long one is cut."""
    return min(text_width(name, font_size), theme.LONGEST_NAME), 1.15 * font_size


def along(start: Point, end: Point, free: int = 0) -> list[Box]:
    """Return boxes that cover a line, without ``free`` boxes at both ends, where leaders of its marks can pass."""
    across, down = end[0] - start[0], end[1] - start[1]
    steps = hypot(across, down) / STEP
    shares = [at / steps if at else 0 for at in range(free, int(steps) + 1 - free)]
    middles = [(start[0] + across * share, start[1] + down * share) for share in shares]
    return [Box(x - STEP / 2, y - STEP / 2, x + STEP / 2, y + STEP / 2) for x, y in middles]


def place(
    points: Sequence[tuple[float, float, str]], halves: Sequence[float], panel: Box, font_size: float,
    taken: Sequence[Box] = (),
) -> list[Label]:  # fmt: skip
    """Label points ``(x, y, text)`` inside the panel, clear of all marks, of each other and of ``taken``.

    ``halves`` are half the sides of the marks' squares, at least ``MARK``. The most crowded points choose first, each
    the nearest free place. A leader line joins a distant label to its mark and crosses no label. A point without a free
    place gets no label.
    """
    marks = [Box(x - half, y - half, x + half, y + half) for (x, y, _), half in zip(points, halves, strict=True)]
    rings = [ring for ring in RINGS if ring <= FARTHEST * min(panel.right - panel.left, panel.bottom - panel.top)]
    crowds = [sum(hypot(x - at, y - down) < 60 for at, down, _ in points) for x, y, _ in points]
    boxes = list(taken)
    leaders: list[tuple[Point, Point]] = []
    placed = []
    for index in sorted(range(len(points)), key=lambda at: -crowds[at]):
        x, y, text = points[index]
        if not text:
            continue
        others = [mark for mark in marks if mark.clear_of([marks[index]])]
        # A label next to another mark would be read as its name
        near = [Box(mark.left - AWAY, mark.top, mark.right + AWAY, mark.bottom) for mark in others]
        size = text_size(text, font_size)
        across = halves[index] + 3 * GAP + max(rings, default=0) + max(size) + 1
        within = Box(x - across, y - across, x + across, y + across)  # nothing farther away matters
        barred = [each for each in (*boxes, *marks, *near) if not each.clear_of([within])]
        beyond = (
            each for each in (*boxes, *others) if each.clear_of([marks[index]])
        )  # below its own mark nothing blocks a leader
        solid = [each for each in beyond if not each.clear_of([within])]
        for box, end in _candidates((x, y), halves[index], size, rings):
            if (
                box.inside(panel)
                and box.clear_of(barred)
                and not any(box.crossed_by(*leader) for leader in leaders)
                and not (end and any(other.crossed_by((x, y), end) for other in solid))
            ):
                placed.append(Label(index, box, end))
                boxes.append(box)
                leaders += [((x, y), end)] if end else []
                break
    return sorted(placed, key=lambda label: label.index)


def _candidates(
    mark: Point, half: float, size: tuple[float, float], rings: Sequence[float]
) -> Iterator[tuple[Box, Point | None]]:
    """Yield boxes around a mark, nearest first, and the ends of their leader lines, None if near."""
    (x, y), width, height = mark, size[0] + 2 * GAP, size[1]
    for ring in rings:
        reach = half + GAP + ring  # of the box's nearest side
        for angle in DIRECTIONS:
            center_x = x + cos(angle) * (reach + width / 2)
            center_y = y - sin(angle) * (reach + height / 2)
            box = Box(center_x - width / 2, center_y - height / 2, center_x + width / 2, center_y + height / 2)
            nearest = min(max(x, box.left), box.right), min(max(y, box.top), box.bottom)
            yield box, nearest if ring >= 6 else None


def spread(positions: Sequence[float], height: float, low: float, high: float) -> list[float]:
    """Move positions as little as needed to be ``height`` apart between ``low`` and ``high``, in their order.

    Neighbours that collide share their mean (pooling adjacent violators). Too many are spread evenly over the range,
    closer than ``height``.
    """
    if not positions:
        return []
    count = len(positions)
    gap = min(height, (high - low) / max(count - 1, 1))
    order = sorted(range(count), key=lambda at: (positions[at], at))
    pools: list[list[float]] = []  # sum of wished starts, members
    for rank, at in enumerate(order):
        pools.append([positions[at] - rank * gap, 1])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] >= pools[-1][0] / pools[-1][1]:
            total, members = pools.pop()
            pools[-1][0] += total
            pools[-1][1] += members
    starts = [total / members for total, members in pools for _ in range(int(members))]
    top = high - (count - 1) * gap
    moved = [0.0] * count
    for rank, (at, start) in enumerate(zip(order, starts, strict=True)):
        moved[at] = min(max(start, low), top) + rank * gap
    return moved
