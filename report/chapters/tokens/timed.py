"""The kernels and servers that the chapter on tokens compares: its models, equal settings, and their frames."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from measure.serving.decoder import Decoder
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.served import Served, decoder_of, explained, work_of

SPARSE, DENSE = PUZZLE = "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B"
EXAMPLE = "meta-llama/Llama-3.1-70B"  # it is served on one GPU and on several
NAMES = {SPARSE: "Qwen3-235B-A22B", DENSE: "Qwen3-32B", EXAMPLE: "Llama-3.1-70B"}
ENGINES = {"trtllm": "TensorRT-LLM", "vllm": "vLLM", "sglang": "SGLang"}

EIGHT, FOUR = ("fp8", "fp8_block"), "nvfp4"  # formats of weights
NATIVE = {"bf16": "bf16", "fp8": "fp8", "fp4": FOUR}  # the formats that are multiplied as they are stored, by precision
WIDE = {"n": 16384, "k": 4096}  # outputs and inputs of the products that are compared
HALF = 0.5  # of the peak

SMALL, LARGE = 1e7, 5e8  # bytes of a small and of a large cache, which no chip holds
SIZES = ("at most 10 MB", "10 MB to 0.5 GB", "at least 0.5 GB")

COUNT, ACTIVE = 128, 8  # the experts of a layer of the mixture, and those of a token
LAYER = {"weights": "fp8_block", "experts": COUNT, "top_k": ACTIVE, "hidden": 4096, "inner": 1536, "matrices": 3}
WHOLE = {"tensor_parallel": 1, "expert_parallel": 1}

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
    """Return each GPU's time of a wide product at 16 bits over that at ``fp8`` and ``fp4``."""
    rows = matching(wide_products(served), m=tokens).pivot(index="device", columns="precision", values="latency_s")
    rows = rows.reindex(columns=[*NATIVE])
    return rows[["fp8", "fp4"]].rdiv(rows.bf16, axis=0).rename(short_name)


def halves(served: Served) -> pd.DataFrame:
    """Return by ``device`` and ``precision`` the fewest tokens with half of the peak in a wide product.

    ``tokens`` is NaN if none reaches it, ``roof_tokens`` is by the datasheet's roofline, ``share`` the best of all.
    """
    found = []
    for (device, precision), rows in wide_products(served).dropna(subset="peak_share").groupby(["device", "precision"]):
        bound = _bound_share(rows, served.bandwidth(str(device)), served.peak(str(device), str(precision)))
        reached = rows.m[rows.peak_share >= HALF].min()
        ends = (reached, rows.m[bound >= HALF].min(), rows.peak_share.max())
        found.append((short_name(str(device)), precision, *map(float, ends)))
    return pd.DataFrame(found, columns=["device", "precision", "tokens", "roof_tokens", "share"])


def _bound_share(rows: pd.DataFrame, byte_per_s: float, flop_per_s: float) -> "pd.Series[float]":
    """Return the share of the peak that the datasheet's roofline allows."""
    share: pd.Series[float] = rows.flop / rows.byte * byte_per_s / flop_per_s
    return share.clip(upper=1)


def decode_attention(served: Served) -> pd.DataFrame:
    """Return attention in decode over whole caches, with ``size``: small, middle or large caches."""
    rows = served.attention
    rows = rows[(rows.phase == "decode") & rows.window.isna()].dropna(subset="bandwidth_share")
    size = np.select([rows.cache_byte <= SMALL, rows.cache_byte >= LARGE], SIZES[::2], SIZES[1])
    return rows.assign(size=size, gpu=rows.device.map(short_name))


def layer_times(served: Served) -> "pd.Series[float]":
    """Return the times of the mixture's experts of a layer on one GPU: the fastest kernel's by device and tokens."""
    setting: Mapping[str, Any] = LAYER | WHOLE
    return matching(served.experts, **setting).groupby(["device", "tokens"]).latency_s.min()


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
