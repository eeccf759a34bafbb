"""What published studies printed, as printed, errors included: ``data/published``, checked and read."""

from pathlib import Path

import pandas as pd

from measure.errors import UserError

STEP_TEXTS = ("study", "model", "gpu", "chip_key", "model_key")
STEP_NUMBERS = ("batch", "dram_byte_per_s", "time_s", "flop_per_s", "intensity_flop_per_byte")


def training_steps(path: Path, keys: frozenset[str]) -> pd.DataFrame:
    """One row is a training step on a GPU, counted by hardware counters: rates, time and intensity as printed.

    ``model_key`` is the built-in model that is meant, ``chip_key`` the chip in ``data/chips.csv``; ``keys`` are the
    bibliography's. A file that is not there is an empty table. Raises UserError naming the file where a column is
    missing, a cell is no number, or a study is not in the bibliography.
    """
    columns = [*STEP_TEXTS, *STEP_NUMBERS]
    if not path.exists():
        return pd.DataFrame(columns=columns).astype(dict.fromkeys(STEP_NUMBERS, float))
    try:
        rows = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, UnicodeDecodeError) as problem:
        raise UserError(f"{path}: cannot be read as CSV ({problem}); restore the file") from None
    missing = [column for column in columns if column not in rows]
    if missing:
        raise UserError(f"{path}, line 1: the column {missing[0]!r} is missing; restore the file")
    for number, row in enumerate(rows.to_dict("records"), 2):
        for column in STEP_NUMBERS:
            try:
                float(row[column])
            except ValueError:
                raise UserError(
                    f"{path}, line {number}, column {column}: {row[column]!r} is no number; mend the cell"
                ) from None
        if row["study"] not in keys:
            raise UserError(
                f"{path}, line {number}: the study {row['study']!r} is not in the bibliography; add its entry to "
                "bib/references.bib"
            )
    return rows[columns].astype(dict.fromkeys(STEP_NUMBERS, float))
