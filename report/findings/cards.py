"""A card for each model: what it asks for, where it stands under the roof, how long it takes and what helps."""

from typing import Any

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, remedies
from report.analysis.available import Missing, or_missing
from report.analysis.long_lists import evenly, left_out
from report.load.paper import Machine, Paper
from report.text.frame_rows import each, highest, lowest
from report.text.prose import escape, intensity, percent, si, throughput


@or_missing
def models(paper: Paper) -> str:
    """Write a paragraph for each model in Markdown, with a sentence for each machine that figures show."""
    every = available.workloads(paper, batch=1).sort_values("model")
    shown = every[every.model.isin(evenly(every.model.tolist()))]
    timed = [_of_machine(paper, machine) for machine in paper.shown]
    cards = []
    for row in each(shown):
        told = [_asked(row), *(sentences[row.model] for sentences in timed if row.model in sentences)]
        cards.append(f"**{escape(row.model)}**, {escape(row.family)}. {escape(' '.join(told))}\n")
    note = left_out(shown, every)
    return "\n".join([*cards, *([f"{escape(note)}\n"] if note else [])])


def _asked(row: Any) -> str:
    return (
        f"{si(row.parameter_count, '')} parameters, {si(row.forward_flop, 'FLOP')} and a footprint of "
        f"{si(row.footprint_byte, 'B')} for one input: {intensity(row.footprint_intensity)}."
    )


def _of_machine(paper: Paper, machine: Machine) -> dict[str, str]:
    """Say of each model that a machine measured where it stands, its times at both ends and what helps first."""
    cells, found = or_missing(available.cells)(machine), or_missing(remedies.largest)(paper, machine)
    if isinstance(cells, Missing):
        return {}
    helped = pd.DataFrame() if isinstance(found, Missing) else found
    said = {}
    for model, rows in cells.groupby("model"):
        first, best = lowest(rows, "batch"), highest(rows, "throughput_per_s")
        text = f"On the {available.title(machine)} {_placed(first)}; a batch of {first.batch} takes {_time(first)}"
        if len(rows) > 1:
            text += f", and {throughput(best.throughput_per_s)} at batch size {best.batch} are most"
        profiled = helped[helped.model == model] if len(helped) else helped
        said[str(model)] = f"{text}.{_remedy(lowest(profiled, 'batch')) if len(profiled) else ''}"
    return said


def _placed(row: Any) -> str:
    if pd.isna(row.attained):
        return "its place under the roof is not known"
    return f"{'memory' if row.memory_bound else 'arithmetic'} bounds it at batch size {row.batch}"


def _time(row: Any) -> str:
    reached = "" if pd.isna(row.attained) else f" ({percent(row.attained)} of what the roof allows)"
    return f"{si(row.latency_s, 's')}{reached}"


def _remedy(row: Any) -> str:
    """Say the largest term of a profiled cell, and what was measured to help or is to be tried."""
    text = f" At batch size {row.batch} {row.term} is the largest part, {percent(row.share)}"
    if row.basis == remedies.MEASURED:
        return f"{text}, and {row.remedy} helps most, {significant(row.gain, 2)} times as fast."
    if row.basis == remedies.HYPOTHESIS:
        return f"{text}; {row.remedy} is to be tried."
    return f"{text}; nothing that was tried helps."
