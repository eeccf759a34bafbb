"""Kernels and servers of language models that others timed, under counts of ours and roofs of datasheets.

What was set aside before the first fit (``measure.published.aside``) is in no frame.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.collectives import ALL_TO_ALL
from measure.domain.roofs import Roof
from measure.domain.schema import file_of
from measure.errors import UserError
from measure.published.aside import ASIDE_DEVICE, ASIDE_MODELS
from measure.published.kernels import FORMAT_BITS, TimedAttention, TimedCollective, TimedExperts, TimedProduct
from measure.published.servers import AGGREGATED, PublishedServer
from measure.serving import kernels, step
from measure.serving.decoder import Decoder
from measure.serving.formats import FORMATS
from measure.serving.kernels import KernelWork
from measure.serving.plan import Plan, check_plan, memories
from measure.serving.served import served_decoder
from measure.serving.step import Operation
from report.paper import curated
from report.paper.frames import compact, each, matching

BYTE = 8  # bits

COLLECTIVES = {ALL_TO_ALL: "alltoall"}
"""The published names of collectives, where they are not those of the counts."""


@dataclass(frozen=True, eq=False)
class Served:
    """The frames, with chips under their names. ``roofs`` and ``memory`` (bytes, NaN if unknown) are those of chips.

    ``products`` have ``flop``, ``flop_per_s``, ``byte`` (weights, inputs, results), ``peak_share`` of the datasheet's
    peak; ``attention`` has ``cache_byte`` that a call reads, ``byte_per_s`` and ``bandwidth_share``; ``experts`` have
    ``bit`` of a stored number.
    """

    products: pd.DataFrame
    attention: pd.DataFrame
    experts: pd.DataFrame
    collectives: pd.DataFrame
    servers: pd.DataFrame
    roofs: Mapping[str, Roof]
    memory: Mapping[str, float]

    def bandwidth(self, device: str) -> float:
        return bandwidth_of(self.roofs.get(device))

    def peak(self, device: str, precision: str) -> float:
        return peak_of(self.roofs.get(device), precision)


def read(kernel_tables: Path, server_table: Path, chips: pd.DataFrame, keys: frozenset[str]) -> Served:
    """Read the tables below the ``published`` of two data folders. Raises UserError as ``curated.read`` does."""
    chip_of = {name: rows[0].chip for name, rows in rows_by_name(each(chips)).items()}
    roofs = {str(chip): datasheet_roof(each(rows)) for chip, rows in chips.groupby("chip")}
    records = (TimedProduct, TimedAttention, TimedExperts, TimedCollective, PublishedServer)
    frames = []
    for record, folder in zip(records, [kernel_tables] * 4 + [server_table], strict=True):
        rows = curated.frame(file_of(record, folder), record, keys)
        rows["device"] = rows.device.map(lambda name: chip_of.get(fold_name(name), name))
        rows = rows[rows.device != ASIDE_DEVICE]
        frames.append(rows[~rows.model.isin(ASIDE_MODELS)] if "model" in rows else rows)
    products, attention, experts, collectives, servers = frames
    experts = experts.assign(bit=experts.weights.map(FORMAT_BITS).astype(float))
    memory = {str(chip): float(size) for chip, size in chips.groupby("chip").memory_byte.max().items()}
    rated = _rated(products, roofs), _read_cache(attention, roofs)
    return Served(*rated, experts, collectives, servers, roofs, memory)


def peak_of(roof: Roof | None, *precisions: str) -> float:
    """Return the highest rate of these precisions; NaN if the datasheet has none."""
    found = [roof.flop_per_s[each] for each in precisions if each in roof.flop_per_s] if roof else []
    return max(found, default=np.nan)


def bandwidth_of(roof: Roof | None) -> float:
    return np.nan if roof is None or roof.byte_per_s is None else roof.byte_per_s


def _rated(rows: pd.DataFrame, roofs: Mapping[str, Roof]) -> pd.DataFrame:
    m, n, k = (rows[size].astype(float) for size in ("m", "n", "k"))
    stored = rows.weights.map(FORMAT_BITS).astype(float)
    taken = rows.precision.map({name: FORMATS[name].bit for name in FORMATS} | {"fp4": FORMATS["nvfp4"].bit})
    byte = (n * k * stored + m * k * taken.astype(float) + m * n * FORMATS["bf16"].bit) / BYTE
    peaks = {key: peak_of(roofs.get(key[0]), key[1]) for key in {*zip(rows.device, rows.precision, strict=True)}}
    peak = pd.Series([peaks[key] for key in zip(rows.device, rows.precision, strict=True)], rows.index, dtype=float)
    rate = 2 * m * n * k / rows.latency_s
    return compact(rows.assign(flop=2 * m * n * k, byte=byte, flop_per_s=rate, peak_share=rate / peak))


def _read_cache(rows: pd.DataFrame, roofs: Mapping[str, Roof]) -> pd.DataFrame:
    """Add the bytes of keys and values that a call reads: all that a token sees."""
    seen = (rows.cached_tokens + rows.tokens).astype(float)
    seen = seen.clip(upper=rows.window.astype(float).fillna(np.inf) + rows.tokens - 1)
    numbers = rows.batch * rows.kv_heads * (rows.head_size + rows.value_size).astype(float) * seen
    byte = numbers * rows.cache.map(FORMAT_BITS).astype(float) / BYTE
    rate = byte / rows.latency_s
    bandwidth = rows.device.map(lambda device: bandwidth_of(roofs.get(device))).astype(float)
    return compact(rows.assign(cache_byte=byte, byte_per_s=rate, bandwidth_share=rate / bandwidth))


@cache
def decoder_of(model: str, weights: str) -> Decoder | None:
    """Return the counts of a served model with its weights in this format; None for an unknown model."""
    try:
        return served_decoder(model, weights)
    except UserError:
        return None


def work_of(row: Any, is_prompt: bool) -> KernelWork:
    """Return the work of one GPU that holds a whole server: to read a prompt, or for a token of each request.

    The token comes after the prompt and half of the answer.
    """
    decoder = decoder_of(row.model, row.weights)
    assert decoder is not None
    if is_prompt:
        steps = step.prefill(decoder, Plan(), 1, int(row.input_tokens))
    else:
        steps = step.decode(decoder, Plan(), int(row.batch), int(row.input_tokens + row.output_tokens // 2))
    return kernels.total(steps.works())


def plan_of(row: Any) -> Plan:
    """Return the parallel plan of an aggregated server. Unknown sizes are 1."""
    sizes = (row.tensor_parallel, row.expert_parallel, row.data_parallel, row.pipeline_parallel)
    return Plan(*(int(size) if size == size and size else 1 for size in sizes))


@dataclass(frozen=True)
class TokenStep:
    """The work of a GPU for one request in each copy of attention: a token of it, and its share of a prompt.

    ``products``: FLOP and stored bytes of each, and precision. ``experts`` likewise, then the experts of the layer,
    those of a token, and the tokens that were counted. ``attention``: cache bytes, FLOP. ``messages``: collective,
    GPUs, bytes and calls.
    """

    products: tuple[tuple[float, float, str], ...]
    experts: tuple[tuple[float, float, str, int, int, int], ...]
    attention: tuple[tuple[float, float], ...]
    messages: tuple[tuple[str, int, float, int], ...]


@cache
def token_step(model: str, weights: str, plan: Plan, input_tokens: int, output_tokens: int) -> TokenStep | None:
    """Count a step of a busy server; None for an unknown model or a plan that it does not take.

    Each request is half-way through its answer. For each answer that ends, another prompt is read, so a token comes
    with ``input_tokens / output_tokens`` tokens of prompts.
    """
    decoder = decoder_of(model, weights)
    if decoder is None:
        return None
    try:
        check_plan(decoder, plan)
        token = _operations(decoder, plan, input_tokens + output_tokens // 2, is_prompt=False)
        prompt = _operations(decoder, plan, input_tokens, is_prompt=True)
    except UserError:
        return None
    rows = 1 + input_tokens / output_tokens
    of_prompt: dict[tuple[Any, ...], float] = {}
    for operation in prompt:
        key = _name_of(operation)
        of_prompt[key] = of_prompt.get(key, 0.0) + operation.work.flop * operation.calls / output_tokens
    products, experts, attention, messages = [], [], [], []
    for operation in token:
        work, shape = operation.work * operation.calls, operation.shape
        flop = work.flop + of_prompt.pop(_name_of(operation), 0.0)
        if operation.kind == step.PRODUCT:
            products.append((flop, work.weight_byte, operation.precision))
        elif operation.kind == step.EXPERTS:
            counts = int(shape["count"]), int(shape["active"]), int(shape["tokens"])
            experts.append((flop, work.weight_byte, operation.precision, *counts))
        elif operation.kind == step.COLLECTIVE:
            message = rows * shape["message_byte"]
            messages.append((operation.name.partition(" of ")[0], int(shape["gpus"]), message, operation.calls))
        else:
            attention.append((work.cache_byte, flop))
    attention.append((0.0, sum(of_prompt.values())))  # of what a token does in another way
    return TokenStep(tuple(products), tuple(experts), tuple(attention), tuple(messages))


@cache
def memory_of(model: str, weights: str, plan: Plan) -> tuple[float, float, float]:
    """Return the bytes of a GPU's weights, of a request there, and of each token that it keeps."""
    decoder = decoder_of(model, weights)
    assert decoder is not None
    (none,), (one,) = memories(decoder, plan, 0), memories(decoder, plan, 1)
    return none.weight_byte, none.request_byte, one.request_byte - none.request_byte


