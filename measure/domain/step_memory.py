"""The memory of a training step: by block, by operator, over time, and under plans of checkpoints."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class BlockMemory:
    """A block, or a part outside the blocks, in the order of the forward pass.

    ``saved_byte`` is kept for the backward pass; a storage that two parts keep counts for the first. ``output_byte`` is
    what later parts read of the storages that this one makes: what a pipeline sends on, and a checkpoint keeps.
    ``after_forward_byte`` and ``after_backward_byte`` are all bytes alive when the part ends in that pass, None if it
    does not run there. ``backward_flop`` is without recomputation.
    """

    path: str
    type: str
    is_block: bool
    parameter_byte: int
    gradient_byte: int
    state_byte: int
    saved_byte: int
    output_byte: int
    forward_flop: int
    backward_flop: int
    after_forward_byte: int | None
    after_backward_byte: int | None


@dataclass(frozen=True)
class OperatorMemory:
    """The bytes that all calls of one operator keep for the backward pass, and the number of calls that keep any."""

    operator: str
    calls: int
    saved_byte: int


@dataclass(frozen=True)
class Moment:
    """The memory while one operator runs. ``phase`` is forward, backward or update.

    ``byte`` is all that is alive: ``resident_byte`` of the step (parameters, buffers, inputs, the loss's targets, the
    optimiser's state), ``gradient_byte`` of parameters, ``saved_byte`` that the network keeps for the backward pass,
    and others, such as gradients of activations and the loss's tensors. ``part`` is "loss" while the loss runs.
    """

    phase: str
    part: str
    operator: str
    byte: int
    gradient_byte: int
    saved_byte: int


@dataclass(frozen=True)
class CheckpointPlan:
    """Segments of consecutive blocks, each run under one checkpoint: its first and last block, by path.

    ``recompute_flop`` of the forward pass run again; ``recompute_share`` is their share of the longer step's FLOP.
    """

    name: str
    segments: list[tuple[str, str]]
    peak_byte: int
    recompute_flop: int
    recompute_share: float


@dataclass(frozen=True)
class StepMemory:
    """The memory of one training step: a forward pass, the loss, a backward pass, and an update.

    ``measured_byte`` is the peak that torch measured of such steps on this machine; None: not measured.
    """

    model: str
    input_shape: str
    batch: int
    precision: str
    optimizer: str
    parameter_byte: int
    buffer_byte: int
    input_byte: int
    target_byte: int
    gradient_byte: int
    state_byte: int
    saved_byte: int
    peak: Moment
    measured_byte: int | None
    blocks: list[BlockMemory]
    operators: list[OperatorMemory]
    plans: list[CheckpointPlan]
    timeline: list[Moment]

    @property
    def resident_byte(self) -> int:
        return self.parameter_byte + self.buffer_byte + self.input_byte + self.target_byte + self.state_byte

    def as_json(self) -> dict[str, Any]:
        """Return the keys of ``docs/json.md``."""
        return asdict(self) | {"resident_byte": self.resident_byte}
