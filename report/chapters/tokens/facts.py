"""The numbers of the chapter on tokens: what language models wait for when they are served, by others' measurements."""

from dataclasses import replace
from math import ceil
from typing import Any

import pandas as pd

from measure.published.kernels import FORMAT_BITS
from measure.serving.kernels import distinct_experts
from report.chapters.tokens import apart, here
from report.chapters.tokens.timed import (
    ACTIVE,
    COUNT,
    DENSE,
    ENGINES,
    FOUR,
    NAMES,
    SIZES,
    SPARSE,
    WIDE,
    bit_pairs,
    decode_attention,
    decoder,
    example,
    halves,
    layer_times,
    of_lengths,
    operator_rows,
    pairs,
    paper_step,
    product_gains,
    single,
)
from report.facts import Facts, missing, sourced
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each, highest, matching
from report.paper.served import USABLE, Served, decoder_of, explained, work_of
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

SERVERS, KERNELS = "published/servers.csv", "published/kernels/*.csv"

STEP_TOKENS = 16  # of the small product
MANY = 64  # tokens of a large batch


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
    batch: Value  #: The requests at which weights are compared: the most.
    gpus: Value  #: The GPUs there: the fewest.
    sparse_byte: Value  #: Weights of the mixture that a GPU reads in a step there.
    dense_byte: Value  #: Weights of the dense model that a GPU reads in a step there.
    byte_ratio: Value  #: The mixture's weights read over the dense model's.
    bound_ratio: Value  #: The mixture's least time of a token over the dense model's there, the median of lengths.
    time_ratio: Value  #: The measured times likewise.
    few: Value  #: The fewest requests on as many GPUs.
    few_byte_ratio: Value  #: The mixture's weights read over the dense model's with so few.
    few_time_ratio: Value  #: The mixture's measured time over the dense model's with so few, the median of lengths.
    many_gpus: Value  #: The most GPUs.
    read: Value  #: Tokens of a prompt, if all settings have as many.
    written_least: Value  #: The fewest tokens of an answer.
    written_most: Value  #: The most.
    first: Value  #: Of the mixture's additional time, the additional least time: the median setting on the fewest GPUs.
    last: Value  #: That on the most GPUs.
    sparse_layers: Value  #: Layers of the mixture.
    dense_layers: Value  #: Layers of the dense model.


class TwoPhases(Facts):
    """The model on one GPU: prefill of its longest prompts, and decode of its longest answers."""

    model: Name  #: The model.
    device: Name  #: The GPU.
    prompt: Value  #: Tokens of a prompt.
    few: Value  #: The fewest requests.
    many: Value  #: The most requests.
    prefill_mfu: Value  #: FLOP of a prompt over TTFT and peak, with the fewest requests.
    few_mfu: Value  #: FLOP of a step of decode with the fewest requests over TPOT and peak.
    many_mfu: Value  #: FLOP of a step of decode with the most requests over TPOT and peak.


class DecodeCalculation(Facts):
    """A step of decode of the same server by hand, with long answers."""

    byte: Value  #: Weights of the model.
    bandwidth: Value  #: Bandwidth of the GPU.
    weights: Value  #: Least time of reading the weights.
    tokens: Value  #: Tokens in the cache of a request half-way through its answer.
    request: Value  #: Least time of reading its cache.
    batch: Value  #: Requests of the calculation: the most that were served.
    caches: Value  #: Least time of reading their caches.
    bound: Value  #: The sum for so many requests.
    measured: Value  #: The measured time of a token.
    added: Value  #: Measured time that each request adds, from the fewest to the most.
    balance: Value  #: Requests whose caches are as large as the weights.
    ridge: Value  #: Requests at which the FLOP of the weights take as long as their bytes.
    flop: Value  #: Time that the FLOP of a request take at the peak.
    fit: Value  #: Requests whose caches fit next to the weights, in the share of the memory that engines use.


