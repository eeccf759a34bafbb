"""What training keeps of each parameter, and how ZeRO shards it (Rajbhandari et al. 2020, arXiv:1910.02054)."""

from dataclasses import dataclass

from measure.domain.words import stored_as

ADAM, SGD = OPTIMIZERS = "adam", "sgd"
MOMENT_BYTE = {ADAM: 8, SGD: 4}  # two averages, or the momentum, at fp32
UPDATE_BYTE = {ADAM: 4, SGD: 0}  # while torch updates the parameters
STAGES = (0, 1, 2, 3)  # of ZeRO: none, states, gradients too, weights too


@dataclass(frozen=True)
class StateBytes:
    """The bytes of one parameter: weight, gradient, the optimiser's copy of the weight at fp32, and its moments.

    ``update`` more are alive while the optimiser updates it.
    """

    precision: str
    weight: int
    gradient: int
    master: int
    moments: int
    update: int

    @property
    def total(self) -> int:
        return self.weight + self.gradient + self.master + self.moments

    @property
    def text(self) -> str:
        parts = {"weight": self.weight, "gradient": self.gradient, "optimiser's weight": self.master}
        parts["optimiser's moments"] = self.moments
        return " + ".join(f"{byte} {name}" for name, byte in parts.items() if byte)


def state_bytes(precision: str, optimizer: str) -> StateBytes:
    """Return the bytes of mixed precision at 16 bits, with a weight at fp32 besides, or of fp32 alone."""
    kept = MOMENT_BYTE[optimizer], UPDATE_BYTE[optimizer]
    if stored_as(precision) in ("fp16", "bf16"):
        return StateBytes(precision, 2, 2, 4, *kept)
    return StateBytes(precision, 4, 4, 0, *kept)


@dataclass(frozen=True)
class StateMemory:
    """The bytes that a GPU keeps of weights, gradients and the optimiser's states."""

    weight_byte: float
    gradient_byte: float
    optimizer_byte: float

    @property
    def byte(self) -> float:
        return self.weight_byte + self.gradient_byte + self.optimizer_byte

    def __add__(self, other: "StateMemory") -> "StateMemory":
        return StateMemory(
            self.weight_byte + other.weight_byte,
            self.gradient_byte + other.gradient_byte,
            self.optimizer_byte + other.optimizer_byte,
        )


def state_memory(parameters: float, of: StateBytes, zero: int, gpus: int) -> StateMemory:
    """Return what one of ``gpus`` with the same parameters keeps: stage 1 of ZeRO shards the optimiser's states,
    stage 2 gradients as well, stage 3 weights as well.
    """
    share = [parameters / gpus if zero >= stage else parameters for stage in STAGES]
    return StateMemory(share[3] * of.weight, share[2] * of.gradient, share[1] * (of.master + of.moments))