def _name_of(operation: Operation) -> tuple[Any, ...]:
    """Name an operation that a prompt and a token share: by its weights, or its window."""
    sizes = {name: size for name, size in operation.shape.items() if name in ("n", "k", "copies", "window")}
    return operation.kind, operation.name, operation.precision, operation.stored, *sizes.items()


def _operations(decoder: Decoder, plan: Plan, tokens: int, is_prompt: bool) -> tuple[Operation, ...]:
    """Return the operations of a GPU for a request of each copy of attention: a prompt, or a token after ``tokens``."""
    (stage,) = (step.prefill if is_prompt else step.decode)(decoder, plan, plan.data, tokens).stages
    return stage


Curves = Mapping[tuple[str, str, int], tuple[Any, ...]]
"""Logarithms of messages and times, by device, collective and GPUs."""


def collective_times(collectives: pd.DataFrame) -> Curves:
    """Return the shortest time of any library by message."""
    found = {}
    best = collectives.groupby(["device", "collective", "gpus", "message_byte"], as_index=False).latency_s.min()
    for (device, name, gpus), rows in best.groupby(["device", "collective", "gpus"]):
        ends = (np.log(rows[column].to_numpy(float)) for column in ("message_byte", "latency_s"))
        found[str(device), str(name), int(str(gpus))] = tuple(ends)
    return found