class FewerBits(Facts):
    """Weights of 8 and 4 bits: what their bytes promise, and what was measured."""

    device: Name  #: The GPUs whose servers have both.
    promised: Value  #: Bytes of weights that a step reads at 8 bits over those at 4 bits.
    bound: Value  #: Least time of a token at 8 bits over that at 4 bits, of the median pair.
    first_gpus: Value  #: The fewest GPUs.
    first: Value  #: Time of a token at 8 bits over that at 4 bits on the fewest GPUs.
    last_gpus: Value  #: The most GPUs.
    last: Value  #: Time of a token at 8 bits over that at 4 bits on the most GPUs.
    rows: Value  #: Inputs of the wide product.
    columns: Value  #: Its outputs.
    tokens: Value  #: Tokens of a small batch.
    eight_least: Value  #: The least gain of a small product from 16 to 8 bits, with its GPU.
    eight_most: Value  #: The greatest.
    four_promised: Value  #: Bytes of weights at 16 bits over those at 4 bits with scales.
    four_least: Value  #: The least gain of a small product from 16 to 4 bits, with its GPU.
    four_most: Value  #: The greatest.


class TimedKernels(Facts):
    """Products, by the fastest kernel of each size, and all kernels of attention in decode, on every GPU."""

    half_least: Value  #: The fewest tokens at which a GPU reaches half of its peak at 16 bits, with its name.
    half_most: Value  #: The most.
    half_gpus: Value  #: The GPUs that need so many.
    roof_least: Value  #: The fewest tokens at which the roofline of a datasheet reaches half of the peak at 16 bits.
    roof_most: Value  #: The most, with its GPU.
    four_least: Value  #: The fewest tokens at which a GPU reaches half of its peak at 4 bits, with its name.
    four_most: Value  #: The most, of the GPUs that reach it.
    four_gpus: Value  #: The GPUs that need so many.
    four_never: Name  #: The GPUs that reach it with no size.
    large_least: Value  #: The lowest median share of the bandwidth with large caches, with its GPU.
    large_most: Value  #: The highest.
    small_least: Value  #: The lowest median share with small caches, with its GPU.
    small_most: Value  #: The highest.
    beyond: Value  #: The greatest share of the bandwidth, if above one, with its GPU.
    beyond_byte: Value  #: The bytes of that cache.


class ReadExperts(Facts):
    """The experts of a layer of the mixture: how many some token meets, and how long they take on one GPU."""

    count: Value  #: Experts of a layer.
    active: Value  #: Experts of a token.
    eight: Value  #: Experts that eight tokens meet on average by random routing.
    many_tokens: Value  #: The tokens of a large batch.
    many: Value  #: Experts that they meet.
    device: Name  #: The GPU of the times: that of the puzzle.
    promised: Value  #: Experts that they meet over those of one token.
    first: Value  #: Time with the large batch over that with one token.
    more_tokens: Value  #: Four times the tokens of the large batch.
    second: Value  #: Time with these over that with the large batch.


class OperatorCurve(Facts):
    """Tokens a second of a GPU against those of a user, for the example on the most GPUs."""

    gpus: Value  #: GPUs of the server.
    few: Value  #: The fewest requests.
    many: Value  #: The most.
    throughput: Value  #: Tokens a second with the most requests over those with the fewest.
    slower: Value  #: Time of a token with the most requests over that with the fewest.


class TokenProblems(Facts):
    longer: Value  #: The calculation's bound with caches of twice the tokens.
    longer_ratio: Value  #: That over the bound.
    best: Value  #: The measured time over the bound with the fewest requests: the gain of perfect kernels.
    best_shared: Value  #: The same on the largest group.


class ServedTokens(Facts):
    puzzle: SparsePuzzle
    phases: TwoPhases
    decode: DecodeCalculation
    bits: FewerBits
    kernels: TimedKernels
    experts: ReadExperts
    here: here.MeasuredDecode
    parts: apart.TokenParts
    curve: OperatorCurve
    problems: TokenProblems


def of(paper: Paper) -> ServedTokens:
    served = paper.served
    if explained(served).empty or served.products.empty:
        return replace(sourced(missing(ServedTokens), Source(SERVERS)), here=here.of(paper))
    return ServedTokens(
        sourced(_puzzle(served), Source(SERVERS, "aggregated, of two models")),
        sourced(_phases(served), Source(SERVERS, "aggregated, on one GPU")),
        sourced(_decode(served), Source(SERVERS, "aggregated, on one GPU")),
        sourced(_bits(served), Source(KERNELS, "products; servers.csv")),
        sourced(_kernels(served), Source(KERNELS, "products, attention in decode")),
        sourced(_experts(served), Source(KERNELS, "experts")),
        here.of(paper),
        sourced(apart.of(served), Source(SERVERS, "aggregated")),
        sourced(_curve(served), Source(SERVERS, "aggregated")),
        sourced(_problems(served), Source(SERVERS, "aggregated")),
    )


