"""A model of the times of a language model's kernels: products, attention, experts, and collectives of several GPUs.

A time is the root of a sum of squares. Each term is a power law of the kernel's sizes, at the roof of its chip, times
a coefficient that is not negative: a time never falls as a size grows. ``docs/prediction.md`` lists the terms. The
logarithm of a coefficient is a sum over levels, as in ``measure/predicting/model.py``: of all kernels of a kind, of one
kernel, and of one kernel on a class of chips. A series is the timings of a kernel on a device.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measure.cache.project import read_both
from measure.domain.chips import SIXTEEN_BITS, datasheet_roof, fold_name, rows_by_name
from measure.predicting.model import Effects, Level, fit_levels
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.published.aside import read_kernels
from measure.published.records import Chip
from measure.serving import kernels as counts
from measure.serving.formats import FORMATS, INPUT_BIT

US = 1e-6
BYTE = 8  # bits
KERNEL, CLASS = "kernel", "class"
LEVELS = POOL, KERNEL, CLASS
# Spreads of the logarithm of a squared coefficient, of all terms of a label together and of each
SPREADS = {POOL: (1.0, 1.0), KERNEL: (0.5, 0.5), CLASS: (0.3, 0.5)}
PRODUCTS, PREFILL, DECODE, LATENT_PREFILL, LATENT_DECODE, EXPERTS, COLLECTIVES = KINDS = (
    "products", "prefill attention", "decode attention", "latent prefill", "latent decode", "experts", "collectives",
)  # fmt: skip
LINK_BYTE_PER_S = 100e9  # of a collective's term; its coefficients tell the link of a class of chips
SPLIT = " | "  # between the parts of a label: engine, kernel, formats
MOST, SEED = 100, 66  # rows of a series that a fit takes, drawn by the seed
LATENT = {"rank": 512, "rotary": 64, "plain": 128, "value": 128}  # of DeepSeek-V3, which was timed
TILE = 64  # rows of a product that an expert's kernel computes at least
Columns = Mapping[str, Numbers]  # sizes ``(rows,)``; ``flop_per_s`` and ``byte_per_s`` are the chip's


def ramp(time_s: Numbers) -> Numbers:
    """Return a power law halfway between a microsecond and a time (s): of work that fills a chip in part."""
    found: Numbers = np.sqrt(time_s * US)
    return found


def product_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of products (m, k) times (k, n); ``weight_bit`` and ``input_bit`` are of a number."""
    m, n, k = of["m"], of["n"], of["k"]
    flop_s = 2 * m * n * k / of["flop_per_s"]
    weight_s = n * k * of["weight_bit"] / BYTE / of["byte_per_s"]
    input_s = m * k * of["input_bit"] / BYTE / of["byte_per_s"]
    output_s = m * n * counts.ACTIVATION.bit / BYTE / of["byte_per_s"]
    return {
        "start": US + 0 * m,
        "arithmetic": flop_s,
        "weights": weight_s,
        "inputs": input_s,
        "outputs": output_s,
        "arithmetic ramp": ramp(flop_s),
        "memory ramp": ramp(weight_s + input_s + output_s),
        "inner size": k / 1000 * US,
        "inner size ramp": ramp(k / 1000 * US),
        "edges": ramp(m * k / 1e6 * US) + ramp(n * k / 1e6 * US),
    }


def attention_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of attention: of its ``flop``, the bytes it moves, and the sizes of its parts.

    ``seen`` tokens are those that the last new token attends to; a ``group`` of heads shares keys and values.
    """
    flop_s, cache_s = of["flop"] / of["flop_per_s"], of["cache_byte"] / of["byte_per_s"]
    io_s = of["activation_byte"] / of["byte_per_s"]
    return {
        "start": US + 0 * flop_s,
        "arithmetic": flop_s,
        "cache": cache_s,
        "inputs": io_s,
        "arithmetic ramp": ramp(flop_s),
        "memory ramp": ramp(cache_s + io_s),
        "context": of["seen"] / 1000 * US,
        "context ramp": ramp(of["seen"] / 1000 * US),
        "requests": of["requests"] / 100 * US,
        "heads in a group": of["group"] / 10 * US,
        "head size": of["head_size"] / 100 * US,
    }


def expert_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of a GPU's experts: ``distinct`` ones have tokens, ``routed`` rows together."""
    width = of["matrices"] * of["hidden"] * of["inner"]
    flop_s = 2 * of["routed"] * width / of["flop_per_s"]
    weight_s = of["distinct"] * width * of["weight_bit"] / BYTE / of["byte_per_s"]
    padded = of["distinct"] * TILE + of["routed"]
    numbers = of["routed"] * (2 * of["hidden"] + 2 * of["matrices"] * of["inner"])
    io_s = numbers * counts.ACTIVATION.bit / BYTE / of["byte_per_s"]
    return {
        "start": US + 0 * flop_s,
        "arithmetic": flop_s,
        "weights": weight_s,
        "inputs": io_s,
        "tiles": 2 * padded * width / of["flop_per_s"],
        "arithmetic ramp": ramp(flop_s),
        "memory ramp": ramp(weight_s + io_s),
        "experts": of["distinct"] / 10 * US,
        "inner size": (of["hidden"] + of["inner"]) / 1000 * US,
    }


