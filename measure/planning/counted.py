"""A training step of any network that was counted block by block: data groups and pipeline stages share it."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise

from measure.domain.step_memory import StepMemory
from measure.planning.activations import loss_byte
from measure.planning.layout import Layout
from measure.planning.training import BACKWARD
from measure.planning.work import StageWork

MODEL_ITSELF = "."  # the path of a network's own operators


@dataclass(frozen=True)
class BlockCount:
    """The counts of a block for one input. ``output_byte`` is what later parts read of it."""

    is_block: bool
    parameters: float
    saved_byte: float
    output_byte: float
    forward_flop: float
    backward_flop: float


def of_memory(counted: StepMemory, byte: int) -> "CountedNetwork":
    """Return the network whose step was counted, with numbers of ``byte`` each. Its last part makes the scores."""
    batch = counted.batch
    parts = tuple(
        BlockCount(
            part.is_block, part.parameter_byte / byte, part.saved_byte / batch, part.output_byte / batch,
            part.forward_flop / batch, part.backward_flop / batch,
        )
        for part in counted.blocks
        if part.path != MODEL_ITSELF or part.parameter_byte or part.saved_byte
    )  # fmt: skip
    return CountedNetwork(counted.model, parts, parts[-1].output_byte / byte, byte)


@dataclass(frozen=True, eq=False)
class CountedNetwork:
    """A network as its blocks; ``scores`` are the numbers of its outputs for one input, ``byte`` those of each."""

    name: str
    parts: tuple[BlockCount, ...]
    scores: float
    byte: int
    inputs: str = "inputs"
    tokens: int | None = None

    @property
    def depth(self) -> int:
        return sum(part.is_block for part in self.parts) or len(self.parts)

    @property
    def parameters(self) -> int:
        return round(sum(part.parameters for part in self.parts))

    def tensor_refusal(self, size: int) -> str | None:
        return self._refusal(size, f"--tp {size} shares the matrices")

    def context_refusal(self, size: int) -> str | None:
        return self._refusal(size, f"--cp {size} splits the sequences")

    def expert_refusal(self, size: int, tensor: int) -> str | None:
        return self._refusal(size, f"--ep {size} shares the experts")

    def _refusal(self, size: int, what: str) -> str | None:
        return None if size == 1 else f"{what} of a decoder alone, and {self.name} is no hf: configuration"

    def stages(self, layout: Layout) -> tuple[StageWork, ...]:
        return self._stages(layout.pipeline)

    @cache  # noqa: B019 - a network lives as long as its plans
    def _stages(self, pipeline: int) -> tuple[StageWork, ...]:
        found = cut(self.parts, pipeline)
        return tuple(self._stage(parts, is_last=number == pipeline - 1) for number, parts in enumerate(found))

    def _stage(self, parts: tuple[BlockCount, ...], is_last: bool) -> StageWork:
        blocks = [part for part in parts if part.is_block]
        others = [part for part in parts if not part.is_block]
        forward = sum(part.forward_flop for part in parts)
        whole = sum(part.forward_flop + part.backward_flop for part in parts) / (1 + BACKWARD)
        return StageWork(
            _sum(parts, "parameters"), 0.0, max((part.parameters for part in blocks), default=0.0),
            _sum(others, "parameters"), whole, 0.0, forward,
            _sum(parts, "saved_byte"), _sum(blocks, "output_byte") + _sum(others, "saved_byte"),
            max((part.saved_byte for part in blocks), default=0.0),
            is_last * loss_byte(1, self.byte) * self.scores, 0.0 if is_last else parts[-1].output_byte,
        )  # fmt: skip


def _sum(parts: Iterable[BlockCount], name: str) -> float:
    return float(sum(getattr(part, name) for part in parts))


def cut(parts: tuple[BlockCount, ...], stages: int) -> list[tuple[BlockCount, ...]]:
    """Cut parts in running order into stages with at least one block each, whose largest FLOP is least.

    The parts before the first block and after the last one stay with it.
    """
    starts = [place for place, part in enumerate(parts) if part.is_block] or list(range(len(parts)))
    edges = [0, *starts[1:], len(parts)]
    groups = [parts[start:end] for start, end in pairwise(edges)]
    flops = [_sum(group, "forward_flop") + _sum(group, "backward_flop") for group in groups]
    total = [0.0, *accumulate(flops)]

    @cache
    def least(first: int, count: int) -> tuple[float, tuple[int, ...]]:
        """Return the least largest FLOP of ``count`` stages from a group on, and where they begin."""
        if count == 1:
            return total[-1] - total[first], (first,)
        found = []
        for end in range(first + 1, len(groups) - count + 2):
            rest, begins = least(end, count - 1)
            found.append((max(total[end] - total[first], rest), (first, *begins)))
        return min(found)

    begins = [*least(0, stages)[1], len(groups)]
    return [tuple(part for group in groups[start:end] for part in group) for start, end in pairwise(begins)]
