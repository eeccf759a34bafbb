"""What language models are asked to do, by their names: ``gpt2_decode_512`` is one token more after 512.

``prefill`` reads a text and gives the scores of its next token; ``decode`` gives those of one token more, with the keys
and values of the text before it in a cache, as a text is generated; ``encode`` reads a text as a whole.
"""

import re
from dataclasses import dataclass

from measure.errors import UserError

PREFILL, DECODE, ENCODE = "prefill", "decode", "encode"

NAME = re.compile(r"(?P<size>\w+?)_(?P<phase>prefill|decode|encode)_(?P<length>[1-9]\d{0,6})")


@dataclass(frozen=True)
class Size:
    """A network's sizes: ``inner`` is the width within a perceptron, ``positions`` the most tokens it takes."""

    phases: tuple[str, ...]
    width: int
    depth: int
    heads: int
    key_heads: int
    inner: int
    vocabulary: int
    positions: int


SIZES = {
    # Radford et al. 2019, Language models are unsupervised multitask learners
    "gpt2": Size((PREFILL, DECODE), 768, 12, 12, 12, 3072, 50257, 1024),
    # Devlin et al. 2019, BERT, arXiv:1810.04805
    "bert_base": Size((ENCODE,), 768, 12, 12, 12, 3072, 30522, 512),
    # Grattafiori et al. 2024, The Llama 3 herd of models, arXiv:2407.21783; the sizes of Llama 3.2 1B
    "llama_1b": Size((PREFILL, DECODE), 2048, 16, 32, 8, 8192, 128256, 131072),
}


@dataclass(frozen=True)
class Task:
    """What a model's name says: a network of a size reads ``length`` tokens, or one more than these."""

    size: Size
    phase: str
    length: int

    @property
    def read(self) -> int:
        """The tokens that a call reads."""
        return 1 if self.phase == DECODE else self.length

    @property
    def positions(self) -> int:
        """The tokens that attention reaches."""
        return self.length + (self.phase == DECODE)


def task_of(name: str) -> Task | None:
    """Return what a name says; None where it is no name of these models. Raises UserError for a text too long."""
    parts = NAME.fullmatch(name)
    size = SIZES.get(parts["size"]) if parts else None
    if parts is None or size is None or parts["phase"] not in size.phases:
        return None
    task = Task(size, parts["phase"], int(parts["length"]))
    if task.positions > size.positions:
        most = f"{parts['size']} takes {size.positions} tokens at most"
        raise UserError(f"--models: {most}, not the {task.positions} of {name}; name fewer")
    return task


def cache_byte(name: str, batch: int, element_byte: int) -> int | None:
    """Return the bytes of the keys and values of the tokens before the one that is decoded; None of another task.

    Two of each layer, one for each token and head of keys (Pope et al. 2022, arXiv:2211.05102, section 3.3).
    """
    task = task_of(name)
    if task is None or task.phase != DECODE:
        return None
    size = task.size
    return 2 * size.depth * batch * size.key_heads * task.length * (size.width // size.heads) * element_byte


def tokens(name: str, batch: int) -> int | None:
    """Return how many tokens a call reads or generates; None of a model that is none of these."""
    task = task_of(name)
    return None if task is None else batch * task.read
