"""Write a cache of many models, machines and published rows, to see how the programs cope.

    python scripts/scale.py FOLDER [--models 2000] [--machines 60] [--rows 100000]
    python -m report --data FOLDER/data --out FOLDER/site --force

The rows are the project's own, varied: a model is a reference model with all counts times a whole number, and times to
match. The machine ``all-models`` has every model in eager mode, and every tenth with all rows of the reference machine
(variants, steps, profiles); the other machines have a dozen models. ``FOLDER/others.csv`` holds the new published rows,
for ``python -m measure add-published``; ``data`` has them already. The values mean nothing.
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).parents[1] / "data"
PROCESSOR, GPU = "amd-epyc-2c-0ad4", "nvidia-h200-03df"
BATCHES, ROUNDS = (1, 8, 64), 3
DETAILED = 10  # one in so many models has all rows of the model that it varies
OF_OTHERS = 12  # models of each further machine
TABLES = ("runs", "samples", "profiles", "operators")
TIMES = ["latency_s", "event_s", "time_s", "plain_s", "profiled_s", "busy_s"]
MEASUREMENTS = Path("published", "measurements")


def table(path: Path) -> pd.DataFrame:
    """Read a table's cells as texts, so that unvaried ones are written as they were read."""
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def scaled(cells: pd.Series, factor: pd.Series) -> pd.Series:
    """Return numbers times a factor for each row; empty cells stay empty."""
    found = pd.to_numeric(cells) * factor.to_numpy()
    return found.map("{:.6g}".format).where(cells != "", "")


def varied(rows: pd.DataFrame, variants: pd.DataFrame, columns: list[str], factor: str) -> pd.DataFrame:
    """Return the rows of each variant's base model under the variant's name, with some columns times its factor."""
    found = rows.merge(variants, left_on="model", right_on="base")
    for column in columns:
        if factor == "size":  # whole numbers stay whole, so that layers sum to their model
            whole = pd.to_numeric(found[column].replace("", "0")).astype("int64") * found["size"]
            found[column] = whole.astype(str).where(found[column] != "", "")
        else:
            found[column] = scaled(found[column], found[factor])
    return found.assign(model=found.variant_name)[list(rows.columns)]


def write_workload(data: Path, variants: pd.DataFrame) -> None:
    for name in ("models", "layers", "operators"):
        rows = table(DATA / "workload" / f"{name}.csv")
        rows = rows[rows.autocast == ""]
        few = rows[(rows.precision == "fp32") & rows.batch.astype(int).isin(BATCHES)]
        counts = [column for column in rows if column.endswith(("_byte", "_flop", "flop", "byte", "_count"))]
        parts = (rows, variants[variants.detailed]), (few, variants[~variants.detailed])
        found = pd.concat([rows, *(varied(*part, counts, "size") for part in parts)])
        if name == "models":  # as the cache sorts them
            found = found.assign(number=found.batch.astype(int)).sort_values(["model", "input_shape", "number"])
            found = found.drop(columns="number")
        found.to_csv(data / "workload" / f"{name}.csv", index=False)


def write_machine(data: Path, name: str, base: str, number: int, variants: pd.DataFrame) -> None:
    """Write a machine that ran the variants' models; its environment has another name, hardware and date."""
    folder = data / "machines" / name
    folder.mkdir()
    identity = {"environment_id": f"{number:012x}", "hardware_id": f"{number + 2**40:012x}"}
    environment = table(DATA / "machines" / base / "machine.csv").assign(**identity)
    at = f"2026-11-27T{number // 60:02}:{number % 60:02}:00+00:00"
    environment = environment.assign(name=environment.name + f" {number}", recorded_at=at)
    environment.to_csv(folder / "machine.csv", index=False)
    roofs = table(DATA / "machines" / base / "roofs.csv")
    roofs.assign(environment_id=identity["environment_id"]).to_csv(folder / "roofs.csv", index=False)
    for part in TABLES:
        rows = table(DATA / "machines" / base / f"{part}.csv")
        plain = variants[~variants.detailed]
        eager = rows[(rows.phase == "inference") & (rows.variant == "eager") & (rows.precision == "fp32")]
        eager = eager[eager.batch.astype(int).isin(BATCHES)]
        eager = eager[eager["round"].astype(int) < ROUNDS] if "round" in rows else eager.iloc[:0]
        times = [column for column in TIMES if column in rows]
        pairs = (rows, variants[variants.detailed]), (eager, plain)
        found = [varied(*pair, times, "time") for pair in pairs]
        pd.concat(found).assign(environment_id=identity["environment_id"]).to_csv(folder / f"{part}.csv", index=False)