def collective_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of a collective: a start, one for each GPU, and the bytes that each GPU sends."""
    sent_s = of["sent_byte"] / LINK_BYTE_PER_S
    return {"start": 10 * US + 0 * sent_s, "GPUs": of["gpus"] * US, "link": sent_s, "link ramp": ramp(sent_s)}


TERMS: dict[str, Callable[[Columns], dict[str, Numbers]]] = {
    PRODUCTS: product_terms, PREFILL: attention_terms, DECODE: attention_terms, LATENT_PREFILL: attention_terms,
    LATENT_DECODE: attention_terms, EXPERTS: expert_terms, COLLECTIVES: collective_terms,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class ServedChip:
    """A chip by its datasheet: peaks (FLOP/s) by precision, bandwidth (B/s), memory (B), power limit (W), and class.

    A class shares its vendor, its sort of memory, and the fewest bits that its units multiply: Hopper is NVIDIA's with
    HBM and fp8.
    """

    name: str
    flop_per_s: Mapping[str, float]
    byte_per_s: float
    memory_byte: float | None
    power_w: float | None
    chip_class: str


def served_chips(data: Path) -> dict[str, ServedChip]:
    """Return the GPUs of ``chips.csv`` with units for 16 bits, each under all its folded names."""
    found = {}
    for name, rows in rows_by_name(read_both(Chip, data)).items():
        roof = datasheet_roof(rows)
        if rows[0].chip_kind != "gpu" or roof.byte_per_s is None or not set(SIXTEEN_BITS) & set(roof.flop_per_s):
            continue
        rates = {str(each): float(rate) for each, rate in roof.flop_per_s.items()}
        either = max(rates[each] for each in SIXTEEN_BITS if each in rates)
        rates = dict.fromkeys(SIXTEEN_BITS, either) | rates
        memory = "HBM" if (rows[0].memory_type or "").startswith("HBM") else "GDDR"
        fewest = next((each for each in ("fp4", "fp8") if each in rates), "16 bits")
        held = max((row.memory_byte for row in rows if row.memory_byte), default=None)
        power_w = max((row.power_w for row in rows if row.power_w), default=None)
        chip_class = f"{rows[0].vendor}, {memory}, {fewest}"
        found[name] = ServedChip(rows[0].chip, rates, float(roof.byte_per_s), held, power_w, chip_class)
    return found


@dataclass(frozen=True, eq=False)
class KernelModel:
    """The coefficients of kernels: effects of ``LEVELS`` on the squares of all coefficients, by kind."""

    effects: Mapping[str, Effects]

    def times(self, kind: str, of: Columns, engine: str, formats: str, chip_class: str) -> Numbers:
        """Return the times (s) ``(rows,)`` of kernels of an engine with some formats on a class of chips.

        An engine chooses among its kernels: the time is that of the quickest. If no kernel of the engine was timed with
        these formats on such chips, it is that of such kernels on other chips, then of other engines' kernels.
        """
        squares = matrix(TERMS[kind](of)) ** 2
        found: Numbers = np.sqrt((squares @ self.candidates(kind, engine, formats, chip_class).T).min(axis=1))
        return found

    def candidates(self, kind: str, engine: str, formats: str, chip_class: str) -> Numbers:
        """Return the squared coefficients ``(kernels, terms)`` of the kernels that an engine chooses from."""
        effects = self.effects[kind]
        timed = {label for level, label in effects if level == CLASS}
        kernels = [label for level, label in effects if level == KERNEL and label.rpartition(SPLIT)[2] == formats]
        own = [label for label in kernels if label.startswith(f"{engine}{SPLIT}")]
        for labels in (own, kernels):
            if here := [label for label in labels if f"{chip_class}{SPLIT}{label}" in timed]:
                return np.exp([self._logs(kind, label, chip_class) for label in here])
        return np.exp([self._logs(kind, label, chip_class) for label in own or kernels or [""]])

    def _logs(self, kind: str, kernel: str, chip_class: str) -> Numbers:
        effects = self.effects[kind]
        found: Numbers = effects[POOL, ""] + sum(
            effects[level, label]
            for level, label in ((KERNEL, kernel), (CLASS, f"{chip_class}{SPLIT}{kernel}"))
            if (level, label) in effects
        )
        return found

    def of_rows(self, kind: str, rows: pd.DataFrame) -> Numbers:
        """Return the times (s) of timed rows by the coefficients of their own kernels."""
        labels = list(zip(rows.kernel, rows.chip_class, strict=True))
        logs = {label: self._logs(kind, *label) for label in set(labels)}
        squares = matrix(TERMS[kind](columns(rows))) ** 2
        found: Numbers = np.sqrt((squares * np.exp([logs[label] for label in labels])).sum(axis=1))
        return found


def matrix(terms: Mapping[str, Numbers]) -> Numbers:
    return np.column_stack(list(terms.values()))


def columns(rows: pd.DataFrame) -> dict[str, Numbers]:
    """Return the numbers of rows as a kind's function of terms takes them."""
    return {str(name): rows[name].to_numpy(float) for name in rows.select_dtypes("number")}


