"""A served decoder on several GPUs: memory, requests that fit, and the least times of a prompt and of a step."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import gcd

from measure.domain.collectives import SEND
from measure.errors import UserError
from measure.planning.fabric import Fabric
from measure.planning.layout import divisors
from measure.planning.training import ARITHMETIC, COMMUNICATION, MEMORY
from measure.predicting.kernels import ServedChip
from measure.serving.decoder import Decoder, Experts
from measure.serving.plan import MOST, Plan, check_context, check_plan, memories
from measure.serving.step import COLLECTIVE, Operation, Step, decode, prefill

SIZES = {"dp": "data", "tp": "tensor", "pp": "pipeline", "ep": "expert"}


@dataclass(frozen=True)
class LeastTimes:
    """The least times (s) of a token's way through all stages, and the bytes that a GPU of each stage sends, added.

    Arithmetic, memory and communication are those of the largest micro-batch. A stage takes their sum (``serial_s``),
    or the longest of them (``overlapped_s``). A token's time is that of all stages in turn, or the slowest stage's time
    for all micro-batches if that is longer. ``sent_byte`` are the bytes of all micro-batches.
    """

    arithmetic_s: float
    memory_s: float
    communication_s: float
    serial_s: float
    overlapped_s: float
    sent_byte: float

    @property
    def bound(self) -> str:
        parts = {ARITHMETIC: self.arithmetic_s, MEMORY: self.memory_s, COMMUNICATION: self.communication_s}
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True)
class ServingCollective:
    """The calls of one collective in a step of decode, on a GPU of one stage."""

    kind: str
    name: str
    stage: int
    gpus: int
    calls: int
    message_byte: float
    sent_byte: float
    is_between: bool
    least_s: float


@dataclass(frozen=True)
class ServingPlan:
    """How GPUs serve a decoder with ``requests`` at once, in all data groups together.

    The requests of a group pass the stages as ``micro_batches``, so that several stages work at once. ``held_byte`` is
    what the fullest GPU holds: weights, and the cache of its group's requests.
    """

    plan: Plan
    requests: int
    micro_batches: int
    weight_byte: float
    request_byte: float
    held_byte: float
    memory_byte: float | None
    most_requests: int | None
    decode: LeastTimes
    prefill: LeastTimes
    collectives: tuple[ServingCollective, ...]

    @property
    def fits(self) -> bool | None:
        return None if self.memory_byte is None else self.held_byte <= self.memory_byte

    @property
    def text(self) -> str:
        sizes = {flag: getattr(self.plan, name) for flag, name in SIZES.items()}
        return " ".join(f"{flag} {size}" for flag, size in sizes.items() if size > 1) or "one GPU"

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The order of plans: those that fit by the least time of a step, then of a prompt; the others by memory."""
        if self.fits is False:
            return True, self.held_byte, self.decode.serial_s
        return False, self.decode.serial_s, self.prefill.serial_s


def serving_plans(
    decoder: Decoder, chip: ServedChip, fabric: Fabric, gpus: int, requests: int, context: int, fixed: dict[str, int]
) -> list[ServingPlan]:
    """Return the plans of so many GPUs with the ``fixed`` sizes, by the names of ``SIZES``, the best first.

    Raises UserError if there is none; it names the nearest that works.
    """
    check_context(decoder, context + 1, 1)  # a step adds a token
    sizes = {SIZES[flag]: size for flag, size in fixed.items()}
    most = fabric.node_gpus if fabric.network_byte_per_s is None else gpus
    able = list(_plans(decoder, gpus, requests, most))
    found = [plan for plan in able if all(getattr(plan, name) == size for name, size in sizes.items())]
    if not found:
        raise _refusal(decoder, gpus, requests, sizes, able, most)
    plans = (_serving_plan(decoder, chip, fabric, plan, requests, context) for plan in found)
    return sorted(plans, key=lambda each: each.rank)


