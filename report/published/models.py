"""The printed FLOP, footprints and intensities of models beside exact counts of one input."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from report.load import counting_programs as counter_names
from report.load.paper import BASE_PRECISION, Paper
from report.published import counts
from report.published.counts import COUNTED
from report.published.verdict import AGREES, OPEN, Comparison, Verdict, judge
from report.text.frame_rows import each

MEBI = 1024**2 / 1000**2
"""A mebibyte in megabytes: studies print one for the other."""

SUMMARY = "parameters, inputs and twice all outputs, in MiB"
"""What torchsummary prints as a model's estimated total size in MB."""

NUMBER_BYTE = 4
"""Of a number at the base precision."""

USUAL_SHAPE = "3x224x224"
"""The input of the models of a study that prints none."""

FOOTPRINT_TOLERANCE = 0.02
"""Programs differ a little in what they take for a layer."""


def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Three of each model that a study prints: its FLOP, its footprint and its intensity."""
    for row in each(paper.published.models):
        asked = counts.workload(paper, row.model_key, 1)
        yield _flop(paper, row, asked)
        yield _footprint(paper, row, asked)
        yield _intensity(row, asked)


def _gap(row: Any, asked: Any | None) -> Verdict | None:
    """Why a figure of a model has nothing of ours beside it; None where it has."""
    if not row.model_key:
        return Verdict(OPEN, "it does not say which model it means")
    if asked is None:
        return Verdict(OPEN, f"it has not been counted; {counts.command(row.model_key, 1)} counts it")
    return None


def _at_our_size(verdict: Verdict, asked: Any | None) -> Verdict:
    """The verdict, open where the study may have given the model an input of its other models' size."""
    if verdict.outcome == AGREES or asked is None or asked.input_shape == USUAL_SHAPE:
        return verdict
    return Verdict(OPEN, f"it does not say at which size of input; ours is counted at {asked.input_shape}")


def _flop(paper: Paper, row: Any, asked: Any | None) -> Comparison:
    """Ours are products; others are those with everything else, multiply-adds, and what other counters give."""
    ours = counts.forward_flop(paper, row.model_key)
    others: dict[str, float] = {}
    if ours is not None:
        others["the number of multiply-adds, half the FLOP"] = ours / 2
    if asked is not None:
        others["products and everything else together"] = float(asked.forward_flop + asked.forward_other_flop)
    shape = None if asked is None else str(asked.input_shape)
    for counter, mac in counts.counters(paper, row.model_key, shape).items():
        if counter != counter_names.OURS:
            others[f"what {counter_names.name(counter)} counts"] = 2 * mac
    gap = _gap(row, asked) if ours is None else None
    verdict = gap or _at_our_size(judge(row.flop, row.flop_rounding, ours, others), asked)
    return Comparison(
        row.study, row.model, "FLOP, forward", "FLOP", row.flop, ours, COUNTED if ours else "", verdict
    )


def footprints(paper: Paper, model: str) -> dict[str, float]:
    """What the footprint of one input is by other definitions than ours, in bytes, where the model was counted."""
    asked = counts.workload(paper, model, 1)
    if asked is None:
        return {}
    fixed = float(asked.parameter_byte + asked.input_byte)
    outputs = output_byte(paper, model)
    found = {
        "our footprint": float(asked.footprint_byte),
        "parameters, inputs and twice all outputs": fixed + 2 * outputs,
        "parameters, inputs and all outputs": fixed + outputs,
        "the parameters alone": float(asked.parameter_byte),
        "the bytes of an execution without fusion": float(asked.traffic_byte),
    }
    return {f"{what}, in MiB": value / MEBI for what, value in found.items()} | found


def output_byte(paper: Paper, model: str) -> float:
    """The outputs of all layers of one input, also of those that write over their input, in bytes.

    A layer that does that has no activations of its own: of its traffic a half is written, and of a sum of
    two inputs, which moves three numbers for each FLOP, a third.
    """
    rows = paper.layers
    rows = rows[(rows.model == model) & (rows.batch == 1) & (rows.precision == BASE_PRECISION)]
    columns = ["activation_byte", "traffic_byte", "parameter_byte", "forward_other_flop"]
    rows = rows.astype(dict.fromkeys(columns, float))
    adds = rows.traffic_byte == 3 * NUMBER_BYTE * rows.forward_other_flop
    written = (rows.traffic_byte - rows.parameter_byte) / (2 + adds)
    return float(rows.activation_byte.where(rows.activation_byte > 0, written).sum())


def _footprint(paper: Paper, row: Any, asked: Any | None) -> Comparison:
    ours = None if asked is None else float(asked.footprint_byte)
    printed, rounding = row.footprint_byte, row.footprint_byte_rounding
    gap = _gap(row, asked)
    others = footprints(paper, row.model_key)
    verdict = gap or judge(printed, rounding, ours, others, FOOTPRINT_TOLERANCE)
    verdict = _at_our_size(verdict, asked)
    return Comparison(row.study, row.model, "footprint", "B", printed, ours, COUNTED if ours else "", verdict)


def _intensity(row: Any, asked: Any | None) -> Comparison:
    """By footprint. Where it is the quotient of what is printed, it is as right as these."""
    ours = None if asked is None else float(asked.footprint_intensity)
    others = {"the quotient of its FLOP and its footprint, as wrong as these": row.flop / row.footprint_byte}
    printed, rounding = row.intensity_flop_per_byte, row.intensity_flop_per_byte_rounding
    verdict = _at_our_size(_gap(row, asked) or judge(printed, rounding, ours, others), asked)
    return Comparison(
        row.study, row.model, "intensity", "FLOP/B", printed, ours, COUNTED if ours else "", verdict
    )


def betrayed(paper: Paper, study: str) -> pd.DataFrame:
    """One row is a way of counting: of how many models of a study it gives the printed FLOP, within their rounding.

    ``models`` is how many it counted at the input that we count at. The best first.
    """
    rows = []
    for row in each(paper.published.models[paper.published.models.study == study]):
        asked = counts.workload(paper, row.model_key, 1)
        if asked is None:
            continue
        ways = {"products and everything else": float(asked.forward_flop + asked.forward_other_flop)}
        ways["products alone"] = float(asked.forward_flop)
        for counter, mac in counts.counters(paper, row.model_key, str(asked.input_shape)).items():
            if counter != counter_names.OURS:
                ways[counter_names.name(counter)] = 2 * mac
        rows += [
            {"way": way, "equal": abs(row.flop - value) <= row.flop_rounding} for way, value in ways.items()
        ]
    if not rows:
        return pd.DataFrame(columns=["way", "equal", "models"])
    found = pd.DataFrame(rows).groupby("way", sort=False).equal.agg(["sum", "count"]).reset_index()
    found = found.rename(columns={"sum": "equal", "count": "models"})
    return found.sort_values("equal", ascending=False, kind="stable", ignore_index=True)