def fit_kernels(kind: str, rows: pd.DataFrame, first: Effects | None = None) -> Effects:
    """Fit the coefficients of a kind to timed rows; each series counts as the square root of its rows.

    Times and terms are squared, so that ``fit_levels`` sees a sum of terms.
    """
    squares = matrix(TERMS[kind](columns(rows))) ** 2
    weights = rows.groupby("series").latency_s.transform("size").to_numpy(float) ** -0.5
    on_class = rows.chip_class + SPLIT + rows.kernel
    labels = {POOL: [""] * len(rows), KERNEL: [*rows.kernel], CLASS: [*on_class]}
    levels = [Level(name, of_rows, *SPREADS[name]) for name, of_rows in labels.items()]
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
        parts.append(own.assign(ratio=own.latency_s / KernelModel({kind: without}).of_rows(kind, own)))
    return pd.concat(parts)


def read_rows(data: Path, read: Callable[[Path, str], list[Any]] = read_kernels) -> dict[str, pd.DataFrame]:
    """Return published kernels on GPUs with a datasheet by kind: those that a fit may see, or what ``read`` returns.

    Raises UserError for an invalid row.
    """
    chips, found = served_chips(data), {}
    for kind, (name, make) in FRAMES.items():
        rows = make([row for row in read(data, name) if fold_name(row.device) in chips])
        own = [chips[fold_name(device)] for device in rows.device]
        rows = rows.assign(
            device=[chip.name for chip in own], chip_class=[chip.chip_class for chip in own],
            byte_per_s=[chip.byte_per_s for chip in own],
            flop_per_s=[chip.flop_per_s.get(each, np.nan) for chip, each in zip(own, rows.precision, strict=True)],
        )  # fmt: skip
        rows = rows if kind == COLLECTIVES else rows[rows.flop_per_s.notna()]
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


def product_formats(precision: str, weights: str) -> str:
    """Return the formats of a product or of experts, as kernels' labels end: multiplicands, and stored weights."""
    same = {"fp16": "bf16"}
    return f"{same.get(precision, precision)} x {same.get(weights, weights)}"


def attention_formats(precision: str, cache: str) -> str:
    """Return the formats of attention, as kernels' labels end: queries, and the cache."""
    return f"{precision} to {cache}"


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
    return counts.ALL_TO_ALL if row.collective == "alltoall" else str(row.collective)


def _collectives(rows: list[Any]) -> pd.DataFrame:
    """Eager kernels were timed with their launches: they are left out."""
    return _frame(
        [row for row in rows if not row.kernel.endswith("_eager")], _collective_name,
        sent_byte=lambda row: counts.collective(_collective_name(row), row.message_byte, row.gpus).sent_byte,
    )  # fmt: skip


FRAMES: dict[str, tuple[str, Callable[[list[Any]], pd.DataFrame]]] = {
    PRODUCTS: ("products", _products), PREFILL: ("attention", _attention("prefill")),
    DECODE: ("attention", _attention("decode")), LATENT_PREFILL: ("latent_attention", _latent("prefill")),
    LATENT_DECODE: ("latent_attention", _latent("decode")), EXPERTS: ("experts", _experts),
    COLLECTIVES: ("collectives", _collectives),
}  # fmt: skip
