"""What one GPU of a stage does for one input of a training step; everything else of a plan follows from it."""

from dataclasses import dataclass

TENSOR, CONTEXT, EXPERT, DATA, PIPELINE = "tensor", "context", "expert", "data", "pipeline"


@dataclass(frozen=True)
class LayerCollective:
    """A collective of the ``tensor``, ``context`` or ``expert`` group: its calls and the message of one input.

    ``again``: the calls of ``forward`` that run again if activations are recomputed.
    """

    kind: str
    name: str
    group: str
    message_byte: float
    forward: int
    backward: int
    again: int = 0


@dataclass(frozen=True)
class StageWork:
    """A GPU of one stage: the parameters that it has before ZeRO shards them, and its work for one input.

    ``shared`` parameters are the same in all data groups, ``experts`` in every ``expert``-th one. ``layer`` are those
    of its largest block, ``root`` those outside its blocks. ``attention_flop`` is the part of ``forward_flop`` that
    the backward pass of attention computes again; ``blocks_flop`` the part that recomputing all blocks repeats.
    ``saved_byte`` is kept for the backward pass, ``input_byte`` if only the inputs of blocks are, ``block_byte`` in the
    largest block; ``loss_byte`` when the backward pass begins. ``sent_byte`` goes to the next stage, and as much back.
    ``context_byte`` are a block's keys and values of a whole sequence that is split, and their gradients.
    """

    shared: float
    experts: float
    layer: float
    root: float
    forward_flop: float
    attention_flop: float
    blocks_flop: float
    saved_byte: float
    input_byte: float
    block_byte: float
    loss_byte: float
    sent_byte: float
    exchanges: tuple[LayerCollective, ...] = ()
    context_byte: float = 0.0

    @property
    def parameters(self) -> float:
        return self.shared + self.experts
