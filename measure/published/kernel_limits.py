"""What a datasheet excludes of a kernel's time: more FLOP/s than its units have, more bytes than its memory gives.

The work is the least that any kernel must do: each multiplication once, and each stored number once unless the chip's
largest cache may hold it from the call before.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from measure.domain.roofs import Roof
from measure.domain.values import latency, si
from measure.published.kernels import (
    FORMAT_BITS,
    TimedAttention,
    TimedCollective,
    TimedExperts,
    TimedLatentAttention,
    TimedProduct,
)  # fmt: skip
from measure.serving.kernels import visible

# Kernels are timed at the highest clock, which may exceed the datasheet's: an H100's 1.98 GHz and 1.83 GHz
ABOVE_PEAK = 1.1
ABOVE_BANDWIDTH = 1.02  # datasheets round
ABOVE_LIMIT = 1.1  # of the power that a board may take, over a second
# The longest call: seconds as milliseconds would be slower. Of the committed kernels the slowest takes 0.54 of it.
BELOW_ROOF, CALL_S = 1000, 5e-3

LATENT, POSITION, HEAD, VALUE = 512, 64, 128, 128  # DeepSeek-V3's numbers of a token and of a head


class LeastWork(NamedTuple):
    flop: float | None  # None: the row does not tell how much is this GPU's
    byte: float
    precisions: tuple[str, ...]  # any of them may be that of the multiplicands


def _width(stored: str) -> float:
    return FORMAT_BITS[stored] / 8


def _product(row: TimedProduct) -> LeastWork:
    byte = row.n * row.k * _width(row.weights)
    return LeastWork(2.0 * row.m * row.n * row.k, byte, (row.precision,))


def _attention(row: TimedAttention) -> LeastWork:
    sizes, seen = row.head_size + row.value_size, row.cached_tokens + row.tokens
    read = seen if row.window is None else min(seen, row.window + row.tokens - 1)
    pairs = visible(row.tokens, row.cached_tokens, row.window)
    byte = row.batch * read * row.kv_heads * sizes * _width(row.cache)
    return LeastWork(2.0 * row.batch * row.heads * sizes * pairs, byte, (row.precision, row.cache))


def _latent_attention(row: TimedLatentAttention) -> LeastWork:
    """The least FLOP are those of heads that are not multiplied into the latent; a module's projections come on top."""
    pairs = visible(row.tokens, row.cached_tokens)
    byte = row.batch * row.cached_tokens * (LATENT + POSITION) * _width(row.cache)
    flop = 2.0 * row.batch * row.heads * (HEAD + POSITION + VALUE) * pairs
    return LeastWork(flop, byte, (row.precision, row.cache))


def _experts(row: TimedExperts) -> LeastWork:
    """All tokens may have the same experts, which another GPU of the group may hold."""
    if row.expert_parallel > 1:
        return LeastWork(None, 0, (row.precision,))
    pairs, numbers = row.tokens * row.top_k, row.matrices * row.hidden * row.inner / row.tensor_parallel
    return LeastWork(2.0 * pairs * numbers, row.top_k * numbers * _width(row.weights), (row.precision,))


def _collective(row: TimedCollective) -> LeastWork:
    return LeastWork(None, row.message_byte, ())


LEAST: dict[type[Any], Callable[[Any], LeastWork]] = {
    TimedProduct: _product, TimedAttention: _attention, TimedLatentAttention: _latent_attention,
    TimedExperts: _experts, TimedCollective: _collective,
}  # fmt: skip


def problem(row: Any, roof: Roof, largest_cache_byte: float) -> tuple[str, str]:
    """Return a column of a kernel and its problem, or two empty texts.

    ``largest_cache_byte``: of any chip, for one whose cache is unknown.
    """
    if row.power_w and row.power_limit_w and row.power_w > ABOVE_LIMIT * row.power_limit_w:
        return "power_w", f"{row.power_w:g} W is more than the limit of {row.power_limit_w:g} W; check both units"
    work = LEAST[type(row)](row)
    known = [(roof.flop_per_s[name], name) for name in work.precisions if name in roof.flop_per_s]
    least_s = 0.0
    if work.flop is not None and known:
        peak, precision = max(known)
        least_s = work.flop / peak
        if row.latency_s < least_s / ABOVE_PEAK:
            rates = f"{si(work.flop / row.latency_s, 'FLOP/s')} is more than the {si(peak, 'FLOP/s')}"
            return "latency_s", f"{rates} of {row.device} at {precision}; {_remedy(precision)}"
    if roof.byte_per_s:
        cached = min(work.byte, roof.cache_byte or largest_cache_byte)
        if row.latency_s < (work.byte - cached) / roof.byte_per_s / ABOVE_BANDWIDTH:
            held = f"{si(work.byte, 'B')} in {latency(row.latency_s)}, of which a cache may hold {si(cached, 'B')}"
            return "latency_s", f"{held}, is more than {row.device}'s memory gives; {_remedy()}"
        least_s = max(least_s, work.byte / roof.byte_per_s)
    if work.flop is not None and row.latency_s > BELOW_ROOF * least_s + CALL_S:
        slowest = latency(BELOW_ROOF * least_s + CALL_S)
        return "latency_s", f"{latency(row.latency_s)} is more than the {slowest} that is plausible; {_remedy()}"
    return "", ""


def _remedy(precision: str = "") -> str:
    unit = "name the column by its unit, such as latency_ms"
    return f"{unit}, or give the precision that was multiplied" if precision else unit
