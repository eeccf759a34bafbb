"""A model of served tokens: a step is the sum of its kernels, of launches and of the engine's own time.

Each part of a step, by the model of kernels, has a coefficient, whose logarithm is a sum over levels: of all servers,
of an engine, of a class of chips, and of one source's servers of a model on a GPU, which no prediction uses.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from measure.predicting import kernels
from measure.predicting.kernels import CLASS, KernelModel, ServedChip
from measure.predicting.model import Effects
from measure.predicting.prediction_terms import Numbers
from measure.predicting.records import POOL
from measure.serving import step
from measure.serving.decoder import Decoder
from measure.serving.formats import INPUT_BIT
from measure.serving.kernels import distinct_experts
from measure.serving.plan import Plan
from measure.serving.step import Operation, Step

MS = 1e-3
FIRST, FURTHER = PHASES = "first token", "further token"
ENGINE = "engine"
LEVELS = POOL, ENGINE, CLASS
BATCHES = {"all": (1, 10**9), "1 to 8": (1, 8), "9 to 64": (9, 64), "65 and more": (65, 10**9)}  # of each data group
PARTS = PRODUCTS, ATTENTION, EXPERTS, COMMUNICATION, OTHER = (
    "products", "attention", "experts", "communication", "other kernels",
)  # fmt: skip
LAUNCHES, STEP, REQUESTS, PROMPTS, QUEUE = "launches", "step", "requests", "prompts", "queue"
TERMS = (*PARTS, LAUNCHES, STEP, REQUESTS, PROMPTS, QUEUE)
EXPECTED = np.array([{QUEUE: 0.1, LAUNCHES: 1.0}.get(term, 1.0) for term in TERMS])
CHECKS = {"GPU": "device", "family": "family", "engine": "engine"}  # the column of what a check leaves out
MOST_GPUS = 8  # of a collective that was timed


@dataclass(frozen=True)
class Load:
    """What a server does: so many requests in each copy of attention, with so many tokens read and generated."""

    decoder: Decoder
    plan: Plan
    chip: ServedChip
    engine: str
    requests: int
    input_tokens: int
    output_tokens: int
    reads_prompts: bool = True  # between the steps of decode, as a server with one kind of workers does


def group_key(operation: Operation) -> tuple[str, str, str]:
    """Return the kind of kernel, its formats as labels name them, and its part of a step."""
    stored = "bf16" if operation.stored == "fp16" else operation.stored
    if operation.kind == step.PRODUCT:
        return kernels.PRODUCTS, kernels.product_formats(operation.precision, stored), PRODUCTS
    if operation.kind in (step.ATTENTION, step.LATENT):
        is_decode = operation.shape["tokens"] == 1
        kinds = (kernels.DECODE, kernels.PREFILL) if operation.kind == step.ATTENTION else (
            kernels.LATENT_DECODE, kernels.LATENT_PREFILL,
        )  # fmt: skip
        return kinds[not is_decode], kernels.attention_formats("bf16", stored), ATTENTION
    if operation.kind == step.EXPERTS:
        return kernels.EXPERTS, kernels.product_formats(operation.precision, stored), EXPERTS
    if operation.kind == step.COLLECTIVE:
        return kernels.COLLECTIVES, operation.name.partition(" ")[0], COMMUNICATION
    return "", "", OTHER


def sizes(operation: Operation) -> dict[str, float]:
    """Return the sizes that the terms of an operation's kernel take."""
    shape, work = operation.shape, operation.work
    found = {"flop": work.flop, "cache_byte": work.cache_byte, "activation_byte": work.activation_byte}
    if operation.kind == step.PRODUCT:
        n = shape["n"] * shape["copies"]
        weight_bit = kernels.BYTE * work.weight_byte / (n * shape["k"])
        bits = {"weight_bit": weight_bit, "input_bit": INPUT_BIT[operation.precision]}
        return {"m": shape["m"], "n": n, "k": shape["k"]} | bits
    if operation.kind in (step.ATTENTION, step.LATENT):
        reach = shape.get("window", shape.get("most", np.inf))
        is_latent = operation.kind == step.LATENT
        return found | {
            "seen": min(shape["past"] + shape["tokens"], reach), "requests": shape["requests"],
            "tokens": shape["tokens"], "cached_tokens": shape["past"],
            "kv_heads": 1 if is_latent else shape["kv_heads"],
            "group": shape["heads"] / (1 if is_latent else shape["kv_heads"]),
            "head_size": shape["rank"] + shape["rotary"] if is_latent else shape["head_size"],
        }  # fmt: skip
    if operation.kind == step.EXPERTS:
        width = 3 * shape["hidden"] * shape["inner"] / shape["tensor"]
        distinct = distinct_experts(shape["tokens"], int(shape["count"]), int(shape["active"])) / shape["expert"]
        return {
            "routed": shape["tokens"] * shape["active"] / shape["expert"], "distinct": distinct, "matrices": 3.0,
            "hidden": shape["hidden"], "inner": shape["inner"] / shape["tensor"],
            "weight_bit": kernels.BYTE * work.weight_byte / (distinct * width),
        }  # fmt: skip
    return {"sent_byte": work.sent_byte, "gpus": shape.get("gpus", 1.0)}


