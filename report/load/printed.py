"""What published studies printed, as printed, errors included: ``data/published``, checked and read."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from measure.cache.hand_kept import Claim, PrintedChip, PrintedEstimate, PrintedModel, PrintedStep, PrintedTraining
from measure.cache.schema import TABLES
from report.load import hand_tables


@dataclass(frozen=True, eq=False)
class Published:
    """The tables of ``hand_kept`` but that of training steps, as ``hand_tables.frame`` makes them."""

    chips: pd.DataFrame
    models: pd.DataFrame
    training: pd.DataFrame
    step_estimates: pd.DataFrame
    claims: pd.DataFrame


def read(folder: Path, keys: frozenset[str]) -> Published:
    """Read the tables of a folder; ``keys`` are the bibliography's. A file that is not there is an empty table.

    Raises UserError naming file, line and column of the first cell that is wrong.
    """
    records = (PrintedChip, PrintedModel, PrintedTraining, PrintedEstimate, Claim)
    return Published(*(_frame(folder / TABLES[record].name, record, keys) for record in records))


def training_steps(path: Path, keys: frozenset[str]) -> pd.DataFrame:
    """Read the training steps, counted by hardware counters, likewise."""
    return _frame(path, PrintedStep, keys)


def _frame(path: Path, record: type, keys: frozenset[str]) -> pd.DataFrame:
    return hand_tables.frame(hand_tables.read(path, record, keys), record)
