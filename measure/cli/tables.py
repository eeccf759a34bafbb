"""Tables of short texts: as lines of a terminal, or as Markdown."""

from collections.abc import Collection, Sequence

Line = Sequence[str]


def aligned(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Align lines of cells in columns; those that the first line calls by a name of ``numbers`` on the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if head in numbers else cell.ljust(width)
            for head, cell, width in zip(lines[0], line, widths, strict=True)
        ).rstrip()
        for line in lines
    ]


def markdown(lines: Sequence[Line], numbers: Collection[str]) -> list[str]:
    """Return the same as a table of Markdown, whose first line is its head."""
    head, *rows = lines
    rule = ["---:" if name in numbers else ":---" for name in head]
    return [f"| {' | '.join(map(_plain, line))} |" for line in (head, rule, *rows)]


def _plain(cell: str) -> str:
    """Return a cell that neither ends its column nor is markup."""
    return "".join(f"\\{letter}" if letter in "\\|*_`<[" else letter for letter in cell)