MEASUREMENT = ["device", "engine", "input_tokens", "output_tokens", "batch", "ttft_s", "tpot_s"]
"""What two rows share if one measurement has two names: DeepSeek-R1 and DeepSeek-V3 are one network."""

RACKS = ("NVIDIA GB200 SXM", "NVIDIA GB300 SXM")
RACK, MACHINE = 72, 8  # GPUs of an NVL72, of a board of the others
"""Some rows multiply the sizes of their plan twice: 64 GPUs on a board of eight."""

USABLE = 0.9  # of the memory, for weights and caches: vLLM's default, gpu_memory_utilization

PARTS = ("weights", "cache", "products", "communication")


@cache
def taken_apart(served: Served) -> pd.DataFrame:
    """Return the aggregated servers whose plan and formats are known, with the least times of a token's parts.

    ``weights_s`` and ``cache_s`` are bytes over the bandwidth, ``products_s`` the time by which FLOP at the peak exceed
    it, kernel by kernel, and ``bound_s`` their sum. ``communication_s`` is that of published collectives, NaN if one is
    not timed for so many GPUs. ``share`` is the bound over the measured time of a token. Activations are left out.
    Prompts are spread evenly over the steps, which asks for the least time; experts are those that the tokens alone
    meet, by random routing. ``left_out`` says why a row has no bound: empty if it has one.
    """
    servers = served.servers[served.servers["mode"] == AGGREGATED].drop_duplicates(MEASUREMENT)
    times = collective_times(served.collectives)
    found = [
        _parts(row, served.roofs.get(row.device), served.memory.get(row.device, np.nan), times) for row in each(servers)
    ]
    rows = pd.concat([servers, pd.DataFrame(found, servers.index, columns=COLUMNS)], axis=1)
    rows["bound_s"] = rows.weights_s + rows.cache_s + rows.products_s
    rows["share"] = rows.bound_s / rows.tpot_s
    rows["rest_s"] = rows.tpot_s - rows.bound_s - rows.communication_s
    rows["is_beaten"] = rows.share > 1
    return compact(rows)