def _plans(decoder: Decoder, gpus: int, requests: int, most_tensor: int) -> Iterator[Plan]:
    """Yield all plans of so many GPUs, each of whose data groups has a request."""
    experts = divisors(_experts(decoder)[0])
    for tensor in _tensors(decoder, min(gpus, most_tensor)):
        for pipeline in range(1, len(decoder.layers) + 1):
            data, rest = divmod(gpus, tensor * pipeline)
            if rest or data > requests:
                continue
            for expert in experts:
                plan = Plan(tensor, expert, data, pipeline)
                try:
                    check_plan(decoder, plan)
                except UserError:
                    continue
                yield plan


def _tensors(decoder: Decoder, most: int) -> list[int]:
    """Return the numbers of GPUs, up to ``most``, that can share the matrices."""
    parts = {part for layer in decoder.layers for part in layer.parts}
    return [size for size in range(1, min(most, MOST) + 1) if all(part.can_divide(size) for part in parts)]


def _experts(decoder: Decoder) -> tuple[int, int]:
    """Return the largest numbers of GPUs that can have different experts, and parts of the same; 1 and 0 if none do."""
    found = {part for layer in decoder.layers for part in layer.parts if isinstance(part, Experts)}
    return (gcd(*(part.count for part in found)), gcd(*(part.inner for part in found))) if found else (1, 0)


