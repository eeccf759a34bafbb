"""What a recorded pass asks for, module by module."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Part:
    """What one module asks for of its own in one pass."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    activation_byte: int = 0
    saved_byte: int = 0


@dataclass
class Uncounted:
    """Calls and bytes of an operator that does arithmetic and has no formula."""

    calls: int = 0
    byte: int = 0


@dataclass
class Pass:
    """One recorded pass: the parts by module, in the order in which they first ran, and what could not be counted."""

    parts: "dict[nn.Module, Part]" = field(default_factory=dict)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)

    def part(self, module: "nn.Module") -> Part:
        if module not in self.parts:
            self.parts[module] = Part()
        return self.parts[module]

    def total(self, column: str) -> int:
        return sum(getattr(part, column) for part in self.parts.values())
