"""What training costs beside inference, in time and in memory."""

from measure.domain.values import significant
from report.analysis import available
from report.analysis.available import DataMissingError
from report.analysis.effect import median_of
from report.analysis.layer_costs import at_shown_batch
from report.findings.conclusions.conclusion import Answer, of_machine, of_paper
from report.load.paper import Machine, Paper
from report.text.prose import number, percent

HALF = 0.5
"""What holds more than this share of a step's memory decides how to save it."""


@of_machine(10, "Training step", "fig-ratios")
def step(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Hold the time of a training step over that of its forward pass against the same of the FLOP."""
    rows = at_shown_batch(available.steps(machine))
    # A step of an embedding alone multiplies nothing: its FLOP have no ratio
    gap = DataMissingError("No model whose training step was measured multiplies.")
    rows = available.at_least_one(rows[rows.flop_ratio.notna()], gap)
    times, asked = rows.latency_s / rows.forward_s, 1 + rows.flop_ratio
    effect, batch = median_of(times / asked, confidence), int(rows.batch.iloc[0])
    than = {1: "expect more time than", 0: "expect the time that", -1: "expect less time than"}
    models = number(effect.count, "model")
    advice = f"{than[effect.side]} its FLOP say for a training step"
    return (
        {"": effect},
        f"{advice}: it takes {effect} times as long, against its forward pass, as its FLOP do in the median of "
        f"{models} at batch size {batch}.",
        f"In the medians a step takes as long as {significant(times.median())} forward passes, and has the FLOP of "
        f"{significant(asked.median())}.",
    )


@of_paper(3, "Memory of training", "fig-training-memory", is_margin=True)
def memory(paper: Paper) -> Answer:
    """Hold the peak of memory in training against that in inference, and say what fills it."""
    trained = available.trained(paper)
    gap = DataMissingError("The memory of no model's training step has been counted.")
    rows = available.at_least_one(trained[trained.training_peak_byte.notna()], gap)
    effect, batch = median_of(rows.training_peak_byte / rows.inference_peak_byte), int(rows.batch.iloc[0])
    saved, parameters = (
        (rows[column].astype(float) / rows.training_peak_byte).median() for column in ("saved_byte", "parameter_byte")
    )
    advice = "keep less of each parameter to train in less memory, by a leaner optimiser or by frozen layers"
    if saved > HALF:
        advice = "keep fewer activations to train in less memory, by a smaller batch or by computing them again"
    return (
        {"": effect},
        f"{advice}: training takes {effect} times the memory of inference in the median of "
        f"{number(effect.count, 'model')} at batch size {batch}.",
        f"Of its peak, saved activations are {percent(saved)} in the median and parameters {percent(parameters)}.",
    )
