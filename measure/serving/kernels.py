"""FLOP and bytes of the kernels of a served language model, in closed form.

FLOP are those of products, 2 for a multiply-add. Unlike the counts of networks, they leave out scores that a mask
hides: a served kernel skips them, and a bound must not ask for work that nobody does. Bytes count each number once
that a kernel reads or writes; activations are stored at 16 bits unless a product takes fewer.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND, bus_factor
from measure.serving.formats import FORMATS, Format

ACTIVATION = FORMATS["bf16"]
BYTE = 8  # bits


@dataclass(frozen=True)
class KernelWork:
    """The FLOP of a kernel, the bytes of weights, cache and activations it moves, and those it sends to other GPUs."""

    flop: float = 0.0
    weight_byte: float = 0.0
    cache_byte: float = 0.0
    activation_byte: float = 0.0
    sent_byte: float = 0.0

    @property
    def byte(self) -> float:
        """All bytes of the GPU's own memory."""
        return self.weight_byte + self.cache_byte + self.activation_byte

    def __mul__(self, times: float) -> "KernelWork":
        return KernelWork(*(times * getattr(self, each.name) for each in fields(self)))


def total(works: Iterable[KernelWork]) -> KernelWork:
    works = list(works)
    return KernelWork(*(sum(getattr(work, each.name) for work in works) for each in fields(KernelWork)))


def product(m: int, n: int, k: int, weight: Format, copies: int = 1) -> KernelWork:
    """Return the work of (m, k) inputs times (k, n) weights, or of ``copies`` such products."""
    activation_byte = copies * m * (k * weight.input_bit + n * ACTIVATION.bit) / BYTE
    return KernelWork(2.0 * copies * m * n * k, copies * n * k * weight.bit / BYTE, 0.0, activation_byte)


def visible(tokens: int, past: int, most: int | None = None) -> int:
    """Return how many scores ``tokens`` new tokens after ``past`` ones have: each with itself and those before.

    With ``most``, a token sees only so many: a window, or the tokens that an indexer selects.
    """
    first, last = past + 1, past + tokens  # the scores of the first and the last new token
    if most is None or last <= most:
        return tokens * (first + last) // 2
    rising = max(0, most - past)  # the new tokens that see fewer than ``most``, or just as many
    return rising * (first + past + rising) // 2 + (tokens - rising) * most


def attention(
    requests: int, tokens: int, past: int, heads: int, kv_heads: int, head_size: int, cache: Format,
    window: int | None = None,
) -> KernelWork:  # fmt: skip
    """Return the work of attention: ``tokens`` new ones of each request after ``past``; decode has one.

    Keys and values of the new tokens are written to the cache. All that a token can see are read once for all heads
    of a group, as by Dao 2023, FlashAttention-2, arXiv:2307.08691; scores never leave the chip.
    """
    flop = 4.0 * requests * heads * head_size * visible(tokens, past, window)
    seen = past + tokens if window is None else min(past + tokens, window + tokens - 1)
    cache_byte = 2 * requests * kv_heads * head_size * (seen + tokens) * cache.bit / BYTE
    activation_byte = 2 * requests * tokens * heads * head_size * ACTIVATION.bit / BYTE
    return KernelWork(flop, 0.0, cache_byte, activation_byte)


def latent_attention(
    requests: int, tokens: int, past: int, heads: int, rank: int, rotary: int, plain: int, value: int, cache: Format,
    is_absorbed: bool, most: int | None = None,
) -> KernelWork:  # fmt: skip
    """Return the work of attention to latent vectors (DeepSeek-AI 2024, arXiv:2405.04434, section 2.1).

    Absorbed, as in decode: queries are projected to the latent space, and all heads share one key of rank + rotary
    numbers, ``rank`` of which are the value. Else keys and values of each head were made by a product, and are read.
    The cache has the latent vectors in both cases. ``most``: the tokens that an indexer selects for each.
    """
    scores, seen = visible(tokens, past, most), past + tokens
    if most is not None and tokens == 1:
        seen = min(seen, most)
    latent_bit = (rank + rotary) * cache.bit
    if is_absorbed:
        flop = 2.0 * requests * heads * scores * (2 * rank + rotary)
        cache_byte = requests * (seen + tokens) * latent_bit / BYTE
        numbers = tokens * heads * (2 * rank + rotary)
    else:
        flop = 2.0 * requests * heads * scores * (plain + rotary + value)
        cache_byte = requests * tokens * latent_bit / BYTE
        numbers = heads * (tokens + seen) * (plain + rotary + value)
    return KernelWork(flop, 0.0, cache_byte, requests * numbers * ACTIVATION.bit / BYTE)


