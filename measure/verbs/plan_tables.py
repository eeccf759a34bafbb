"""What ``measure plan`` prints: tables of plans, the memory and collectives of the best one, limits, and notes."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from measure.domain.values import latency, percent, plain, si
from measure.planning.inference import ServingCollective, ServingPlan
from measure.planning.likely import LikelyCalls
from measure.planning.limits import GroupLimit
from measure.planning.search import next_that_fits
from measure.planning.training import PlannedCollective, TrainingPlan, TrainingSetup
from measure.predicting.links import Link
from measure.serving.decoder import Decoder, Experts
from measure.verbs.stored import stored_text
from measure.verbs.terminal import Line, Table

OF_NETWORK, MICRO_BATCHES = "of the network", "micro-batches"
SHOWN = 8  # plans; --json has all


class Heading(NamedTuple):
    """What all plans share: the GPUs and their links; ``network`` in B/s, ``is_node_unknown`` to the datasheets."""

    gpus: int
    chip: str
    link: Link
    network: float | None
    node_gpus: int
    is_node_unknown: bool

    @property
    def text(self) -> str:
        between = "" if self.network is None else f", {si(self.network, 'B/s')} between nodes"
        return f"{self.gpus} {self.chip} ({self.link.name}, {si(self.link.byte_per_s, 'B/s')} each way{between})"


def _fits(fits: bool | None) -> str:
    return {True: "yes", False: "no", None: "not known"}[fits]


TRAINING: dict[str, Callable[[TrainingPlan], str]] = {
    "plan": lambda row: row.layout.text,
    "recompute": lambda row: row.recompute,
    MICRO_BATCHES: lambda row: f"{row.micro_batches} of {row.micro_batch}",
    "memory a GPU": lambda row: si(row.memory.byte, "B"),
    "fits": lambda row: _fits(row.fits),
    "FLOP a GPU": lambda row: si(row.flop, "FLOP"),
    "sent a GPU": lambda row: si(row.sent_byte, "B"),
    "bubble": lambda row: percent(row.bubble) if row.bubble else "0",
    "least, added": lambda row: latency(row.serial_s),
    "least, overlapped": lambda row: latency(row.overlapped_s),
    "MFU at most": lambda row: f"{percent(row.serial_mfu)} to {percent(row.overlapped_mfu)}",
    "bound by": lambda row: row.bound,
}
SERVING: dict[str, Callable[[ServingPlan], str]] = {
    "plan": lambda row: row.text,
    MICRO_BATCHES: lambda row: str(row.micro_batches),
    "weights a GPU": lambda row: si(row.weight_byte, "B"),
    "with the cache": lambda row: si(row.held_byte, "B"),
    "fits": lambda row: _fits(row.fits),
    "requests that fit": lambda row: "not known" if row.most_requests is None else f"{row.most_requests:,}",
    "sent a step": lambda row: si(row.decode.sent_byte, "B"),
    "step, added": lambda row: latency(row.decode.serial_s),
    "step, overlapped": lambda row: latency(row.decode.overlapped_s),
    "tokens/s at most": lambda row: plain(row.requests / row.decode.overlapped_s),
    "bound by": lambda row: row.decode.bound,
    "prompt, added": lambda row: latency(row.prefill.serial_s),
    "prompt, overlapped": lambda row: latency(row.prefill.overlapped_s),
}
COLLECTIVES: dict[str, Callable[[PlannedCollective | ServingCollective], str]] = {
    "collective": lambda row: row.kind,
    "of": lambda row: row.name,
    "GPUs": lambda row: str(row.gpus),
    "links": lambda row: "between nodes" if row.is_between else "in a node",
    "calls": lambda row: f"{row.calls:,}",
    "message": lambda row: si(row.message_byte, "B"),
    "sent a GPU": lambda row: si(row.sent_byte, "B"),
    "least time": lambda row: latency(row.least_s),
}
LIMITS: dict[str, Callable[[GroupLimit], str]] = {
    "alone": lambda row: row.name,
    "GPUs at most": lambda row: f"{row.gpus:,}" + (" (a node)" if row.needs_network else ""),
    "closed form": lambda row: row.formula,
    "of the link": lambda row: row.numbers,
    OF_NETWORK: lambda row: "" if row.nodes is None else f"{_of_nodes(row.formula)} = {plain(row.nodes)}",
}


def _of_nodes(formula: str) -> str:
    """Return a closed form with the nodes and their network in place of the GPUs and their link."""
    return formula.replace("N", "n").replace("W", "V")


TEXTS = (  # the columns that are aligned to the left; all others are numbers
    "plan", "recompute", "fits", "bound by", "collective", "of", "links", "alone", "closed form", "of the link",
    OF_NETWORK, "part",
)  # fmt: skip


def _aligned(lines: Sequence[Line], table: Table) -> list[str]:
    return table(lines, [head for head in lines[0] if head not in TEXTS])


def _table(rows: Sequence[object], columns: dict[str, Callable[..., str]], table: Table) -> list[str]:
    return _aligned([tuple(columns), *(tuple(cell(row) for cell in columns.values()) for row in rows)], table)


def _collectives(
    rows: Sequence[PlannedCollective | ServingCollective], likely: Sequence[LikelyCalls], table: Table
) -> list[str]:
    """Return the table of collectives, with the likely times of those that were measured."""
    head, lines = tuple(COLLECTIVES), [tuple(cell(row) for cell in COLLECTIVES.values()) for row in rows]
    if any(each.likely_s is not None for each in likely):
        head = (*head, "likely time", "90 % interval")
        lines = [(*line, *_likely(each)) for line, each in zip(lines, likely, strict=True)]
    return _aligned([head, *lines], table)


def _likely(calls: LikelyCalls) -> tuple[str, str]:
    if calls.likely_s is None:
        return "", ""
    ends = [latency(end) for end in (calls.low_s, calls.high_s) if end is not None]
    return latency(calls.likely_s), " to ".join(ends) or "extrapolated"


def _limits(most: Sequence[GroupLimit], table: Table) -> list[str]:
    columns = dict(LIMITS)
    if all(each.nodes is None for each in most):
        del columns[OF_NETWORK]
    return _table(most, columns, table)


def _more(count: int) -> list[str]:
    return [f"and {count - SHOWN} more: --json has all"] if count > SHOWN else []


def training_lines(
    heading: Heading, setup: TrainingSetup, plans: Sequence[TrainingPlan], likely: Sequence[LikelyCalls],
    most: Sequence[GroupLimit], table: Table,
) -> list[str]:  # fmt: skip
    network, states, best = setup.network, setup.states, plans[0]
    inputs = f"{setup.batch:,} {network.inputs}" + (f" of {network.tokens:,} tokens" if network.tokens else "")
    texts = [network.name, f"{si(network.parameters, '').strip()} parameters", f"a training step of {inputs}"]
    memory = [("part", "bytes"), *((name, si(byte, "B")) for name, byte in vars(best.memory).items() if name != "byte")]
    memory.append(("most alive at once", si(best.memory.byte, "B")))
    lines = [", ".join([*texts, states.precision, heading.text]), ""]
    lines += [*_table(plans[:SHOWN], TRAINING, table), *_more(len(plans)), ""]
    lines += [f"The first plan, {best.layout.text}: what a GPU holds", "", *_aligned(memory, table), ""]
    if best.collectives:
        lines += ["What it sends in a step", "", *_collectives(best.collectives, likely, table), ""]
    lines += ["GPUs before communication takes longer than arithmetic", "", *_limits(most, table), ""]
    return [*lines, *_training_notes(heading, setup, best, most)]


def _training_notes(
    heading: Heading, setup: TrainingSetup, best: TrainingPlan, most: Sequence[GroupLimit]
) -> Iterator[str]:
    parts = {"arithmetic": best.arithmetic_s, "memory": best.memory_s, "communication": best.communication_s}
    times = " + ".join(f"{name} {latency(seconds)}" for name, seconds in parts.items())
    network = setup.network
    idle = f", and idle {percent(best.bubble)} of the micro-batches' time" if best.bubble else ""
    yield f"Its step: {times}{idle}. Added: {latency(best.serial_s)}. Overlapped: {latency(best.overlapped_s)}."
    if best.fits is False:
        larger = next_that_fits(setup, heading.gpus)
        remedy = f"{larger.gpus} GPUs would do: {larger.text}, recomputing" if larger else "use a GPU with more memory"
        yield f"No plan fits: {remedy}, or a shorter --context."
    yield "Less is alive at once than the sum of the parts: gradients come as activations go."
    states = setup.states
    yield f"A parameter takes {states.text} = {states.total} B. ZeRO 1 shards the optimiser's, 2 gradients too, 3 all."
    if states.update:
        yield f"torch's Adam takes {states.update} B more during the update, counted here; its fused=True does not."
    yield (
        "MFU = model FLOP of the step / (step time x GPUs x peak). "
        f"The model FLOP, {si(best.model_flop, 'FLOP')}, are a forward and a backward pass."
    )
    if network.tokens:
        yield "They count products, and scores that no mask hides. The backward pass has twice the forward FLOP."
    else:
        yield "The first layer needs no gradient of its input, so they are fewer than three forward passes."
    yield "What is computed again is FLOP of a GPU, not of the model."
    yield "C: model FLOP of the step. F: peak (FLOP/s). W, V: link and network of a GPU (B/s). P: parameters."
    yield "w, g: bytes of a weight, a gradient. S: bytes that tensor groups gather and scatter in a step."
    if network.tokens:
        yield (
            "With C = 6 P tokens, so without attention, communication bounds the step below "
            f"2 g F / (6 W) = {plain(_tokens(setup, 2 * states.gradient))} tokens a GPU (DDP),"
        )
        yield f"or (2 w + g) F / (6 W) = {plain(_tokens(setup, 2 * states.weight + states.gradient))} (FSDP)."
        if heading.network is not None:
            yield f"Between nodes, {heading.node_gpus} V stands for W where it is less."
    if any(each.gpus > setup.batch for each in most if each.is_data):
        yield f"Each data group needs an input of its own, and the batch has {setup.batch:,} {setup.network.inputs}."
    yield from _bounds(heading, is_limited=any(each.needs_network for each in most))


def _tokens(setup: TrainingSetup, byte: int) -> float:
    """Return the tokens of a GPU that compute for as long as it sends ``byte`` of each parameter."""
    return byte * setup.chip.flop_per_s / (6 * setup.fabric.link_byte_per_s)


def _bounds(heading: Heading, is_limited: bool) -> Iterator[str]:
    yield "Least times: arithmetic at the datasheet's peak, memory and links at its bandwidth, collectives by rings."
    yield "Likely times: those of NCCL's collectives in a node by what was measured, one after the other."
    yield "Plans that fit are sorted by the added time, then the others by memory."
    yield "Memory leaves out CUDA's context and the fragments of the allocator."
    if heading.is_node_unknown:
        yield f"How many {heading.chip} a node has is not known; it counts as {heading.node_gpus}."
    if heading.network is None and (heading.gpus > heading.node_gpus or is_limited):
        yield f"Links between nodes of {heading.node_gpus} need --network GB/s, each way and for each GPU."
    if heading.network is None and heading.gpus > heading.node_gpus:
        yield f"Without it {heading.link.name} stands for them, which is too fast; tensor groups stay within a node."


def serving_lines(
    heading: Heading, decoder: Decoder, context: int, plans: Sequence[ServingPlan], likely: Sequence[LikelyCalls],
    table: Table,
) -> list[str]:  # fmt: skip
    best = plans[0]
    texts = [decoder.name, stored_text(decoder)]
    texts += [f"{best.requests:,} requests of {context:,} tokens", heading.text]
    columns = dict(SERVING)
    if all(each.micro_batches == 1 for each in plans):
        del columns[MICRO_BATCHES]
    lines = [", ".join(texts), "", *_table(plans[:SHOWN], columns, table), *_more(len(plans)), ""]
    if best.collectives:
        lines += [f"The first plan, {best.text}: what a GPU sends in a step", ""]
        lines += [*_collectives(best.collectives, likely, table), ""]
    return [*lines, *_serving_notes(heading, decoder, best)]


def _serving_notes(heading: Heading, decoder: Decoder, best: ServingPlan) -> Iterator[str]:
    if best.fits is False:
        yield "No plan fits; use more GPUs, a smaller --batch, a shorter --context, or fewer bits (--weights, --cache)."
    yield "A step makes a token of each request; a prompt is one in each data group."
    if any(isinstance(layer.feed_forward, Experts) for layer in decoder.layers):
        yield "Experts are routed at random."
    yield from _bounds(heading, is_limited=False)
    yield "These are bounds. What predicts a served token, with an interval, is measure predict with --gpus."
