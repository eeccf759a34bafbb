"""The tables of the chapter on tokens."""

from typing import Any

import pandas as pd

from measure.domain.names import model_name
from report import display
from report.chapters.tokens import here, timed
from report.markdown import escape, percent, si
from report.markdown_table import NONE, known, markdown_table
from report.options import measure_command
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each
from report.paper.served import explained
from report.stats.value import estimated


@display.table
def servers(paper: Paper) -> str:
    """List models, GPUs and engines with the time of a token and the share that bytes and FLOP explain."""
    rows = display.required(explained(paper.served))
    lines = [
        (
            escape(str(model).partition("/")[2]), str(weights), escape(short_name(str(device))),
            timed.ENGINES[str(engine)], _range(part.plan_gpus), _range(part.batch), len(part),
            si(part.tpot_s.min(), "s", 2), si(part.tpot_s.max(), "s", 2), percent(part.share.median()),
        )
        for (model, weights, device, engine), part in rows.groupby(["model", "weights", "device", "engine"])
    ]  # fmt: skip
    header = "Model | Weights | GPU | Engine | GPUs > | Requests > | Servers > | Fastest > | Slowest > | Least time >"
    return markdown_table(header, lines)


def _range(numbers: "pd.Series[float]") -> str:
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low}–{high}"


def _reached(tokens: float | None, best: float | None) -> str:
    """Return the tokens for half of the peak with the best share of it; without a share no size was timed."""
    if pd.isna(best):
        return NONE
    return f"{'never' if pd.isna(tokens) else f'{tokens:.0f}'} ({percent(best)})"


@display.table
def kernels(paper: Paper) -> str:
    """List for each GPU the tokens for half of the peak, and medians of decode attention's share of the bandwidth."""
    half = display.required(timed.halves(paper.served))
    attention = display.required(timed.decode_attention(paper.served))
    reached = half.pivot(index="device", columns="precision", values="tokens")
    best = half.pivot(index="device", columns="precision", values="share")
    shares = attention.groupby(["gpu", "size"]).bandwidth_share.median().unstack()
    precisions = [each for each in timed.NATIVE if each in reached]
    lines = [
        (
            escape(device),
            *(_reached(reached[each].get(device), best[each].get(device)) for each in precisions),
            *(known(shares[size].get(device), percent) for size in timed.SIZES if size in shares),
        )
        for device in sorted({*reached.index, *shares.index})
    ]  # fmt: skip
    sizes = [f"{size} >" for size in timed.SIZES if size in shares]
    return markdown_table(" | ".join(["GPU", *(f"{each} >" for each in precisions), *sizes]), lines)


def _timed(row: Any) -> tuple[str, str, str]:
    """Return latency, rate and share of the roof; none of them if the interval of the latency is too wide."""
    latency = estimated(row, "latency_s", "s")
    if latency.is_missing:
        return NONE, NONE, NONE
    return str(latency), si(row.flop_per_s, "FLOP/s"), known(row.attained, percent)


@display.table
def measured(paper: Paper) -> str:
    """List prefill and decode of language models by machine and requests: latency, rate, share of the roof."""
    found = [(machine, here.language_models(machine)) for machine in paper.machines]
    display.required([rows for _, rows in found if len(rows)], measure_command(here.COMMAND))
    lines = [
        (
            escape(machine.name), escape(model_name(row.model)), row.precision, row.batch,
            *_timed(row),
        )
        for machine, rows in found for row in each(rows)
    ]  # fmt: skip
    header = "Machine | Model | Precision | Requests > | Latency > | Rate > | Share of the roof >"
    return markdown_table(header, lines)
