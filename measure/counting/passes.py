"""The work and memory of a recorded pass, module by module."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from measure.counting.flops import Work

if TYPE_CHECKING:
    from torch import nn


@dataclass
class Part:
    """One module's share of a pass, without its submodules'."""

    calls: int = 0
    flop: int = 0
    other_flop: int = 0
    recompute_flop: int = 0
    traffic_byte: int = 0
    activation_byte: int = 0
    saved_byte: int = 0


class Call(NamedTuple):
    """One call of an operator: its name, what it computes, and the bytes that it reads and writes."""

    operator: str
    work: Work
    byte: int


@dataclass
class Uncounted:
    """Calls and bytes of an operator that does arithmetic and has no formula."""

    calls: int = 0
    byte: int = 0


@dataclass
class Pass:
    """One recorded pass: the parts by module, in the order in which they first ran, and what could not be counted.

    ``calls`` counts those of each module that are alike, in the order of the first; the parts are their sums.
    """

    parts: "dict[nn.Module, Part]" = field(default_factory=dict)
    calls: "Counter[tuple[nn.Module, Call]]" = field(default_factory=Counter)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)

    def part(self, module: "nn.Module") -> Part:
        if module not in self.parts:
            self.parts[module] = Part()
        return self.parts[module]

    def book(self, module: "nn.Module", call: Call) -> None:
        part = self.part(module)
        part.flop += call.work.flop
        part.other_flop += call.work.other_flop
        part.recompute_flop += call.work.recompute_flop
        part.traffic_byte += call.byte
        self.calls[module, call] += 1

    def total(self, column: str) -> int:
        return sum(getattr(part, column) for part in self.parts.values())