def write_published(folder: Path, count: int, random: np.random.Generator) -> None:
    """Write so many published timings: copies of the project's under other files, every third of other models."""
    place = folder / "data" / MEASUREMENTS
    rows = table(DATA / MEASUREMENTS / "models.csv")
    further: list[pd.DataFrame] = []
    while len(rows) + sum(map(len, further)) < count:
        number = len(further)
        copy = rows.assign(file=f"copy-{number}-" + rows.file)
        factor = pd.Series(np.exp(abs(random.normal(0, 0.05, len(rows)))))  # slower: no chip exceeds its roof
        for column in ("latency_s", "latency_min_s", "latency_max_s"):
            copy[column] = scaled(copy[column], factor)
        copy["throughput_per_s"] = scaled(copy.throughput_per_s, 1 / factor)
        further.append(copy.assign(model=copy.model + f"_{number}") if number % 3 == 2 else copy)
    others = pd.concat(further)[: max(0, count - len(rows))] if further else rows.iloc[:0]
    chips = table(DATA / "chips.csv")
    devices = {name.strip() for names in (*chips.chip, *chips.alias) for name in names.split(";")}
    others[others.device.isin(devices)].to_csv(folder / "others.csv", index=False)  # others are refused
    pd.concat([rows, others]).to_csv(place / "models.csv", index=False)
    for name in ("counts", "counted_kinds"):
        counts = table(DATA / MEASUREMENTS / f"{name}.csv")
        copies = [counts.assign(model=counts.model + f"_{number}") for number in range(2, len(further), 3)]
        pd.concat([counts, *copies]).to_csv(place / f"{name}.csv", index=False)


def write(folder: Path, models: int, machines: int, rows: int, detailed: int = DETAILED) -> None:
    """Write the cache into ``folder/data``, which must not be there."""
    data, random = folder / "data", np.random.default_rng(0)
    shutil.copytree(DATA, data)
    bases = {base: sorted(set(table(DATA / "machines" / base / "runs.csv").model)) for base in (PROCESSOR, GPU)}
    base_names = [bases[PROCESSOR][at % len(bases[PROCESSOR])] for at in range(models)]
    variants = pd.DataFrame({
        "base": base_names, "variant_name": [f"{base}_x{at:04}" for at, base in enumerate(base_names)],
        "size": random.integers(1, 10, models), "detailed": [at % detailed == 0 for at in range(models)],
    })  # fmt: skip
    variants["time"] = variants["size"] * random.lognormal(0, 0.3, models)
    write_workload(data, variants)
    for number in range(1, machines + 1):
        base = PROCESSOR if number % 3 else GPU
        if number == machines:
            name, base, ran = "all-models", PROCESSOR, variants
        else:
            few = variants[variants.base.isin(bases[base])]
            few = few.iloc[random.choice(len(few), min(OF_OTHERS, len(few)), replace=False)]
            name, ran = f"machine-{number:02}", few.assign(time=few.time * random.lognormal(0, 0.5), detailed=True)
        write_machine(data, name, base, number, ran)
    write_published(folder, rows, random)


def main() -> None:
    parser = argparse.ArgumentParser(description="Write a cache of many models, machines and published rows.")
    parser.add_argument("folder", type=Path, help="where; it must not hold a folder named data")
    parser.add_argument("--models", type=int, default=2_000, help="(default: %(default)s)")
    parser.add_argument("--machines", type=int, default=60, help="(default: %(default)s)")
    parser.add_argument("--rows", type=int, default=100_000, help="published timings (default: %(default)s)")
    flags = parser.parse_args()
    flags.folder.mkdir(parents=True, exist_ok=True)
    write(flags.folder, flags.models, flags.machines, flags.rows)


if __name__ == "__main__":
    main()
