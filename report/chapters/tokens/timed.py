"""The kernels and servers that the chapter on tokens compares: its models, equal settings, and their frames."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from measure.serving.decoder import Decoder
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.served import PLAN, SERVER, Served, decoder_of, explained, settings, work_of

SPARSE, DENSE = PUZZLE = "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B"
EXAMPLE = "meta-llama/Llama-3.1-70B"  # it is served on one GPU and on several
NAMES = {SPARSE: "Qwen3-235B-A22B", DENSE: "Qwen3-32B", EXAMPLE: "Llama-3.1-70B"}
ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}

EIGHT, FOUR = ("fp8", "fp8_block"), "nvfp4"  # formats of weights
NATIVE = {"bf16": "bf16", "fp8": "fp8", "fp4": FOUR}  # the formats that are multiplied as they are stored, by precision
WIDE = {"n": 16384, "k": 4096}  # outputs and inputs of the products that are compared
HALF = 0.5  # of the peak

LEAST, SMALL, LARGE = 1e6, 1e7, 5e8  # bytes of caches that are looked at; of a large one, which no chip holds
SIZES = ("1 to 10 MB", "10 to 500 MB", "from 0.5 GB")

COUNT, ACTIVE = 128, 8  # the experts of a layer of the mixture, and those of a token
LAYER = {"weights": "fp8_block", "experts": COUNT, "top_k": ACTIVE, "hidden": 4096, "inner": 1536, "matrices": 3}
WHOLE = {"tensor_parallel": 1, "expert_parallel": 1}

FEW = 4  # requests, with which a prompt hardly waits for others
UNLIKE = 4  # times the tokens of a prompt for each of the answer
SETTING = ["device", "engine", "software", "plan_gpus", "batch", "input_tokens", "output_tokens"]


@cache
def pairs(served: Served) -> pd.DataFrame:
    """Return the common settings of the puzzle's models on the device and version of an engine with most of them."""
    rows = explained(served)
    sparse, dense = (rows[rows.model == model] for model in PUZZLE)
    both = sparse.merge(dense, on=SETTING, suffixes=("", "_dense"))
    return max((found for _, found in both.groupby(SETTING[:3])), key=len, default=both)


@cache
def example(served: Served) -> pd.DataFrame:
    """Return the example's servers at 8 bits on one device and engine, by GPUs and batch; empty if none has one GPU.

    They are those with most servers of one GPU, of several those with the fastest memory.
    """
    rows = explained(served)
    rows = rows[(rows.model == EXAMPLE) & rows.weights.isin(EIGHT)].sort_values(["plan_gpus", "batch"])
    alone = [found for _, found in rows[rows.plan_gpus == 1].groupby(["device", "engine"])]
    if not alone:
        return rows[:0]
    most = max(alone, key=lambda found: (len(found), served.bandwidth(found.device.iloc[0]))).iloc[0]
    return matching(rows, device=most.device, engine=most.engine)


def of_lengths(rows: pd.DataFrame, has_long_answers: bool) -> pd.DataFrame:
    """Keep the longest answers for their prompts, or the longest prompts for their answers."""
    ratio = rows.output_tokens / rows.input_tokens
    return rows[ratio == (ratio.max() if has_long_answers else ratio.min())]


def single(served: Served, has_long_answers: bool = True) -> pd.DataFrame:
    """Return the example's servers on one GPU by batch."""
    return of_lengths(matching(example(served), plan_gpus=1), has_long_answers)


def decoder(row: Any) -> Decoder:
    """Return the counts of an explained server's model."""
    found = decoder_of(row.model, row.weights)
    assert found is not None
    return found


