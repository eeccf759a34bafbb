"""Split a network into its blocks and the parts between them."""

from collections import Counter
from dataclasses import dataclass

from torch import nn

from measure.counting.layers import MODEL_ITSELF

CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)  # and their subclasses: they only hold others
SIBLINGS = 3  # an encoder next to a decoder is no pair of blocks


@dataclass(frozen=True)
class BlockPart:
    """A block, a module outside the blocks with all that it holds, or the own operators of a module around blocks."""

    path: str
    type: str
    is_block: bool


def part_of_modules(network: nn.Module) -> dict[nn.Module, BlockPart]:
    """Return the part that each module belongs to.

    A block is a repeated module with children of its own, such as a transformer's layer or a ResNet's bottleneck: an
    outermost one whose class occurs at least twice in containers, or ``SIBLINGS`` times among a module's children. In a
    network without any, each outermost module that is no container is a block.
    """
    blocks = _repeated(network) or _outermost(network)
    paths = {module: path or MODEL_ITSELF for path, module in network.named_modules()}
    held = {each: block for block in blocks for each in block.modules()}
    parts: dict[nn.Module, BlockPart] = {}

    def assign(module: nn.Module, part: BlockPart | None) -> None:
        if module in parts:
            return
        if part is None:
            is_block = module in blocks
            own = BlockPart(paths[module], type(module).__name__, is_block)
            part = own if is_block or not any(each in held for each in module.modules()) else None
            parts[module] = own
        else:
            parts[module] = part
        for child in module.children():
            assign(child, part)

    assign(network, None)
    return parts


def _repeated(network: nn.Module) -> set[nn.Module]:
    counts: Counter[type[nn.Module]] = Counter()
    for parent in network.modules():
        among = Counter(type(child) for child in set(parent.children()) if _has_children(child))
        for kind, number in among.items():
            counts[kind] += number if isinstance(parent, CONTAINERS) or number >= SIBLINGS else 0
    blocks: set[nn.Module] = set()

    def collect(module: nn.Module) -> None:
        among = Counter(map(type, set(module.children())))
        for child in module.children():
            is_listed = isinstance(module, CONTAINERS) or among[type(child)] >= SIBLINGS
            if is_listed and _has_children(child) and counts[type(child)] >= 2:
                blocks.add(child)
            else:
                collect(child)

    collect(network)
    return blocks


def _has_children(module: nn.Module) -> bool:
    return not isinstance(module, CONTAINERS) and next(module.children(), None) is not None


def _outermost(network: nn.Module) -> set[nn.Module]:
    blocks: set[nn.Module] = set()
    waiting = list(network.children())
    while waiting:
        module = waiting.pop()
        if isinstance(module, CONTAINERS):
            waiting += module.children()
        else:
            blocks.add(module)
    return blocks
