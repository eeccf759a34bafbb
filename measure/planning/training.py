"""A training step on several GPUs: memory, FLOP, bytes sent, and the least time that they need.

Times follow from the datasheet: arithmetic at its peak, memory and links at their bandwidth. Nothing runs faster.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, SEND
from measure.planning.fabric import Fabric
from measure.planning.layout import Layout, TrainedNetwork
from measure.planning.states import StateBytes, StateMemory, state_memory
from measure.planning.work import CONTEXT, DATA, EXPERT, PIPELINE, TENSOR, StageWork
from measure.serving.kernels import collective

ARITHMETIC, MEMORY, COMMUNICATION, BUBBLE = "arithmetic", "memory", "communication", "bubble"
NONE, FULL = RECOMPUTATIONS = "none", "full"
BACKWARD = 2  # the FLOP of a backward pass for each of the forward pass: gradients of inputs and of weights
RESCORED = 0.5  # of attention's forward FLOP: its backward pass computes one of two products again


@dataclass(frozen=True)
class Accelerator:
    """A GPU by its datasheet: its peak (FLOP/s) at the step's precision, bandwidth (B/s) and memory (B)."""

    name: str
    flop_per_s: float
    byte_per_s: float
    memory_byte: float | None


@dataclass(frozen=True)
class TrainingSetup:
    """What all plans of a comparison share. ``batch`` counts the inputs of a step of all GPUs."""

    network: TrainedNetwork
    chip: Accelerator
    fabric: Fabric
    states: StateBytes
    batch: int


@dataclass(frozen=True)
class PlannedCollective:
    """A collective of one GPU in a step: ``calls`` of one message (B) among ``gpus``, and the bytes that it sends.

    ``is_between`` nodes or within one. ``is_pipelined`` if it runs for each micro-batch.
    """

    kind: str
    name: str
    group: str
    gpus: int
    calls: int
    message_byte: float
    sent_byte: float
    is_between: bool
    is_pipelined: bool
    least_s: float


