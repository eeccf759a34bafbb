"""One side of a comparison: a machine's measurements in one environment, found by the name that a user gives."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Cell, Environment, RoofMeasurement
from measure.cache.rounds import Rounds, of_cells
from measure.cli.suggestion import did_you_mean
from measure.comparing.difference import Repeats, error_of_interval, joined, repeats
from measure.errors import UserError


class RoofKernel(NamedTuple):
    """The key of a roof on any machine."""

    roof_kernel: str
    size: int
    precision: str
    pace: str


@dataclass(frozen=True)
class Measured:
    """The repeats of a cell or roof where any round is ``ok``, else its first status and reason.

    ``flags`` are those of all rounds, ``input_shape`` is that of a cell's inputs, where it is known.
    """

    status: str
    reason: str | None
    repeats: Repeats | None
    flags: frozenset[str] = frozenset()
    input_shape: str | None = None


@dataclass(frozen=True)
class Side:
    """The measurements in an environment of a machine."""

    folder: Path
    environment: Environment
    cells: dict[Cell, Measured]
    roofs: dict[RoofKernel, Measured]


def find(a: str, b: str, data: Path) -> tuple[Side, Side]:
    """Read the two sides that the arguments name.

    An argument is a machine's folder, its name in ``data``, or a data folder: then the machine that the other argument
    also names or has, or the only one. A suffix ``@`` with the beginning of an environment's id selects that one
    instead of the newest. Raises UserError where that is ambiguous, or nothing.
    """
    (path_a, _, chosen_a), (path_b, _, chosen_b) = (_split(argument) for argument in (a, b))
    folder_a, folder_b = _machines(_located(path_a, data), _located(path_b, data), data)
    one, other = _environment(folder_a, chosen_a), _environment(folder_b, chosen_b)
    if folder_a.resolve() == folder_b.resolve() and one == other:
        known = ", ".join(row.environment_id for row in _opened(folder_a).environments())
        raise UserError(
            f"{a} and {b} are the same measurements; name two folders or two environments of {folder_a}, "
            f"as {folder_a}@ID (it has {known})"
        )
    return _read(folder_a, one), _read(folder_b, other)


def find_all(arguments: Sequence[str], data: Path) -> list[Side]:
    """Read more than two sides: each a machine's folder, its name in ``data``, or a data folder with one machine.

    Raises UserError where one is ambiguous, nothing, or named twice.
    """
    found: dict[tuple[Path, str], Side] = {}
    for argument in arguments:
        path, _, chosen = _split(argument)
        located = _located(path, data)
        _check_is_cache(located, data)
        folder = located if _is_machine(located) else _machine(located, located)
        environment = _environment(folder, chosen)
        key = folder.resolve(), environment.environment_id
        if key in found:
            raise UserError(f"{argument}: the same measurements are named twice; leave one out")
        found[key] = _read(folder, environment)
    return list(found.values())


def _split(argument: str) -> tuple[str, str, str]:
    """Return path, ``@`` and environment; a folder may have an ``@`` in its name."""
    if Path(argument).is_dir() or "@" not in argument:
        return argument, "", ""
    return argument.rpartition("@")


def _located(path: str, data: Path) -> Path:
    named = data / "machines" / path
    return named if not Path(path).exists() and _is_machine(named) else Path(path)


def _opened(folder: Path) -> MachineFolder:
    """Open the machine's tables, wherever its folder lies."""
    return MachineFolder(folder.parent, folder.name, folder)


def _is_machine(path: Path) -> bool:
    return (path / "machine.csv").is_file()


def _machines(a: Path, b: Path, data: Path) -> tuple[Path, Path]:
    for path in (a, b):
        _check_is_cache(path, data)
    shared = sorted(set(machine_names(a)) & set(machine_names(b)))
    if len(shared) > 1:
        raise UserError(f"{a} and {b} both have {', '.join(shared)}; name one, as {a / 'machines' / shared[0]}")
    if shared:
        return a / "machines" / shared[0], b / "machines" / shared[0]
    return _machine(a, b), _machine(b, a)


def _check_is_cache(path: Path, data: Path) -> None:
    if not _is_machine(path) and not machine_names(path):
        raise UserError(
            f"{path} is neither a machine's folder, with a machine.csv in it, nor a data folder, with "
            f"machines/NAME/machine.csv in it; name one{did_you_mean(str(path), machine_names(data))}"
        )


def _machine(path: Path, other: Path) -> Path:
    """Return the machine's folder that a path is, or that lies in it."""
    if _is_machine(path):
        return path
    names = machine_names(path)
    if _is_machine(other) and other.resolve().name in names:
        return path / "machines" / other.resolve().name
    if len(names) > 1:
        raise UserError(
            f"{path} has {', '.join(names)}, and none of them is in {other}; "
            f"name one, as {path / 'machines' / names[0]}"
        )
    return path / "machines" / names[0]


def _environment(folder: Path, chosen: str) -> Environment:
    """Return the environment whose id begins so, or the newest if none is chosen."""
    if not chosen:
        return _opened(folder).newest_environment()
    known = _opened(folder).environments()
    fitting = [row for row in known if row.environment_id.startswith(chosen)]
    if len({row.environment_id for row in fitting}) != 1:
        ids = ", ".join(row.environment_id for row in known) or "none"
        raise UserError(f"{folder}: {chosen!r} does not select one environment; name one of {ids}")
    return fitting[-1]


def _read(folder: Path, environment: Environment) -> Side:
    machine, wanted = _opened(folder), environment.environment_id
    runs = [row for row in machine.runs() if row.environment_id == wanted]
    samples = [row for row in machine.samples() if row.environment_id == wanted]
    roofs = [row for row in machine.roof_measurements() if row.environment_id == wanted]
    by_kernel: dict[RoofKernel, list[RoofMeasurement]] = defaultdict(list)
    for row in roofs:
        by_kernel[RoofKernel(row.roof_kernel, row.size, row.precision, row.pace)].append(row)
    return Side(
        folder,
        environment,
        {cell: _measured(rounds) for cell, rounds in of_cells(runs, samples).items()},
        {kernel: _roof(rounds) for kernel, rounds in by_kernel.items()},
    )


def _measured(rounds: Rounds) -> Measured:
    run = rounds.deciding
    if rounds.latencies:
        return Measured("ok", None, repeats(rounds.latencies), rounds.flags, run.input_shape)
    return Measured(run.status, run.reason, None, input_shape=run.input_shape)


def _roof(rounds: list[RoofMeasurement]) -> Measured:
    """Return what was measured of a roof kernel, in one round or several."""
    timed = [_in_one_round(row) for row in rounds]
    known = [each for each in timed if each is not None]
    if not known:
        return Measured(rounds[0].status, rounds[0].reason, None)
    return Measured("ok", None, joined(known))


def _in_one_round(row: RoofMeasurement) -> Repeats | None:
    if not (row.latency_s and row.latency_low_s and row.latency_high_s and row.sample_count):
        return None
    error = error_of_interval(row.latency_low_s, row.latency_high_s, row.sample_count)
    return Repeats((row.latency_s,), error, row.sample_count)
