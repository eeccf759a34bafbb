"""A training step of a decoder: what each GPU of a stage holds, computes, saves and sends, in closed form."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

from measure.domain.collectives import ALL_GATHER, ALL_TO_ALL, REDUCE_SCATTER
from measure.errors import UserError
from measure.planning import activations
from measure.planning.layout import Layout, divisors, nearest
from measure.planning.work import CONTEXT, EXPERT, TENSOR, LayerCollective, StageWork
from measure.serving import kernels
from measure.serving.decoder import (
    EXPERT_WEIGHTS,
    Decoder,
    DecoderLayer,
    Experts,
    GroupedAttention,
    LatentAttention,
    Weight,
)
from measure.serving.plan import MOST, Plan, check_context, check_plan, held_layer, stages


@dataclass(frozen=True, eq=False)
class TrainedDecoder:
    """A decoder that reads sequences of ``tokens``, with activations of ``byte`` each.

    Raises UserError for more tokens than it takes.
    """

    decoder: Decoder
    tokens: int
    byte: int
    inputs: str = "sequences"

    def __post_init__(self) -> None:
        check_context(self.decoder, self.tokens)

    @property
    def name(self) -> str:
        return self.decoder.name

    @property
    def depth(self) -> int:
        return len(self.decoder.layers)

    @cached_property
    def parameters(self) -> int:
        return self.decoder.parameters

    def tensor_refusal(self, size: int) -> str | None:
        """Return why so many GPUs cannot share the matrices, None if they can."""
        if size in self._tensors:
            return None
        near = nearest(self._tensors, size)
        return f"--tp {size} does not divide the heads and matrices of a layer (--tp {near} does)"

    @cached_property
    def _tensors(self) -> list[int]:
        """The numbers of GPUs that can share the matrices."""
        parts = {part for layer in self.decoder.layers for part in layer.parts}
        experts = [part for part in parts if isinstance(part, Experts)]
        return [
            size
            for size in range(1, MOST + 1)
            if all(part.can_divide(size) for part in parts) and all(part.inner % size == 0 for part in experts)
        ]

    def context_refusal(self, size: int) -> str | None:
        """Return why so many GPUs cannot split a sequence, None if they can.

        The i-th of N takes the i-th of 2 N parts and the i-th from the end, so that a mask hides as much from each
        (Grattafiori et al. 2024, section 3.3.2).
        """
        if size == 1 or self.tokens % (2 * size) == 0:
            return None
        able = divisors(self.tokens // 2) if self.tokens % 2 == 0 else [1]
        return (
            f"--cp {size} does not cut {self.tokens} tokens into {2 * size} parts, two for each GPU "
            f"(--cp {nearest(able, size)} does)"
        )

    def expert_refusal(self, size: int, tensor: int) -> str | None:
        """Return why the experts cannot be spread over so many data groups, None if they can."""
        if size == 1:
            return None
        parts = [part for layer in self.decoder.layers for part in layer.parts if isinstance(part, Experts)]
        if not parts:
            return f"--ep {size} spreads experts, and the layers have none"
        if size > parts[0].count:
            return f"--ep {size} does not divide the {parts[0].count} experts of a layer"
        try:
            check_plan(self.decoder, Plan(tensor, size, size))
        except UserError:
            return f"--ep {size} does not divide the {parts[0].count} experts of a layer"
        return None

    def stages(self, layout: Layout) -> tuple[StageWork, ...]:
        return self._stages(replace(layout, data=layout.expert, zero=0))  # the same for all data groups

    @cache  # noqa: B019 - a network lives as long as its plans
    def _stages(self, layout: Layout) -> tuple[StageWork, ...]:
        found = stages(self.decoder, Plan(pipeline=layout.pipeline))
        return tuple(self._stage(number, layers, layout) for number, layers in enumerate(found))

    def _stage(self, number: int, layers: tuple[DecoderLayer, ...], layout: Layout) -> StageWork:
        decoder, tensor = self.decoder, layout.tensor
        is_first, is_last = number == 0, number == layout.pipeline - 1
        held = [held_layer(layer, Plan(tensor, layout.expert, layout.expert)) for layer in layers]
        weights = [self._parameters(layer) for layer in held]
        dense, experts = (sum(each[place] for each in weights) for place in (0, 1))
        table = decoder.hidden * -(-decoder.vocabulary // tensor)
        tables = (is_first + is_last) - (decoder.is_tied and is_first and is_last)
        root = tables * table + is_last * decoder.vectors
        scores = [self._attention_flop(layer) / layout.context for layer in held]
        tokens = self.tokens / layout.context  # of a sequence on each GPU
        blocks_flop = sum(2.0 * tokens * self._multiplied(layer) for layer in held) + sum(scores)
        share = tokens / tensor
        saved = [share * activations.layer_byte(decoder, layer, self.byte) for layer in layers]
        inputs = share * decoder.hidden * self.byte
        head_byte = share * activations.head_byte(decoder, self.byte)
        loss_byte = share * activations.loss_byte(decoder.vocabulary, self.byte)
        return StageWork(
            dense + root, experts, max(sum(each) for each in weights), root,
            blocks_flop + is_last * 2.0 * tokens * table, sum(scores), blocks_flop,
            sum(saved) + is_last * head_byte, len(layers) * inputs + is_last * head_byte, max(saved),
            is_last * loss_byte, 0.0 if is_last else inputs,
            (*self._exchanges(layers, layout, is_first, is_last), *self._context_exchanges(held, layout)),
            2 * max(map(self._key_byte, held)) if layout.context > 1 else 0.0,
        )  # fmt: skip

    def _parameters(self, layer: DecoderLayer) -> tuple[float, float]:
        """Return the parameters of a held layer: those of all data groups, and those of experts."""
        shared, experts = float(layer.vectors), 0.0
        for weight in self._weights(layer):
            count = weight.count + weight.copies * weight.bias
            if weight.name in EXPERT_WEIGHTS:
                experts += count
            else:
                shared += count
        return shared, experts

    def _weights(self, layer: DecoderLayer) -> Iterator[Weight]:
        for part in layer.parts:
            yield from part.weights(self.decoder.hidden)

    def _multiplied(self, layer: DecoderLayer) -> int:
        """Return the weights that a token meets on the GPUs that hold parts of its layer; experts are evenly busy."""
        return sum(weight.active * weight.k * weight.n for weight in self._weights(layer))

    def _attention_flop(self, layer: DecoderLayer) -> float:
        """Return the FLOP of scores and sums of a sequence; a mask hides later tokens."""
        flop, cache = 0.0, self.decoder.base
        for mixer in layer.mixers:
            if isinstance(mixer, GroupedAttention):
                heads, size = (mixer.heads, mixer.kv_heads), mixer.head_size
                flop += kernels.attention(1, self.tokens, 0, *heads, size, cache, mixer.window).flop
            elif isinstance(mixer, LatentAttention):
                numbers = mixer.rank, mixer.rotary, mixer.plain, mixer.value
                work = kernels.latent_attention(1, self.tokens, 0, mixer.heads, *numbers, cache, is_absorbed=False)
                flop += work.flop
        return flop

    def _exchanges(
        self, layers: tuple[DecoderLayer, ...], layout: Layout, is_first: bool, is_last: bool
    ) -> Iterator[LayerCollective]:
        """Yield the collectives of a sequence within the groups of tensor and expert parallelism.

        With sequence parallelism, the tokens of a product's input are gathered, and its results scattered as they are
        added. The backward pass does the reverse, and gathers each input once more for the gradient of the weights
        (Korthikanti et al. 2022, section 4.2.2). The embedding's rows and the product with the vocabulary are shared.
        """
        stream = self.tokens / layout.context * self.decoder.hidden * self.byte
        parts = [part for layer in layers for part in (layer.mixers[0], layer.feed_forward) if part is not None]
        experts = [part for part in parts if isinstance(part, Experts)]
        if layout.expert > 1 and experts:
            message, calls = stream / layout.tensor * experts[0].reached(layout.expert), 2 * len(experts)
            yield LayerCollective(ALL_TO_ALL, "tokens of experts", EXPERT, message, calls, calls, calls)
        if layout.tensor == 1:
            return
        routed = experts if layout.expert > 1 else []
        plain = len(parts) - len(routed)
        yield from self._tensor_exchanges("inputs of products", plain, is_last, is_first, stream)
        if routed:
            yield from self._tensor_exchanges("inputs of experts", len(routed), False, False, routed[0].active * stream)

    def _key_byte(self, layer: DecoderLayer) -> float:
        """Return the bytes of the keys and values of a whole sequence in a held layer."""
        numbers = 0
        for mixer in layer.mixers:
            if isinstance(mixer, GroupedAttention):
                numbers += 2 * mixer.kv_heads * mixer.head_size
            elif isinstance(mixer, LatentAttention):
                numbers += mixer.heads * (mixer.plain + mixer.rotary + mixer.value)
        return float(self.tokens * numbers * self.byte)

    def _context_exchanges(self, held: list[DecoderLayer], layout: Layout) -> Iterator[LayerCollective]:
        """Yield what the GPUs that split a sequence exchange in each layer: keys and values.

        They gather them before attention, again in the backward pass, which keeps a GPU's own alone, and scatter their
        gradients as they add them: of M bytes a GPU of N sends (N - 1) / N M, once forward and twice backward. Llama 3
        does so (Grattafiori et al. 2024, arXiv:2407.21783, section 3.3.2), and NCCL's gathers and scatters were
        measured. A ring (Liu et al. 2023, Ring Attention, arXiv:2310.01889) sends as much, part by part.
        """
        if layout.context == 1:
            return
        for message, calls in Counter(map(self._key_byte, held)).items():
            yield LayerCollective(ALL_GATHER, "keys and values", CONTEXT, message, calls, calls, calls)
            yield LayerCollective(REDUCE_SCATTER, "gradients of keys and values", CONTEXT, message, 0, calls)

    def _tensor_exchanges(
        self, name: str, pairs: int, has_head: bool, has_embedding: bool, message: float
    ) -> Iterator[LayerCollective]:
        """Yield what so many pairs of products exchange, and the head and the embedding if they are there."""
        gathered = pairs + has_head
        yield LayerCollective(ALL_GATHER, name, TENSOR, message, gathered, gathered + pairs + has_embedding, pairs)
        results = name.replace("inputs", "results")
        yield LayerCollective(REDUCE_SCATTER, results, TENSOR, message, pairs + has_embedding, gathered, pairs)