def paper_step(served: Served) -> tuple[float, float, int]:
    """Return the bytes of the weights that a step on one GPU reads, those of a request's cache, and its tokens."""
    row: Any = single(served).iloc[0]
    work = work_of(row, is_prompt=False)
    return work.weight_byte, work.cache_byte / row.batch, int(row.input_tokens + row.output_tokens // 2)


def bit_pairs(served: Served) -> pd.DataFrame:
    """Return the example's servers in equal settings with weights of 8 and 4 bits; ``gain`` is the ratio of times."""
    rows = explained(served)
    rows = rows[rows.model == EXAMPLE]
    keys = [name for name in SETTING if name != "software"]
    both = rows[rows.weights.isin(EIGHT)].merge(rows[rows.weights == FOUR], on=keys, suffixes=("", "_four"))
    return both.assign(gain=both.tpot_s / both.tpot_s_four)


def wide_products(served: Served) -> pd.DataFrame:
    """Return the wide products by the fastest kernel: ``device``, ``precision``, ``m``."""
    rows = matching(served.products, **WIDE)
    rows = rows[rows.weights == rows.precision.map(NATIVE)]
    return rows.sort_values("latency_s", kind="stable").drop_duplicates(["device", "precision", "m"])


def product_gains(served: Served, tokens: int) -> pd.DataFrame:
    """Return each GPU's time of a wide product at 16 bits over that at ``fp8`` and ``fp4``.

    Products that are faster than the memory take their weights from a cache, and are left out.
    """
    made = served.products
    made = made[~(made.byte / made.latency_s > made.device.map(served.bandwidth))]
    rows = matching(wide_products(replace(served, products=made)), m=tokens)
    rows = rows.pivot(index="device", columns="precision", values="latency_s")
    rows = rows.reindex(columns=[*NATIVE])
    return rows[["fp8", "fp4"]].rdiv(rows.bf16, axis=0).rename(short_name)


def halves(served: Served) -> pd.DataFrame:
    """Return by ``device`` and ``precision`` the fewest tokens with half of the peak in a wide product.

    ``tokens`` is the least size that was timed with it, NaN if none reaches it; ``share`` is the best of all sizes.
    ``roof_tokens`` is by the datasheet's roofline, of any size.
    """
    found = []
    for (device, precision), rows in wide_products(served).dropna(subset="peak_share").groupby(["device", "precision"]):
        ridge = served.peak(str(device), str(precision)) / served.bandwidth(str(device))
        ends = (rows.m[rows.peak_share >= HALF].min(), _roof_tokens(rows, ridge), rows.peak_share.max())
        found.append((short_name(str(device)), precision, *map(float, ends)))
    return pd.DataFrame(found, columns=["device", "precision", "tokens", "roof_tokens", "share"])


def _roof_tokens(rows: pd.DataFrame, ridge: float) -> float:
    """Return the tokens of a product with half of the ridge's intensity (FLOP/B), NaN if none has it.

    With ``m`` tokens it moves its weights and ``m`` times a token's inputs and results.
    """
    flop = 2 * WIDE["n"] * WIDE["k"]
    byte, weight_byte = np.polyfit(rows.m.astype(float), rows.byte, 1) if len(rows) > 1 else (np.nan, np.nan)
    beyond = flop - HALF * ridge * byte  # a token's FLOP less those of its bytes
    return HALF * ridge * weight_byte / beyond if beyond > 0 else np.nan


def decode_attention(served: Served) -> pd.DataFrame:
    """Return attention in decode over whole caches, with ``size``: small, middle or large caches."""
    rows = served.attention
    is_whole = (rows.phase == "decode") & rows.window.isna() & (rows.cache_byte >= LEAST)
    rows = rows[is_whole].dropna(subset="bandwidth_share")
    size = np.select([rows.cache_byte <= SMALL, rows.cache_byte >= LARGE], SIZES[::2], SIZES[1])
    return rows.assign(size=size, gpu=rows.device.map(short_name))


def layer_times(served: Served) -> "pd.Series[float]":
    """Return the times of the mixture's experts of a layer on one GPU: the fastest kernel's by device and tokens."""
    setting: Mapping[str, Any] = LAYER | WHOLE
    return matching(served.experts, **setting).groupby(["device", "tokens"]).latency_s.min()


@cache
def prompt_pairs(served: Served) -> pd.DataFrame:
    """Return servers with long prompts beside those with long answers, in settings that are otherwise equal.

    ``added_s`` is by how much longer a token takes them, without its cache; ``prompts_s`` the part of it that prompts
    would take if each took the TTFT with few requests (at most ``FEW``).
    """
    rows = settings(served).sort_values("batch", kind="stable")
    groups = rows.groupby([*SERVER, *PLAN, "input_tokens", "output_tokens"], dropna=False)
    alone_s = groups.ttft_s.transform("first").where(groups.batch.transform("first") <= FEW)
    rows = rows.assign(
        added_s=rows.tpot_s - rows.cache_s, prompts_s=rows.batch * alone_s / rows.output_tokens,
        ratio=rows.input_tokens / rows.output_tokens,
    ).dropna(subset="prompts_s").sort_values("ratio", kind="stable")  # fmt: skip
    equal = rows.groupby([*SERVER, *PLAN, "batch"], dropna=False)[["ratio", "added_s", "prompts_s"]]
    short, long = equal.first(), equal.last()
    return (long - short)[long.ratio >= UNLIKE * short.ratio].reset_index()


def operator_rows(served: Served) -> pd.DataFrame:
    """Return the example's servers with lengths nearest to each other: ``per_gpu`` and ``per_user`` tokens a second.

    Those of a GPU are tokens of answers over the whole time of a request.
    """
    rows = example(served)
    unlike = abs(np.log(rows.output_tokens / rows.input_tokens))
    rows = rows[unlike == unlike.min()]
    seconds = rows.ttft_s + (rows.output_tokens - 1) * rows.tpot_s
    requests = rows.batch * rows.data_parallel.fillna(1)
    per_gpu = requests * rows.output_tokens / seconds / rows.plan_gpus
    return rows.assign(per_gpu=per_gpu.astype(float), per_user=1 / rows.tpot_s)
