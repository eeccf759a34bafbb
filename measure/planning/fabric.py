"""The links between GPUs: the least time of a collective within a node, and between nodes."""

from dataclasses import dataclass

from measure.domain.collectives import ALL_REDUCE, ALL_TO_ALL, SEND
from measure.serving.kernels import collective


@dataclass(frozen=True)
class Fabric:
    """The rates (B/s) at which a GPU sends, each way: over its link within a node of ``node_gpus``, and between nodes.

    ``network_byte_per_s`` is None if nobody named it: collectives between nodes then count at the rate of the link,
    which is a bound still, and a low one.
    """

    link_byte_per_s: float
    node_gpus: int
    network_byte_per_s: float | None = None

    def local(self, gpus: int, stride: int) -> int:
        """Return how many of ``gpus``, each ``stride`` after the last, are in one node."""
        return min(gpus, max(1, self.node_gpus // stride))

    def crosses(self, gpus: int, stride: int) -> bool:
        return self.local(gpus, stride) < gpus

    def least_s(self, kind: str, message_byte: float, gpus: int, stride: int = 1) -> float:
        """Return the least time of a collective of a message, as ``measure.serving.kernels.collective`` counts it.

        Between nodes the members in a node share what it sends: of an all-gather of M bytes over n nodes, a node
        receives (n - 1) / n M, by all its members' networks.
        """
        if gpus == 1:
            return 0.0
        within_s = collective(kind, message_byte, gpus).sent_byte / self.link_byte_per_s
        local = self.local(gpus, stride)
        if local == gpus or self.network_byte_per_s is None:
            return within_s
        return max(within_s, self._network_byte(kind, message_byte, gpus, local) / self.network_byte_per_s)

    @staticmethod
    def _network_byte(kind: str, message_byte: float, gpus: int, local: int) -> float:
        """Return the bytes that a GPU sends to other nodes."""
        if kind == SEND:
            return message_byte
        if kind == ALL_TO_ALL:
            return message_byte * (gpus - local) / gpus
        nodes = -(-gpus // local)
        return (2 if kind == ALL_REDUCE else 1) * (nodes - 1) / nodes * message_byte / local
