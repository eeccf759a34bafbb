"""The printed FLOP, footprints and intensities of models beside exact counts of one input."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from report.load import counting_programs
from report.load.paper import BASE_PRECISION, Paper
from report.published import counts
from report.published.verdict import AGREES, NOT_COMPARABLE, Comparison, Verdict, compares, judge, printed
from report.text.frame_rows import each, matching

MEBI = 1024**2 / 1000**2
"""A mebibyte in megabytes: studies print one for the other."""

SUMMARY = "parameters, inputs and twice all outputs, in MiB"
"""What torchsummary prints as a model's estimated total size in MB."""

NUMBER_BYTE = 4
"""Of a number at the base precision."""

USUAL_SHAPE = "3x224x224"
"""The input of the models of a study that prints none."""


@compares("models", 2)
def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield three of each model that a study prints: its FLOP, its footprint and its intensity.

    Our FLOP are products; others are those with everything else, multiply-adds, and what other programs count. The
    intensity is by footprint. Where it is the quotient of what is printed, it is as right as these.
    """
    for row in each(paper.published.models):
        asked = counts.workload(paper, row.model_key, 1)
        flop = counts.forward_flop(paper, row.model_key)
        others = {} if flop is None else {"the number of multiply-adds, half the FLOP": flop / 2}
        others |= _other_counts(paper, row.model_key, asked)
        yield _compared(row, asked, "FLOP, forward", "FLOP", "flop", flop, others)
        footprint, intensity = (
            None if asked is None else float(asked[column]) for column in ("footprint_byte", "footprint_intensity")
        )
        others = footprints(paper, row.model_key)
        yield _compared(row, asked, "footprint", "B", "footprint_byte", footprint, others)
        quotient = row.flop / row.footprint_byte
        others = {"the quotient of its FLOP and its footprint, as wrong as these": quotient}
        yield _compared(row, asked, "intensity", "FLOP/B", "intensity_flop_per_byte", intensity, others)


def _compared(
    row: Any, asked: Any | None, quantity: str, unit: str, column: str,
    ours: float | None, others: dict[str, float],
) -> Comparison:  # fmt: skip
    """Compare a figure of a model; not where the study may have given it an input of its other models' size."""
    if ours is None and not row.model_key:
        verdict = Verdict(NOT_COMPARABLE, "it does not say which model it means")
    elif ours is None and asked is None:
        verdict = Verdict(NOT_COMPARABLE, f"it has not been counted; {counts.counting(row.model_key, 1)} counts it")
    else:
        verdict = judge(*printed(row, column), ours, others)
        if verdict.outcome != AGREES and asked is not None and asked.input_shape != USUAL_SHAPE:
            verdict = Verdict(
                NOT_COMPARABLE, f"it does not say at which size of input; ours is counted at {asked.input_shape}"
            )
    return Comparison(row.study, row.model, quantity, unit, getattr(row, column), ours, verdict)


def _other_counts(paper: Paper, model: str, asked: Any | None) -> dict[str, float]:
    """Return the FLOP of one input by other ways of counting: with everything but products, and by other programs."""
    found = {}
    if asked is not None:
        found["products and everything else together"] = float(asked.forward_flop + asked.forward_other_flop)
    shape = None if asked is None else str(asked.input_shape)
    return found | {f"what {name} counts": flop for name, flop in _by_other_programs(paper, model, shape).items()}


def _by_other_programs(paper: Paper, model: str, input_shape: str | None) -> dict[str, float]:
    """Return the FLOP of one input, twice the multiply-adds, by the name of each program but ours."""
    found = counts.by_program(paper, model, input_shape)
    return {counting_programs.name(key): 2 * mac for key, mac in found.items() if key != counting_programs.OURS}


def footprints(paper: Paper, model: str) -> dict[str, float]:
    """Return the footprint of one input by other definitions than ours, in bytes, where the model was counted."""
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
    """Return the outputs of all layers of one input, also of those that write over their input, in bytes.

    A layer that does that has no activations of its own: of its traffic a half is written, and of a sum of
    two inputs, which moves three numbers for each FLOP, a third.
    """
    rows = matching(paper.layers, model=model, batch=1, precision=BASE_PRECISION)
    columns = ["activation_byte", "traffic_byte", "parameter_byte", "forward_other_flop"]
    rows = rows.astype(dict.fromkeys(columns, float))
    adds = rows.traffic_byte == 3 * NUMBER_BYTE * rows.forward_other_flop
    written = (rows.traffic_byte - rows.parameter_byte) / (2 + adds)
    return float(rows.activation_byte.where(rows.activation_byte > 0, written).sum())


def betrayed(paper: Paper, study: str) -> pd.DataFrame:
    """Count for each way of counting of how many models of a study it gives the printed FLOP, within their rounding.

    ``models`` is how many it counted at the input that we count at. The best ``way`` is first.
    """
    rows = []
    for row in each(paper.published.models[paper.published.models.study == study]):
        asked = counts.workload(paper, row.model_key, 1)
        if asked is None:
            continue
        ways = {
            "products and everything else": float(asked.forward_flop + asked.forward_other_flop),
            "products alone": float(asked.forward_flop),
        } | _by_other_programs(paper, row.model_key, str(asked.input_shape))
        rows += [(way, abs(row.flop - value) <= row.flop_rounding) for way, value in ways.items()]
    ways_of_models = pd.DataFrame(rows, columns=["way", "equal"]).groupby("way", sort=False).equal
    found = ways_of_models.agg(equal="sum", models="count").reset_index()
    return found.sort_values("equal", ascending=False, kind="stable", ignore_index=True)
