"""The numbers of the chapter on tokens: what language models wait for when they are served, by others' measurements."""

from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.roofs import Roof
from measure.published.kernels import FORMAT_BITS
from measure.serving.decoder import Decoder
from measure.serving.kernels import distinct_experts
from report.facts import Facts, missing, sourced
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.served import Served, decoder_of, taken_apart, work_of
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

SPARSE, DENSE = PUZZLE = "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B"
EXAMPLE = "meta-llama/Llama-3.1-70B"  # the model that is served on one GPU and on several
NAMES = {SPARSE: "Qwen3-235B-A22B", DENSE: "Qwen3-32B", EXAMPLE: "Llama-3.1-70B"}
EIGHT, FOUR = ("fp8", "fp8_block"), "nvfp4"  # formats of weights

SMALL, LARGE = 1e7, 5e8  # bytes of keys and values: a small and a large cache; no cache of a chip holds the large one
WIDE = (16384, 4096)  # outputs and inputs of the products that are compared
HALF = 0.5  # of the peak
STEP_TOKENS = 16  # of the small product
LAYER = (
    "fp8_block",
    128,
    8,
    4096,
    1536,
)  # format, experts, those of a token, hidden and inner size: those of ``SPARSE``

SERVERS, KERNELS = "published/servers.csv", "published/kernels/*.csv"


class SparsePuzzle(Facts):
    """A mixture of experts and a dense model in equal settings: device, engine, version, GPUs, requests and tokens."""

    sparse: Name  #: The mixture of experts.
    dense: Name  #: The dense model.
    sparse_active: Value  #: Parameters of the mixture that a token is multiplied by, in billions.
    dense_active: Value  #: Parameters of the dense model that a token is multiplied by, in billions.
    device: Name  #: The GPU with most common settings.
    engine: Name  #: The engine there.
    settings: Value  #: Common settings there.
    slower: Value  #: Settings in which the mixture takes longer for a token.
    least: Value  #: The least time of a token of the mixture over the dense model's.
    most: Value  #: The greatest.
    batch: Value  #: The requests at which weights are compared: the most.
    gpus: Value  #: The GPUs there: the fewest.
    sparse_byte: Value  #: Weights of the mixture that a GPU reads in a step there.
    dense_byte: Value  #: Weights of the dense model that a GPU reads in a step there.
    byte_ratio: Value  #: The mixture's weights read over the dense model's.
    time_ratio: Value  #: The mixture's time of a token over the dense model's there, the median of lengths.


class TwoPhases(Facts):
    """The model on one GPU: prefill of its longest prompts, and decode of its longest answers."""

    model: Name  #: The model.
    device: Name  #: The GPU.
    engine: Name  #: The engine.
    prompt: Value  #: Tokens of a prompt.
    few: Value  #: The fewest requests.
    many: Value  #: The most requests whose time is above its bound.
    prefill_mfu: Value  #: FLOP of a prompt over TTFT and peak, with the fewest requests.
    few_mfu: Value  #: FLOP of a step of decode with the fewest requests over TPOT and peak.
    many_mfu: Value  #: FLOP of a step of decode with the most requests over TPOT and peak.


class DecodeCalculation(Facts):
    """A step of decode of the same server by hand."""

    byte: Value  #: Weights of the model.
    bandwidth: Value  #: Bandwidth of the GPU.
    weights: Value  #: Least time of reading the weights.
    tokens: Value  #: Tokens in the cache of a request half-way through its answer.
    request_byte: Value  #: Its cache.
    request: Value  #: Least time of reading its cache.
    batch: Value  #: Requests of the calculation: the most that are measured above the bound.
    caches: Value  #: Least time of reading their caches.
    bound: Value  #: The sum for so many requests.
    measured: Value  #: The measured time of a token.
    share: Value  #: The sum over the measured time.
    added: Value  #: Measured time that each request adds, from the fewest to the most.
    balance: Value  #: Requests whose caches are as large as the weights.
    ridge: Value  #: Requests at which the products take as long as the weights.
    fit: Value  #: Requests whose caches fit next to the weights.


