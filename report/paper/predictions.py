"""How latencies are predicted: the tables of ``data/prediction``, and what predictions of single calls rest on."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from measure.cache import table
from measure.cache.predictions import Coefficient, KindCost, OfSetting, PredictionError
from measure.cache.schema import TABLES, file_of
from measure.predicting import demand as devices
from measure.predicting import timings
from measure.predicting.demand import PredictedDevice
from measure.predicting.prediction import Predictor
from report.paper.choices import Choices, choices


@dataclass(frozen=True, eq=False)
class Sources:
    """The folders of data that predictions rest on: of fits, of chips, of what others timed, of what was measured."""

    fits: Path
    chips: Path
    published: Path
    measured: Path


@dataclass(frozen=True, eq=False)
class Predictions:
    """The tables as frames; each row also has its ``setting``.

    What single calls are predicted by is read when it is asked for: it takes longer than all else that the paper loads.
    """

    coefficients: pd.DataFrame
    kinds: pd.DataFrame
    errors: pd.DataFrame
    sources: Sources = field(repr=False)

    @cached_property
    def devices(self) -> list[PredictedDevice]:
        """The chips of the table and the machines that were measured, each once."""
        chips = devices.of_chips(self.sources.chips).values()
        machines = (machine for _, _, machine in devices.of_machines(self.sources.measured))
        return list(dict.fromkeys([*chips, *machines]))

    @cached_property
    def counted(self) -> timings.Counted:
        """What each call of a counted model asks for."""
        return timings.counted(self.sources.measured)

    @cached_property
    def timed(self) -> list[timings.TimedCall]:
        return [*timings.published(self.sources.published), *timings.measured(self.sources.measured, self.counted)]

    @cached_property
    def predictor(self) -> Predictor:
        fits = self.sources.fits
        coefficients = table.read(file_of(Coefficient, fits), Coefficient)
        errors = table.read(file_of(PredictionError, fits), PredictionError)
        return Predictor(coefficients, errors, self.timed)

    @cached_property
    def choices(self) -> Choices:
        """What a page needs to predict by itself."""
        return choices(self.predictor, self.devices, self.counted, self.timed)


def read(sources: Sources) -> Predictions:
    """Read the tables; those that are not there are empty. Raises UserError where a cell is wrong."""
    coefficients, kinds, errors = (_frame(record, sources.fits) for record in (Coefficient, KindCost, PredictionError))
    return Predictions(coefficients, kinds, errors, sources)


def _frame(record: type[OfSetting], folder: Path) -> pd.DataFrame:
    rows = table.read(file_of(record, folder), record)
    columns = [*TABLES[record].columns, "setting"]
    return pd.DataFrame([{**vars(row), "setting": row.setting} for row in rows], columns=columns)
