"""The largest number of GPUs before communication takes longer than arithmetic, in closed form.

A group of N GPUs shares the step's C FLOP. Each GPU sends (N - 1) / N X bytes, at W bytes a second, and computes C / N
FLOP, at F FLOP a second. Communication hides behind arithmetic while

    (N - 1) / N X / W <= C / (N F),  so  N <= 1 + C W / (X F).

X is 2 P g for data parallelism, an all-reduce of the gradients of P parameters with g bytes each; (2 w + g) P for FSDP,
which gathers weights of w bytes twice and scatters gradients once; S for tensor parallelism, the bytes that all calls
gather and scatter of the whole batch. C and S grow with the batch, P does not: a larger batch keeps more data groups
busy, and no more tensor groups. Of n nodes the GPUs of each share what a node sends, so n <= 1 + C V / (X F), with V
bytes a second between nodes for each GPU.
"""

from dataclasses import dataclass
from math import floor

from measure.domain.values import plain
from measure.planning.layout import Layout
from measure.planning.training import BACKWARD, TrainingSetup
from measure.planning.work import TENSOR

TENSOR_PARALLEL = "tensor parallel"


@dataclass(frozen=True)
class GroupLimit:
    """The most ``gpus`` of one kind of parallelism, alone, before communication bounds the step.

    ``within`` is the closed form's value for the link within a node, ``nodes`` for the network; None if it is unknown
    or not needed. ``formula`` has symbols, ``numbers`` their values. ``share`` is the inputs of a GPU at the limit.
    """

    name: str
    gpus: int
    within: float
    nodes: float | None
    sent_byte: float
    formula: str
    numbers: str
    share: float

    @property
    def is_data(self) -> bool:
        return self.name != TENSOR_PARALLEL

    @property
    def needs_network(self) -> bool:
        """Whether the node ends before the closed form's value, and nobody named a network."""
        return self.nodes is None and self.within >= self.gpus + 1


def limits(setup: TrainingSetup) -> list[GroupLimit]:
    """Return the limits of data parallelism, FSDP and, if the network has matrices that GPUs can share, of tensor
    parallelism; each alone, with one micro-batch and nothing computed again.
    """
    (stage,) = setup.network.stages(Layout())
    flop = (1 + BACKWARD) * setup.batch * stage.forward_flop
    of, parameters = setup.states, stage.parameters
    kinds = [
        ("data parallel (DDP)", 2 * parameters * of.gradient, "2 P g", f"2 x {parameters:.3g} x {of.gradient}"),
        ("FSDP (ZeRO 3)", parameters * (2 * of.weight + of.gradient), "(2 w + g) P",
         f"(2 x {of.weight} + {of.gradient}) x {parameters:.3g}"),
    ]  # fmt: skip
    if setup.network.tensor_refusal(2) is None:
        (shared,) = setup.network.stages(Layout(tensor=2))
        sent = sum(
            (each.forward + each.backward) * each.message_byte for each in shared.exchanges if each.group == TENSOR
        )
        kinds.append((TENSOR_PARALLEL, setup.batch * sent, "S", f"{setup.batch * sent:.3g}"))
    return [_limit(setup, flop, *kind) for kind in kinds]


def _limit(setup: TrainingSetup, flop: float, name: str, sent_byte: float, symbols: str, numbers: str) -> GroupLimit:
    fabric, peak = setup.fabric, setup.chip.flop_per_s
    within = 1 + flop * fabric.link_byte_per_s / (sent_byte * peak)
    gpus, nodes = floor(min(within, fabric.node_gpus)), None
    if within > fabric.node_gpus and fabric.network_byte_per_s is not None:
        nodes = 1 + flop * fabric.network_byte_per_s / (sent_byte * peak)
        gpus = floor(min(within, max(1, floor(nodes)) * fabric.node_gpus))
    formula = f"N <= 1 + C W / ({symbols} F)"
    values = f"1 + {flop:.3g} x {fabric.link_byte_per_s:.3g} / ({numbers} x {peak:.3g}) = {plain(within)}"
    return GroupLimit(name, gpus, within, nodes, sent_byte, formula, values, setup.batch / gpus)