class FewerBits(Facts):
    """Weights of 8 and 4 bits: what their bytes promise, and what was measured."""

    device: Name  #: The GPU whose servers have both.
    promised: Value  #: Bytes of the model's weights at 8 bits over those at 4 bits.
    first_gpus: Value  #: The fewest GPUs.
    first: Value  #: Time of a token at 8 bits over that at 4 bits on the fewest GPUs.
    last_gpus: Value  #: The most GPUs.
    last: Value  #: Time of a token at 8 bits over that at 4 bits on the most GPUs.
    tokens: Value  #: Tokens of the small product.
    eight_least: Value  #: The least gain of a small product from 16 to 8 bits, with its GPU.
    eight_most: Value  #: The greatest.
    four_promised: Value  #: Bytes of weights at 16 bits over those at 4 bits with scales.
    four_least: Value  #: The least gain of a small product from 16 to 4 bits, with its GPU.
    four_most: Value  #: The greatest.


class TimedKernels(Facts):
    """Products and attention of decode on all GPUs that are timed, by the fastest kernel of each size."""

    gpus: Value  #: GPUs with products.
    half_least: Value  #: The fewest tokens at which a GPU reaches half of its peak at 16 bits, with its name.
    half_most: Value  #: The most.
    roof_least: Value  #: The fewest tokens at which the roofline of a datasheet reaches half of the peak at 16 bits.
    roof_most: Value  #: The most.
    never: Value  #: Pairs of a GPU and fewer bits that do not reach half of their peak at any size.
    pairs: Value  #: Pairs of a GPU and fewer bits.
    large_least: Value  #: The lowest median share of the bandwidth with large caches, with its GPU.
    large_most: Value  #: The highest.
    small_most: Value  #: The highest median share with small caches, with its GPU.
    beyond: Value  #: The greatest share of the bandwidth, above one, with its GPU.
    beyond_byte: Value  #: The bytes of that cache.


class ReadExperts(Facts):
    """The experts of a layer of the mixture: how many some token meets, and how long they take on one GPU."""

    count: Value  #: Experts of a layer.
    active: Value  #: Experts of a token.
    eight: Value  #: Experts that eight tokens meet on average by random routing.
    many_tokens: Value  #: The tokens of a large batch.
    many: Value  #: Experts that they meet.
    device: Name  #: The GPU of the times: that of the puzzle.
    first: Value  #: Time with the large batch over that with one token.
    more_tokens: Value  #: Four times the tokens of the large batch.
    second: Value  #: Time with these over that with the large batch.


class TokenParts(Facts):
    """The token of an aggregated server, taken apart by least times of bytes and FLOP."""

    servers: Value  #: Servers with a stated format and a plan that the model takes.
    models: Value  #: Their models.
    left_out: Value  #: Servers without: a format or batch is not stated, or a plan contradicts itself.
    faster: Value  #: Servers that are faster than the bound: they ran fewer requests than asked for.
    share: Value  #: The bound over the measured time, of the median server.
    low: Value  #: A tenth of the servers have a smaller share.
    first: Value  #: The share of the median server on one GPU.
    last_gpus: Value  #: GPUs of the largest group.
    last: Value  #: The share of the median server there.
    communication: Value  #: The share of collectives there, by published times.
    promised: Value  #: The bound on one GPU over that on the largest group, for the model served on both.
    gained: Value  #: The measured time of a token on one GPU over that on the largest group.
    layers: Value  #: Layers of the model served on both.
    product: Value  #: The shortest product that is published for its GPU and format.
    attention: Value  #: The shortest attention of decode that is published for its GPU.
    floor: Value  #: The layers, with four products and attention each, at these times.
    measured: Value  #: The measured time of a token on the largest group, with the fewest requests.
    prompt_tokens: Value  #: Tokens of prompts that come with each token of an answer, if prompts are long.
    batch: Value  #: Requests at which long and short prompts are compared.
    with_prompts: Value  #: Time of a token with long prompts over that with short ones, on one GPU.
    cache_ratio: Value  #: The same ratio of the bytes alone.


