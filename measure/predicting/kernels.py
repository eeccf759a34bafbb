"""A model of the times of a language model's kernels: products, attention, experts, and collectives of several GPUs.

A time is the root of a sum of squares. Each term is a power law of the kernel's sizes, at the roof of its chip, times
a coefficient that is not negative: a time never falls as a size grows. ``docs/prediction.md`` lists the terms. The
logarithm of a coefficient is a sum over levels, as in ``measure/predicting/model.py``: of all kernels of a kind, of one
kernel, and of one kernel on a class of chips. A collective's class is the sort of its link, and a fourth level is the
link itself. A series is the timings of a kernel on a device.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from measure.cache.project import read_both
from measure.domain.chips import SIXTEEN_BITS, datasheet_roof, rows_by_name
from measure.predicting.links import Link, link_in, no_link
from measure.predicting.model import Effects
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.published.records import Chip
from measure.serving import kernels as counts

if TYPE_CHECKING:
    from measure.predicting.served_records import KernelCoefficient

US = 1e-6
BYTE = 8  # bits
KERNEL, CLASS, LINK = "kernel", "class", "link"
LEVELS = POOL, KERNEL, CLASS, LINK
PRODUCTS, PREFILL, DECODE, LATENT_PREFILL, LATENT_DECODE, EXPERTS, COLLECTIVES = KINDS = (
    "products", "prefill attention", "decode attention", "latent prefill", "latent decode", "experts", "collectives",
)  # fmt: skip
SPLIT = " | "  # between the parts of a label: engine, kernel, formats
TILE = 64  # rows of a product that an expert's kernel computes at least
PART = 256  # tokens of a cache that one block of threads may read alone
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
        "rows ramp": ramp(m / 1000 * US),
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


def prefill_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of attention of prompts: each row of each head has maxima and sums besides its products."""
    heads = of["requests"] * of["kv_heads"] * of["group"]
    return attention_terms(of) | {"heads": heads / 1000 * US, "rows of heads": heads * of["tokens"] / 1e5 * US}


