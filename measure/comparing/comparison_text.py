"""A comparison on the terminal: the sides, a table of cells, one of roofs, and what the tables leave out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from measure.cache.records import Cell
from measure.cache.words import LOADED
from measure.cli.quantities import latency
from measure.cli.tables import aligned, markdown
from measure.comparing.comparison import FASTER, ROOFS, RUNS, SLOWER, WITHIN_ERROR, Comparison, geometric_mean_ratio
from measure.comparing.difference import OTHERS, PROCESS
from measure.comparing.sides import Side

if TYPE_CHECKING:
    from measure.cli.console import Console

NAMED = 8
"""How many cells without a row in the table are named."""

NUMBERS = ("batch", "size", "A", "B", "B/A", "95 % interval")

LABELS = {RUNS: Cell._fields, ROOFS: ("roof_kernel", "size", "precision", "pace")}
"""The columns that say which cell or roof a row is."""

THINGS = {RUNS: "cell", ROOFS: "roof"}

STYLES = {SLOWER: "red", FASTER: "green"}

BASES = {
    PROCESS: "in one process a side: its interval omits the difference between processes, which is often larger",
    OTHERS: "in one round a side: its interval takes the difference between processes from others' rounds",
}
"""How a cell was measured whose interval rests on less than its own rounds."""

ENVIRONMENT = (
    "device", "name", "cores", "threads", "driver", "system", "python", "torch", "torchvision", "torchaudio",
    "tuning",
)  # fmt: skip
"""The columns of an environment that are shown where they changed."""


def show(a: Side, b: Side, rows: Sequence[Comparison]) -> None:
    """Print the sides, the tables, and what they leave out; in colour on a terminal."""
    from measure.cli.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    for name, side in (("A", a), ("B", b)):
        console.print(f"{name}  {described(side)}")
    console.print(_changed_environment(a, b))
    for table in LABELS:
        if shown := [row for row in rows if row.table == table]:
            _show_table(console, table, shown)


def described(side: Side) -> str:
    environment = side.environment
    since = f"first measured {environment.recorded_at[:10]}"
    return f"{environment.label}, {side.folder}@{environment.environment_id}, {since}"


def _changed_environment(a: Side, b: Side) -> str:
    pairs = [(name, getattr(a.environment, name), getattr(b.environment, name)) for name in ENVIRONMENT]
    changes = [f"{name} {old or 'none'} -> {new or 'none'}" for name, old, new in pairs if old != new]
    return "Changed: " + (", ".join(changes) or "nothing that the environment tells")


def _show_table(console: "Console", table: str, rows: Sequence[Comparison]) -> None:
    compared = [row for row in rows if row.ratio is not None]
    if compared:
        console.print()
        lines = _lines(table, compared)
        styles = [None, *(STYLES.get(row.change or "") for row in compared)]
        for line, style in zip(aligned(lines, NUMBERS), styles, strict=True):
            console.print(line, style=style)
    console.print()
    for line in summary(table, rows):
        console.print(line)


def as_markdown(a: Side, b: Side, rows: Sequence[Comparison]) -> list[str]:
    """Return the sides, the tables and what they leave out as lines of Markdown, as for a comment on a change."""
    said = [f"- {name}: {described(side)}" for name, side in (("A", a), ("B", b))]
    said.append(f"- {_changed_environment(a, b)}")
    for table in LABELS:
        shown = [row for row in rows if row.table == table]
        compared = [row for row in shown if row.ratio is not None]
        if compared:
            said += ["", *markdown(_lines(table, compared), NUMBERS)]
        if shown:
            said += ["", *(f"- {line}" if line[0] != " " else f"  - {line.strip()}" for line in summary(table, shown))]
    return said


def _lines(table: str, compared: Sequence[Comparison]) -> list[tuple[str, ...]]:
    """Return the cells of a table's lines, the head first."""
    return [(*LABELS[table], "A", "B", "B/A", "95 % interval", "change", "flags"), *map(_cells, compared)]


def _cells(row: Comparison) -> tuple[str, ...]:
    labels = (getattr(row, name) for name in LABELS[row.table])
    assert row.a_latency_s is not None
    assert row.b_latency_s is not None
    interval = "" if row.ratio_low is None else f"{row.ratio_low:.3f} to {row.ratio_high:.3f}"
    flags = [f"{side}: {said}" for side, said in (("A", row.a_flags), ("B", row.b_flags)) if said]
    return (
        *("" if label is None else str(label) for label in labels),
        latency(row.a_latency_s),
        latency(row.b_latency_s),
        f"{row.ratio:.3f}",
        interval,
        _change(row),
        ", ".join(flags),
    )


def _change(row: Comparison) -> str:
    """Name the change, with a caveat where it rests on one process a side."""
    if row.basis == PROCESS and row.change in STYLES:
        return f"{row.change} in one process"
    return row.change or "not tested"


def summary(table: str, rows: Sequence[Comparison]) -> list[str]:
    """Say how many changed, what the intervals rest on, and which have a result on one side only."""
    thing = THINGS[table]
    compared = [row for row in rows if row.ratio is not None]
    lines = []
    if compared:
        changes = [row.change for row in compared]
        counts = ", ".join(f"{changes.count(change)} {change}" for change in (SLOWER, FASTER, WITHIN_ERROR))
        mean = f"geometric mean of B/A {geometric_mean_ratio(compared):.3f}"
        lines.append(f"{_count(thing, len(compared))} compared: {counts}; {mean}")
    unlike = [row for row in rows if not row.is_of_one_input]
    labels = [f"{row.label}: {row.a_input_shape} in A, {row.b_input_shape} in B" for row in unlike]
    lines += _named(thing, "not compared, with inputs of another shape on each side", labels)
    loaded = [row for row in compared if any(LOADED in (flags or "") for flags in (row.a_flags, row.b_flags))]
    if loaded:
        lines.append(
            f"{_count(thing, len(loaded))} measured while other programs used the processor (loaded): a difference may "
            "be theirs"
        )
    rows = [row for row in rows if row.is_of_one_input]
    bases = [row.basis for row in compared]
    lines += [f"{_count(thing, bases.count(basis))} measured {how}" for basis, how in BASES.items() if basis in bases]
    for name, other in (("A", "B"), ("B", "A")):
        alone, failed = [], []
        for row in rows:
            status, across = (getattr(row, f"{side.lower()}_status") for side in (name, other))
            if across is None:
                alone.append(row.label)
            elif across == "ok" and status not in (None, "ok"):
                failed.append(f"{row.label}: {status}, {getattr(row, f'{name.lower()}_reason')}")
        lines += _named(thing, f"only in {name}", alone)
        lines += _named(thing, f"without a result in {name}, with one in {other}", failed)
    both = [row.label for row in rows if not {row.a_status, row.b_status} & {None, "ok"}]
    return lines + _named(thing, "without a result on both sides", both)


def _count(thing: str, number: int) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _named(thing: str, where: str, names: Sequence[str]) -> list[str]:
    more = [f"  and {len(names) - NAMED} more; --csv names all"] if len(names) > NAMED else []
    title = f"{_count(thing, len(names))} {where}:"
    return [title, *(f"  {name}" for name in names[:NAMED]), *more] if names else []