@dataclass(frozen=True)
class GpuBytes:
    """The memory of a GPU: states, activations of the micro-batches in flight, the loss, and what ZeRO gathers.

    ``byte`` is the most that is alive at once. It is less than the sum where gradients come as activations go.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    loss: float
    gathered: float
    byte: float


@dataclass(frozen=True)
class TrainingPlan:
    """A layout's step: the fullest GPU's memory, and the work and least times of the busiest stage's GPUs.

    ``model_flop`` is of the whole step on all GPUs: three times the forward pass, nothing computed again. ``serial_s``
    adds arithmetic, memory and communication; ``overlapped_s`` is the largest of them. Both have the pipeline's
    ``bubble``, the idle time for each unit of busy time: (p - 1) / m.
    """

    layout: Layout
    recompute: str
    micro_batch: int
    micro_batches: int
    memory: GpuBytes
    memory_byte: float | None
    flop: float
    model_flop: float
    moved_byte: float
    collectives: tuple[PlannedCollective, ...]
    bubble: float
    arithmetic_s: float
    memory_s: float
    communication_s: float
    serial_s: float
    overlapped_s: float
    serial_mfu: float
    overlapped_mfu: float
    bound: str

    @property
    def fits(self) -> bool | None:
        return None if self.memory_byte is None else self.memory.byte <= self.memory_byte

    @property
    def sent_byte(self) -> float:
        return sum(each.sent_byte for each in self.collectives)

    @property
    def rank(self) -> tuple[bool, float, float, float]:
        """The order of plans: those that fit by the least time, without overlap first; then the others by memory."""
        if self.fits is False:
            return True, self.memory.byte, self.serial_s, self.overlapped_s
        return False, self.serial_s, self.overlapped_s, self.memory.byte


@dataclass(frozen=True)
class _Schedule:
    """How a data group runs its inputs: ``count`` micro-batches, recomputing blocks in the backward pass or not."""

    setup: TrainingSetup
    layout: Layout
    micro_batch: int
    count: int
    is_full: bool

    def states(self, stage: StageWork) -> StateMemory:
        layout, of = self.layout, self.setup.states
        shared = state_memory(stage.shared, of, layout.zero, layout.replicas)
        return shared + state_memory(stage.experts, of, layout.zero, layout.replicas // layout.expert)

    def planned(
        self, kind: str, name: str, group: str, gpus: int, stride: int, calls: int, message: float, pipelined: bool
    ) -> PlannedCollective:
        fabric = self.setup.fabric
        sent_byte = calls * collective(kind, message, gpus).sent_byte
        least_s = calls * fabric.least_s(kind, message, gpus, stride)
        is_between = fabric.crosses(gpus, stride)
        return PlannedCollective(kind, name, group, gpus, calls, message, sent_byte, is_between, pipelined, least_s)


def plan_step(setup: TrainingSetup, layout: Layout, micro_batch: int, recompute: str = NONE) -> TrainingPlan:
    """Return the plan of a step with micro-batches of so many inputs in each data group."""
    stages = setup.network.stages(layout)
    count = setup.batch // layout.data // micro_batch
    schedule = _Schedule(setup, layout, micro_batch, count, recompute == FULL)
    held = [_memory(schedule, stage, number) for number, stage in enumerate(stages)]
    # The middle stages of a pipeline do the same
    cases = dict.fromkeys((stage, layout.neighbours(number)) for number, stage in enumerate(stages))
    parts = [_StageTimes.of(schedule, stage, neighbours) for stage, neighbours in cases]
    busiest = max(parts, key=lambda each: each.serial_s)
    bubble = (layout.pipeline - 1) / count
    arithmetic_s = busiest.flop / setup.chip.flop_per_s
    memory_s = (busiest.pipelined_byte + busiest.once_byte) / setup.chip.byte_per_s
    pipelined_s = sum(each.least_s for each in busiest.collectives if each.is_pipelined)
    once_s = sum(each.least_s for each in busiest.collectives if not each.is_pipelined)
    busy = [arithmetic_s, busiest.pipelined_byte / setup.chip.byte_per_s, pipelined_s]
    serial_s = sum(busy) * (1 + bubble) + busiest.once_byte / setup.chip.byte_per_s + once_s
    overlapped_s = max(max(busy) * (1 + bubble), memory_s, pipelined_s + once_s)
    forward = sum(stage.forward_flop for stage in stages) * layout.tensor * layout.context
    model_flop = (1 + BACKWARD) * setup.batch * forward
    peak = setup.chip.flop_per_s * layout.gpus
    bounds = {
        ARITHMETIC: arithmetic_s, MEMORY: memory_s, COMMUNICATION: pipelined_s + once_s, BUBBLE: max(busy) * bubble,
    }  # fmt: skip
    return TrainingPlan(
        layout, recompute, micro_batch, count, max(held, key=lambda each: each.byte), setup.chip.memory_byte,
        busiest.flop, model_flop, busiest.pipelined_byte + busiest.once_byte, busiest.collectives, bubble,
        arithmetic_s, memory_s, pipelined_s + once_s, serial_s, overlapped_s,
        model_flop / (serial_s * peak), model_flop / (overlapped_s * peak), max(bounds, key=lambda name: bounds[name]),
    )  # fmt: skip


def _memory(schedule: _Schedule, stage: StageWork, number: int) -> GpuBytes:
    """Return the memory of a GPU of a stage. Of a pipeline, stage s of p holds min(m, p - s) micro-batches at once
    (one forward, one backward: Narayanan et al. 2021, arXiv:2104.04473).

    Stage 3 of ZeRO gathers the weights outside the blocks for both passes, and a block's with the next ones'. Stages 2
    and 3 hold whole gradients of those until they are scattered. A block of a split sequence has gathered keys and
    values, and in its backward pass their whole gradients. The most is alive as the backward pass begins, in its
    first block, at its end, when all gradients are there and the activations of one block, or in the update, where
    torch's Adam keeps the roots of all second averages for a moment (``foreach``, its way on a GPU).
    """
    layout, of, states, size = schedule.layout, schedule.setup.states, schedule.states(stage), schedule.micro_batch
    flight, block = min(schedule.count, layout.pipeline - number), size * stage.block_byte
    kept = size * flight * (stage.input_byte if schedule.is_full else stage.saved_byte)
    activations, loss = kept + schedule.is_full * block, size * stage.loss_byte
    has_gathered, has_scattered = layout.zero == 3, layout.zero >= 2
    root = has_gathered * stage.root * of.weight
    blocks = has_gathered * min(2 * stage.layer, stage.parameters - stage.root) * of.weight
    scattered = has_scattered * (stage.root + stage.layer) * of.gradient
    context = size * stage.context_byte
    is_accumulated = schedule.count > 1 or (layout.replicas > 1 and not has_scattered)  # or in the buckets of DDP
    kept_byte = states.byte - (0.0 if is_accumulated else states.gradient_byte)
    peak = max(
        kept_byte + root + activations + loss,
        kept_byte + root + activations + blocks + scattered + context,
        states.byte + root + blocks + scattered + context + block,
        states.byte + of.update * states.optimizer_byte / (of.master + of.moments),
    )
    return GpuBytes(
        states.weight_byte, states.gradient_byte, states.optimizer_byte, activations, loss,
        root + blocks + scattered + context, peak,
    )  # fmt: skip


@dataclass(frozen=True)
class _StageTimes:
    """The work of a GPU of a stage in a step; ``pipelined_byte`` of memory move with micro-batches, the others once."""

    flop: float
    pipelined_byte: float
    once_byte: float
    collectives: tuple[PlannedCollective, ...]
    serial_s: float

    @classmethod
    def of(cls, schedule: _Schedule, stage: StageWork, neighbours: int) -> "_StageTimes":
        """Count FLOP, bytes of memory and collectives of a stage with so many ``neighbours``.

        Each micro-batch reads the weights in both passes, once more to recompute, and adds to the gradients; what it
        saves is written and read. The optimiser reads its shard of gradients and states, and writes states and weights.
        """
        setup, is_full, inputs = schedule.setup, schedule.is_full, schedule.micro_batch * schedule.count
        again = stage.blocks_flop if is_full else 0.0
        flop = inputs * ((1 + BACKWARD) * stage.forward_flop + RESCORED * stage.attention_flop + again)
        of, states = setup.states, schedule.states(stage)
        passes = 3 if is_full else 2
        pipelined_byte = schedule.count * stage.parameters * (passes * of.weight + 2 * of.gradient)
        pipelined_byte += 2 * inputs * (stage.saved_byte + is_full * stage.input_byte + stage.loss_byte)
        updated = states.optimizer_byte / (of.master + of.moments)  # parameters
        once_byte = updated * (of.weight + of.gradient) + 2 * states.optimizer_byte
        found = tuple(_collectives(schedule, stage, neighbours))
        serial_s = flop / setup.chip.flop_per_s + (pipelined_byte + once_byte) / setup.chip.byte_per_s
        return cls(flop, pipelined_byte, once_byte, found, serial_s + sum(each.least_s for each in found))


def _collectives(schedule: _Schedule, stage: StageWork, neighbours: int) -> Iterator[PlannedCollective]:
    """Yield the collectives of a GPU of a stage in a step."""
    layout, count = schedule.layout, schedule.count
    groups = {
        TENSOR: (layout.tensor, 1),
        EXPERT: (layout.expert, layout.tensor),
        CONTEXT: (layout.context, layout.tensor * layout.expert),
    }
    for each in stage.exchanges:
        calls = count * (each.forward + each.backward + schedule.is_full * each.again)
        message = schedule.micro_batch * each.message_byte
        yield schedule.planned(each.kind, each.name, each.group, *groups[each.group], calls, message, True)
    for parameters, name, gpus, stride in (
        (stage.shared, "", layout.replicas, layout.tensor),
        (stage.experts, " of experts", layout.replicas // layout.expert, layout.tensor * layout.expert),
    ):
        if parameters and gpus > 1:
            for kind, of, calls, message, pipelined in _data_calls(schedule, parameters):
                yield schedule.planned(kind, f"{of}{name}", DATA, gpus, stride, calls, message, pipelined)
    if layout.pipeline > 1:
        message = schedule.micro_batch * max(each.sent_byte for each in schedule.setup.network.stages(layout))
        sizes = layout.pipeline, layout.tensor * layout.replicas
        yield schedule.planned(SEND, "activations and gradients", PIPELINE, *sizes, count * neighbours, message, True)


def _data_calls(schedule: _Schedule, parameters: float) -> Iterator[tuple[str, str, int, float, bool]]:
    """Yield the collectives of GPUs with the same weights: gradients are added, from stage 1 of ZeRO weights gathered.

    Stages 0 and 1 add the gradients once a step. Stages 2 and 3 keep no whole gradient, so they do after each
    micro-batch. Stage 3 gathers the weights in the forward and in the backward pass of each micro-batch.
    """
    zero, count, of = schedule.layout.zero, schedule.count, schedule.setup.states
    weights, gradients = parameters * of.weight, parameters * of.gradient
    if zero == 0:
        yield ALL_REDUCE, "gradients", 1, gradients, False
        return
    yield REDUCE_SCATTER, "gradients", count if zero >= 2 else 1, gradients, zero >= 2
    yield ALL_GATHER, "weights", 2 * count if zero == 3 else 1, weights, zero == 3
