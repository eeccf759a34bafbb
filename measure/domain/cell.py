"""A cell: the settings under which a model is measured."""

from typing import Any, NamedTuple

from measure.domain.words import EAGER, INFERENCE


class Cell(NamedTuple):
    """A model at one batch size, precision, phase and variant, on any machine."""

    model: str
    batch: int
    precision: str
    phase: str
    variant: str

    @classmethod
    def of(cls, row: Any) -> "Cell":
        return cls(*(getattr(row, name) for name in cls._fields))

    def describe(self) -> str:
        return f"{self.model} batch {self.batch} {self.precision} {self.phase} {self.variant}"

    @property
    def label(self) -> str:
        """The cell in a plan, which leaves out inference and eager mode."""
        training = "" if self.phase == INFERENCE else "training "
        variant = "" if self.variant == EAGER else f" {self.variant}"
        return f"{training}{self.model} batch {self.batch} {self.precision}{variant}"