class OperatorCurve(Facts):
    """Tokens a second of a GPU against those of a user, for the model on one device and engine."""

    device: Name  #: The GPU.
    engine: Name  #: The engine.
    gpus: Value  #: GPUs of a server with both ends.
    few: Value  #: The fewest requests.
    many: Value  #: The most.
    throughput: Value  #: Tokens a second with the most requests over those with the fewest.
    slower: Value  #: Time of a token with the most requests over that with the fewest.


class TokenProblems(Facts):
    longer: Value  #: The calculation's bound with caches of twice the tokens.
    longer_ratio: Value  #: That over the bound.
    shared: Value  #: The least time of the weights on the largest group of GPUs, with the fewest requests.
    best: Value  #: The measured time over the bound in the calculation: the gain of perfect kernels.


class Tokens(Facts):
    puzzle: SparsePuzzle
    phases: TwoPhases
    decode: DecodeCalculation
    bits: FewerBits
    kernels: TimedKernels
    experts: ReadExperts
    parts: TokenParts
    curve: OperatorCurve
    problems: TokenProblems


def of(paper: Paper) -> Tokens:
    served = paper.served
    example = lone(served)
    facts = Tokens(
        sourced(_puzzle(served), Source(SERVERS, "aggregated, of two models")),
        sourced(_phases(served, example), Source(SERVERS, "aggregated, on one GPU")),
        sourced(_decode(served, example), Source(SERVERS, "aggregated, on one GPU")),
        sourced(_bits(served), Source(KERNELS, "products; servers.csv")),
        sourced(_kernels(served), Source(KERNELS, "products, attention in decode")),
        sourced(_experts(served), Source(KERNELS, "experts")),
        sourced(_parts(served, example), Source(SERVERS, "aggregated")),
        sourced(_curve(served, example), Source(SERVERS, "aggregated")),
        sourced(_problems(served, example), Source(SERVERS, "aggregated")),
    )
    return facts if len(served.servers) and len(served.products) else sourced(missing(Tokens), Source(SERVERS))


@cache
def explained(served: Served) -> pd.DataFrame:
    """Return the servers whose bound is known and below the measured time."""
    rows = taken_apart(served)
    return rows[(rows.left_out == "") & ~rows.is_beaten]


def pairs(served: Served) -> pd.DataFrame:
    """Return the common settings of the puzzle's models on the device and engine with most of them."""
    rows = explained(served)
    sides = [rows[rows.model == model].astype({"batch": float}) for model in PUZZLE]
    both = sides[0].merge(sides[1], on=SETTING, suffixes=("", "_dense"))
    groups = [found for _, found in both.groupby(["device", "engine", "software"])]
    return max(groups, key=len, default=both)


SETTING = ["device", "engine", "software", "plan_gpus", "batch", "input_tokens", "output_tokens"]


def _puzzle(served: Served) -> SparsePuzzle:
    both = pairs(served)
    if both.empty:
        return missing(SparsePuzzle)
    ratio = both.tpot_s / both.tpot_s_dense
    gpus, batch = both.plan_gpus.min(), both.batch.max()
    there = both[(both.plan_gpus == gpus) & (both.batch == batch)]
    row: Any = there.iloc[0]
    bandwidth = served.roofs[row.device].byte_per_s
    sparse, dense = decoder_of(SPARSE, row.weights), decoder_of(DENSE, row.weights_dense)
    assert sparse is not None  # as both rows are explained
    assert dense is not None
    return SparsePuzzle(
        Name(NAMES[SPARSE]), Name(NAMES[DENSE]), exact(sparse.active_parameters / 1e9, "billion"),
        exact(dense.active_parameters / 1e9, "billion"), Name(short_name(row.device)), Name(ENGINES[row.engine]),
        count_of(len(both), "settings"), count_of((ratio > 1).sum(), "settings"), exact(ratio.min()),
        exact(ratio.max()),
        exact(int(batch)), exact(int(gpus)), exact(row.weights_s * bandwidth, "B"),
        exact(row.weights_s_dense * bandwidth, "B"), exact(row.weights_s / row.weights_s_dense),
        median_of(there.tpot_s / there.tpot_s_dense, counted="servers"),
    )  # fmt: skip


ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}


