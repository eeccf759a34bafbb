"""What the catalog says of a model: the ground that its libraries' files share."""

from dataclasses import dataclass

IMAGE = (3, 224, 224)
"""A colour image of the size that ImageNet's classifiers are compared at."""


@dataclass(frozen=True)
class Model:
    """A model's name, the library that builds it, its family, and the shape of one input without the batch.

    Where one call takes several inputs the shape is the first one's: see ``catalog.make_inputs``.
    """

    name: str
    source: str
    family: str
    input_shape: tuple[int, ...]
