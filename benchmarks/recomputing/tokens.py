"""Facts of served language models, from ``data/published`` alone: configurations are counted here by hand."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from recomputing.counts import read_chips
from recomputing.statistics import Found, median_of

ASIDE = "NVIDIA B300 SXM"
LLAMA, SPARSE, DENSE = "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen3-32B"
STORED = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}  # bytes of a number in a cache
WEIGHT = {"bf16": 16, "fp8": 8, "nvfp4": 4.5}  # bits of a stored number, scales included
NATIVE = {"bf16": "bf16", "fp8": "fp8", "fp4": "nvfp4"}
USABLE = 0.9  # of a GPU's memory
ENDS = (1, 8)  # GPUs
BOARD = 8


def read_kernels(data: Path, name: str) -> pd.DataFrame:
    rows = pd.read_csv(data / "published" / "kernels" / f"{name}.csv")
    return rows[rows.device != ASIDE]


class Llama:
    """Llama-3.1-70B by its configuration: 8 bits for the layers' matrices, 16 for the vocabulary, 8 for the cache."""

    def __init__(self, data: Path) -> None:
        path = data / "published" / "configurations" / "meta-llama--Meta-Llama-3.1-70B_config.json"
        of = json.loads(path.read_text("utf-8"))
        size, inner, heads = of["hidden_size"], of["intermediate_size"], of["num_attention_heads"]
        keys, depth = of["num_key_value_heads"], of["num_hidden_layers"]
        head = size // heads
        self.layers = depth
        self.matrices = depth * (size * head * (heads + 2 * keys) + heads * head * size + 3 * size * inner)
        self.vocabulary = of["vocab_size"] * size
        self.norms = (2 * depth + 1) * size
        self.cache_byte = depth * 2 * keys * head  # of a token
        self.score_flop = 4 * depth * heads * head  # of a pair of tokens
        self.read_byte = self.matrices + 2 * self.vocabulary  # of a step

    def all_byte(self, bits: float) -> float:
        """The bytes of all parameters: embedding, vocabulary and norms have 16 bits."""
        return self.matrices * bits / 8 + 2 * (2 * self.vocabulary + self.norms)

    def token_flop(self, seen: int) -> float:
        return 2 * (self.matrices + self.vocabulary) + self.score_flop * seen

    def prompt_flop(self, tokens: int) -> float:
        return tokens * 2 * self.matrices + 2 * self.vocabulary + self.score_flop * tokens * (tokens + 1) / 2


def read_servers(data: Path, chips: pd.DataFrame) -> pd.DataFrame:
    """Return the aggregated servers of the three models with a stated format, on GPUs of one board."""
    rows = pd.read_csv(data / "published" / "servers.csv", low_memory=False)
    rows = rows[(rows["mode"] == "aggregated") & (rows.device != ASIDE) & rows.weights.notna() & rows.batch.notna()]
    rows = rows[rows.model.isin([LLAMA, SPARSE, DENSE]) & (rows.unfinished != "yes")]
    shares = ["tensor_parallel", "pipeline_parallel", "data_parallel"]
    rows = rows.assign(group=rows[shares].fillna(1).prod(axis=1))
    rows["bandwidth"] = rows.device.map(chips.groupby("chip").bandwidth_byte_per_s.max())
    rows["peak"] = rows.device.map(chips[chips.precision == "fp8"].groupby("chip").peak_flop_per_s.max())
    rows["memory"] = rows.device.map(chips.groupby("chip").memory_byte.max())
    return rows[rows.group <= BOARD]


def facts(data: Path) -> dict[str, Found]:
    chips = read_chips(data)
    servers = read_servers(data, chips)
    found = puzzle(servers)
    found |= kernels(data, chips)
    found |= served(data, Llama(data), servers)
    return {f"tokens.{key}": value for key, value in found.items()}


def puzzle(servers: pd.DataFrame) -> dict[str, Found]:
    keys = ["device", "engine", "software", "group", "batch", "input_tokens", "output_tokens"]
    both = servers[servers.model == SPARSE].merge(servers[servers.model == DENSE], on=keys, suffixes=("", "_dense"))
    both = max((rows for _, rows in both.groupby(keys[:3])), key=len)
    ratio = both.tpot_s / both.tpot_s_dense
    there = (both.group == both.group.min()) & (both.batch == both.batch.max())
    return {
        "puzzle.settings": Found(len(both)), "puzzle.slower": Found(int((ratio > 1).sum())),
        "puzzle.batch": Found(int(both.batch.max())), "puzzle.gpus": Found(int(both.group.min())),
        "puzzle.time_ratio": median_of(ratio[there]),
    }  # fmt: skip