def lone(served: Served) -> pd.DataFrame:
    """Return the servers of the example at 8 bits, explained and not, on the device and engine with one-GPU servers.

    Of several the ones with most rows there, then with the fastest memory.
    """
    rows = taken_apart(served)
    rows = rows[(rows.left_out == "") & (rows.model == EXAMPLE) & rows.weights.isin(EIGHT)]
    single = rows[rows.plan_gpus == 1]
    if single.empty:
        return single
    sizes = single.groupby(["device", "engine"]).size()
    chosen = max(sizes.index, key=lambda key: (sizes[key], served.roofs[key[0]].byte_per_s))
    return matching(rows, device=chosen[0], engine=chosen[1])


def of_lengths(rows: pd.DataFrame, has_long_answers: bool) -> pd.DataFrame:
    """Keep the longest answers to the shortest prompts, or the shortest answers to the longest prompts."""
    sizes = rows[["input_tokens", "output_tokens"]].drop_duplicates()
    ratio = sizes.output_tokens / sizes.input_tokens
    chosen = sizes.loc[ratio.idxmax() if has_long_answers else ratio.idxmin()]
    return matching(rows, input_tokens=chosen.input_tokens, output_tokens=chosen.output_tokens).sort_values("batch")


def single(rows: pd.DataFrame, has_long_answers: bool = True) -> pd.DataFrame:
    """Return the servers of the example on one GPU whose time is above the bound, by batch."""
    return of_lengths(rows[(rows.plan_gpus == 1) & ~rows.is_beaten], has_long_answers)


def decoder(row: Any) -> Decoder:
    found = decoder_of(row.model, row.weights)
    assert found is not None  # as the row is explained
    return found


def peak(served: Served, row: Any) -> float:
    """Return the datasheet's peak at the precision in which 8 bits are multiplied."""
    return served.roofs[row.device].flop_per_s["fp8"]


def _phases(served: Served, rows: pd.DataFrame) -> TwoPhases:
    if single(rows).empty:
        return missing(TwoPhases)
    answers, prompts = single(rows), single(rows, has_long_answers=False)
    few, many, read = (part.iloc[at] for part, at in ((answers, 0), (answers, -1), (prompts, 0)))

    def mfu(row: Any, is_prompt: bool) -> Value:
        seconds = row.ttft_s if is_prompt else row.tpot_s
        return exact(work_of(row, is_prompt).flop / seconds / peak(served, row), "%")

    return TwoPhases(
        Name(NAMES[few.model]), Name(short_name(few.device)), Name(ENGINES[few.engine]), exact(int(read.input_tokens)),
        exact(int(few.batch)), exact(int(many.batch)), mfu(read, True), mfu(few, False), mfu(many, False),
    )  # fmt: skip


