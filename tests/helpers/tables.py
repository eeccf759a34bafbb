"""What a pipe table says."""

from report.text.quantities import SPACE


def cells(table):
    """The rows of a pipe table, below its rule."""
    return [
        [cell.strip().replace(SPACE, " ") for cell in line[2:-2].split(" | ")]
        for line in table.splitlines()[2:]
    ]