def decode_terms(of: Columns) -> dict[str, Numbers]:
    """Return the terms (s) of attention of a token: a block of threads works for each request and head of keys.

    Longer caches are shared by several blocks, whose results are joined. All ``cached_tokens`` decide that, although a
    window may hide most of them.
    """
    blocks = of["requests"] * of["kv_heads"]
    return attention_terms(of) | {
        "blocks": blocks / 100 * US,
        "blocks ramp": ramp(blocks / 100 * US),
        "sizes of blocks": blocks * of["head_size"] / 1e4 * US,
        "joined parts": np.minimum(of["cached_tokens"] / PART, 1.0) * US,
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
    """Return the terms (s) of a collective: a start, one for each GPU, and the bytes that each GPU sends over its link.

    A latency and a time a byte (R. Hockney, The communication challenge for MPP, Parallel Computing 20 (1994),
    389-398). Beyond two GPUs links may share a path, such as a processor's: that is the last term.
    """
    sent_s = of["sent_byte"] / of["link_byte_per_s"]
    return {
        "start": 10 * US + 0 * sent_s,
        "GPUs": of["gpus"] * US,
        "link": sent_s,
        "link ramp": ramp(sent_s),
        "shared path": sent_s * (of["gpus"] - 2) / 2,
    }


TERMS: dict[str, Callable[[Columns], dict[str, Numbers]]] = {
    PRODUCTS: product_terms, PREFILL: prefill_terms, DECODE: decode_terms, LATENT_PREFILL: attention_terms,
    LATENT_DECODE: attention_terms, EXPERTS: expert_terms, COLLECTIVES: collective_terms,
}  # fmt: skip


def term_names(kind: str) -> list[str]:
    """Return the names of the terms of a kind, in their order."""
    return list(TERMS[kind](defaultdict(lambda: np.ones(1))))


class Rates(dict[str, float]):
    """The peaks (FLOP/s) of a chip by the precisions that its units have; any other is computed at 16 bits."""

    def __missing__(self, precision: str) -> float:
        return max(self[each] for each in SIXTEEN_BITS if each in self)


@dataclass(frozen=True, eq=False)
class ServedChip:
    """A chip by its datasheet: peaks (FLOP/s) by precision, bandwidth (B/s), memory (B), power limit (W), class, link.

    A class shares its vendor, its sort of memory, and the fewest bits that its units multiply: Hopper is NVIDIA's with
    HBM and fp8.
    """

    name: str
    flop_per_s: Mapping[str, float]
    byte_per_s: float
    memory_byte: float | None
    power_w: float | None
    chip_class: str
    vendor: str
    link: Link | None

    @property
    def link_class(self) -> str:
        """The class of its collectives: the vendor and the sort of link. Raises UserError if the link is unknown."""
        return f"{self.vendor}, {self.known_link.sort}"

    @property
    def known_link(self) -> Link:
        """The link. Raises UserError if it is unknown."""
        if self.link is None:
            raise no_link(self.name)
        return self.link


def served_chips(data: Path) -> dict[str, ServedChip]:
    """Return the GPUs of ``chips.csv`` with units for 16 bits, each under all its folded names."""
    found = {}
    for name, rows in rows_by_name(read_both(Chip, data)).items():
        roof = datasheet_roof(rows)
        if rows[0].chip_kind != "gpu" or roof.byte_per_s is None or not set(SIXTEEN_BITS) & set(roof.flop_per_s):
            continue
        rates = Rates({str(each): float(rate) for each, rate in roof.flop_per_s.items()})
        memory = "HBM" if (rows[0].memory_type or "").startswith("HBM") else "GDDR"
        fewest = next((each for each in ("fp4", "fp8") if each in rates), "16 bits")
        held = max((row.memory_byte for row in rows if row.memory_byte), default=None)
        power_w = max((row.power_w for row in rows if row.power_w), default=None)
        chip_class = f"{rows[0].vendor}, {memory}, {fewest}"
        found[name] = ServedChip(
            rows[0].chip, rates, float(roof.byte_per_s), held, power_w, chip_class, rows[0].vendor, link_in(rows)
        )  # fmt: skip
    return found


@dataclass(frozen=True, eq=False)
class KernelModel:
    """The coefficients of kernels: effects of ``LEVELS`` on the squares of all coefficients, by kind."""

    effects: Mapping[str, Effects]

    def times(self, kind: str, of: Columns, engine: str, formats: str, chip_class: str, link: str = "") -> Numbers:
        """Return the times (s) ``(rows,)`` of kernels of an engine with some formats on a class of chips.

        Collectives need the name of the ``link``, and the class of links as ``chip_class``.

        An engine chooses among its kernels: the time is that of the quickest. If no kernel of the engine was timed with
        these formats on such chips, it is that of such kernels on other chips, then of other engines' kernels.
        """
        squares = matrix(TERMS[kind](of)) ** 2
        found: Numbers = np.sqrt((squares @ self.candidates(kind, engine, formats, chip_class, link).T).min(axis=1))
        return found

    def candidates(self, kind: str, engine: str, formats: str, chip_class: str, link: str = "") -> Numbers:
        """Return the squared coefficients ``(kernels, terms)`` of the kernels that an engine chooses from.

        They are its own on such chips, else those of other engines there; on chips that nobody timed, the kind's.
        """
        effects = self.effects[kind]
        timed = {label for level, label in effects if level == CLASS}
        kernels = [label for level, label in effects if level == KERNEL and label.rpartition(SPLIT)[2] == formats]
        own = [label for label in kernels if label.startswith(f"{engine}{SPLIT}")]
        for labels in (own, kernels):
            if here := [label for label in labels if f"{chip_class}{SPLIT}{label}" in timed]:
                return np.exp([self.logs(kind, label, chip_class, link) for label in here])
        return np.exp([self.logs(kind, "", chip_class, link)])

    def logs(self, kind: str, kernel: str, chip_class: str, link: str = "") -> Numbers:
        """Return the logarithms of the squared coefficients ``(terms,)`` of a kernel on a class of chips."""
        effects = self.effects[kind]
        found: Numbers = effects[POOL, ""] + sum(
            effects[level, label]
            for level, label in (
                (KERNEL, kernel),
                (CLASS, f"{chip_class}{SPLIT}{kernel}"),
                (LINK, f"{link}{SPLIT}{kernel}"),
            )
            if (level, label) in effects
        )
        return found


def model_of(coefficients: Iterable["KernelCoefficient"]) -> KernelModel:
    """Return the model of a table of coefficients, where the terms of a label stand in their order."""
    logs: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in coefficients:
        logs.setdefault(row.kind, {}).setdefault((row.level, row.label), []).append(2 * float(np.log(row.value)))
    return KernelModel({kind: {label: np.array(each) for label, each in of.items()} for kind, of in logs.items()})


def matrix(terms: Mapping[str, Numbers]) -> Numbers:
    return np.column_stack(list(terms.values()))


def product_formats(precision: str, weights: str) -> str:
    """Return the formats of a product or of experts, as kernels' labels end: multiplicands, and stored weights."""
    same = {"fp16": "bf16"}
    return f"{same.get(precision, precision)} x {same.get(weights, weights)}"


def attention_formats(precision: str, cache: str) -> str:
    """Return the formats of attention, as kernels' labels end: queries, and the cache."""
    return f"{precision} to {cache}"
