"""How latencies are predicted: the tables of ``data/prediction``, and what predictions of single calls rest on."""

from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

import pandas as pd

from measure.cache import table
from measure.cache.predictions import BATCH_CLASSES, Coefficient, PredictionError, Setting
from measure.cache.schema import TABLES, file_of
from measure.domain.statistics import FEWEST_MODELS
from measure.predicting import demand as devices
from measure.predicting import timings
from measure.predicting.demand import PredictedDevice
from measure.predicting.prediction import DATASHEET, Basis, Predictor

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
    """The table of errors as a frame; each row also has its ``setting``.

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
        coefficients = table.read(file_of(Coefficient, fits), Coefficient)
        errors = table.read(file_of(PredictionError, fits), PredictionError)
        return Predictor(coefficients, errors, self.timed)

    def is_checked(self, basis: Basis, device: str, family: str, batch: int) -> bool:
        """Return whether a prediction may have an interval.

        It may if six networks with inputs of the same sort were timed at such batch sizes, in the fit behind it, and
        at least one of them on the device, unless nothing was timed there.
        """
        if basis.ratios is None:
            return False
        fit, own = (
            len(self._networks.get((basis.setting, where, _sort_of_input(family), _batch_class(batch)), ()))
            for where in ("", device)
        )
        return fit >= FEWEST_MODELS and (own > 0 or basis.name == DATASHEET)

    @cached_property
    def _networks(self) -> dict[tuple[Setting, str, str, str], set[str]]:
        """The timed networks by fit, device (empty for all), sort of input and class of batch sizes."""
        found: dict[tuple[Setting, str, str, str], set[str]] = {}
        for setting, calls in self.predictor.calls.items():
            timed = {(call.setting.device, call.family, call.demand.batch, call.architecture) for call in calls}
            for own, family, batch, network in timed:
                for device in ("", own):
                    key = setting, device, _sort_of_input(family), _batch_class(batch)
                    found.setdefault(key, set()).add(network)
        return found


def _sort_of_input(family: str) -> str:
    return family if family in NO_IMAGES else "image"


@cache
def _batch_class(batch: int) -> str:
    return next(name for name, (least, most) in BATCH_CLASSES.items() if least <= batch <= most)


def read(sources: Sources) -> Predictions:
    """Read the errors; none if they are not there. Raises UserError where a cell is wrong."""
    rows = table.read(file_of(PredictionError, sources.fits), PredictionError)
    columns = [*TABLES[PredictionError].columns, "setting"]
    return Predictions(pd.DataFrame([{**vars(row), "setting": row.setting} for row in rows], columns=columns), sources)