@cache
def explained(served: Served) -> pd.DataFrame:
    """Return the servers whose bound is known and below the measured time."""
    rows = taken_apart(served)
    return rows[(rows.left_out == "") & ~rows.is_beaten].astype({"batch": float})


SERVER = ["source", "export", "model", "weights", "device", "engine", "software"]
PLAN = ["tensor_parallel", "expert_parallel", "data_parallel", "pipeline_parallel"]
REQUEST = ["batch", "input_tokens", "output_tokens"]
"""What is the same in one table of one engine; how it is divided among GPUs; what it is asked for."""


@cache
def settings(served: Served) -> pd.DataFrame:
    """Return the median of the explained servers of one table in each setting."""
    rows = explained(served).fillna(dict.fromkeys(PLAN, 1))
    times = ["tpot_s", "ttft_s", "bound_s", "cache_s", "communication_s"]
    return rows.groupby([*SERVER, *PLAN, "plan_gpus", *REQUEST], as_index=False, dropna=False)[times].median()


def of_groups(served: Served, few: int, many: int) -> pd.DataFrame:
    """Return settings on ``many`` GPUs beside those on a ``few``, which else are equal; these end in ``_few``."""
    rows = settings(served)
    at_many, at_few = (matching(rows, plan_gpus=gpus) for gpus in (many, few))
    return at_many.merge(at_few, on=[*SERVER, *REQUEST], suffixes=("", "_few"))


COLUMNS = [*(f"{part}_s" for part in PARTS), "plan_gpus", "left_out"]


def _parts(row: Any, roof: Roof | None, memory: float, times: Curves) -> list[Any]:
    nothing: list[Any] = [np.nan] * (len(COLUMNS) - 1)
    if not row.weights or row.batch != row.batch or row.unfinished == "yes" or roof is None:
        return [*nothing, "a format or a batch that is not stated, or work in progress"]
    plan = plan_of(row)
    if plan.gpus > (RACK if row.device in RACKS else MACHINE):
        return [*nothing, "a plan of more GPUs than such a machine has"]
    found = token_step(row.model, row.weights, plan, int(row.input_tokens), int(row.output_tokens))
    if found is None:
        return [*nothing, "a plan that the model does not take"]
    precisions = {precision for _, _, precision, *_ in (*found.products, *found.experts)}
    if not precisions <= roof.flop_per_s.keys():
        return [*nothing, "a datasheet without the rate"]
    batch, bandwidth = int(row.batch), bandwidth_of(roof)
    held, kept, a_token = memory_of(row.model, row.weights, plan)
    if held + batch * (kept + a_token * (row.input_tokens + row.output_tokens // 2)) > USABLE * memory:
        return [*nothing, "more requests than its memory holds"]
    weights_s = products_s = cache_s = 0.0
    products = list(found.products)
    for flop, byte, precision, count, active, counted in found.experts:
        tokens = counted * batch
        ratio = kernels.distinct_experts(tokens, count, active) / kernels.distinct_experts(counted, count, active)
        products.append((flop, byte * ratio, precision))
    for flop, byte, precision in products:
        weights_s += byte / bandwidth
        products_s += max(0.0, batch * flop / peak_of(roof, precision) - byte / bandwidth)
    for byte, flop in found.attention:
        cache_s += batch * byte / bandwidth
        products_s += max(0.0, batch * (flop / peak_of(roof, *ATTENDING) - byte / bandwidth))
    communication_s = sum(
        calls * _time_of(times.get((row.device, COLLECTIVES.get(name, name), gpus)), batch * byte)
        for name, gpus, byte, calls in found.messages
    )
    return [weights_s, cache_s, products_s, communication_s, plan.gpus, ""]


ATTENDING = ("fp8", "bf16")  # precisions in which attention may multiply


def _time_of(curve: tuple[Any, ...] | None, byte: float) -> float:
    return np.nan if curve is None else float(np.exp(np.interp(np.log(byte), *curve)))