def paper_step(served: Served, rows: pd.DataFrame) -> tuple[float, float, int]:
    """Return the bytes of the weights that a step reads, those of a request's cache, and its tokens."""
    row = rows.iloc[0]
    work = work_of(row, is_prompt=False)
    return work.weight_byte, work.cache_byte / row.batch, int(row.input_tokens + row.output_tokens // 2)


def _decode(served: Served, example: pd.DataFrame) -> DecodeCalculation:
    rows = single(example)
    if len(rows) < 2:
        return missing(DecodeCalculation)
    few, many = rows.iloc[0], rows.iloc[-1]
    roof, batch = served.roofs[few.device], int(many.batch)
    bandwidth, (byte, request, tokens) = roof.byte_per_s, paper_step(served, rows)
    bound = (byte + batch * request) / bandwidth
    flop, room = 2 * decoder(few).active_parameters, served.memory[few.device]
    return DecodeCalculation(
        byte=exact(byte, "B"), bandwidth=exact(bandwidth, "B/s"), weights=exact(byte / bandwidth, "s"),
        tokens=exact(tokens), request_byte=exact(request, "B"), request=exact(request / bandwidth, "s"),
        batch=exact(batch), caches=exact(batch * request / bandwidth, "s"), bound=exact(bound, "s"),
        measured=exact(many.tpot_s, "s"), share=exact(bound / many.tpot_s, "%"),
        added=exact((many.tpot_s - few.tpot_s) / (many.batch - few.batch), "s"),
        balance=exact(round(byte / request)), ridge=exact(round(byte / bandwidth * peak(served, few) / flop)),
        fit=exact(room if np.isnan(room) else int((room - byte) // request)),
    )  # fmt: skip


def bit_pairs(served: Served) -> pd.DataFrame:
    """Return the servers of the example in equal settings with weights of 8 and 4 bits; ``gain`` is the ratio of times."""
    rows = explained(served)
    rows = rows[rows.model == EXAMPLE]
    sides = rows[rows.weights.isin(EIGHT)], rows[rows.weights == FOUR]
    keys = ["device", "engine", "plan_gpus", "batch", "input_tokens", "output_tokens"]
    both = sides[0].merge(sides[1], on=keys, suffixes=("", "_four"))
    return both.assign(gain=both.tpot_s / both.tpot_s_four)


def product_gains(served: Served, tokens: int) -> pd.DataFrame:
    """Return each GPU's time of a wide product at 16 bits over that at fewer: columns ``fp8``, ``nvfp4``."""
    rows = matching(served.products, m=tokens, n=WIDE[0], k=WIDE[1])
    rows = rows[rows.weights == rows.precision.map(NATIVE)]
    best = rows.groupby(["device", "weights"]).latency_s.min().unstack().reindex(columns=["bf16", "fp8", FOUR])
    return best[["fp8", FOUR]].rdiv(best.bf16, axis=0).rename(short_name)


NATIVE = {"bf16": "bf16", "fp8": "fp8", "fp4": FOUR}  # the stored formats that are multiplied as they are


def _bits(served: Served) -> FewerBits:
    both, gains = bit_pairs(served), product_gains(served, STEP_TOKENS)
    if both.empty:
        return missing(FewerBits)
    row: Any = both.iloc[0]
    bytes_of = [decoder_of(EXAMPLE, weights).weight_byte for weights in (row.weights, FOUR)]
    first, last = both.plan_gpus.min(), both.plan_gpus.max()
    ends = (median_of(both.gain[both.plan_gpus == gpus], counted="servers") for gpus in (first, last))
    return FewerBits(
        Name(" and ".join(sorted({short_name(device) for device in both.device}))), exact(bytes_of[0] / bytes_of[1]),
        exact(int(first)), next(ends), exact(int(last)), next(ends), exact(STEP_TOKENS),
        *extremes(gains.fp8), exact(FORMAT_BITS["bf16"] / FORMAT_BITS[FOUR]), *extremes(gains[FOUR]),
    )  # fmt: skip


def halves(served: Served) -> pd.DataFrame:
    """Return the fewest tokens with half of the peak by GPU and precision, for the wide product, of the fastest kernel.

    Columns ``device``, ``precision``, ``tokens`` (NaN if none reaches it), ``roof_tokens`` by the datasheet.
    """
    rows = matching(served.products, n=WIDE[0], k=WIDE[1]).dropna(subset="peak_share")
    rows = rows[rows.weights == rows.precision.map(NATIVE)]
    found = []
    for (device, precision), part in rows.groupby(["device", "precision"]):
        best = part.groupby("m").peak_share.max()
        roof = served.roofs[str(device)]
        reached, bound = best.index[best >= HALF], _bound_share(part, roof)
        found.append({
            "device": short_name(str(device)), "precision": precision, "roof_tokens": bound.index[bound >= HALF].min(),
            "tokens": reached.min() if len(reached) else np.nan, "share": best.max(),
        })  # fmt: skip
    return pd.DataFrame(found, columns=["device", "precision", "tokens", "roof_tokens", "share"])


def _bound_share(rows: pd.DataFrame, roof: Roof) -> "pd.Series[float]":
    """Return by tokens the share of the peak that the datasheet's roofline allows."""
    rows = rows.drop_duplicates("m").set_index("m").sort_index()
    peak = roof.flop_per_s[rows.precision.iloc[0]]
    return np.minimum(1, rows.flop / rows.byte * roof.byte_per_s / peak)


def decode_attention(served: Served) -> pd.DataFrame:
    """Return attention in decode over whole caches, with ``size``: small, middle or large caches."""
    rows = served.attention
    rows = rows[(rows.phase == "decode") & rows.window.isna()].dropna(subset="bandwidth_share")
    size = np.select([rows.cache_byte <= SMALL, rows.cache_byte >= LARGE], SIZES[::2], SIZES[1])
    return rows.assign(size=size, device=rows.device.map(short_name))


SIZES = ("at most 10 MB", "10 MB to 0.5 GB", "at least 0.5 GB")


def _kernels(served: Served) -> TimedKernels:
    half, attention = halves(served), decode_attention(served)
    if half.empty or attention.empty:
        return missing(TimedKernels)
    base = matching(half, precision="bf16").set_index("device")
    fewer = half[half.precision != "bf16"]
    medians = attention.groupby(["size", "device"]).bandwidth_share.median()
    large, small = (medians.get(size, pd.Series(dtype=float)) for size in (SIZES[2], SIZES[0]))
    fastest: Any = attention.loc[attention.bandwidth_share.idxmax()]
    is_beyond = fastest.bandwidth_share > 1
    return TimedKernels(
        count_of(served.products.device.nunique(), "GPUs"), *extremes(base.tokens), *extremes(base.roof_tokens),
        count_of(fewer.tokens.isna().sum(), "pairs"), count_of(len(fewer), "pairs"), *extremes(large, "%"),
        extremes(small, "%")[1], exact(fastest.bandwidth_share if is_beyond else None, name=fastest.device),
        exact(fastest.cache_byte if is_beyond else None, "B"),
    )  # fmt: skip


def layer_times(served: Served) -> pd.DataFrame:
    """Return the times of the mixture's experts of a layer on one GPU by ``device`` and ``tokens``: the fastest kernel's."""
    weights, count, active, hidden, inner = LAYER
    rows = matching(
        served.experts, weights=weights, experts=count, top_k=active, hidden=hidden, inner=inner, tensor_parallel=1,
        expert_parallel=1,
    )  # fmt: skip
    return rows.groupby(["device", "tokens"], as_index=False).latency_s.min()


MANY = 64  # tokens


def _experts(served: Served) -> ReadExperts:
    rows, both = layer_times(served), pairs(served)
    _, count, active, *_ = LAYER
    found = (
        rows.pivot(index="device", columns="tokens", values="latency_s").reindex(columns=[1, MANY, 4 * MANY]).dropna()
    )
    device = both.device.iloc[0] if len(both) else None
    if device not in found.index:
        return missing(ReadExperts)
    first, many, more = found.loc[device]
    eight, met = (round(distinct_experts(tokens, count, active)) for tokens in (8, MANY))
    return ReadExperts(
        exact(count), exact(active), exact(eight), exact(MANY), exact(met), Name(short_name(str(device))),
        exact(many / first), exact(4 * MANY), exact(more / many),
    )  # fmt: skip


def _parts(served: Served, example: pd.DataFrame) -> TokenParts:
    rows, every = explained(served), taken_apart(served)
    if rows.empty or single(example).empty:
        return missing(TokenParts)
    first, last = (rows[rows.plan_gpus == gpus] for gpus in (1, GROUP))
    answers = of_lengths(example[~example.is_beaten], has_long_answers=True)
    ends = [matching(answers, plan_gpus=gpus, batch=answers.batch.min()) for gpus in (1, answers.plan_gpus.max())]
    (alone, shared), prompts = (part.iloc[0] for part in ends), single(example, has_long_answers=False)
    short = single(example).set_index("batch")
    batch = max(set(prompts.batch) & set(short.index))
    read, answered = prompts.set_index("batch").loc[batch], short.loc[batch]
    bytes_of = [row.weights_s + row.cache_s for row in (read, answered)]
    layers = len(decoder(alone).layers)
    product_s = matching(served.products, device=alone.device, weights=alone.weights).latency_s.min()
    attention_s = matching(served.attention, device=alone.device, phase="decode").latency_s.min()
    return TokenParts(
        servers=count_of(len(rows), "servers"), models=count_of(rows.model.nunique(), "models"),
        left_out=count_of((every.left_out != "").sum(), "servers"), faster=count_of(every.is_beaten.sum(), "servers"),
        share=median_of(rows.share, "%", "servers"), low=exact(rows.share.quantile(0.1), "%"),
        first=median_of(first.share, "%", "servers"), last_gpus=exact(GROUP),
        last=median_of(last.share, "%", "servers"),
        communication=median_of(last.communication_s / last.tpot_s, "%", "servers"),
        promised=exact(alone.bound_s / shared.bound_s), gained=exact(alone.tpot_s / shared.tpot_s),
        layers=exact(layers), product=exact(product_s, "s"), attention=exact(attention_s, "s"),
        floor=exact(layers * (PRODUCTS * product_s + attention_s), "s"), measured=exact(shared.tpot_s, "s"),
        prompt_tokens=exact(read.input_tokens / read.output_tokens), batch=exact(int(batch)),
        with_prompts=exact(read.tpot_s / answered.tpot_s), cache_ratio=exact(bytes_of[0] / bytes_of[1]),
    )  # fmt: skip


PRODUCTS = 4  # of a layer of the example: queries, keys and values; output; two of its perceptron
GROUP = 8  # GPUs that share a board


def operator_rows(example: pd.DataFrame) -> pd.DataFrame:
    """Return the example's servers with equally long prompts and answers, with ``per_gpu`` and ``per_user`` tokens/s.

    A GPU's are those of answers, over the whole time of a request.
    """
    sizes = abs(np.log(example.output_tokens / example.input_tokens))
    rows = example[sizes == sizes.min()]
    seconds = rows.ttft_s + (rows.output_tokens - 1) * rows.tpot_s
    requests = rows.batch * rows.data_parallel.fillna(1)
    per_gpu = requests * rows.output_tokens / seconds / rows.plan_gpus
    return rows.assign(per_gpu=per_gpu.astype(float), per_user=1 / rows.tpot_s).sort_values(["plan_gpus", "batch"])


def _curve(served: Served, example: pd.DataFrame) -> OperatorCurve:
    if example.empty:
        return missing(OperatorCurve)
    rows = operator_rows(example)
    rows = rows[rows.plan_gpus == GROUP] if (rows.plan_gpus == GROUP).any() else rows
    few, many = rows.loc[rows.batch.idxmin()], rows.loc[rows.batch.idxmax()]
    return OperatorCurve(
        Name(short_name(few.device)), Name(ENGINES[few.engine]), exact(int(few.plan_gpus)), exact(int(few.batch)),
        exact(int(many.batch)), exact(many.per_gpu / few.per_gpu), exact(many.tpot_s / few.tpot_s),
    )  # fmt: skip


def _problems(served: Served, example: pd.DataFrame) -> TokenProblems:
    rows = single(example)
    if len(rows) < 2:
        return missing(TokenProblems)
    bandwidth, (byte, request, _) = served.roofs[rows.device.iloc[0]].byte_per_s, paper_step(served, rows)
    batch = int(rows.batch.max())
    bound, longer = ((byte + times * batch * request) / bandwidth for times in (1, 2))
    shared = of_lengths(example[~example.is_beaten], has_long_answers=True)
    shared = shared[shared.plan_gpus == shared.plan_gpus.max()].iloc[0]
    return TokenProblems(
        exact(longer, "s"), exact(longer / bound), exact(shared.weights_s, "s"), exact(rows.tpot_s.iloc[-1] / bound)
    )
