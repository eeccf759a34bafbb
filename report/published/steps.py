"""The printed training steps under hardware counters, against themselves, exact counts and the chips' roofs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from measure.domain.chips import datasheet_roof
from measure.domain.roofs import Roofline
from report.load.chips import datasheet
from report.load.counting_programs import name
from report.load.paper import BASE_PRECISION, Paper
from report.published import counts
from report.published.agreement import latency
from report.published.verdict import (
    DIFFERS,
    NOT_COMPARABLE,
    Comparison,
    Verdict,
    compares,
    judge,
    judge_measured,
    printed,
)
from report.text.frame_rows import each, matching
from report.text.prose import percent, si

CANDIDATES = {"vit_b_32": ("vit_b_16",), "mobilenet_v3_large": ("mobilenet_v2",)}
"""What a study may have meant that prints neither which ViT nor which MobileNet it used."""

MISPRINT = "because its rate has the digits of its DRAM rate times its time: likely a misprint"

NOT_SEEN = (
    "because counters may see less than the count: convolution by a fast algorithm takes fewer multiplications, and "
    "FLOP of tensor cores are not among those counted"
)


@dataclass(frozen=True)
class Step:
    """A printed step, and what its own figures imply: FLOP, and FLOP over bytes."""

    row: Any

    @property
    def name(self) -> str:
        return f"{self.row.model}, {self.row.gpu}"

    @property
    def flop(self) -> float:
        return float(self.row.flop_per_s * self.row.time_s)

    @property
    def intensity(self) -> float:
        return float(self.row.flop_per_s / self.row.dram_byte_per_s)

    @property
    def misprinted(self) -> bool:
        """True where the rate has all digits of the DRAM rate times the time, which means nothing."""
        rate, rounding = printed(self.row, "flop_per_s")
        return abs(rate - self.row.dram_byte_per_s * self.row.time_s) <= rounding


def steps(paper: Paper) -> list[Step]:
    return [Step(row) for row in each(paper.training_steps)]


def chip_roof(paper: Paper, chip: str, precision: str = BASE_PRECISION) -> Roofline | None:
    """Return the datasheet roof of a chip's fastest units at a precision; None where the table has none."""
    rows = matching(paper.chips, chip=chip)
    return None if rows.empty else datasheet_roof(each(rows)).at(precision)


@compares("training_steps", 4)
def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield four of each step: its FLOP, its intensity, the share of the bandwidth, and its time."""
    for step in steps(paper):
        yield _flop(paper, step)
        yield _intensity(step)
        yield _bandwidth(paper, step)
        yield _time(paper, step)


def step_counts(paper: Paper, model: str, batch: int) -> dict[str, float]:
    """Return the FLOP of a step by rules that a study may have followed, other than the products of its model."""
    found: dict[str, float] = {}
    for candidate in (model, *CANDIDATES.get(model, ())):
        asked = counts.workload(paper, candidate, batch)
        if asked is None:
            continue
        whole, products = counts.whole_step_flop(asked), counts.step_flop(asked)
        if candidate != model and products is not None:
            found[f"the count of {candidate}"] = products
        if whole is not None:
            found[f"the count of {candidate} with everything but products"] = whole
        found[f"the multiply-adds of {candidate}'s forward pass alone"] = float(asked.forward_flop) / 2
    return found


def _flop(paper: Paper, step: Step) -> Comparison:
    """Compare the rate times the time."""
    model, batch = step.row.model_key, int(step.row.batch)
    ours = counts.step_flop(counts.workload(paper, model, batch))
    if ours is None:
        verdict = Verdict(NOT_COMPARABLE, f"the step has not been counted; {counts.counting(model, batch)} does")
    elif step.misprinted:
        verdict = Verdict(DIFFERS, MISPRINT)
    else:
        verdict = judge(step.flop, 0, ours, step_counts(paper, model, batch))
        if not verdict.explained and step.flop < ours:
            verdict = Verdict(DIFFERS, NOT_SEEN)
    return Comparison(step.row.study, step.name, "FLOP, step", "FLOP", step.flop, ours, verdict)


def _intensity(step: Step) -> Comparison:
    figure, rounding = printed(step.row, "intensity_flop_per_byte")
    verdict = judge(figure, rounding, step.intensity, {})
    return Comparison(step.row.study, step.name, "intensity", "FLOP/B", figure, step.intensity, verdict)


def _bandwidth(paper: Paper, step: Step) -> Comparison:
    """Hold the DRAM rate against the datasheet's bandwidth, which nothing exceeds: to stay below is no agreement."""
    row = step.row
    roof = chip_roof(paper, row.chip_key)
    ours, rate = roof.bandwidth_byte_per_s if roof else None, row.dram_byte_per_s
    if ours is None:
        verdict = Verdict(NOT_COMPARABLE, f"data/chips.csv holds no {BASE_PRECISION} roof of {row.chip_key}")
    elif rate <= ours:
        verdict = Verdict(NOT_COMPARABLE, f"any rate may be below the roof: this is {percent(rate / ours)} of it")
    else:
        verdict = Verdict(DIFFERS, "because it is above the roof, which is impossible")
    return Comparison(row.study, step.name, "DRAM rate", "B/s", rate, ours, verdict)


