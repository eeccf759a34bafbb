"""How a group of GPUs shares a decoder: what each one holds, and how many requests fit."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from measure.domain.chips import SIXTEEN_BITS
from measure.domain.values import si
from measure.errors import UserError
from measure.serving.decoder import Decoder, DecoderLayer, Experts, count_layers
from measure.serving.formats import FORMATS

MOST = 1024  # GPUs of a plan that an error or a note suggests

FLAGS = {"tensor": "--tp", "expert": "--ep", "data": "--dp", "pipeline": "--pp"}  # of the command lines


@dataclass(frozen=True)
class Plan:
    """The sizes of a parallel plan. A stage has ``tensor`` * ``data`` GPUs, the group ``pipeline`` times as many.

    ``tensor`` GPUs share each matrix and the heads, ``data`` groups of them have different requests. All GPUs of a
    stage share the experts: ``expert`` of them have different ones, the others parts of the same. ``pipeline`` stages
    have different layers.
    """

    tensor: int = 1
    expert: int = 1
    data: int = 1
    pipeline: int = 1

    @property
    def gpus(self) -> int:
        return self.tensor * self.data * self.pipeline

    @property
    def expert_tensor(self) -> int:
        """The GPUs that have parts of the same experts."""
        return self.tensor * self.data // self.expert


def as_flag(part: str, size: int) -> str:
    return f"{FLAGS[part]} {size}"


def as_size(part: str, size: int) -> str:
    return f"{part}={size}"


def check_plan(
    decoder: Decoder, plan: Plan, asked: Callable[[str, int], str] = as_size, near: Callable[[str, int], str] = as_size
) -> None:
    """Raise UserError for a plan that heads, matrices, experts or layers do not divide; it names the nearest sizes.

    ``asked`` says a size of the plan, and ``near`` how to ask for another one: a program says its flags.
    """
    parts = [part for layer in decoder.layers for part in layer.parts]
    experts = [part for part in parts if isinstance(part, Experts)]
    depth, stage = len(decoder.layers), plan.tensor * plan.data

    def can_share(size: int) -> bool:
        if stage % size or not experts:
            return size == 1
        return all(part.count % size == 0 and part.inner % (stage // size) == 0 for part in experts)

    among = f"{experts[0].count} experts" if experts else "layers without experts"
    rules: tuple[tuple[str, Callable[[int], bool], str], ...] = (
        ("data", lambda size: size >= 1, f"{asked('data', plan.data)} is no number of groups"),
        ("tensor", lambda size: size >= 1 and all(part.can_divide(size) for part in parts),
         f"{asked('tensor', plan.tensor)} does not divide the heads and matrices of a layer"),
        ("pipeline", lambda size: 1 <= size <= depth,
         f"{depth} layers cannot make {asked('pipeline', plan.pipeline)} stages"),
        ("expert", lambda size: size >= 1 and can_share(size),
         f"{asked('expert', plan.expert)} cannot share {among} among the {stage} GPUs of a stage"),
    )  # fmt: skip
    for name, is_able, reason in rules:
        size = getattr(plan, name)
        if not is_able(size):
            able = [each for each in range(1, MOST + 1) if is_able(each)]
            sizes = [each for each in able if each < size][-1:] + [each for each in able if each > size][:1]
            remedy = " or ".join(near(name, each) for each in sizes) or "another size of the plan"
            raise UserError(f"plan of {decoder.name}: {reason}; use {remedy}")


def held_layer(layer: DecoderLayer, plan: Plan) -> DecoderLayer:
    """Return what one GPU holds of a layer."""
    feed_forward = layer.feed_forward.divided(plan.tensor) if layer.feed_forward else None
    if isinstance(feed_forward, Experts):
        held, inner = feed_forward.count // plan.expert, feed_forward.inner // plan.expert_tensor
        feed_forward = replace(feed_forward, held=held, inner=inner)
    mixers = tuple(mixer.divided(plan.tensor) for mixer in layer.mixers)
    return replace(layer, mixers=mixers, feed_forward=feed_forward)


def stages(decoder: Decoder, plan: Plan) -> list[tuple[DecoderLayer, ...]]:
    """Return the layers of each stage. Of those left over, the last stages but one have one more each.

    So vLLM divides them (``vllm/distributed/utils.py``, ``get_pp_indices``): the last stage has the vocabulary.
    """
    least, rest = divmod(len(decoder.layers), plan.pipeline)
    sizes = [least] * plan.pipeline
    for place in range(rest):
        sizes[-2 - place] += 1
    return [decoder.layers[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]


@dataclass(frozen=True)
class GpuMemory:
    """What a GPU of one stage holds: weights, and the cache of each request of its data group."""

    weight_byte: float
    request_byte: float


def memories(decoder: Decoder, plan: Plan, context: int) -> list[GpuMemory]:
    """Return the memory of a GPU of each stage, with requests of ``context`` tokens.

    The first stage has the embedding, the last one the product with the vocabulary; GPUs that share matrices share
    both. A tied one is stored once on a single stage.
    """
    found = []
    table = decoder.head / plan.tensor
    for number, layers in enumerate(stages(decoder, plan)):
        ends = (number == 0) + (number == plan.pipeline - 1)
        tables = table * (1 if ends and decoder.is_tied and plan.pipeline == 1 else ends)
        held = [each for layer, count in count_layers(layers) for each in [held_layer(layer, plan)] * count]
        part = replace(decoder, layers=tuple(held), is_tied=True)
        part_byte = part.weight_byte + (tables - decoder.head) * decoder.base.bit / 8
        found.append(GpuMemory(part_byte, part.cache_byte(context)))
    return found


def most_requests(decoder: Decoder, plan: Plan, context: int, memory_byte: float) -> int:
    """Return how many requests of ``context`` tokens fit into ``memory_byte`` of each GPU next to the weights.

    Raises UserError if the weights do not fit, or a request. It says by how much, and which plan has room.
    """
    check_plan(decoder, plan)
    check_context(decoder, context)
    found = memories(decoder, plan, context)
    fullest = max(found, key=lambda each: each.weight_byte)
    if fullest.weight_byte > memory_byte:
        over, weights = si(fullest.weight_byte - memory_byte, "B"), si(fullest.weight_byte, "B")
        raise UserError(
            f"{decoder.name}: the weights of a GPU take {over} more than it has ({weights} of "
            f"{si(memory_byte, 'B')}); {_room(decoder, plan, memory_byte)}"
        )
    if any(each.weight_byte + each.request_byte > memory_byte for each in found):
        over = si(max(each.weight_byte + each.request_byte for each in found) - memory_byte, "B")
        raise UserError(
            f"{decoder.name}: one request of {context} tokens takes {over} more than the weights leave of "
            f"{si(memory_byte, 'B')}; use a shorter context, more GPUs, or a cache of fewer bits"
        )
    return plan.data * min(int((memory_byte - each.weight_byte) // each.request_byte) for each in found)


def _room(decoder: Decoder, plan: Plan, memory_byte: float) -> str:
    """Return advice on weights that do not fit: the next plan with room, or fewer bits."""
    larger = plan
    while larger.gpus < MOST:
        is_sparse = larger.expert > 1
        larger = replace(larger, tensor=2 * larger.tensor, expert=larger.expert * (2 if is_sparse else 1))
        try:
            check_plan(decoder, larger)
        except UserError:
            break
        if max(each.weight_byte for each in memories(decoder, larger, 1)) <= memory_byte:
            sizes = " ".join(as_flag(name, size) for name, size in vars(larger).items() if size > 1)
            return f"use {larger.gpus} GPUs ({sizes}) or weights of fewer bits"
    return "use a GPU with more memory or weights of fewer bits"


def check_context(decoder: Decoder, tokens: int, output: int = 0) -> None:
    """Raise UserError for more tokens than the configuration takes; ``output`` of them are an answer's."""
    most, context = decoder.positions, tokens - output
    if tokens <= most:
        return
    rooms = {"a --context" if output else "a context": most - output, "an --output": most - context if output else 0}
    remedy = " or ".join(f"{name} of {room} or less" for name, room in rooms.items() if room > 0)
    parts = f" ({context} of context and {output} of output)" if output else ""
    remedy = remedy or "less of both"
    raise UserError(f"{decoder.name}: takes {most} tokens at most, not {tokens}{parts}; use {remedy}")


def check_precisions(decoder: Decoder, chip: str, flop_per_s: Mapping[str, float]) -> None:
    """Raise UserError for weights whose arithmetic a chip has no units for; ``flop_per_s`` has its rates.

    All that is not quantised is computed in the base: at 16 bits, a chip may have units for the other format alone.
    """
    base = decoder.base.arithmetic
    if base in SIXTEEN_BITS and base not in flop_per_s:
        other = next(each for each in SIXTEEN_BITS if each != base)
        remedy = f"use --weights {other} or another chip" if other in flop_per_s else "use another chip"
        raise UserError(f"{decoder.name}: {chip} has no units for {base}, in which the network is computed; {remedy}")
    forms = {form.name: form for _, form, _ in decoder.weights}
    for name, form in sorted(forms.items()):
        if form.arithmetic not in flop_per_s:
            able = [each for each in FORMATS if FORMATS[each].arithmetic in flop_per_s]
            raise UserError(
                f"{decoder.name}: {chip} has no units for {form.arithmetic}, in which {name} weights are multiplied; "
                f"use another chip or weights in {', '.join(able)}"
            )
