"""Fit the model of kernels to published timings, and check it on GPUs that a fit left out.

A row is a timed kernel: its sizes as the terms of its kind take them, the label of its ``kernel``, its ``chip_class``
and ``link``, its ``series``, the timings of a kernel on a device, and its ``peers``, the chips that an interval is of.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.chips import fold_name
from measure.domain.collectives import ALL_REDUCE, ALL_TO_ALL
from measure.predicting.kernels import (
    CLASS,
    COLLECTIVES,
    DECODE,
    EXPERTS,
    KERNEL,
    LATENT_DECODE,
    LATENT_PREFILL,
    LINK,
    PREFILL,
    PRODUCTS,
    SPLIT,
    TERMS,
    KernelModel,
    attention_formats,
    matrix,
    product_formats,
    served_chips,
)
from measure.predicting.model import Effects, Level, fit_levels
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.published.aside import read_kernels
from measure.serving import kernels as counts
from measure.serving.formats import FORMATS, INPUT_BIT

MOST, SEED = 100, 66  # rows of a series that a fit takes, drawn by the seed
LATENT = {"rank": 512, "rotary": 64, "plain": 128, "value": 128}  # of DeepSeek-V3, which was timed
# Spreads of the logarithm of a squared coefficient, of all terms of a label together and of each
SPREADS = {POOL: (1.0, 1.0), KERNEL: (0.5, 0.5), CLASS: (0.3, 0.5)}
LINK_SPREADS = SPREADS | {CLASS: (0.5, 1.0), LINK: (0.3, 0.3)}  # of collectives


def columns(rows: pd.DataFrame) -> dict[str, Numbers]:
    """Return the numbers of rows as a kind's function of terms takes them."""
    return {str(name): rows[name].to_numpy(float) for name in rows.select_dtypes("number")}


def times_of(model: KernelModel, kind: str, rows: pd.DataFrame) -> Numbers:
    """Return the times (s) of timed rows by the coefficients of their own kernels.

    A kernel that the fit never saw counts as the one that a prediction would choose for its engine and formats.
    """
    places: dict[tuple[str, str, str], list[int]] = {}
    for place, label in enumerate(zip(rows.kernel, rows.chip_class, rows.link, strict=True)):
        places.setdefault(label, []).append(place)
    squares, found = matrix(TERMS[kind](columns(rows))) ** 2, np.empty(len(rows))
    for (kernel, chip_class, link), of_label in places.items():
        squared = np.exp([model.logs(kind, kernel, chip_class, link)])
        if (KERNEL, kernel) not in model.effects[kind]:
            engine, formats = kernel.partition(SPLIT)[0], kernel.rpartition(SPLIT)[2]
            squared = model.candidates(kind, engine, formats, chip_class, link)
        found[of_label] = np.sqrt((squares[of_label] @ squared.T).min(axis=1))
    return found


def fit_kernels(kind: str, rows: pd.DataFrame, first: Effects | None = None) -> Effects:
    """Fit the coefficients of a kind to timed rows; each series counts as the square root of its rows.

    Times and terms are squared, so that ``fit_levels`` sees a sum of terms.
    """
    squares = matrix(TERMS[kind](columns(rows))) ** 2
    weights = rows.groupby("series").latency_s.transform("size").to_numpy(float) ** -0.5
    on_class = rows.chip_class + SPLIT + rows.kernel
    labels = {POOL: [""] * len(rows), KERNEL: [*rows.kernel], CLASS: [*on_class]}
    spreads = SPREADS
    if kind == COLLECTIVES:
        labels[LINK], spreads = [*(rows.link + SPLIT + rows.kernel)], LINK_SPREADS
    levels = [Level(name, of_rows, *spreads[name]) for name, of_rows in labels.items()]
    times, none = rows.latency_s.to_numpy(float) ** 2, np.zeros(len(rows))
    return fit_levels(squares, none, times, levels, weights / weights.mean(), np.ones(squares.shape[1]), first)


