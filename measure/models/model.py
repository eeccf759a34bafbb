"""What the catalog says of a model: the ground that its libraries' files share."""

from dataclasses import dataclass

IMAGE = (3, 224, 224)
"""A colour image of the size that ImageNet's classifiers are compared at."""

OWN = "own"
"""The source and the family of a user's own model."""


@dataclass(frozen=True)
class Model:
    """A model's name, the library that builds it, its family, and the shape of one input without the batch.

    Where one call takes several inputs the shape is the first one's: see ``catalog.prepare``.
    """

    name: str
    source: str
    family: str
    input_shape: tuple[int, ...]

    @property
    def selector(self) -> str:
        """What ``--models`` calls this model and no other."""
        return self.name if ":" in self.name else f"{self.source}:{self.name}"
