"""What others measured over batch sizes: from which one on a larger batch buys little, and what a step costs there."""

import pandas as pd

from measure.domain.words import INFERENCE
from report.analysis import elsewhere, saturation
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.elsewhere import ADD, CONDITIONS
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import matching

SET = ["device", "computed", "input_size", *CONDITIONS]
"""The columns in which the timings of a set agree: nothing but models and batch sizes differ."""


def sweeps(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the forward passes of models that were timed over a full sweep of batch sizes, all else alike.

    They are in ascending order of batch sizes, with ``throughput_per_s`` by their time; there may be none.
    """
    inference = matching(rows, phase=INFERENCE).drop_duplicates([*SET, "model", "batch"]).sort_values("batch")
    inference = inference.assign(throughput_per_s=inference.batch / inference.latency_s)
    models = inference.groupby([*SET, "model"], dropna=False)
    several = inference[models.batch.transform("size") >= saturation.FEWEST]
    return several.groupby([*SET, "model"], dropna=False).filter(
        lambda sweep: saturation.is_full_sweep([int(batch) for batch in sweep.batch])
    )


def swept(paper: Paper) -> pd.DataFrame:
    """Return the ``sweeps`` of all published timings; at least one."""
    gap = DataMissingError(
        "The table data/published/measurements/models.csv holds no model that was timed over a full sweep of batch "
        f"sizes; restore it, or {ADD}."
    )
    return at_least_one(sweeps(elsewhere.timings(paper)), gap)


def saturations(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the saturation of each of some ``sweeps``, as of our own cells (``saturation.saturations``).

    ``device`` and ``computed`` say on what and at which precision; of no sweep the frame is empty.
    """
    ridge = rows.peak_flop_per_s / rows.bandwidth_byte_per_s
    cells = rows.assign(status="ok", memory_bound=rows.intensity < ridge)
    found = [
        saturation.saturations(alike).assign(device=alike.device.iloc[0], computed=alike.computed.iloc[0])
        for _, alike in cells.groupby(SET, dropna=False)
    ]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def printed_steps(paper: Paper, sweep: pd.DataFrame) -> pd.DataFrame:
    """Return the training steps that a study printed of devices in some ``sweeps``: ``device``, ``throughput_per_s``.

    ``inference_per_s`` is the throughput of the same model's forward pass in the sweep, at the same batch size and the
    base precision, and ``flop_ratio`` how many times its FLOP a step asks for; empty where not timed, or not counted.
    """
    steps = paper.training_steps.rename(columns={"chip_key": "device"})
    steps = steps[steps.device.isin(sweep.device)]
    steps = steps.assign(throughput_per_s=steps.batch / steps.time_s)
    key = ["device", "model_key", "batch"]
    full = matching(sweep, computed=BASE_PRECISION).rename(
        columns={"model": "model_key", "throughput_per_s": "inference_per_s"}
    )
    return steps.merge(full.drop_duplicates(key)[[*key, "inference_per_s", "flop_ratio"]], on=key, how="left")
