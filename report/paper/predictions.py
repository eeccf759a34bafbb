"""How latencies are predicted: the tables of ``data/prediction``, and what predictions of single calls rest on."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pandas as pd

from measure.cache import table
from measure.cache.predictions import ALL, Coefficient, NetworkFactor, PredictionError
from measure.cache.schema import TABLES, file_of
from measure.predicting import demand as devices
from measure.predicting import timings
from measure.predicting.demand import PredictedDevice
from measure.predicting.prediction import Predictor

NO_IMAGES = ("language", "audio")  # families of networks whose inputs are no images


@dataclass(frozen=True, eq=False)
class Sources:
    """The folders of data that predictions rest on: of fits, of chips, of what others timed, of what was measured."""

    fits: Path
    chips: Path
    published: Path
    measured: Path


@dataclass(frozen=True, eq=False)
class Predictions:
    """The errors of all sorts of networks together as a frame; each row also has its ``setting``.

    What single calls are predicted by is read when it is asked for: it takes longer than all else that the paper loads.
    """

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
        return Predictor(
            table.read(file_of(Coefficient, fits), Coefficient),
            table.read(file_of(PredictionError, fits), PredictionError),
            table.read(file_of(NetworkFactor, fits), NetworkFactor),
        )


def read(sources: Sources) -> Predictions:
    """Read the errors; none if they are not there. Raises UserError where a cell is wrong."""
    rows = table.read(file_of(PredictionError, sources.fits), PredictionError)
    columns = [*TABLES[PredictionError].columns, "setting"]
    told = [{**vars(row), "setting": row.setting} for row in rows if row.sort == ALL]
    return Predictions(pd.DataFrame(told, columns=columns), sources)