def sampled(rows: pd.DataFrame) -> pd.DataFrame:
    """Return at most ``MOST`` rows of each series, drawn at random: more change no coefficient by much."""
    order = np.random.default_rng(SEED).permutation(len(rows))
    return rows.iloc[np.sort(order[rows.iloc[order].groupby("series").cumcount().to_numpy() < MOST])]


def check_kernels(kind: str, rows: pd.DataFrame, effects: Effects) -> pd.DataFrame:
    """Return all rows with ``ratio``: the time over its prediction by the fit without the row's device."""
    parts = []
    for device, own in rows.groupby("device", sort=True):
        without = fit_kernels(kind, sampled(rows[rows.device != device]), effects)
        parts.append(own.assign(ratio=own.latency_s / times_of(KernelModel({kind: without}), kind, own)))
    return pd.concat(parts)


def read_rows(data: Path, read: Callable[[Path, str], list[Any]] = read_kernels) -> dict[str, pd.DataFrame]:
    """Return published kernels on GPUs with a datasheet by kind: those that a fit may see, or what ``read`` returns.

    Raises UserError for an invalid row.
    """
    chips, found = served_chips(data), {}
    for kind, (name, make) in FRAMES.items():
        known = [name for name, chip in chips.items() if kind != COLLECTIVES or chip.link]
        rows = make([row for row in read(data, name) if fold_name(row.device) in known])
        own = [chips[fold_name(device)] for device in rows.device]
        rows = rows.assign(device=[chip.name for chip in own])
        if kind == COLLECTIVES:
            links = [chip.known_link for chip in own]
            rows = rows.assign(
                chip_class=[chip.link_class for chip in own], link=[link.name for link in links],
                peers=[link.sort for link in links], link_byte_per_s=[link.byte_per_s for link in links],
            )  # fmt: skip
        else:
            rows = rows.assign(
                chip_class=[chip.chip_class for chip in own], link="", peers="",
                byte_per_s=[chip.byte_per_s for chip in own],
                flop_per_s=[chip.flop_per_s.get(each, np.nan) for chip, each in zip(own, rows.precision, strict=True)],
            )  # fmt: skip
            rows = rows[rows.flop_per_s.notna()]
        rows = rows.assign(series=rows.device + SPLIT + rows.kernel)
        if len(rows):
            found[kind] = rows
    return found


