"""What others measured, compared: rows that differ in one condition, or in the device, and in nothing else."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from measure.domain.words import INFERENCE, STEP
from report.analysis.available import DataMissingError, at_least_one
from report.load.paper import Paper

CONDITIONS = ("source", "phase", "precision", "autocast", "layout", "compiler", "torch", "input_copied", "tuned")
"""The columns that say how a model was timed, beside the device, the model, its input and the batch size."""

MODEL = ("model", "input_size", "batch")

ADD = "add a table of more with `python -m measure add-published FILE`"
"""What fills a gap in the measurements of others."""

FEWEST = 20
"""The models that a comparison needs: a distribution of fewer is a list."""


@dataclass(frozen=True)
class Change:
    """A condition that is changed: from one value to another, and how figures call what that does."""

    name: str
    column: str
    base: str
    other: str


COMPILED = Change("torch.compile", "compiler", "", "torch.compile")

CHANGES = (COMPILED, Change("channels_last", "layout", "contiguous", "channels_last"))
"""What an engineer may change about a model that runs, without changing its arithmetic."""

LOWERED = Change("fp16 for fp32", "precision", "fp32", "fp16")
"""What halves the bytes, and lets tensor units compute."""


def timings(paper: Paper) -> pd.DataFrame:
    """Return the published timings; at least one row."""
    return at_least_one(
        paper.elsewhere.timings,
        DataMissingError(
            "The table data/published/measurements/models.csv holds no timing that others published; restore it, or "
            f"{ADD}."
        ),
    )


def counted(paper: Paper) -> pd.DataFrame:
    """Return the timings of models that were counted, on chips with a roof; at least one row."""
    rows = timings(paper)
    return at_least_one(
        rows[rows.attained.notna()],
        DataMissingError(
            "None of the models that others timed has been counted; `python -m measure count-published` counts them."
        ),
    )


def changed(rows: pd.DataFrame, change: Change) -> pd.DataFrame:
    """Return the models that were timed before and after a change, all else alike: ``speed_up`` is the ratio of times.

    Rows at fp16 and fp32 are those without autocast, whose operators choose their precision themselves.
    """
    if change.column == "precision":
        rows = rows[rows.autocast == ""]
    alike = ["device", *MODEL, *(column for column in CONDITIONS if column != change.column)]
    base, other = (rows[rows[change.column] == value] for value in (change.base, change.other))
    return _paired(base, other, alike)


def generations(older: pd.DataFrame, newer: pd.DataFrame) -> pd.DataFrame:
    """Return the models that were timed on each of two devices, all else alike; ``speed_up`` is that of the newer."""
    return _paired(older, newer, [*MODEL, *CONDITIONS])


def trained(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the models whose steps were timed beside their inference: ``speed_up`` is how long a step is, per input.

    Batch sizes and versions of torch may differ, since a step needs more memory and sources time it apart.
    """
    alike = ["device", "model", "input_size", "source", "precision", "autocast", "layout", "compiler"]
    per_input = rows.assign(latency_s=rows.latency_s / rows.batch)
    inference, steps = (per_input[per_input.phase == phase] for phase in (INFERENCE, STEP))
    by_version = inference.torch.map(_version).sort_values(kind="stable").index
    newest = inference.loc[by_version].drop_duplicates(alike, keep="last")
    return _paired(steps, newest, alike)


def _version(torch: str) -> tuple[int, ...]:
    """Return the numbers of a version, so that 2.10 comes after 2.9."""
    return tuple(map(int, re.findall(r"\d+", torch)))


def _paired(base: pd.DataFrame, other: pd.DataFrame, alike: Sequence[str]) -> pd.DataFrame:
    """Join rows that agree in ``alike``; of rows that a source prints twice the first counts."""
    base, other = (rows.drop_duplicates(list(alike)) for rows in (base, other))
    pairs = base.merge(other, on=list(alike), suffixes=("", "_other"))
    return pairs.assign(speed_up=pairs.latency_s / pairs.latency_s_other)


def most_published(paper: Paper) -> tuple[str, str, pd.DataFrame]:
    """Return the device and precision of which most timed models are known, and these at their fastest."""
    rows = fastest(counted(paper))
    device, computed = most_models(rows)[0]
    return device, computed, rows[(rows.device == device) & (rows.computed == computed)]


def most_models(rows: pd.DataFrame) -> list[tuple[str, str]]:
    """Return devices, each with the precision at which most models were timed, those with most models first."""
    models = rows.groupby(["device", "computed"]).model.nunique().reset_index()
    ranked = models.sort_values(["model", "device", "computed"], ascending=[False, True, True])
    first = ranked.drop_duplicates("device")
    return [(str(device), str(computed)) for device, computed in zip(first.device, first.computed, strict=True)]


def fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Return of each model on a device, at a precision of its arithmetic, the inference with the highest rate."""
    inference = rows[rows.phase == INFERENCE].sort_values("flop_per_s", ascending=False, kind="stable")
    return inference.drop_duplicates(["device", "computed", "model", "input_size"])