def _puzzle(served: Served) -> SparsePuzzle:
    both = pairs(served)
    if both.empty:
        return missing(SparsePuzzle)
    both = both.assign(ratio=both.tpot_s / both.tpot_s_dense, bound_ratio=both.bound_s / both.bound_s_dense)
    fewest = both[both.plan_gpus == both.plan_gpus.min()].sort_values("batch")
    few, there = (fewest[fewest.batch == fewest.batch.iloc[end]] for end in (0, -1))
    row, alike = (rows.iloc[0] for rows in (there, few))
    both = both.assign(part=(both.bound_s - both.bound_s_dense) / (both.tpot_s - both.tpot_s_dense))
    ends = (both.plan_gpus.min(), both.plan_gpus.max())
    read = int(row.input_tokens) if both.input_tokens.nunique() == 1 else None
    first, last = (median_of(both.part[both.plan_gpus == gpus], "%", "settings") for gpus in ends)
    bandwidth = served.bandwidth(row.device)
    sparse, dense = decoder_of(SPARSE, row.weights), decoder_of(DENSE, row.weights_dense)
    assert sparse is not None  # as both rows are explained
    assert dense is not None
    return SparsePuzzle(
        Name(NAMES[SPARSE]), Name(NAMES[DENSE]), exact(sparse.active_parameters / 1e9, "billion"),
        exact(dense.active_parameters / 1e9, "billion"), Name(short_name(row.device)), Name(ENGINES[row.engine]),
        count_of(len(both), "settings"), count_of((both.ratio > 1).sum(), "settings"),
        exact(int(row.batch)), exact(int(row.plan_gpus)), exact(row.weights_s * bandwidth, "B"),
        exact(row.weights_s_dense * bandwidth, "B"), exact(row.weights_s / row.weights_s_dense),
        median_of(there.bound_ratio, counted="servers"), median_of(there.ratio, counted="servers"),
        exact(int(alike.batch)), exact(alike.weights_s / alike.weights_s_dense),
        median_of(few.ratio, counted="servers"), exact(int(both.plan_gpus.max())), exact(read),
        exact(int(both.output_tokens.min())), exact(int(both.output_tokens.max())), first, last,
        exact(len(sparse.layers)), exact(len(dense.layers)),
    )  # fmt: skip


def _phases(served: Served) -> TwoPhases:
    answers, prompts = single(served), single(served, has_long_answers=False)
    if len(answers) < 2:
        return missing(TwoPhases)
    few, many, read = answers.iloc[0], answers.iloc[-1], prompts.iloc[0]
    peak = served.peak(few.device, "fp8")  # in which 8 bits are multiplied

    def mfu(row: Any, is_prompt: bool) -> Value:
        return exact(work_of(row, is_prompt).flop / (row.ttft_s if is_prompt else row.tpot_s) / peak, "%")

    return TwoPhases(
        Name(NAMES[few.model]), Name(short_name(few.device)), exact(int(read.input_tokens)), exact(int(few.batch)),
        exact(int(many.batch)), mfu(read, True), mfu(few, False), mfu(many, False),
    )  # fmt: skip