def _frame(rows: Iterable[Any], formats: Callable[[Any], str], **sizes: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a row for each timed kernel with ``sizes`` besides its own, labelled by engine, kernel and formats."""
    found = []
    for row in rows:
        own = {name: size(row) for name, size in sizes.items()}
        found.append(vars(row) | own | {"kernel": SPLIT.join((row.engine, row.kernel, formats(row)))})
    return pd.DataFrame(found, columns=None if found else ["device", "precision", "kernel"])


def _multiplied(row: Any) -> str:
    return product_formats(row.precision, row.weights)


def _products(rows: list[Any]) -> pd.DataFrame:
    """Leave out vLLM's products with blocks of fp8: their launches are timed too (data/published/README.md)."""
    wanted = [row for row in rows if (row.engine, row.weights) != ("vllm", "fp8_block")]
    bits = {"weight_bit": lambda row: FORMATS[row.weights].bit, "input_bit": lambda row: INPUT_BIT[row.precision]}
    return _frame(wanted, _multiplied, **bits)


def _with_work(
    rows: Iterable[Any], work_of: Callable[[Any], counts.KernelWork], **sizes: Callable[[Any], Any]
) -> pd.DataFrame:
    """Return rows of attention with their work."""
    works = {id(row): work_of(row) for row in rows}
    for name in ("flop", "cache_byte", "activation_byte"):
        sizes[name] = partial(_of_work, works, name)
    return _frame(
        rows, lambda row: attention_formats(row.precision, row.cache), requests=lambda row: row.batch, **sizes
    )


def _of_work(works: Mapping[int, counts.KernelWork], name: str, row: Any) -> float:
    return float(getattr(works[id(row)], name))


def _attention(phase: str) -> Callable[[list[Any]], pd.DataFrame]:
    def work(row: Any) -> counts.KernelWork:
        sizes = row.batch, row.tokens, row.cached_tokens, row.heads, row.kv_heads, row.head_size
        return counts.attention(*sizes, FORMATS[row.cache], row.window)

    def frame(rows: list[Any]) -> pd.DataFrame:
        return _with_work(
            [row for row in rows if row.phase == phase], work, group=lambda row: row.heads / row.kv_heads,
            seen=lambda row: min(row.cached_tokens + row.tokens, row.window or np.inf),
        )  # fmt: skip

    return frame


def _latent(phase: str) -> Callable[[list[Any]], pd.DataFrame]:
    def work(row: Any) -> counts.KernelWork:
        sizes = row.batch, row.tokens, row.cached_tokens, row.heads
        return counts.latent_attention(*sizes, **LATENT, cache=FORMATS[row.cache], is_absorbed=phase == "decode")

    def frame(rows: list[Any]) -> pd.DataFrame:
        return _with_work(
            [row for row in rows if (row.phase, row.scope) == (phase, "attention")], work,
            group=lambda row: row.heads, seen=lambda row: row.cached_tokens + row.tokens,
            head_size=lambda _: LATENT["rank"] + LATENT["rotary"],
        )  # fmt: skip

    return frame


def _experts(rows: list[Any]) -> pd.DataFrame:
    """Which experts some rows meet is not known, by data/published/README.md: they are left out.

    So are those of a GPU that has a part of the experts: it is the busiest of its group.
    """
    wanted = [
        row
        for row in rows
        if row.expert_parallel == 1 and row.distribution != "balanced" and row.kernel != "moe_torch_flow_min_latency"
    ]
    return _frame(
        wanted, _multiplied, routed=lambda row: row.tokens * row.top_k,
        inner=lambda row: row.inner / row.tensor_parallel,
        distinct=lambda row: met_experts(row.tokens, row.experts, row.top_k, row.distribution),
        weight_bit=lambda row: FORMATS[row.weights].bit,
    )  # fmt: skip


@cache
def met_experts(tokens: int, count: int, active: int, distribution: str) -> float:
    """Return how many experts some token meets by a table's power law."""
    law = counts.power_law_tokens(tokens, count, active, float(distribution.rpartition("_")[2]))
    return float(sum(each > 0 for each in law))


def _collective_name(row: Any) -> str:
    return ALL_TO_ALL if row.collective == "alltoall" else str(row.collective)


def _is_direct(row: Any) -> bool:
    return bool(row.source == "vidur" and row.collective == ALL_REDUCE)


def _collectives(rows: list[Any]) -> pd.DataFrame:
    """Leave out eager kernels, which were timed with their launches, and all-reduces of machines unlike all others.

    Vidur's cards reach each other over PCIe without the processor: with the same link L40S take five times as long.
    """
    return _frame(
        [row for row in rows if not row.kernel.endswith("_eager") and not _is_direct(row)], _collective_name,
        sent_byte=lambda row: counts.collective(_collective_name(row), row.message_byte, row.gpus).sent_byte,
    )  # fmt: skip


FRAMES: dict[str, tuple[str, Callable[[list[Any]], pd.DataFrame]]] = {
    PRODUCTS: ("products", _products), PREFILL: ("attention", _attention("prefill")),
    DECODE: ("attention", _attention("decode")), LATENT_PREFILL: ("latent_attention", _latent("prefill")),
    LATENT_DECODE: ("latent_attention", _latent("decode")), EXPERTS: ("experts", _experts),
    COLLECTIVES: ("collectives", _collectives),
}  # fmt: skip