def served(data: Path, llama: Llama, servers: pd.DataFrame) -> dict[str, Found]:
    rows = servers[servers.model == LLAMA]
    seen = rows.input_tokens + rows.output_tokens // 2
    kept = rows.batch * llama.cache_byte * seen
    held = np.where(rows.weights == "nvfp4", llama.all_byte(4.5), llama.all_byte(8))
    rows = rows[held + kept <= USABLE * rows.memory * rows.group]
    eight, four = rows[rows.weights == "fp8"], rows[rows.weights == "nvfp4"]
    keys = ["device", "engine", "group", "batch", "input_tokens", "output_tokens"]
    gain = eight.merge(four, on=keys, suffixes=("", "_four"))
    gain["ratio"] = gain.tpot_s / gain.tpot_s_four
    found = {"bits.promised": Found(llama.read_byte / (llama.matrices * 4.5 / 8 + 2 * llama.vocabulary))}
    for name, gpus in zip(("first", "last"), ENDS, strict=True):
        found[f"bits.{name}"] = median_of(gain.ratio[gain.group == gpus])
    single = eight[eight.group == 1]
    place = max(single.groupby(["device", "engine"]), key=lambda group: (len(group[1]), group[1].bandwidth.iloc[0]))[0]
    eight = eight[(eight.device == place[0]) & (eight.engine == place[1])].sort_values(["group", "batch"])
    length = eight.output_tokens / eight.input_tokens
    answers, prompts = eight[length == length.max()], eight[length == length.min()]
    alone, read = answers[answers.group == 1], prompts[prompts.group == 1]
    few, many, first = alone.iloc[0], alone.iloc[-1], read.iloc[0]
    tokens = int(few.input_tokens + few.output_tokens // 2)
    request = llama.cache_byte * (tokens + 2)  # it reads itself, and is written

    def mfu(row: pd.Series) -> Found:
        return Found(row.batch * llama.token_flop(tokens + 1) / row.tpot_s / row.peak)

    found |= {
        "phases.prefill_mfu": Found(llama.prompt_flop(int(first.input_tokens)) / first.ttft_s / first.peak),
        "phases.few_mfu": mfu(few), "phases.many_mfu": mfu(many), "decode.byte": Found(llama.read_byte),
        "decode.weights": Found(llama.read_byte / few.bandwidth), "decode.request": Found(request / few.bandwidth),
        "decode.caches": Found(many.batch * request / few.bandwidth), "decode.measured": Found(many.tpot_s),
        "decode.bound": Found((llama.read_byte + many.batch * request) / few.bandwidth),
        "decode.added": Found((many.tpot_s - few.tpot_s) / (many.batch - few.batch)),
        "decode.balance": Found(round(llama.read_byte / request)),
        "decode.fit": Found((USABLE * few.memory - llama.read_byte) // request),
        "problems.longer": Found((llama.read_byte + 2 * many.batch * request) / few.bandwidth),
        "problems.best": Found(few.tpot_s * few.bandwidth / (llama.read_byte + few.batch * request)),
    }  # fmt: skip
    shared = answers[(answers.group == BOARD) & (answers.batch == few.batch)].iloc[0]
    products, attention = read_kernels(data, "products"), read_kernels(data, "attention")
    shortest = products[(products.device == few.device) & (products.weights == few.weights)].latency_s.min()
    decoding = attention[(attention.device == few.device) & (attention.phase == "decode")].latency_s.min()
    common = sorted(set(alone.batch) & set(read.batch))[-1]
    long, short_ = (rows[rows.batch == common].iloc[0] for rows in (read, alone))
    bound = (llama.read_byte + few.batch * request) / few.bandwidth
    found |= {
        "parts.divided.bound_alone": Found(bound), "parts.divided.rest_alone": Found(few.tpot_s - bound),
        "parts.divided.rest": Found(shared.tpot_s - bound / BOARD), "parts.divided.measured": Found(shared.tpot_s),
        "parts.divided.product": Found(shortest), "parts.divided.attention": Found(decoding),
        "parts.divided.floor": Found(llama.layers * (4 * shortest + decoding)),
        "parts.divided.weights": Found(llama.read_byte / BOARD / few.bandwidth),
        "parts.prompts.added": Found(long.tpot_s - short_.tpot_s),
        "parts.prompts.alone": Found(common * first.ttft_s / long.output_tokens),
    }  # fmt: skip
    even = eight[np.abs(np.log(length)) == np.abs(np.log(length)).min()]
    ends = even[even.group == even.group.max()]
    rate = ends.batch * ends.output_tokens / (ends.ttft_s + (ends.output_tokens - 1) * ends.tpot_s)
    return found | {
        "curve.throughput": Found(rate.iloc[-1] / rate.iloc[0]),
        "curve.slower": Found(ends.tpot_s.iloc[-1] / ends.tpot_s.iloc[0]),
    }


def kernels(data: Path, chips: pd.DataFrame) -> dict[str, Found]:
    rows = read_kernels(data, "products")
    wide = rows[(rows.n == 16384) & (rows.k == 4096) & (rows.weights == rows.precision.map(NATIVE))]
    best = wide.groupby(["device", "precision", "m"]).latency_s.min()
    # Those that beat the memory read their weights in a cache
    stored = wide.precision.map(WEIGHT | {"fp4": WEIGHT["nvfp4"]}) / 8
    byte = (wide.n + wide.m) * wide.k * stored + 2 * wide.m * wide.n
    is_read = byte / wide.latency_s <= wide.device.map(chips.groupby("chip").bandwidth_byte_per_s.max())
    step = wide[is_read & (wide.m == 16)].groupby(["device", "precision"]).latency_s.min().unstack()
    gains = {precision: (step.bf16 / step[precision]).dropna() for precision in ("fp8", "fp4")}
    found = {"bits.four_promised": Found(WEIGHT["bf16"] / WEIGHT["nvfp4"])}
    for name, gain in zip(("eight", "four"), gains.values(), strict=True):
        found |= {f"bits.{name}_least": Found(gain.min()), f"bits.{name}_most": Found(gain.max())}
    base = best.xs("bf16", level="precision").reset_index()
    bf16 = chips[chips.precision == "bf16"].groupby("chip")
    peak = base.device.map(bf16.peak_flop_per_s.max())
    bandwidth = base.device.map(bf16.bandwidth_byte_per_s.max())
    flop = 2.0 * base.m * 16384 * 4096
    tokens = base[flop / base.latency_s / peak >= 0.5].groupby("device").m.min()
    half = peak / bandwidth / 2  # FLOP/B; with m tokens a product has m n k / (n k + m (n + k))
    whole = np.ceil(half * 16384 * 4096 / (16384 * 4096 - half * (16384 + 4096)))
    for name, of in (("half", tokens), ("roof", whole)):
        found |= {f"kernels.{name}_least": Found(int(of.min())), f"kernels.{name}_most": Found(int(of.max()))}
    calls = read_kernels(data, "attention")
    calls = calls[(calls.phase == "decode") & calls.window.isna()]
    numbers = calls.batch * calls.kv_heads * (calls.head_size + calls.value_size) * (calls.cached_tokens + 1.0)
    calls = calls.assign(byte=numbers * calls.cache.map(STORED))
    calls["share"] = calls.byte / calls.latency_s / calls.device.map(chips.groupby("chip").bandwidth_byte_per_s.max())
    sizes = calls.byte >= 5e8, calls.byte.between(1e6, 1e7)
    large, small = (calls[chosen].groupby("device").share.median() for chosen in sizes)
    fastest = calls.loc[calls.share.idxmax()]
    experts = read_kernels(data, "experts")
    layer = {"weights": "fp8_block", "experts": 128, "top_k": 8, "hidden": 4096, "inner": 1536, "matrices": 3}
    layer |= {"tensor_parallel": 1, "expert_parallel": 1, "device": "NVIDIA H100 SXM"}
    for column, value in layer.items():
        experts = experts[experts[column] == value]
    times = experts.groupby("tokens").latency_s.min()
    return found | {
        "kernels.large_least": Found(large.min()), "kernels.large_most": Found(large.max()),
        "kernels.small_least": Found(small.min()), "kernels.small_most": Found(small.max()),
        "kernels.beyond": Found(fastest.share), "kernels.beyond_byte": Found(fastest.byte),
        "experts.promised": Found(128 * (1 - (15 / 16) ** 64) / 8), "experts.first": Found(times[64] / times[1]),
        "experts.second": Found(times[256] / times[64]),
    }  # fmt: skip