def parts_of(found: Step, chip: ServedChip, engine: str, model: KernelModel) -> dict[str, float]:
    """Return the time (s) of each of ``PARTS`` of a step, and its number of kernels: a token passes all stages.

    Raises UserError if GPUs send each other something over a link that ``chips.csv`` does not have.
    """
    sums, groups = dict.fromkeys((*PARTS, LAUNCHES), 0.0), dict[tuple[str, str, str, str], list[Operation]]()
    for operation in (each for stage in found.stages for each in stage):
        sums[LAUNCHES] += operation.calls
        groups.setdefault((*group_key(operation), operation.precision), []).append(operation)
    for (kind, formats, part, precision), operations in groups.items():
        calls = np.array([each.calls for each in operations])
        rate = chip.flop_per_s[precision]
        if not kind:
            works = [(each.work.flop / rate, each.work.byte / chip.byte_per_s) for each in operations]
            sums[part] += float(np.max(works, axis=1) @ calls)
            continue
        rows = [sizes(each) for each in operations]
        of = {name: np.array([row[name] for row in rows], float) for name in rows[0]}
        ones = np.ones(len(rows))
        if kind == kernels.COLLECTIVES:
            of["link_byte_per_s"] = chip.known_link.byte_per_s * ones
            # Engines also call the collectives of a library
            times = model.times(kind, of, "", formats, chip.link_class, chip.known_link.name)
        else:
            of |= {"flop_per_s": rate * ones, "byte_per_s": chip.byte_per_s * ones}
            times = model.times(kind, of, engine, formats, chip.chip_class)
        sums[part] += float(times @ calls)
    return sums


def prompt_parts(load: Load, model: KernelModel) -> dict[str, float]:
    """Return the parts of a step that reads one prompt in each copy of attention."""
    found = step.prefill(load.decoder, load.plan, load.plan.data, load.input_tokens)
    return parts_of(found, load.chip, load.engine, model)


def decode_step(load: Load) -> Step:
    """Return the step that generates a token of each request when half of the answers are there."""
    context = min(load.input_tokens + load.output_tokens // 2, load.decoder.positions - 1)
    return step.decode(load.decoder, load.plan, load.requests * load.plan.data, context)


def terms(load: Load, read: Mapping[str, float], decode: Step, model: KernelModel) -> dict[str, dict[str, float]]:
    """Return the ``TERMS`` (s) of both phases of a server under load; a further token is one step of ``decode``.

    ``read`` has the parts of a prompt. A server with one kind of workers reads a prompt for each answer that ends,
    between the steps of decode: ``PROMPTS`` is their share of a step. The first token may wait for the prompts of all
    other requests: ``QUEUE``.
    """
    wrote = parts_of(decode, load.chip, load.engine, model)
    prompt_s, share = sum(read[part] for part in PARTS), load.requests / load.output_tokens if load.reads_prompts else 0
    own = {
        FIRST: (read, 1, 0.0, prompt_s * (load.requests - 1)),
        FURTHER: (wrote, load.requests, prompt_s * share, 0.0),
    }
    return {
        phase: {part: of[part] for part in PARTS} | {
            LAUNCHES: kernels.US * of[LAUNCHES], STEP: MS, REQUESTS: kernels.US * requests, PROMPTS: prompts_s,
            QUEUE: queue_s,
        }
        for phase, (of, requests, prompts_s, queue_s) in own.items()
    }  # fmt: skip


def least_s(load: Load, decode: Step) -> float:
    """Return the least time (s) of a step of decode: the bytes of weights and cache over the bandwidth."""
    works = decode.works()
    return sum(work.weight_byte + work.cache_byte for work in works) / load.chip.byte_per_s


def coefficients(effects: Effects, engine: str, chip_class: str) -> Numbers:
    """Return the coefficients ``(terms,)`` of an engine on a class of chips; of all where it was not fitted."""
    labels = (POOL, ""), (ENGINE, engine), (CLASS, chip_class)
    found: Numbers = EXPECTED * np.exp(sum(effects[label] for label in labels if label in effects))
    return found
