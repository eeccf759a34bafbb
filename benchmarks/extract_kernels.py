"""Extracts the tables of ``data/published/kernels`` and ``data/published/servers.csv`` from two published sources.

    pip download --no-deps aiconfigurator-core==0.12.0 && unzip aiconfigurator_core-*.whl -d WHEEL_FOLDER
    git clone https://github.com/microsoft/vidur VIDUR_FOLDER
    python benchmarks/extract_kernels.py WHEEL_FOLDER --vidur VIDUR_FOLDER --data data

Needs pyarrow (``pip install pyarrow``), which nothing else here does. The same sources give the same bytes. Prints for
each table how many rows were read and written, and why the others were not; then the package's tables without a place.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from extracting import vidur
from extracting.choice import newest, on_lattice
from extracting.tables import EXTRACTS, Extract
from extracting.whole_servers import servers

from measure.cache import table
from measure.domain.schema import TABLES, file_of
from measure.errors import UserError
from measure.published.kernels import TimedCollective
from measure.published.servers import PublishedServer

DATA_IN_PACKAGE = Path("aiconfigurator_core", "systems", "data")
SERVERS = Path("aiconfigurator_core", "systems", "silicon_sample.csv")
END = "_perf.parquet"
DIGITS = 6  # significant ones of a time
OLDER, SPARED, REPEATED = "of an older version of the engine", "between the chosen sizes", "repeats the key of a row"


def read_parquet(path: Path) -> pd.DataFrame:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UserError("extract_kernels.py reads Parquet with pyarrow; install it with: pip install pyarrow") from None
    return parquet.read_table(path).to_pandas()


def files_in(folder: Path) -> list[Path]:
    """Return the package's tables, ``GPU/KIND/ENGINE/VERSION/NAME_perf.parquet``. Raises UserError without any."""
    found = sorted((folder / DATA_IN_PACKAGE).rglob(f"*{END}"))
    if not found:
        raise UserError(f"{folder}: holds no {DATA_IN_PACKAGE}/…{END}; name the folder of the unpacked wheel")
    return found


def read(path: Path) -> pd.DataFrame:
    """Read a table with the folders that it lies in."""
    device, _, engine, version = path.parts[-5:-1]
    return read_parquet(path).assign(folder_device=device, folder_engine=engine, folder_version=version)


def chosen(rows: pd.DataFrame, extract: Extract) -> pd.Series:
    """Mark the rows on the lattice of sizes, and those that are kept in any case."""
    one_of = extract.one_of_powered if rows.has_power.any() else extract.one_of
    return on_lattice(rows, extract.stratum, extract.steps, one_of) | extract.always(rows)


def gather(extract: Extract, frames: Iterator[tuple[str, pd.DataFrame]]) -> tuple[pd.DataFrame, Counter[str]]:
    """Return the chosen rows of all files in our columns, and how many others there are by the reason."""
    group, kept, sizes, reasons = [*extract.group, "software"], [], [], Counter[str]()
    for name, frame in frames:
        rows = extract.convert(frame, name)
        reasons.update(rows.refused[rows.refused != ""])
        rows = rows[rows.refused == ""].drop(columns="refused")
        sizes.append(rows.groupby(group, sort=False).size().rename("rows").reset_index())
        kept.append(rows[chosen(rows, extract)])
    if not sizes:
        raise UserError(f"the package has no table of {' or '.join(extract.files)}; name the folder of the whole wheel")
    versions = pd.concat(sizes).groupby(group, sort=False, as_index=False).sum()
    recent = newest(versions, extract.group)
    rows = pd.concat(kept, ignore_index=True).merge(recent[group])
    reasons[OLDER] = int(versions.rows.sum() - recent.rows.sum())
    reasons[SPARED] = int(recent.rows.sum()) - len(rows)
    return rows, reasons


def records(rows: pd.DataFrame, record: type[Any]) -> tuple[list[Any], int]:
    """Return the rows as records, sorted, each key once; and the number of repeated keys."""
    facts = TABLES[record]
    rows = rows.reindex(columns=list(facts.columns)).sort_values([*facts.key], kind="stable")
    first = rows.drop_duplicates([*facts.key])
    found = []
    for cells in first.astype(object).where(first.notna(), None).itertuples(index=False):
        values = {
            name: cell if cell is None else float(f"{cell:.{DIGITS}g}") if column.type is float else column.type(cell)
            for (name, column), cell in zip(facts.columns.items(), cells, strict=True)
        }
        found.append(record(**values))
    return found, len(rows) - len(first)


def write(data: Path, record: type[Any], rows: pd.DataFrame, reasons: Counter[str]) -> None:
    """Write a table, and print how many rows it has and why others are left out."""
    found, reasons[REPEATED] = records(rows, record)
    table.write(file_of(record, data), record, found)
    print(f"{TABLES[record].path}: {len(found) + sum(reasons.values()):,} rows read, {len(found):,} written")
    for reason, count in reasons.most_common():
        if count:
            print(f"  {count:,} {reason}")


def main(words: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("package", type=Path, metavar="WHEEL_FOLDER")
    flags.add_argument("--vidur", type=Path, required=True, metavar="VIDUR_FOLDER")
    flags.add_argument("--data", type=Path, required=True, metavar="DIR")
    arguments = flags.parse_args(words)
    try:
        files = files_in(arguments.package)
        for record, extract in EXTRACTS.items():
            own = [path for path in files if path.name.removesuffix(END) in extract.files]
            rows, reasons = gather(extract, ((path.name.removesuffix(END), read(path)) for path in own))
            if record is TimedCollective:
                others = vidur.collectives(arguments.vidur)
                reasons.update(others.refused[others.refused != ""])
                rows = pd.concat([rows, others[others.refused == ""]], ignore_index=True)
            write(arguments.data, record, rows, reasons)
        sample = pd.read_csv(arguments.package / SERVERS, keep_default_na=False, na_values=[""])
        write(arguments.data, PublishedServer, servers(sample), Counter())
        used = {name for extract in EXTRACTS.values() for name in extract.files}
        names = Counter(path.name.removesuffix(END) for path in files if path.name.removesuffix(END) not in used)
        print("Without a place here:", ", ".join(f"{name} ({count} files)" for name, count in sorted(names.items())))
    except UserError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