def measured_step(paper: Paper, chip: str, model: str, batch: int) -> Any | None:
    """Return the step as we measured it on the same chip at the base precision; None where it was not."""
    for machine in paper.machines:
        rows = matching(machine.steps, model=model, batch=batch, precision=BASE_PRECISION).dropna(subset="latency_s")
        if not rows.empty and chip in set(datasheet(paper.chips, machine.environment.name).chip):
            return rows.iloc[0]
    return None


def _time(paper: Paper, step: Step) -> Comparison:
    """Compare the time with ours on that chip; where it was not measured, with the least that its roof allows."""
    row, quantity = step.row, "time of a step"
    measured = measured_step(paper, row.chip_key, row.model_key, int(row.batch))
    if measured is not None:
        ours = latency(measured)
        verdict = judge_measured(*printed(row, "time_s"), ours)
        figures = row.time_s, ours.value, verdict, ours.interval
        return Comparison(row.study, step.name, quantity, "s", *figures, row.chip_key)
    flop = counts.step_flop(counts.workload(paper, row.model_key, int(row.batch)))
    roof = chip_roof(paper, row.chip_key)
    reason = "no step was measured on that chip"
    if flop is not None and roof is not None:
        least = flop / roof.peak_flop_per_s
        reason += f"; its FLOP at the {BASE_PRECISION} peak take {si(least, 's')}"
        if row.time_s >= least:
            reason += f", {percent(least / row.time_s)} of the printed time"
        else:
            reason += ", more than the printed time: the model or the precision is another"
    return Comparison(row.study, step.name, quantity, "s", row.time_s, None, Verdict(NOT_COMPARABLE, reason))


MILLISECONDS = "the time in milliseconds, printed as seconds"


@compares("step_estimates", 5)
def estimate_comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield two of each estimate: the FLOP that it begins with, and the time that follows from them."""
    batches = {(row.study, row.model): int(row.batch) for row in each(paper.training_steps)}
    for row in each(paper.published.step_estimates):
        subject = f"{row.model}, {row.gpu}"
        ours, verdict = _estimated_flop(paper, row, batches.get((row.study, row.model)))
        yield Comparison(row.study, subject, "FLOP, estimate", "FLOP", row.flop, ours, verdict)
        time_s, rounding = printed(row, "time_s_as_printed")
        ours = float(row.flop / row.peak_flop_per_s)
        verdict = judge(time_s, rounding, ours, {MILLISECONDS: 1000 * ours})
        yield Comparison(row.study, subject, "theoretical time", "s", time_s, ours, verdict)


def _estimated_flop(paper: Paper, row: Any, batch: int | None) -> tuple[float | None, Verdict]:
    """Return the FLOP of a step at the batch size at which the study measured that model, and the verdict on it.

    The printed figure is ours, a count by another rule, or what another program counts.
    """
    if batch is None:
        return None, Verdict(NOT_COMPARABLE, "it does not say at which batch size")
    ours = counts.step_flop(counts.workload(paper, row.model_key, batch))
    if ours is None:
        return None, Verdict(
            NOT_COMPARABLE, f"the step has not been counted; {counts.counting(row.model_key, batch)} does"
        )
    by_program = {
        f"the multiply-adds of {row.model_key}'s forward pass alone by {name(program)}": batch * mac
        for program, mac in counts.by_program(paper, row.model_key).items()
    }
    return ours, judge(*printed(row, "flop"), ours, step_counts(paper, row.model_key, batch) | by_program)
