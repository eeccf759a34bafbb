"""Fit the model of served tokens to published servers, and check it on what a fit left out.

A row is a phase of a server: its ``TERMS`` and time (s), and what it was measured with.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from measure.domain.chips import fold_name
from measure.errors import UserError
from measure.predicting.kernels import CLASS, SPLIT, KernelModel, ServedChip, served_chips
from measure.predicting.model import Effects, Level, fit_levels
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.predicting.serving import (
    CHECKS,
    ENGINE,
    EXPECTED,
    FIRST,
    FURTHER,
    MOST_GPUS,
    TERMS,
    Load,
    coefficients,
    decode_step,
    least_s,
    prompt_parts,
    terms,
)
from measure.serving.plan import Plan, check_context, check_plan
from measure.serving.served import served_decoder

if TYPE_CHECKING:
    from measure.published.servers import PublishedServer

SERIES = "series"
SPREADS = {POOL: (0.5, 0.5), ENGINE: (0.3, 0.2), CLASS: (0.15, 0.1), SERIES: (0.4, 0.1)}
PLAN = "tensor_parallel", "expert_parallel", "data_parallel", "pipeline_parallel"  # as Plan takes them


def load_of(row: "PublishedServer", chip: ServedChip, most_gpus: int = MOST_GPUS) -> Load:
    """Return what the workers of a server that decode do. Raises UserError with the reason if that is not known."""
    is_one_kind = row.tensor_parallel is not None  # its workers read prompts and generate
    start = "" if is_one_kind else "decode_"
    sizes = {name: getattr(row, f"{start}{name}") for name in ("batch", *PLAN)}
    if sizes["batch"] is None:
        raise UserError("the requests of a worker are unknown")
    plan = Plan(*(sizes[name] or 1 for name in PLAN))
    if plan.gpus > most_gpus:
        raise UserError(f"a worker has more than {most_gpus} GPUs, and nobody timed collectives of so many")
    if plan.gpus > 1 and chip.link is None:
        raise UserError("the link between its GPUs is not in data/chips.csv")
    if plan.expert_tensor * plan.expert != plan.tensor * plan.data:
        raise UserError("its plan shares the experts among other GPUs than a stage has")
    decoder = served_decoder(row.model, row.weights, row.expert_weights)
    check_plan(decoder, plan)
    check_context(decoder, row.input_tokens + row.output_tokens)
    lengths = row.input_tokens, row.output_tokens
    return Load(decoder, plan, chip, row.engine, int(sizes["batch"]), *lengths, is_one_kind)


def server_rows(
    servers: Iterable["PublishedServer"], data: Path, model: KernelModel
) -> tuple[pd.DataFrame, Counter[str]]:
    """Return a row with terms and time (s) for each phase of each server, and how many servers lack one by reason."""
    chips, found, reasons = served_chips(data), [], Counter[str]()
    prompts: dict[tuple[Any, ...], dict[str, float]] = {}  # many servers read the same
    for row in servers:
        chip = chips.get(fold_name(row.device))
        try:
            if chip is None:
                raise UserError("its GPU has no datasheet")
            load = load_of(row, chip)
            decode = decode_step(load)
            if row.tpot_s < least_s(load, decode):
                raise UserError("it held fewer requests than it was asked for: their bytes exceed the bandwidth")
        except UserError as problem:
            reasons[str(problem)] += 1
            continue
        prompt = row.model, row.weights, row.expert_weights, load.plan, chip.name, row.engine, row.input_tokens
        if prompt not in prompts:
            prompts[prompt] = prompt_parts(load, model)
        of_phases = terms(load, prompts[prompt], decode, model)
        about: dict[str, Any] = {
            "row": row.row,
            "device": chip.name,
            "chip_class": chip.chip_class,
            "engine": row.engine,
        }
        about |= {"family": load.decoder.kind, "batch": load.requests, "gpus": load.plan.gpus}
        about["series"] = SPLIT.join((chip.name, row.engine, row.software or "", row.model))
        for phase, seconds in ((FIRST, row.ttft_s), (FURTHER, row.tpot_s)):
            if phase == FURTHER or load.reads_prompts:
                found.append(of_phases[phase] | {"phase": phase, "latency_s": seconds} | about)
    return pd.DataFrame(found), reasons


def fit_servers(rows: pd.DataFrame, first: Effects | None = None) -> Effects:
    """Fit the coefficients of a phase; each series counts as the square root of its rows."""
    weights = rows.groupby("series").latency_s.transform("size").to_numpy(float) ** -0.5
    labels = {POOL: [""] * len(rows), ENGINE: [*rows.engine], CLASS: [*rows.chip_class], SERIES: [*rows.series]}
    levels = [Level(name, of_rows, *SPREADS[name]) for name, of_rows in labels.items()]
    values, times, none = rows[[*TERMS]].to_numpy(float), rows.latency_s.to_numpy(float), np.zeros(len(rows))
    return fit_levels(values, none, times, levels, weights / weights.mean(), EXPECTED, first)


def likely_s(effects: Effects, rows: pd.DataFrame) -> Numbers:
    """Return the likely times (s) ``(rows,)``."""
    labels = list(zip(rows.engine, rows.chip_class, strict=True))
    of = {label: coefficients(effects, *label) for label in set(labels)}
    found: Numbers = (rows[[*TERMS]].to_numpy(float) * np.array([of[label] for label in labels])).sum(axis=1)
    return found


def check_servers(rows: pd.DataFrame, effects: Effects) -> pd.DataFrame:
    """Return all rows of a phase for each of ``CHECKS``, with ``label`` and ``ratio`` to the fit without that label."""
    parts = []
    for left_out, column in CHECKS.items():
        for label, own in rows.groupby(column, sort=True):
            others = rows[rows[column] != label]
            if len(others):
                without = fit_servers(others, effects)
                parts.append(own.assign(left_out=left_out, label=label, ratio=own.latency_s / likely_s(without, own)))
    return pd.concat(parts)
