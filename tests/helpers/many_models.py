"""The world with many models more on its CPU, made by arithmetic: for what has to hold however many there are."""

import csv
import json
import shutil
from pathlib import Path
from random import Random

from helpers.world import WORLD

SIX = ("mobilenet_v2", "resnet18", "googlenet", "densenet121", "alexnet", "resnet50")
USUAL = {"precision": ("fp32",), "variant": ("eager",), "batch": ("1", "8")}
WORKLOAD, MACHINE = Path("workload"), Path("machines", "example-cpu")
TABLES = [WORKLOAD / f"{name}.csv" for name in ("models", "layers", "operators")]
TABLES += [MACHINE / f"{name}.csv" for name in ("runs", "samples", "profiles", "operators")]


def write_many(data: Path, count: int) -> None:
    """Write the cache with so many models more into a folder that is not there yet; the same each time.

    Each is one of the world's six networks of doubling FLOP in another size: its FLOP, its bytes and its times are
    multiplied, the times by so much that no roof is surpassed.
    """
    shutil.copytree(WORLD, data)
    random, sizes = Random(0), {}
    for number in range(count):
        flop, byte = (round(2 ** random.uniform(0, doublings)) for doublings in (4, 3))
        times = max(flop, byte) * random.uniform(1, 3)
        sizes[f"net{number:04}"] = (SIX[number % 6], {"flop": flop, "byte": byte, "count": byte, "s": times})
    for table in TABLES:
        with (WORLD / table).open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file)
            rows = [row for row in lines if all(row.get(name, kept[0]) in kept for name, kept in USUAL.items())]
        with (data / table).open("a", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, lines.fieldnames or [], lineterminator="\n")
            for name, (model, factors) in sizes.items():
                writer.writerows(_scaled(row, factors) | {"model": name} for row in rows if row["model"] == model)


def _scaled(row: dict[str, str], factors: dict[str, float]) -> dict[str, str]:
    """Return a row with its quantities multiplied, by the last word of their columns' names: the unit."""
    quantities = {name: factors.get(name.rpartition("_")[2], 1) for name, cell in row.items() if cell}
    return row | {name: str(json.loads(row[name]) * factor) for name, factor in quantities.items() if factor != 1}
