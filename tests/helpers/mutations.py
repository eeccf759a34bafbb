"""Changes to the tables of a cache, in the folder that they are given last."""

import csv
import shutil

from measure.cache.words import INFERENCE

SWAP = {"lean": "deep", "deep": "lean"}
"""The models that change places."""


def change(table, changed):
    """Writes a table anew: ``changed`` gives a row's cells by column, or None where the row is dropped."""
    with table.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file)
        names, rows = lines.fieldnames, [row for line in lines if (row := changed(line))]
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def slower(machine, data):
    """Every time that was measured of a machine's models is three times as long."""
    change(
        data / "machines" / machine / "samples.csv",
        lambda row: row | {"latency_s": repr(3 * float(row["latency_s"]))},
    )


def swapped(row):
    return row | {"model": SWAP.get(row["model"], row["model"])}


def renamed(data):
    """Two models have each other's name in all tables."""
    for table in [*data.glob("workload/*.csv"), *data.glob("machines/*/*.csv")]:
        if "model" in table.read_text(encoding="utf-8").partition("\n")[0].split(","):
            change(table, swapped)


def swapped_latencies(data):
    """Two models have each other's latencies at fp32."""
    for table in data.glob("machines/*/samples.csv"):
        change(
            table,
            lambda row: swapped(row) if (row["phase"], row["precision"]) == (INFERENCE, "fp32") else row,
        )


def without_machine(machine, data):
    shutil.rmtree(data / "machines" / machine)


def without_files(*patterns):
    """The mutation that leaves tables out."""

    def mutation(data):
        for path in [path for pattern in patterns for path in data.glob(pattern)]:
            path.unlink()

    return mutation


def without_phases(*phases):
    """The mutation that leaves out what was measured in these phases."""

    def mutation(data):
        for table in [*data.glob("machines/*/runs.csv"), *data.glob("machines/*/samples.csv")]:
            change(table, lambda row: None if row["phase"] in phases else row)

    return mutation