def index_scores(requests: int, tokens: int, past: int, heads: int, size: int) -> KernelWork:
    """Return the work of scoring all earlier tokens to select some (DeepSeek-AI 2025, DeepSeek-V3.2, section 2.1).

    A key has 8 bits a number and a scale of 32 bits. The heads' scores are added with weights.
    """
    flop = 2.0 * requests * heads * (size + 1) * visible(tokens, past)
    key_bit = FORMATS["fp8"].bit * size + 32
    cache_byte = requests * (past + 2 * tokens) * key_bit / BYTE
    activation_byte = requests * tokens * heads * (size * FORMATS["fp8"].bit + ACTIVATION.bit) / BYTE
    return KernelWork(flop, 0.0, cache_byte, activation_byte)


def distinct_experts(tokens: float, count: int, active: int) -> float:
    """Return how many of ``count`` experts some token meets on average, if each token draws ``active`` at random.

    An expert misses one token with probability 1 - active / count, and all of them with its power.
    """
    return float(count * (1 - (1 - active / count) ** tokens))


def power_law_tokens(tokens: int, count: int, active: int, alpha: float) -> list[int]:
    """Return the tokens of each expert, about the busiest first, if their shares follow a power law.

    So aiconfigurator measures experts (``distribution`` power_law_1.2: alpha = 1.2; ``collector/helper.py``,
    ``_generate_power_law_distribution``). It draws a share for each expert with a density of x ** -alpha, from 1 to
    0.8 tokens, or from 0.01 to 2 if the experts are more than the calls of experts, and rounds. What rounding loses
    goes to the busiest; what it adds too much comes from the least busy. Here the middles of ``count`` equal parts of
    the distribution stand for the draws. ``alpha`` is not 1.
    """
    low, high = (1.0, 0.8 * tokens) if tokens * active > count else (0.01, 2.0)
    power = 1 - alpha
    places = [(place + 0.5) / count for place in reversed(range(count))]
    shares = [((high**power - low**power) * place + low**power) ** (1 / power) for place in places]
    found = [round(tokens * active * share / sum(shares)) for share in shares]
    lacking = tokens * active - sum(found)
    for turn in range(abs(lacking)):
        if lacking > 0:
            found[turn % count] += 1
        else:
            least = -1 - turn % count
            found[least if found[least] else 0] -= 1
    return found


def experts(
    tokens: int, hidden: int, inner: int, count: int, active: int, weight: Format, tensor: int = 1, expert: int = 1,
    distinct: float | None = None,
) -> KernelWork:  # fmt: skip
    """Return the work of one GPU on gated experts: ``tokens`` are those of all GPUs that share them.

    ``expert`` GPUs have different experts, ``tensor`` GPUs have parts of the same ones. ``distinct``: the experts that
    some token meets, of all ``count`` (default: of random routing). Each expert's three matrices are read once. The
    results of the wide product are written, read by the activation, and read again by the narrow one.
    """
    distinct = distinct_experts(tokens, count, active) if distinct is None else distinct
    width, rows = inner / tensor, tokens * active / expert
    flop = 2.0 * rows * 3 * hidden * width
    weight_byte = distinct / expert * 3 * hidden * width * weight.bit / BYTE
    inputs, others = (hidden + 2 * width) * weight.input_bit, (hidden + 4 * width) * ACTIVATION.bit
    activation_byte = rows * (inputs + others) / BYTE
    return KernelWork(flop, weight_byte, 0.0, activation_byte)


