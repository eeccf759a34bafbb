"""A roofline with the cells of an answer, as SVG: a small one, for where no chart library is at hand."""

from collections.abc import Iterator
from html import escape
from math import ceil, floor, log10

from measure.answering.answer import Answer
from measure.cli.quantities import si

WIDTH, HEIGHT, MARGIN = 520, 300, 56
INK, ROOF, POINT = "#444", "#0b6", "#06c"


class Axis:
    """A logarithmic axis of whole decades around some values, from one place on the page to another."""

    def __init__(self, values: list[float], begin: float, end: float) -> None:
        self.low, self.high = floor(log10(min(values))), ceil(log10(max(values)))
        if self.low == self.high:
            self.high += 1
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        part = (log10(value) - self.low) / (self.high - self.low)
        return round(self._begin + part * (self._end - self._begin), 1)

    @property
    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def svg(found: Answer) -> str:
    """Return the picture: intensity across, rate upwards; empty where no roof or no rate is known."""
    intensities = {(each.batch, each.precision): each.intensity_flop_per_byte for each in found.demands}
    points = [
        (intensities[cell.timed.batch, cell.timed.precision], cell.flop_per_s, cell.timed.batch, cell.timed.precision)
        for cell in found.cells
        if cell.flop_per_s and intensities[cell.timed.batch, cell.timed.precision]
    ]
    ridges = [ridge for each in found.rates.flop_per_s if (ridge := found.rates.ridge(each))]
    if not points or not ridges or found.rates.byte_per_s is None:
        return ""
    x = Axis([*ridges, 10 * max(ridges), *(at for at, *_ in points)], MARGIN, WIDTH - 8)
    lowest = 10.0**x.low
    rates = [rate for _, rate, *_ in points] + list(found.rates.flop_per_s.values())
    y = Axis([*rates, lowest * found.rates.byte_per_s], HEIGHT - 36, 8)
    parts = [*_grid(x, y), *_roofs(found, x, y)]
    for at, rate, batch, precision in points:
        where = f"batch size {batch}, {precision}: {si(rate, 'FLOP/s')} at {at:.3g} FLOP/B"
        parts.append(
            f'<circle cx="{x(at)}" cy="{y(rate)}" r="4" fill="{POINT}"><title>{escape(where)}</title></circle>'
            f'<text x="{x(at) + 7}" y="{y(rate) + 4}" fill="{POINT}">{batch}</text>'
        )
    said = escape(f"Roofline of {found.environment.name} with {found.model}")
    return (
        f'<svg role="img" aria-label="{said}" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'font-family="sans-serif" font-size="11">{"".join(parts)}</svg>'
    )


def _grid(x: Axis, y: Axis) -> Iterator[str]:
    bottom, right = HEIGHT - 36, WIDTH - 8
    for at in x.decades:
        yield f'<line x1="{x(at)}" x2="{x(at)}" y1="8" y2="{bottom}" stroke="#ddd"/>'
        yield f'<text x="{x(at)}" y="{bottom + 14}" fill="{INK}" text-anchor="middle">{at:g}</text>'
    for at in y.decades:
        yield f'<line x1="{MARGIN}" x2="{right}" y1="{y(at)}" y2="{y(at)}" stroke="#ddd"/>'
        yield f'<text x="{MARGIN - 4}" y="{y(at) + 4}" fill="{INK}" text-anchor="end">{si(at, "")}</text>'
    middle = (MARGIN + right) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 6}" fill="{INK}" text-anchor="middle">intensity (FLOP/B)</text>'
    turned = f'transform="rotate(-90 12 {bottom / 2})"'
    yield f'<text x="12" y="{bottom / 2}" fill="{INK}" text-anchor="middle" {turned}>rate (FLOP/s)</text>'


def _roofs(found: Answer, x: Axis, y: Axis) -> Iterator[str]:
    """Yield the roof of each precision: its slope up to the ridge point, and its flat part."""
    assert found.rates.byte_per_s is not None
    for precision, peak in found.rates.flop_per_s.items():
        ridge, left, right = peak / found.rates.byte_per_s, x.decades[0], x.decades[-1]
        corners = [(left, left * found.rates.byte_per_s), (ridge, peak), (right, peak)]
        path = " ".join(f"{x(at)},{y(rate)}" for at, rate in corners)
        yield f'<polyline points="{path}" fill="none" stroke="{ROOF}" stroke-width="2"/>'
        name = escape(f"{precision}, {si(peak, 'FLOP/s')}")
        yield f'<text x="{x(right) - 4}" y="{y(peak) - 5}" fill="{INK}" text-anchor="end">{name}</text>'
