"""A step of a served decoder as the kernels of each GPU: the prefill of some prompts, or the decode of a token each.

The GPUs of a stage do the same work; a stage's list is that of its busiest one. A prefill scores the last token of
each prompt alone, as servers do. Routing is random: any experts of a layer are as likely as any others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND
from measure.serving import kernels
from measure.serving.decoder import (
    EXPERT_WEIGHTS,
    Decoder,
    DecoderLayer,
    Experts,
    GatedDelta,
    GroupedAttention,
    LatentAttention,
    Perceptron,
    StateSpace,
    Weight,
    count_layers,
)
from measure.serving.formats import FORMATS, Format
from measure.serving.kernels import KernelWork
from measure.serving.plan import Plan, check_context, check_plan, held_layer, stages

PRODUCT, ATTENTION, LATENT, INDEX = "product", "attention", "latent attention", "index scores"
EXPERTS, RECURRENCE, COLLECTIVE, OTHER = "experts", "recurrence", "collective", "other"


@dataclass(frozen=True)
class Operation:
    """A kernel of one GPU: ``calls`` in a step, each with ``work``. ``shape`` has the arguments of its function.

    ``stored`` is the format of its weights or cache; the products are at a ``precision`` of arithmetic.
    """

    kind: str
    name: str
    shape: Mapping[str, float]
    work: KernelWork = field(repr=False)
    precision: str
    stored: str
    calls: int = 1


@dataclass(frozen=True)
class Step:
    """The operations of one GPU of each stage, in running order, equal ones of several layers together."""

    stages: tuple[tuple[Operation, ...], ...]

    def works(self) -> list[KernelWork]:
        """Return the work of a GPU of each stage."""
        return [kernels.total(each.work * each.calls for each in stage) for stage in self.stages]


def prefill(decoder: Decoder, plan: Plan, prompts: int, length: int) -> Step:
    """Return the step that reads so many prompts of ``length`` tokens and scores the next token of each.

    Raises UserError for a plan or a length that the decoder does not take.
    """
    check_context(decoder, length)
    return _step(decoder, plan, prompts, length, 0)


def decode(decoder: Decoder, plan: Plan, requests: int, context: int) -> Step:
    """Return the step that scores one more token of each request, after ``context`` tokens in its cache.

    Raises UserError for a plan or a context that the decoder does not take.
    """
    check_context(decoder, context + 1, 1)
    return _step(decoder, plan, requests, 1, context)


def _step(decoder: Decoder, plan: Plan, requests: int, tokens: int, past: int) -> Step:
    check_plan(decoder, plan)
    gpu = _Gpu(decoder, plan, -(-requests // plan.data), tokens, past)
    found = []
    for number, layers in enumerate(stages(decoder, plan)):
        merged: dict[tuple[object, ...], Operation] = {}
        for each in gpu.stage(number, layers):
            key = each.kind, each.name, tuple(each.shape.items()), each.precision, each.stored
            merged[key] = replace(each, calls=merged[key].calls + each.calls) if key in merged else each
        found.append(tuple(merged.values()))
    return Step(tuple(found))


@dataclass(frozen=True)
class _Gpu:
    """A GPU of a data group with ``requests``, ``tokens`` new ones of each after ``past`` tokens in its cache."""

    decoder: Decoder
    plan: Plan
    requests: int
    tokens: int
    past: int

    @property
    def rows(self) -> int:
        return self.requests * self.tokens

    @property
    def sizes(self) -> dict[str, int]:
        return {"requests": self.requests, "tokens": self.tokens, "past": self.past}

    def stage(self, number: int, layers: tuple[DecoderLayer, ...]) -> Iterator[Operation]:
        """Yield the operations of a stage. GPUs that share the embedding's rows add what they look up."""
        numbers = self.rows * self.decoder.hidden
        if number == 0:
            row_byte = numbers * self.decoder.base.bit / 8
            work = KernelWork(weight_byte=row_byte, activation_byte=row_byte)
            yield self._other("embedding", self.decoder.hidden, work)
            yield from self._all_reduce("embedding")
        for layer, count in count_layers(layers):
            for each in self._layer(layer, held_layer(layer, self.plan)):
                yield replace(each, calls=count)
        if number < self.plan.pipeline - 1:
            yield self._collective(SEND, "next stage", numbers, 2)
            return
        yield self._norm()
        columns = -(-self.decoder.vocabulary // self.plan.tensor)
        head = Weight("head", "lm_head", self.decoder.hidden, columns)
        yield self._product(head, self.decoder.base, self.requests)
        if self.plan.tensor > 1:
            yield self._collective(ALL_GATHER, "scores", self.requests * self.decoder.vocabulary, self.plan.tensor)

    def _layer(self, whole: DecoderLayer, held: DecoderLayer) -> Iterator[Operation]:
        """Yield the operations of a layer; ``held`` is what this GPU has of the ``whole``."""
        yield self._norm()
        for mixer in held.mixers:
            *first, last = (self._layer_product(held, weight) for weight in mixer.weights(self.decoder.hidden))
            if isinstance(mixer, LatentAttention):
                yield from self._latent(mixer, first)
            else:
                yield from first
                yield from self._attention(mixer) if isinstance(mixer, GroupedAttention) else self._recurrence(mixer)
            yield last
        yield from self._all_reduce("mixer")
        if held.feed_forward is None:
            return
        yield self._norm()
        if isinstance(whole.feed_forward, Experts) and isinstance(held.feed_forward, Experts):
            yield from self._experts(held, whole.feed_forward, held.feed_forward)
        elif isinstance(held.feed_forward, Perceptron):
            wide, narrow = held.feed_forward.weights(self.decoder.hidden)
            yield self._layer_product(held, wide)
            yield self._activation(held.feed_forward.inner, held.feed_forward.is_gated)
            yield self._layer_product(held, narrow)
        yield from self._all_reduce("feed forward")

    def _attention(self, mixer: GroupedAttention) -> Iterator[Operation]:
        shape = self.sizes | {"heads": mixer.heads, "kv_heads": mixer.kv_heads, "head_size": mixer.head_size}
        work = kernels.attention(**shape, cache=self.decoder.cache, window=mixer.window)
        window = {"window": mixer.window} if mixer.window else {}
        yield self._kernel(ATTENTION, "attention", shape | window, work, self.decoder.cache)

    def _latent(self, mixer: LatentAttention, products: list[Operation]) -> Iterator[Operation]:
        """Yield attention and the products before it, the last of which makes keys and values of latent vectors.

        Decode absorbs that one into queries and results, head by head. So does a prefill of more tokens than an indexer
        selects: its kernels read latent vectors.
        """
        *first, expand = products
        yield from first
        most = None
        if indexer := mixer.indexer:
            shape = self.sizes | {"heads": indexer.heads, "size": indexer.head_size}
            yield self._kernel(INDEX, INDEX, shape, kernels.index_scores(**shape), FORMATS["fp8"], FORMATS["fp8"])
            most = indexer.most if self.past + self.tokens > indexer.most else None
        is_absorbed = self.tokens == 1 or most is not None
        shape = self.sizes | {name: getattr(mixer, name) for name in ("heads", "rank", "rotary", "plain", "value")}
        work = kernels.latent_attention(**shape, cache=self.decoder.cache, is_absorbed=is_absorbed, most=most)
        name, selected = "absorbed" if is_absorbed else "expanded", {"most": most} if most else {}
        attention = self._kernel(LATENT, name, shape | selected, work, self.decoder.cache)
        if not is_absorbed:
            yield from (expand, attention)
            return
        yield self._product(Weight("absorb query", "", mixer.plain, mixer.rank, mixer.heads), self.decoder.base)
        yield attention
        yield self._product(Weight("absorb value", "", mixer.rank, mixer.value, mixer.heads), self.decoder.base)

    def _recurrence(self, mixer: GatedDelta | StateSpace) -> Iterator[Operation]:
        sizes = {"requests": self.requests, "tokens": self.tokens}
        shape = sizes | {"channels": mixer.channels, "kernel": mixer.kernel}
        yield self._kernel(RECURRENCE, "convolution", shape, kernels.convolution(**shape), self.decoder.base)
        shape = sizes | {name: size for name, size in vars(mixer).items() if name != "kernel"}
        is_delta = isinstance(mixer, GatedDelta)
        work = kernels.gated_delta(**shape) if is_delta else kernels.state_space(**shape)
        state = FORMATS["fp32"] if mixer.state_bit == FORMATS["fp32"].bit else self.decoder.base
        yield self._kernel(RECURRENCE, "gated delta" if is_delta else "state space", shape, work, state)

    def _experts(self, layer: DecoderLayer, whole: Experts, held: Experts) -> Iterator[Operation]:
        """Yield a router, experts, and the perceptron of all tokens.

        Groups with different requests exchange their tokens, then the results. If GPUs have different experts, a token
        goes once to each that has one of its experts, as in DeepEP; else every GPU gets all tokens.
        """
        plan, hidden = self.plan, self.decoder.hidden
        by_name = {weight.name: weight for weight in held.weights(hidden)}
        yield self._layer_product(layer, by_name["router"])
        form, tokens = layer.formats.get(EXPERT_WEIGHTS[0], self.decoder.base), self.rows * plan.data
        spread, gather, message = ALL_GATHER, REDUCE_SCATTER, float(tokens * hidden)
        if plan.expert > 1:
            reached = whole.reached(plan.expert) * plan.expert_tensor
            spread, gather, message = ALL_TO_ALL, ALL_TO_ALL, self.rows / plan.tensor * reached * hidden
        if plan.data > 1:
            yield self._collective(spread, "tokens", message, plan.tensor * plan.data, form.input_bit)
        shape = {"tokens": tokens, "hidden": hidden, "inner": whole.inner, "count": whole.count}
        shape |= {"active": whole.active, "tensor": plan.expert_tensor, "expert": plan.expert}
        yield self._kernel(EXPERTS, EXPERTS, shape, kernels.experts(**shape, weight=form), form, form)
        if plan.data > 1:
            yield self._collective(gather, "results", message, plan.tensor * plan.data)
        for name in ("shared wide", "shared narrow", "shared gate"):
            if name in by_name:
                yield self._layer_product(layer, by_name[name])
            if name == "shared wide" and whole.shared:
                yield self._activation(held.shared, is_gated=True)

    def _layer_product(self, layer: DecoderLayer, weight: Weight) -> Operation:
        return self._product(weight, layer.formats.get(weight.name, self.decoder.base))

    def _product(self, weight: Weight, form: Format, rows: int | None = None) -> Operation:
        shape = {"m": self.rows if rows is None else rows, "n": weight.n, "k": weight.k, "copies": weight.copies}
        return self._kernel(PRODUCT, weight.name, shape, kernels.product(**shape, weight=form), form, form)

    def _norm(self) -> Operation:
        return self._other("norm", self.decoder.hidden, kernels.norm(self.rows, self.decoder.hidden))

    def _activation(self, inner: int, is_gated: bool) -> Operation:
        return self._other("activation", inner, kernels.activation(self.rows, inner, is_gated))

    def _other(self, name: str, size: int, work: KernelWork) -> Operation:
        return self._kernel(OTHER, name, {"rows": self.rows, "size": size}, work, self.decoder.base)

    def _all_reduce(self, name: str) -> Iterator[Operation]:
        if self.plan.tensor > 1:
            yield self._collective(ALL_REDUCE, name, self.rows * self.decoder.hidden, self.plan.tensor)

    def _collective(self, kind: str, name: str, numbers: float, gpus: int, bit: float | None = None) -> Operation:
        """Make a collective of so many numbers, with the base's bits or ``bit``."""
        message_byte = numbers * (bit or self.decoder.base.bit) / 8
        work, shape = kernels.collective(kind, message_byte, gpus), {"message_byte": message_byte, "gpus": gpus}
        return self._kernel(COLLECTIVE, f"{kind} of {name}", shape, work, self.decoder.base)

    def _kernel(
        self, kind: str, name: str, shape: Mapping[str, float], work: KernelWork, stored: Format,
        arithmetic: Format | None = None,
    ) -> Operation:  # fmt: skip
        return Operation(kind, name, shape, work, (arithmetic or self.decoder.base).arithmetic, stored.name)