def gated_delta(
    requests: int, tokens: int, key_heads: int, value_heads: int, key_size: int, value_size: int, state_bit: int,
    chunk: int = 64,
) -> KernelWork:  # fmt: skip
    """Return the work of a gated delta rule (Yang et al. 2025, arXiv:2412.06464), with its state read and written.

    One token reads the state with its key, adds a correction, and reads it with its query: 6 FLOP a number of the
    state. More tokens go in chunks of c, with keys of k and values of v numbers: 6 k v a token, and within a chunk
    two products of scores (4 c k), the transform of keys and values (2 c k + 2 c v), and the scores times values
    (2 c v). A last chunk that is not full is padded.
    """
    state = key_size * value_size
    if tokens == 1:
        flop = 6.0 * requests * value_heads * state
    else:
        padded = -(-tokens // chunk) * chunk
        flop = 1.0 * requests * value_heads * padded * (6 * state + chunk * (6 * key_size + 4 * value_size))
    numbers = 2 * key_heads * key_size + 2 * value_heads * value_size
    return _recurrent(requests, tokens, flop, value_heads * state * state_bit, numbers)


def state_space(
    requests: int, tokens: int, heads: int, head_size: int, groups: int, state_size: int, state_bit: int,
    chunk: int = 256,
) -> KernelWork:  # fmt: skip
    """Return the work of Mamba2's recurrence (Dao & Gu 2024, arXiv:2405.21060, section 6), with its state.

    One token adds to the state and reads it: 4 FLOP a number of the state. More tokens go in chunks of c, with heads
    of p and states of n numbers: 4 p n a token and head, 2 c p for the scores times inputs, and 2 c n a group for the
    scores. A last chunk that is not full is padded.
    """
    state = head_size * state_size
    if tokens == 1:
        flop = 4.0 * requests * heads * state
    else:
        padded = -(-tokens // chunk) * chunk
        flop = 1.0 * requests * padded * (heads * (4 * state + 2 * chunk * head_size) + groups * 2 * chunk * state_size)
    numbers = 2 * heads * head_size + 2 * groups * state_size
    return _recurrent(requests, tokens, flop, heads * state * state_bit, numbers)


def _recurrent(requests: int, tokens: int, flop: float, state_bit: float, numbers: int) -> KernelWork:
    """Return the work of a recurrence with ``numbers`` of inputs and outputs a token."""
    cache_byte = requests * 2 * state_bit / BYTE
    return KernelWork(flop, 0.0, cache_byte, requests * tokens * numbers * ACTIVATION.bit / BYTE)


def convolution(requests: int, tokens: int, channels: int, kernel: int) -> KernelWork:
    """Return the work of a convolution of each channel over the last ``kernel`` tokens; the cache keeps inputs."""
    flop = 2.0 * requests * tokens * channels * kernel
    cache_byte = 2 * requests * channels * (kernel - 1) * ACTIVATION.bit / BYTE
    activation_byte = 2 * requests * tokens * channels * ACTIVATION.bit / BYTE
    return KernelWork(flop, channels * kernel * ACTIVATION.bit / BYTE, cache_byte, activation_byte)


def norm(rows: float, size: int) -> KernelWork:
    """Return the bytes of a residual addition and a norm in one kernel: two inputs and two outputs."""
    return KernelWork(activation_byte=4 * rows * size * ACTIVATION.bit / BYTE)


def activation(rows: float, inner: int, is_gated: bool) -> KernelWork:
    """Return the bytes of an activation between two products; a gated one reads two numbers for each it writes."""
    return KernelWork(activation_byte=(2 + is_gated) * rows * inner * ACTIVATION.bit / BYTE)


# What a GPU of p sends for each byte of a message (NVIDIA, nccl-tests, doc/PERFORMANCE.md): for an all-reduce the
# message is the array that each has, else all that is gathered, scattered or exchanged by one GPU.
COLLECTIVES = (ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND)


def collective(kind: str, message_byte: float, gpus: int) -> KernelWork:
    """Return what each of so many GPUs sends, by rings; a send goes to one other GPU."""
    return KernelWork(sent_byte=(bus_factor(kind, gpus) or 0.0) * message_byte)