def _decode(served: Served) -> DecodeCalculation:
    rows = single(served)
    if len(rows) < 2:
        return missing(DecodeCalculation)
    few, many = rows.iloc[0], rows.iloc[-1]
    batch, (byte, request, tokens) = int(many.batch), paper_step(served)
    bandwidth, flop = served.bandwidth(few.device), 2 * decoder(few).active_parameters
    bound = (byte + batch * request) / bandwidth
    return DecodeCalculation(
        byte=exact(byte, "B"), bandwidth=exact(bandwidth, "B/s"), weights=exact(byte / bandwidth, "s"),
        tokens=exact(tokens), request=exact(request / bandwidth, "s"), batch=exact(batch),
        caches=exact(batch * request / bandwidth, "s"), bound=exact(bound, "s"), measured=exact(many.tpot_s, "s"),
        added=exact((many.tpot_s - few.tpot_s) / (many.batch - few.batch), "s"), balance=exact(round(byte / request)),
        ridge=exact(round(byte / bandwidth * served.peak(few.device, "fp8") / flop)),
        flop=exact(flop / served.peak(few.device, "fp8"), "s"),
        fit=exact((USABLE * served.memory[few.device] - byte) // request),
    )  # fmt: skip


def _bits(served: Served) -> FewerBits:
    both, gains = bit_pairs(served), product_gains(served, STEP_TOKENS)
    if both.empty:
        return missing(FewerBits)
    row: Any = both.iloc[0]
    ends = [both[both.plan_gpus == gpus] for gpus in (both.plan_gpus.min(), both.plan_gpus.max())]
    medians = [(exact(int(part.plan_gpus.iloc[0])), median_of(part.gain, counted="servers")) for part in ends]
    return FewerBits(
        Name(" and ".join(sorted({short_name(device) for device in both.device}))),
        exact(row.weights_s / row.weights_s_four), median_of(both.bound_s / both.bound_s_four, counted="servers"),
        *medians[0], *medians[1], exact(WIDE["k"]), exact(WIDE["n"]), exact(STEP_TOKENS),
        *extremes(gains.fp8), exact(FORMAT_BITS["bf16"] / FORMAT_BITS[FOUR]), *extremes(gains.fp4),
    )  # fmt: skip


def _kernels(served: Served) -> TimedKernels:
    half, attention = halves(served), decode_attention(served)
    if half.empty or attention.empty:
        return missing(TimedKernels)
    base, four = (matching(half, precision=each).set_index("device") for each in ("bf16", "fp4"))
    small, large = (
        matching(attention, size=size).groupby("gpu").bandwidth_share.median() for size in (SIZES[0], SIZES[2])
    )
    fastest = highest(attention, "bandwidth_share")
    is_beyond = fastest.bandwidth_share > 1
    return TimedKernels(
        *_tokens(base.tokens), _most(base.tokens), *_tokens(base.roof_tokens), *_tokens(four.tokens),
        _most(four.tokens), Name(" and ".join(four.index[four.tokens.isna()]) or None), *extremes(large, "%"),
        *extremes(small, "%"),
        exact(fastest.bandwidth_share if is_beyond else None, name=fastest.gpu if is_beyond else ""),
        exact(fastest.cache_byte if is_beyond else None, "B"),
    )  # fmt: skip


def _tokens(values: "pd.Series[float]") -> tuple[Value, Value]:
    low, high = extremes(values.dropna())
    whole = [each.number and ceil(each.number) for each in (low, high)]
    return exact(whole[0], name=low.name), exact(whole[1], name=high.name)


def _most(tokens: "pd.Series[float]") -> Value:
    return count_of((tokens == tokens.max()).sum(), "GPUs")


def _experts(served: Served) -> ReadExperts:
    times, both = layer_times(served).to_dict(), pairs(served)
    device = both.device.iloc[0] if len(both) else None
    first, many, more = (times.get((device, tokens)) for tokens in (1, MANY, 4 * MANY))
    if first is None or many is None or more is None:
        return missing(ReadExperts)
    eight, met = (round(distinct_experts(tokens, COUNT, ACTIVE)) for tokens in (8, MANY))
    return ReadExperts(
        exact(COUNT), exact(ACTIVE), exact(eight), exact(MANY), exact(met), Name(short_name(str(device))),
        exact(distinct_experts(MANY, COUNT, ACTIVE) / ACTIVE), exact(many / first), exact(4 * MANY),
        exact(more / many),
    )  # fmt: skip


def _curve(served: Served) -> OperatorCurve:
    rows = operator_rows(served)
    if rows.empty:
        return missing(OperatorCurve)
    rows = rows[rows.plan_gpus == rows.plan_gpus.max()]
    few, many = rows.iloc[0], rows.iloc[-1]
    return OperatorCurve(
        exact(int(few.plan_gpus)), exact(int(few.batch)), exact(int(many.batch)), exact(many.per_gpu / few.per_gpu),
        exact(many.tpot_s / few.tpot_s),
    )  # fmt: skip


def _problems(served: Served) -> TokenProblems:
    rows = single(served)
    if len(rows) < 2:
        return missing(TokenProblems)
    byte, request, _ = paper_step(served)
    few, many = rows.iloc[0], rows.iloc[-1]
    alike = of_lengths(example(served), has_long_answers=True)
    alike = alike[(alike.batch == few.batch) & (alike.plan_gpus > 1)]
    shared = next((exact(row.tpot_s / row.bound_s) for row in each(alike.tail(1))), exact(None))
    bound, longer = ((byte + times * many.batch * request) / served.bandwidth(many.device) for times in (1, 2))
    return TokenProblems(exact(longer, "s"), exact(longer / bound), exact(few.tpot_s / few.bound_s), shared)
