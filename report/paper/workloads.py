"""The rows of the workload tables that the paper shows, with derived columns."""

from collections.abc import Iterable, Mapping

import pandas as pd

from measure.cache.folders import Workloads
from measure.domain.models import MEASURED_SHAPES
from measure.domain.records import Attempt
from measure.domain.words import least_byte
from measure.domain.workload_records import WORKLOAD
from measure.errors import UserError
from report.paper.frames import compact
from roofwright.command_line import data_flag

SUMMED = (
    "parameter_count", "parameter_byte", "activation_byte", "traffic_byte", "forward_flop", "forward_other_flop",
    "saved_byte", "backward_traffic_byte", "backward_flop", "backward_other_flop", "recompute_flop",
)  # fmt: skip
"""The columns that sum over layers to the workload's."""

KEY = [column for column in WORKLOAD if column != "autocast"]
"""The key of the rows that the paper shows; all are without autocast."""

TEXTS = (*KEY, "source", "family", "uncounted", "code", "path")


def shown(models: pd.DataFrame, measured: Mapping[str, str]) -> pd.DataFrame:
    """One row per model, batch size and precision, without autocast, with intensities in FLOP/B.

    Each model has one shape (``shapes_of``). The footprint counts parameters, inputs and activations once each; the
    compulsory bytes are parameters, inputs and outputs. Both skip tensors that the forward pass cannot touch.
    Intensities are of the forward pass, and of its convolutions, matrix products and attention alone.
    """
    rows = models[(models.status == "ok") & models.autocast.isna()]
    rows = rows[rows.input_shape == rows.model.map(shapes_of(rows, measured))]
    rows = rows.drop(columns=["status", "reason", "autocast"])
    rows = rows.astype({column: float for column in rows if column not in TEXTS}).reset_index(drop=True)
    untouched = rows.untouched_byte.fillna(0.0)
    for byte, made in (("footprint", rows.activation_byte), ("compulsory", rows.output_byte)):
        rows[f"{byte}_byte"] = least_byte(rows.parameter_byte, rows.input_byte, made, untouched)
    for byte in ("footprint", "compulsory", "traffic"):
        rows[f"{byte}_intensity"] = rows.forward_flop / rows[f"{byte}_byte"]
    return compact(rows)


def measured_shapes(tried: Iterable[Attempt]) -> dict[str, str]:
    """Return the input shape of each measured model; all machines share one.

    It is the current shape of a built-in model if a cell has a result at it, else the last one measured.
    """

    def rank(row: Attempt) -> tuple[bool, bool, str]:
        return row.status == "ok", row.input_shape == MEASURED_SHAPES.get(row.model), row.recorded_at

    return {row.model: row.input_shape for row in sorted(tried, key=rank) if row.input_shape}  # the last wins


def shapes_of(rows: pd.DataFrame, measured: Mapping[str, str]) -> dict[str, str]:
    """Return the input shape of each model in the paper: the measured one.

    A model without measurements has the shape that would be measured, else the smallest counted one.
    """
    shapes = {}
    for model, counted in rows.groupby("model").input_shape:
        usual = MEASURED_SHAPES.get(str(model), "")
        unmeasured = usual if usual in set(counted) else min(counted, key=lambda shape: [*map(int, shape.split("x"))])
        shapes[str(model)] = measured.get(str(model), unmeasured)
    return shapes


def parts_of(parts: pd.DataFrame, workloads: pd.DataFrame) -> pd.DataFrame:
    """Return the layers or operators of the workloads that the paper shows."""
    return parts[parts.autocast.isna()].drop(columns="autocast").merge(workloads[KEY], on=KEY)


def check_sums(models: pd.DataFrame, layers: pd.DataFrame, tables: Workloads) -> None:
    """Raise UserError, with the line in ``tables``, if a workload's layers do not sum to it."""
    key = list(WORKLOAD)
    models, layers = (frame.assign(autocast=frame.autocast.fillna("")) for frame in (models, layers))
    sums = layers.groupby(key)[list(SUMMED)].sum(min_count=1)
    both = models.merge(sums, on=key, suffixes=("", "_of_layers"))
    for column in SUMMED:
        whole, parts = both[column].astype(float), both[f"{column}_of_layers"].astype(float)
        wrong = both[(whole != parts) & ~(whole.isna() & parts.isna())]
        if not wrong.empty:
            row = wrong.iloc[0]
            place = tables.place((*row[key[:-1]], row.autocast or None))
            remedy = f"python -m measure --sections workload --force --models {row.model}{data_flag(tables.data)}"
            raise UserError(
                f"{place}, column {column}: is not the sum of the model's layers in layers.csv; count it again with "
                f"{remedy}"
            )
