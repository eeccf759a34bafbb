"""A decoder as its layers: the weights that a token is multiplied by, what its cache keeps, how GPUs divide it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb

from measure.serving.formats import FORMATS, Format

STATE_BIT = 32  # of a recurrent state, unless the configuration says otherwise
EXPERT_WEIGHTS = "experts wide", "experts narrow"  # the names of the matrices of routed experts
INDEX_BIT = FORMATS["fp8"].number_bit  # of a key that selects tokens, and 32 bits of scale a token (DeepSeek-V3.2)


@dataclass(frozen=True)
class Weight:
    """Matrices of shape (k, n), as served: products with the same input are one. A token meets ``active`` of them.

    ``module`` is the name of one part within a layer of a checkpoint. ``is_plain``: no method quantises it. ``bias``
    counts the numbers that are added to the result.
    """

    name: str
    module: str
    k: int
    n: int
    copies: int = 1
    active: int = 1
    is_plain: bool = False
    bias: int = 0

    @property
    def count(self) -> int:
        return self.copies * self.k * self.n


@dataclass(frozen=True)
class GroupedAttention:
    """Attention of grouped queries (Ainslie et al. 2023), over all earlier tokens or the last ``window``.

    ``is_gated``: each output is gated by another product with the input. ``has_norms``: of queries and keys.
    """

    heads: int
    kv_heads: int
    head_size: int
    window: int | None = None
    is_gated: bool = False
    has_bias: bool = False
    has_output_bias: bool = False
    has_norms: bool = False

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        wide = ((1 + self.is_gated) * self.heads + 2 * self.kv_heads) * self.head_size
        output_bias = self.has_output_bias * hidden
        return (
            Weight("qkv", "self_attn.q_proj", hidden, wide, bias=self.has_bias * wide),
            Weight("output", "self_attn.o_proj", self.heads * self.head_size, hidden, bias=output_bias),
        )

    def can_divide(self, gpus: int) -> bool:
        """GPUs share the heads of queries. A head of keys goes to several GPUs if there are more GPUs than heads."""
        return self.heads % gpus == 0 and (self.kv_heads % gpus == 0 or gpus % self.kv_heads == 0)

    def divided(self, gpus: int) -> "GroupedAttention":
        return replace(self, heads=self.heads // gpus, kv_heads=max(1, self.kv_heads // gpus))

    def cache_byte(self, tokens: int, cache: Format, base: Format) -> float:
        kept = tokens if self.window is None else min(tokens, self.window)
        return 2 * self.kv_heads * self.head_size * kept * cache.bit / 8


@dataclass(frozen=True)
class Indexer:
    """Scores that select the ``most`` earlier tokens of each token (DeepSeek-AI 2025, DeepSeek-V3.2)."""

    heads: int
    head_size: int
    most: int

    def weights(self, hidden: int, query: int) -> tuple[Weight, ...]:
        return (
            Weight("index query", "self_attn.indexer.wq_b", query, self.heads * self.head_size),
            Weight("index key", "self_attn.indexer.wk", hidden, self.head_size),
            Weight("index weights", "self_attn.indexer.weights_proj", hidden, self.heads, is_plain=True),
        )


@dataclass(frozen=True)
class LatentAttention:
    """Attention whose keys and values are projections of a latent vector (DeepSeek-AI 2024, arXiv:2405.04434).

    The cache keeps ``rank`` numbers of the latent vector and ``rotary`` numbers of a key that all heads share; every
    GPU keeps all of it. A head has ``plain`` more numbers of a key, and ``value`` of a value. Queries come from a
    latent vector of ``query_rank`` numbers if there is one.
    """

    heads: int
    query_rank: int | None
    rank: int
    rotary: int
    plain: int
    value: int
    indexer: Indexer | None = None

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        latent, query = self.rank + self.rotary, self.heads * (self.plain + self.rotary)
        if self.query_rank is None:
            first = (
                Weight("query", "self_attn.q_proj", hidden, query),
                Weight("latent", "self_attn.kv_a_proj_with_mqa", hidden, latent),
            )
        else:
            first = (
                Weight("latent", "self_attn.q_a_proj", hidden, self.query_rank + latent),
                Weight("query", "self_attn.q_b_proj", self.query_rank, query),
            )
        rest = (
            Weight("key value", "self_attn.kv_b_proj", self.rank, self.heads * (self.plain + self.value)),
            Weight("output", "self_attn.o_proj", self.heads * self.value, hidden),
        )
        index = self.indexer.weights(hidden, self.query_rank or hidden) if self.indexer else ()
        return (*first, *index, *rest)

    def can_divide(self, gpus: int) -> bool:
        return self.heads % gpus == 0

    def divided(self, gpus: int) -> "LatentAttention":
        return replace(self, heads=self.heads // gpus)

    def cache_byte(self, tokens: int, cache: Format, base: Format) -> float:
        bit = (self.rank + self.rotary) * cache.bit
        if self.indexer is not None:
            bit += self.indexer.head_size * INDEX_BIT + 32
        return tokens * bit / 8


@dataclass(frozen=True)
class GatedDelta:
    """A gated delta network (Yang et al. 2025, arXiv:2412.06464): a state of (key, value) numbers a head of values.

    A convolution over the last ``kernel`` tokens comes before it.
    """

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    kernel: int
    state_bit: int = STATE_BIT

    @property
    def channels(self) -> int:
        """The channels of the convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_size + self.value_heads * self.value_size

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        value = self.value_heads * self.value_size
        return (
            Weight("input", "linear_attn.in_proj_qkv", hidden, self.channels + value),
            Weight("gates", "linear_attn.in_proj_b", hidden, 2 * self.value_heads, is_plain=True),
            Weight("output", "linear_attn.out_proj", value, hidden),
        )

    def can_divide(self, gpus: int) -> bool:
        return self.key_heads % gpus == 0 and self.value_heads % gpus == 0

    def divided(self, gpus: int) -> "GatedDelta":
        return replace(self, key_heads=self.key_heads // gpus, value_heads=self.value_heads // gpus)

    def cache_byte(self, tokens: int, cache: Format, base: Format) -> float:
        state = self.value_heads * self.key_size * self.value_size * self.state_bit
        return (state + (self.kernel - 1) * self.channels * base.bit) / 8


@dataclass(frozen=True)
class StateSpace:
    """Mamba2 (Dao & Gu 2024, arXiv:2405.21060): a head's state has (head, state) numbers; groups share B and C."""

    heads: int
    head_size: int
    groups: int
    state_size: int
    kernel: int
    chunk: int
    state_bit: int = STATE_BIT

    @property
    def inner(self) -> int:
        return self.heads * self.head_size

    @property
    def channels(self) -> int:
        """The channels of the convolution: inputs, B and C."""
        return self.inner + 2 * self.groups * self.state_size

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        return (
            Weight("input", "mamba.in_proj", hidden, self.inner + self.channels + self.heads),
            Weight("output", "mamba.out_proj", self.inner, hidden),
        )

    def can_divide(self, gpus: int) -> bool:
        """A group goes to several GPUs if there are more GPUs than groups."""
        return self.heads % gpus == 0 and (self.groups % gpus == 0 or gpus % self.groups == 0)

    def divided(self, gpus: int) -> "StateSpace":
        return replace(self, heads=self.heads // gpus, groups=max(1, self.groups // gpus))

    def cache_byte(self, tokens: int, cache: Format, base: Format) -> float:
        state = self.inner * self.state_size * self.state_bit
        return (state + (self.kernel - 1) * self.channels * base.bit) / 8


# A part that mixes tokens. Like a perceptron and experts, it has ``weights``; ``can_divide`` says whether so many GPUs
# can share it, and ``divided`` is what each of them holds. ``cache_byte`` is what one request keeps after some tokens.
Mixer = GroupedAttention | LatentAttention | GatedDelta | StateSpace


@dataclass(frozen=True)
class Perceptron:
    """Two layers with ``inner`` numbers between, and if gated a third one (Shazeer 2020)."""

    inner: int
    is_gated: bool = True
    has_bias: bool = False

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        wide = (1 + self.is_gated) * self.inner
        return (
            Weight("wide", "mlp.gate_proj", hidden, wide, bias=self.has_bias * wide),
            Weight("narrow", "mlp.down_proj", self.inner, hidden, bias=self.has_bias * hidden),
        )

    def can_divide(self, gpus: int) -> bool:
        return self.inner % gpus == 0

    def divided(self, gpus: int) -> "Perceptron":
        return replace(self, inner=self.inner // gpus)


@dataclass(frozen=True)
class Experts:
    """``count`` gated perceptrons, ``active`` of which a token meets, chosen by a router (Shazeer et al. 2017).

    ``shared`` is the width of one that every token meets, 0 if there is none; ``has_gate`` adds a gate to it. ``held``
    of the experts are on a GPU (default: all).
    """

    count: int
    active: int
    inner: int
    shared: int = 0
    has_gate: bool = False
    has_bias: bool = False
    held: int | None = None

    def reached(self, groups: int) -> float:
        """Return how many of ``groups`` of GPUs with different experts have one of a token's, on average."""
        elsewhere = comb(self.count - self.count // groups, self.active) / comb(self.count, self.active)
        return groups * (1 - elsewhere)

    def weights(self, hidden: int) -> tuple[Weight, ...]:
        (first, second), wide, copies = EXPERT_WEIGHTS, 2 * self.inner, (self.held or self.count, self.active)
        found = [
            Weight("router", "mlp.gate", hidden, self.count, is_plain=True, bias=self.has_bias * self.count),
            Weight(first, "mlp.experts.0.gate_proj", hidden, wide, *copies, bias=self.has_bias * wide),
            Weight(second, "mlp.experts.0.down_proj", self.inner, hidden, *copies, bias=self.has_bias * hidden),
        ]
        if self.shared:
            module = "mlp.shared_expert" if self.has_gate else "mlp.shared_experts"
            found += [
                Weight("shared wide", f"{module}.gate_proj", hidden, 2 * self.shared),
                Weight("shared narrow", f"{module}.down_proj", self.shared, hidden),
            ]
        if self.has_gate:
            found.append(Weight("shared gate", "mlp.shared_expert_gate", hidden, 1, is_plain=True))
        return tuple(found)

    def can_divide(self, gpus: int) -> bool:
        """``gpus`` share the perceptron of all tokens; a plan shares out the others."""
        return self.shared % gpus == 0

    def divided(self, gpus: int) -> "Experts":
        return replace(self, shared=self.shared // gpus)


@dataclass(frozen=True)
class DecoderLayer:
    """The mixers of a layer, which run on the same input, then a perceptron or experts.

    ``vectors`` counts the numbers of norms and convolutions. ``formats`` has the weights, by name, that are
    stored in another format than the decoder's ``base``.
    """

    mixers: tuple[Mixer, ...]
    feed_forward: Perceptron | Experts | None
    vectors: int
    formats: Mapping[str, Format] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[Mixer | Perceptron | Experts, ...]:
        return (*self.mixers, self.feed_forward) if self.feed_forward else self.mixers


def count_layers(layers: Iterable[DecoderLayer]) -> list[tuple[DecoderLayer, int]]:
    """Return the layers that differ, and how many there are of each: most decoders have a few kinds."""
    layers, kinds = list(layers), list[DecoderLayer]()
    for layer in layers:
        if layer not in kinds:
            kinds.append(layer)
    return [(kind, layers.count(kind)) for kind in kinds]


@dataclass(frozen=True)
class Decoder:
    """A language model as its configuration describes it. ``positions`` is the most tokens that it takes.

    ``base`` is the format of activations and of weights that nobody quantised, ``cache`` that of keys and values.
    ``kind`` is the configuration's model_type. ``vectors``: numbers besides those of the layers and the vocabulary.
    """

    name: str
    kind: str
    hidden: int
    vocabulary: int
    positions: int
    is_tied: bool
    layers: tuple[DecoderLayer, ...]
    base: Format
    cache: Format
    vectors: int

    @cached_property
    def weights(self) -> list[tuple[Weight, Format, int]]:
        """Each matrix of the layers that differ, with its stored format, and how many such layers there are."""
        return [
            (weight, layer.formats.get(weight.name, self.base), count)
            for layer, count in count_layers(self.layers)
            for part in layer.parts
            for weight in part.weights(self.hidden)
        ]

    @cached_property
    def parameters(self) -> int:
        """All parameters of the language model: no encoder of pictures, no layers that guess further tokens."""
        tables = self.head * (1 if self.is_tied else 2)
        vectors = self.vectors + sum(layer.vectors for layer in self.layers)
        matrices = sum(times * (weight.count + weight.copies * weight.bias) for weight, _, times in self.weights)
        return tables + vectors + matrices

    @cached_property
    def multiplied(self) -> int:
        """The weights of the layers that each token is multiplied by: 2 FLOP each."""
        return sum(times * weight.active * weight.k * weight.n for weight, _, times in self.weights)

    @property
    def head(self) -> int:
        """The weights of the product with the vocabulary."""
        return self.hidden * self.vocabulary

    @property
    def active_parameters(self) -> int:
        """The parameters that scoring a token takes: its experts, no others, and not the embedding, which is looked up.

        OpenAI 2025 (gpt-oss model card, section 2) counts like this.
        """
        vectors = self.vectors + sum(layer.vectors for layer in self.layers)
        biases = sum(times * weight.active * weight.bias for weight, _, times in self.weights)
        return self.multiplied + self.head + biases + vectors

    @cached_property
    def weight_byte(self) -> float:
        """The bytes of all parameters as they are stored."""
        matrices = sum(times * weight.count * form.bit for weight, form, times in self.weights)
        others = self.parameters - sum(times * weight.count for weight, _, times in self.weights)
        return (matrices + others * self.base.bit) / 8

    def cache_byte(self, tokens: int) -> float:
        """Return the bytes that one request of so many tokens keeps."""
        return sum(mixer.cache_byte(tokens, self.cache, self.base) for layer in self.layers for mixer in layer.mixers)

    def stored(self, weights: Format | None = None, cache: Format | None = None) -> "Decoder":
        """Return this decoder with its weights, or its cache, stored in another format.

        Router, embedding and head stay at 16 bits. So do latent attention and recurrences if the format has 4 bits, as
        in most of NVIDIA's checkpoints (``exclude_modules`` in ``data/published/configurations``). The other format of
        16 bits is that of the whole network, and of its cache if it was of the first, as with ``--dtype`` of engines.
        """
        if weights is None:
            return replace(self, cache=cache or self.cache)
        base, held = self.base, cache or self.cache
        if {base.name, weights.name} == {"fp16", "bf16"}:
            base, held = weights, cache or (weights if self.cache == base else self.cache)
        layers = []
        for layer in self.layers:
            formats = {}
            for part in layer.parts:
                is_left = weights.number_bit <= 4 and isinstance(part, LatentAttention | GatedDelta | StateSpace)
                for weight in part.weights(self.hidden):
                    if not (is_left or weight.is_plain):
                        formats[weight.name] = weights
            layers.append(replace(layer, formats=formats))
        return replace(self, layers=tuple(layers), base=base, cache=held)
