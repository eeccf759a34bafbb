"""How GPUs share a training step: the sizes of a layout, all that a number of GPUs allows, and why others fail."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt, log, prod
from typing import Protocol

from measure.errors import UserError
from measure.planning.states import STAGES
from measure.planning.work import StageWork
from measure.serving.plan import MOST

FLAGS = {"dp": "data", "zero": "zero", "tp": "tensor", "cp": "context", "pp": "pipeline", "ep": "expert"}
PART = 8192  # tokens that a GPU keeps of a split sequence, as in Llama 3 (Grattafiori et al. 2024, table 4)


@dataclass(frozen=True)
class Layout:
    """``data`` groups have different inputs; ``zero`` is the stage of ZeRO that shards their states.

    Within a group ``tensor`` GPUs share each matrix, ``context`` parts of them split each sequence, ``pipeline`` stages
    have different layers. ``expert`` of the data groups have different experts. Neighbours share matrices, then come
    those with different experts, the parts of a sequence, the other data groups, and the stages.
    """

    data: int = 1
    zero: int = 0
    tensor: int = 1
    pipeline: int = 1
    expert: int = 1
    context: int = 1

    @property
    def gpus(self) -> int:
        return self.replicas * self.tensor * self.pipeline

    @property
    def replicas(self) -> int:
        """The GPUs of a stage that have the same weights, but for experts: ZeRO shards their states."""
        return self.data * self.context

    def neighbours(self, stage: int) -> int:
        """Return how many stages of the pipeline are next to one."""
        return (stage > 0) + (stage < self.pipeline - 1)

    @property
    def text(self) -> str:
        """The layout as flags: ``dp 8 zero 3 tp 2``."""
        parts = {flag: getattr(self, name) for flag, name in FLAGS.items()}
        if self.zero == 0:
            del parts["zero"]
        return " ".join(f"{flag} {size}" for flag, size in parts.items() if size > 1 or flag == "zero") or "one GPU"

    @property
    def flags(self) -> str:
        sizes = {flag: getattr(self, name) for flag, name in FLAGS.items()}
        least = dict.fromkeys(("zero", "dp", "tp", "pp"), 1)
        return " ".join(f"--{flag} {size}" for flag, size in sizes.items() if size >= least.get(flag, 2))


class TrainedNetwork(Protocol):
    """A network as a plan takes it. ``inputs`` is the word for several of its inputs, ``depth`` counts its blocks.

    ``tokens`` of an input; None unless they are chosen.
    """

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> str: ...

    @property
    def depth(self) -> int: ...

    @property
    def tokens(self) -> int | None: ...

    @property
    def parameters(self) -> int: ...

    def stages(self, layout: Layout) -> tuple[StageWork, ...]: ...

    def tensor_refusal(self, size: int) -> str | None: ...

    def context_refusal(self, size: int) -> str | None: ...

    def expert_refusal(self, size: int, tensor: int) -> str | None: ...


def nearest(sizes: Sequence[int], size: int) -> str:
    """Return the sizes next to one that does not work, as words."""
    near = [each for each in sizes if each < size][-1:] + [each for each in sizes if each > size][:1]
    return " or ".join(map(str, near)) or "none"


def divisors(number: int) -> list[int]:
    small = [size for size in range(1, isqrt(number) + 1) if number % size == 0]
    return sorted({*small, *(number // size for size in small)})


def layouts(
    network: TrainedNetwork, gpus: int, batch: int, most_tensor: int | None = None, may_split_all: bool = False
) -> Iterator[Layout]:
    """Yield all layouts of so many GPUs that a network and a global batch allow.

    ``most_tensor`` is the largest group that may share matrices: the GPUs of a node if nobody named a network. Without
    ``may_split_all`` sequences are split as long as a GPU keeps ``PART`` tokens.
    """
    tensors, splits = _tensors(network, gpus, most_tensor), _splits(network, gpus, may_split_all)
    for tensor, split in product(tensors, splits):
        if gpus % (tensor * split):
            continue
        for pipeline in (size for size in range(1, network.depth + 1) if gpus // tensor // split % size == 0):
            data = gpus // tensor // split // pipeline
            if data_reason(network, data, batch):
                continue
            for expert in divisors(data):
                if network.expert_refusal(expert, tensor):
                    continue
                for zero in STAGES if data * split > 1 else (0,):
                    yield Layout(data, zero, tensor, pipeline, expert, split)


def _tensors(network: TrainedNetwork, most: int, most_tensor: int | None) -> list[int]:
    """Return the numbers of GPUs, up to ``most``, that can share the matrices."""
    sizes = range(1, min(most, MOST, most_tensor or MOST) + 1)
    return [size for size in sizes if not network.tensor_refusal(size)]


def _splits(network: TrainedNetwork, most: int, may_split_all: bool) -> list[int]:
    """Return the numbers of GPUs, up to ``most``, that can split a sequence."""
    tokens = network.tokens or 0
    longest = min(most, tokens if may_split_all else tokens // PART)
    sizes = {1, *(divisors(tokens // 2) if tokens > 1 else [])}
    return [size for size in sorted(sizes) if size <= max(1, longest) and not network.context_refusal(size)]


def most_gpus(network: TrainedNetwork, most: int, batch: int, most_tensor: int | None = None) -> int:
    """Return the largest number of GPUs, up to ``most``, that has a layout."""
    sizes = product(_tensors(network, most, most_tensor), _splits(network, most, False), divisors(batch))
    groups = (prod(each) for each in sizes)
    return max(group * min(network.depth, most // group) for group in groups if group <= most)


def tensor_reason(network: TrainedNetwork, size: int, most: int | None) -> str | None:
    if reason := network.tensor_refusal(size):
        return reason
    if most is not None and size > most:
        return f"--tp {size} crosses nodes of {most} GPUs, and the links between nodes need --network GB/s"
    return None


def pipeline_reason(network: TrainedNetwork, size: int) -> str | None:
    if size <= network.depth:
        return None
    return f"--pp {size} is more stages than {network.name} has blocks ({network.depth})"


def data_reason(network: TrainedNetwork, size: int, batch: int) -> str | None:
    if batch < size:
        return f"--batch {batch} has fewer {network.inputs} than --dp {size} has groups"
    return f"--dp {size} does not divide --batch {batch}" if batch % size else None


def choose(
    network: TrainedNetwork, gpus: int, batch: int, fixed: dict[str, int], most_tensor: int | None
) -> list[Layout]:
    """Return the layouts with the ``fixed`` sizes, by the names of ``FLAGS``.

    Raises UserError, with the reason and the nearest layout that works, if there is none.
    """
    able = list(layouts(network, gpus, batch, most_tensor, may_split_all="cp" in fixed))
    sizes = {FLAGS[flag]: size for flag, size in fixed.items()}
    found = [each for each in able if all(getattr(each, name) == size for name, size in sizes.items())]
    if found:
        return found
    reason = _reason(network, gpus, batch, fixed, most_tensor)
    if not able:
        near = most_gpus(network, gpus, batch, most_tensor)
        raise UserError(f"plan of {network.name}: {reason}; use --gpus {near}, or --batch {gpus} or a multiple")

    def distance(each: Layout) -> float:
        return sum(abs(log((1 + getattr(each, name)) / (1 + size))) for name, size in sizes.items())

    raise UserError(f"plan of {network.name}: {reason}; the nearest that works is {min(able, key=distance).flags}")


def _reason(network: TrainedNetwork, gpus: int, batch: int, fixed: dict[str, int], most_tensor: int | None) -> str:
    """Return why no layout has the ``fixed`` sizes."""
    sizes = {flag: fixed.get(flag, 1) for flag in ("dp", "tp", "cp", "pp")}
    checks: list[Callable[[], str | None]] = [
        lambda: tensor_reason(network, sizes["tp"], most_tensor),
        lambda: network.context_refusal(sizes["cp"]),
        lambda: pipeline_reason(network, sizes["pp"]),
        lambda: data_reason(network, sizes["dp"], batch),
        lambda: network.expert_refusal(fixed.get("ep", 1), sizes["tp"]),
    ]
    for check in checks:
        if reason := check():
            return reason
    made = prod(sizes.values())
    if gpus % made or (made != gpus and {"dp", "tp", "pp"} <= set(fixed)):
        given = " x ".join(f"--{flag} {size}" for flag, size in sizes.items() if flag in fixed)
        return f"{given} makes {made} GPUs, {'which do not divide' if gpus % made else 'not'} --gpus {gpus}"
    if fixed.get("zero"):
        return f"--zero {fixed['zero']} shards the states of data groups, and there is one"
    if fixed.get("ep", 1) > 1:
        return f"--ep {fixed['ep']} does not divide the data groups"
    return f"{gpus} GPUs cannot share a batch of {batch} {network.inputs} and {network.depth} blocks"