def most_gpus(decoder: Decoder, most: int, requests: int, most_tensor: int) -> int:
    """Return the largest number of GPUs, up to ``most``, that has a plan."""
    count, inner = _experts(decoder)
    stages = {first * second for first, second in product(divisors(count), divisors(inner))} if inner else set()
    found = 1
    for tensor, pipeline in product(_tensors(decoder, min(most, most_tensor)), range(1, len(decoder.layers) + 1)):
        data = min(requests, most // (tensor * pipeline))
        if inner:
            able = (size // tensor for size in stages if size % tensor == 0)
            data = max((each for each in able if each <= data), default=0)
        found = max(found, tensor * pipeline * data)
    return found


def _refusal(
    decoder: Decoder, gpus: int, requests: int, sizes: dict[str, int], able: list[Plan], most: int
) -> UserError:
    asked = Plan(**sizes)
    check_plan(decoder, asked)  # it names the nearest size
    reason = f"the sizes make {asked.gpus} GPUs, and --gpus is {gpus}"
    if not sizes:
        reason = f"{gpus} GPUs cannot share {requests} requests and {len(decoder.layers)} layers"
    if asked.tensor > most:
        reason = f"--tp {asked.tensor} crosses nodes of {most} GPUs, and the links between nodes need --network GB/s"
    elif asked.data > requests:
        reason = f"--dp {asked.data} has more groups than --batch {requests} has requests"
    if not able:
        return UserError(f"plan of {decoder.name}: {reason}; use --gpus {most_gpus(decoder, gpus, requests, most)}")

    def distance(plan: Plan) -> float:
        return sum(abs(getattr(plan, name) / size - 1) for name, size in sizes.items())

    near = min(able, key=distance)
    flags = " ".join(
        f"--{flag} {getattr(near, name)}" for flag, name in SIZES.items() if flag != "ep" or near.expert > 1
    )
    return UserError(f"plan of {decoder.name}: {reason}; the nearest that works is {flags}")


def _serving_plan(
    decoder: Decoder, chip: ServedChip, fabric: Fabric, plan: Plan, requests: int, context: int
) -> ServingPlan:
    group = -(-requests // plan.data)
    held = memories(decoder, plan, context)
    fullest = max(held, key=lambda each: each.weight_byte + group * each.request_byte)
    most = None
    if chip.memory_byte is not None:
        rooms = [max(0.0, chip.memory_byte - each.weight_byte) / each.request_byte for each in held]
        most = plan.data * int(min(rooms))

    @cache
    def micro_batch(size: int) -> _MicroBatch:
        return _MicroBatch.of(decode(decoder, plan, plan.data * size, context), chip, fabric, plan)

    cuts = [_cut(group, count) for count in range(1, min(plan.pipeline, group) + 1)]
    found = [[(micro_batch(size), runs) for size, runs in cut] for cut in cuts]
    times = [_times(each) for each in found]
    best = min(range(len(cuts)), key=lambda number: (times[number].overlapped_s, times[number].serial_s))
    prompt = _MicroBatch.of(prefill(decoder, plan, plan.data, context), chip, fabric, plan)
    return ServingPlan(
        plan, requests, best + 1, fullest.weight_byte, fullest.request_byte,
        fullest.weight_byte + group * fullest.request_byte, chip.memory_byte, most,
        times[best], _times([(prompt, 1)]), tuple(_collectives(found[best], fabric, plan)),
    )  # fmt: skip


def _cut(group: int, count: int) -> list[tuple[int, int]]:
    """Cut a group's requests as evenly as they go. Return the sizes, the largest first, and how many have each."""
    least, rest = divmod(group, count)
    return [(size, runs) for size, runs in ((least + 1, rest), (least, count - rest)) if runs]


@dataclass(frozen=True)
class _MicroBatch:
    """A step of some of a group's requests; ``stage_s`` are each stage's arithmetic, memory and communication."""

    step: Step
    stage_s: list[tuple[float, float, float]]
    sent_byte: float

    @classmethod
    def of(cls, step: Step, chip: ServedChip, fabric: Fabric, plan: Plan) -> "_MicroBatch":
        sending = (each for stage in step.stages for each in stage if each.kind == COLLECTIVE)
        sent_byte = sum(each.calls * each.work.sent_byte for each in sending)
        return cls(step, [_stage_times(stage, chip, fabric, plan) for stage in step.stages], sent_byte)


def _times(cut: list[tuple[_MicroBatch, int]]) -> LeastTimes:
    """Return the least times of micro-batches, the largest first, and how often each runs."""

    def token_s(whole: Callable[[Iterable[float]], float]) -> float:
        passing_s = sum(whole(stage) for stage in cut[0][0].stage_s)
        busy_s = [0.0] * len(cut[0][0].stage_s)
        for each, runs in cut:
            busy_s = [busy + runs * whole(stage) for busy, stage in zip(busy_s, each.stage_s, strict=True)]
        return max(passing_s, *busy_s)

    arithmetic_s, memory_s, communication_s = map(sum, zip(*cut[0][0].stage_s, strict=True))
    sent_byte = sum(runs * each.sent_byte for each, runs in cut)
    return LeastTimes(arithmetic_s, memory_s, communication_s, token_s(sum), token_s(max), sent_byte)


def _stage_times(
    stage: tuple[Operation, ...], chip: ServedChip, fabric: Fabric, plan: Plan
) -> tuple[float, float, float]:
    """Return the least times (s) of arithmetic, memory and communication."""
    arithmetic_s = sum(each.calls * each.work.flop / _rate(chip, each.precision) for each in stage)
    memory_s = sum(each.calls * each.work.byte for each in stage) / chip.byte_per_s
    sending = (each for each in stage if each.kind == COLLECTIVE)
    return arithmetic_s, memory_s, sum(each.calls * _least_s(each, fabric, plan)[0] for each in sending)


def _rate(chip: ServedChip, precision: str) -> float:
    return chip.flop_per_s.get(precision, chip.flop_per_s["bf16"])


def _least_s(operation: Operation, fabric: Fabric, plan: Plan) -> tuple[float, bool]:
    """Return the least time (s) of a call of a collective, and whether it is between nodes."""
    kind, gpus, stride = operation.name.partition(" ")[0], int(operation.shape["gpus"]), 1
    if kind == SEND:
        gpus, stride = plan.pipeline, plan.tensor * plan.data
    return fabric.least_s(kind, operation.shape["message_byte"], gpus, stride), fabric.crosses(gpus, stride)


def _collectives(cut: list[tuple[_MicroBatch, int]], fabric: Fabric, plan: Plan) -> Iterator[ServingCollective]:
    for number in range(plan.pipeline):
        for micro_batch, runs in cut:
            for each in micro_batch.step.stages[number]:
                if each.kind == COLLECTIVE:
                    kind, _, name = each.name.partition(" of ")
                    least_s, is_between = _least_s(each, fabric, plan)
                    calls = runs * each.calls
                    yield ServingCollective(
                        kind, name, number, int(each.shape["gpus"]), calls, each.shape["message_byte"],
                        calls * each.work.sent_byte, is_between, calls * least_s,
                    )  # fmt: skip
