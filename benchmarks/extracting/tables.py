"""The package's columns and words in ours: a function for each of our tables, from a data frame to a data frame.

Times of the package are in milliseconds. A row that has no place in the table gets a reason in the column ``refused``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from extracting.choice import version_order
from measure.published.kernels import (
    COLLECTIVES,
    TimedAttention,
    TimedCollective,
    TimedExperts,
    TimedLatentAttention,
    TimedProduct,
)  # fmt: skip

SOURCE = "aic"  # the package's key in the bibliography
DEVICES = {
    "a100_sxm": "NVIDIA A100 SXM 80GB", "h100_sxm": "NVIDIA H100 SXM", "h200_sxm": "NVIDIA H200 SXM",
    "b200_sxm": "NVIDIA B200 SXM", "b300_sxm": "NVIDIA B300 SXM", "gb200": "NVIDIA GB200 SXM",
    "gb300": "NVIDIA GB300 SXM", "l40s": "NVIDIA L40S", "rtx_pro_6000_server": "NVIDIA RTX PRO 6000 Blackwell Server",
    "b60": "Intel Arc Pro B60",
}  # fmt: skip
# Multiplicands and stored weights by the package's names of quantisations
QUANTISED = {
    "bfloat16": ("bf16", "bf16"), "fp8": ("fp8", "fp8"), "fp8_block": ("fp8", "fp8_block"), "nvfp4": ("fp4", "nvfp4"),
    "sq": ("int8", "int8"), "int8_wo": ("bf16", "int8"), "int4_wo": ("bf16", "int4"), "w4afp8": ("fp8", "int4"),
    "w4a16_mxfp4": ("bf16", "mxfp4"), "w4a8_mxfp4_mxfp8": ("fp8", "mxfp4"),
}  # fmt: skip
NUMBERS = {"bfloat16": "bf16", "half": "fp16", "fp8": "fp8", "int8": "int8"}  # formats of a cache or a message
# Nemotron's experts have no gate. TensorRT-LLM's kernels say so; these versions build them so, earlier ones with a
# gate: with three matrices they would be read faster than the memory
UNGATED_SINCE = {"vllm": "0.24.0", "sglang": "0.5.14"}
BYTES = {"bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}

MISLABELLED = "of a cache that is read 1.7 times as fast as the memory: its numbers are smaller than the source says"
OTHER_FOLDER = "of NCCL in the folder of another version, which repeat those in their own"
REPEATS = "of the same heads under another parallel share"


@dataclass(frozen=True)
class Extract:
    """How a table of ours comes from tables of the package."""

    files: tuple[str, ...]  # without ``_perf.parquet``
    convert: Callable[[pd.DataFrame, str], pd.DataFrame]  # from a file's rows and its name
    group: Sequence[str]  # of each only the newest version counts
    stratum: Sequence[str]  # each has a lattice of its own
    steps: Mapping[str, float]  # the lattice, see ``on_lattice``
    one_of: int
    one_of_powered: int  # likewise of tables with power
    always: Callable[[pd.DataFrame], pd.Series]  # marks the rows that are kept in any case


def common(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that all tables share: device, engine, software, kernel, latency and power.

    ``folder_device``, ``folder_engine`` and ``folder_version`` are where the package keeps the file.
    """
    return pd.DataFrame({
        "source": SOURCE,
        "device": rows.folder_device.map(DEVICES),
        "engine": rows.get("framework", rows.folder_engine).str.lower(),
        "software": rows.get("version", rows.folder_version),
        "kernel": rows.kernel_source,
        "latency_s": rows.latency / 1e3,
        "power_w": rows.get("power"),
        "power_limit_w": rows.get("power_limit"),
        "has_power": "power" in rows,
        "refused": "",
    })  # fmt: skip


def quantised(found: pd.DataFrame, names: pd.Series) -> pd.DataFrame:
    """Add the precision of the multiplicands and the stored format of the weights."""
    words = names.map(QUANTISED)
    found["precision"], found["weights"] = words.str[0], words.str[1]
    # Intel's GPU has no units for fp8: its products with fp8 weights stop at the peak of 16 bits
    found.loc[(found.device == DEVICES["b60"]) & (found.weights == "fp8"), "precision"] = "bf16"
    # SGLang's int8_wo also quantises the input: it exceeds the peak of 16 bits
    found.loc[(found.engine == "sglang") & (found.weights == "int8"), "precision"] = "int8"
    return found


