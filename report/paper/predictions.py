"""Predicted latencies: the tables of ``data/prediction``, and the predictor of single calls."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from measure.cache import table
from measure.cache.folders import Workloads
from measure.domain.schema import TABLES, file_of
from measure.domain.words import INFERENCE, PRECISION_BYTE, STEP
from measure.predicting import prediction_terms, timings
from measure.predicting.prediction import Predictor
from measure.predicting.prediction_terms import CallWork, PredictedDevice
from measure.predicting.records import ALL, PredictionError


@dataclass(frozen=True, eq=False)
class Predictions:
    """The errors over all kinds of networks as a frame; each row also has its ``setting``.

    The folders hold fits, chips, published timings and measurements. They are read on the first prediction of a single
    call, since reading takes longer than loading the rest of the paper.
    """

    errors: pd.DataFrame
    folders: tuple[Path, Path, Path, Path]

    @cached_property
    def devices(self) -> list[PredictedDevice]:
        """The chips of the table and the measured machines, without duplicates."""
        _, chips, _, measured = self.folders
        machines = (machine for _, _, machine in prediction_terms.of_machines(measured))
        return list(dict.fromkeys([*prediction_terms.of_chips(chips).values(), *machines]))

    @cached_property
    def counted(self) -> timings.Counted:
        """The demand of each call of a counted model."""
        return timings.counted(Workloads(self.folders[3]))

    @cached_property
    def calls(self) -> dict[tuple[str, int, int, str], CallWork]:
        """The demand of calls at a model's most frequent input shape, by model, batch size, bytes of an element and
        phase.
        """
        shapes = Counter((key.model, key.input_shape) for key in self.counted)
        usual = {model: shape for (model, shape), _ in reversed(shapes.most_common())}
        return {
            (key.model, key.batch, PRECISION_BYTE[key.precision], STEP if key.trains else INFERENCE): found
            for key, found in sorted(self.counted.items())
            if key.input_shape == usual[key.model]
        }

    @cached_property
    def least_times(self) -> dict[timings.Timed, tuple[bool, float]]:
        """The latencies of the counted networks."""
        return timings.least_times(*self.folders[2:], self.counted)

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor.read(self.folders[0])


def read(fits: Path, chips: Path, published: Path, measured: Path) -> Predictions:
    """Read the errors; empty without a table. Raises UserError for an invalid cell."""
    rows = table.read(file_of(PredictionError, fits), PredictionError)
    named = [vars(row) | {"setting": row.setting} for row in rows if row.sort == ALL]
    frame = pd.DataFrame(named, columns=[*TABLES[PredictionError].columns, "setting"])
    return Predictions(frame, (fits, chips, published, measured))