def products(rows: pd.DataFrame, _file: str) -> pd.DataFrame:
    return quantised(common(rows).assign(m=rows.m, n=rows.n, k=rows.k), rows.gemm_dtype)


def phase(file: str) -> str:
    return "decode" if "generation" in file else "prefill"


def attention(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    found = common(rows).assign(
        phase=phase(file), precision=rows.attn_dtype.map(NUMBERS), cache=rows.kv_cache_dtype.map(NUMBERS),
        batch=rows.batch_size, tokens=rows.isl, cached_tokens=rows.step, heads=rows.num_heads,
        kv_heads=rows.num_key_value_heads, head_size=rows.head_dim, value_size=rows.head_dim,
        group=rows.num_heads / rows.num_key_value_heads, seen=rows.get("window_size", 0),
    )  # fmt: skip
    found["window"] = found.seen.where(found.seen > 0)
    # SGLang's heads of 192 numbers are a model's whose values have 128: else they would be read faster than the memory
    found.loc[(found.engine == "sglang") & (found.head_size == 192), "value_size"] = 128
    wrong = (found.device == DEVICES["a100_sxm"]) & (found.engine == "trtllm") & (found.phase == "decode")
    return found.assign(refused=found.refused.where(~wrong, MISLABELLED))


def latent_attention(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    module = "module" in file
    found = common(rows).assign(
        scope="module" if module else "attention", phase=phase(file), precision=rows.mla_dtype.map(NUMBERS),
        cache=rows.kv_cache_dtype.map(NUMBERS), weights=rows.gemm_type.map(QUANTISED).str[1] if module else None,
        batch=rows.batch_size, tokens=rows.isl, cached_tokens=rows.step, heads=rows.num_heads,
    )  # fmt: skip
    sizes = ["kernel", "precision", "cache", "weights", "batch", "tokens", "cached_tokens", "heads"]
    return found.assign(refused=found.refused.where(~found.duplicated(sizes), REPEATS))


def experts(rows: pd.DataFrame, _file: str) -> pd.DataFrame:
    found = common(rows).assign(
        tokens=rows.num_tokens, hidden=rows.hidden_size, inner=rows.inter_size, experts=rows.num_experts,
        top_k=rows.topk, tensor_parallel=rows.moe_tp_size, expert_parallel=rows.moe_ep_size,
        matrices=3, distribution=rows.distribution,
    )  # fmt: skip
    has_no_gate = (found.top_k == 22) | (found.hidden == 2688) & (found.inner == 1856)
    releases = pd.Series([*zip(found.engine, found.software, strict=True)], found.index)
    ungated = [
        (engine, version)
        for engine, version in releases.unique()
        if engine in UNGATED_SINCE and version_order(version) >= version_order(UNGATED_SINCE[engine])
    ]
    as_the_model = releases.isin(ungated)
    found.loc[found.kernel.str.contains("nongated") | has_no_gate & as_the_model, "matrices"] = 2
    return quantised(found, rows.moe_dtype)


def collectives(rows: pd.DataFrame, file: str) -> pd.DataFrame:
    """Sizes of messages are numbers of elements in the package: its collector divides nccl-tests' bytes by theirs."""
    library = {"nccl": "nccl", "oneccl": "oneccl"}.get(file)
    found = common(rows)
    found["precision"] = rows["allreduce_dtype" if library is None else "nccl_dtype"].map(NUMBERS)
    found["message_byte"] = rows.message_size * found.precision.map(BYTES)
    found["gpus"], found["collective"] = rows.num_gpus, rows.op_name.where(rows.op_name.isin(COLLECTIVES), "all_reduce")
    if library:
        found["engine"] = library
        own = [said.startswith(folder) for said, folder in zip(found.software, rows.folder_version, strict=True)]
        found["refused"] = found.refused.where(own, OTHER_FOLDER)
    return found


def fastest(rows: pd.DataFrame, work: pd.Series, by: Sequence[str]) -> pd.Series:
    """Mark the row with the highest rate of each group, and so at least one: a sustained peak comes from it."""
    rate = work / rows.latency_s
    return pd.Series(rows.index.isin(rate.groupby([rows[name].fillna("") for name in by]).idxmax()), rows.index)


def is_power(numbers: pd.Series, of: int) -> pd.Series:
    return numbers.isin([of**power for power in range(32)])


CURVES = ((4096, 4096), (16384, 4096))  # outputs and inputs of products that are kept for every power of two of rows


def product_curves(rows: pd.DataFrame) -> pd.Series:
    on_curve = pd.Series([*zip(rows.n, rows.k, strict=True)], rows.index).isin(CURVES) & is_power(rows.m, 2)
    return on_curve | fastest(rows, 2.0 * rows.m * rows.n * rows.k, [*FORMAT, "kernel"])


def attention_fastest(rows: pd.DataFrame) -> pd.Series:
    """Mark the call that computes most, or in decode reads most, in a second."""
    seen = rows.tokens + rows.cached_tokens
    work = rows.batch * rows.kv_heads * (rows.head_size + rows.value_size) * seen
    work = work.where(rows.phase == "decode", work * rows.group * rows.tokens)
    return fastest(rows, work.where(rows.seen == 0, 0), ["device", "kernel", "phase", "precision", "cache"])


# Hidden and inner size, experts and experts a token of models that the servers run: MiniMax-M2.5, Qwen3.5-397B,
# Qwen3-235B, DeepSeek-V3, Kimi-K2.5, GLM-5, gpt-oss-120b
SERVED = (
    (3072, 1536, 256, 8), (4096, 1024, 512, 10), (4096, 1536, 128, 8), (7168, 2048, 256, 8), (7168, 2048, 384, 8),
    (6144, 2048, 256, 8), (2880, 2880, 128, 4),
)  # fmt: skip
PLANS = ((1, 1), (8, 1), (1, 8))  # tensor and expert parallel


def expert_curves(rows: pd.DataFrame) -> pd.Series:
    shapes = pd.Series([*zip(rows.hidden, rows.inner, rows.experts, rows.top_k, strict=True)], rows.index)
    plans = pd.Series([*zip(rows.tensor_parallel, rows.expert_parallel, strict=True)], rows.index)
    kept = shapes.isin(SERVED) & plans.isin(PLANS) & is_power(rows.tokens, 4) & (rows.distribution == "power_law_1.2")
    work = rows.tokens * rows.top_k * rows.hidden * rows.inner
    whole = work.where(plans.isin(PLANS[:1]), 0)
    return kept | fastest(rows, whole, [*FORMAT, "kernel", "distribution"])


def latent_fastest(rows: pd.DataFrame) -> pd.Series:
    work = rows.batch * rows.tokens * (rows.tokens + rows.cached_tokens) * rows.heads
    return fastest(rows, work, [*CACHED, "scope", "weights", "kernel"])


def every(rows: pd.DataFrame) -> pd.Series:
    return pd.Series(True, rows.index)


FORMAT = ["device", "engine", "precision", "weights"]
SHAPE = ["hidden", "inner", "experts", "top_k"]
CACHED = ["device", "engine", "phase", "precision", "cache"]
EXTRACTS: dict[type[Any], Extract] = {
    TimedProduct: Extract(
        ("gemm",), products, FORMAT, [*FORMAT, "kernel"], {"m": 1, "n": 0.5, "k": 0.5}, 19, 19, product_curves
    ),
    TimedAttention: Extract(
        ("context_attention", "generation_attention"), attention, [*CACHED, "has_power"],
        [*CACHED, "kernel", "has_power", "head_size", "seen"],
        {"batch": 1.5, "tokens": 1.5, "cached_tokens": 1.5, "kv_heads": 1.5, "group": 1.5}, 19, 5, attention_fastest,
    ),
    TimedLatentAttention: Extract(
        ("context_mla", "generation_mla", "mla_context_module", "mla_generation_module"), latent_attention,
        [*CACHED, "scope"], [*CACHED, "scope", "weights", "kernel"],
        {"batch": 1.5, "tokens": 1.5, "cached_tokens": 1.5, "heads": 1.5}, 11, 11, latent_fastest,
    ),
    TimedExperts: Extract(
        ("moe",), experts, [*FORMAT, "has_power", *SHAPE], [*FORMAT, "kernel", "has_power", "distribution"],
        {"tokens": 1.5, "hidden": 0.5, "inner": 0.5, "experts": 1, "tensor_parallel": 1, "expert_parallel": 1}, 97, 19,
        expert_curves,
    ),
    TimedCollective: Extract(
        ("nccl", "oneccl", "custom_allreduce"), collectives, ["device", "engine", "collective", "precision", "gpus"],
        ["device", "engine", "kernel", "collective", "precision"], {"gpus": 1, "message_byte": 1}, 1, 1, every,
    ),
}  # fmt: skip
