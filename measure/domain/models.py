"""The models that tables name: the built-in ones, and the language models with their task in the name.

``gpt2_decode_512`` generates one token after 512. ``prefill`` reads a text and scores its next token; ``decode`` scores
one more token, with the keys and values of the text before it in a cache; ``encode`` reads a text as a whole.
"""

import re
from dataclasses import dataclass

from measure.domain.words import shape_name
from measure.errors import UserError

IMAGE = (3, 224, 224)  # a colour image of the usual size for comparing ImageNet's classifiers
SOUND = (16000,)  # one second at 16 kHz, the rate of speech recognition
SPEECH = (10 * SOUND[0],)  # ten seconds of sound, a usual clip
OWN = "own"  # the source and the family of a user's own model


@dataclass(frozen=True)
class Model:
    """A model's name, the library that builds it, its family, and the shape of its (first) input without the batch.

    ``code`` identifies the source and operators of a user's own model, or the settings of a user's configuration for
    Hugging Face. It is None for models of libraries.
    """

    name: str
    source: str
    family: str
    input_shape: tuple[int, ...]
    code: str | None = None

    @property
    def selector(self) -> str:
        """The argument of ``--models`` that selects this model only."""
        return self.name if ":" in self.name else f"{self.source}:{self.name}"


FAMILIES: tuple[tuple[str, str, tuple[int, ...], str], ...] = (
    ("torchvision", "plain", IMAGE, "alexnet vgg11 vgg16 vgg19"),
    ("torchvision", "residual", IMAGE, "resnet18 resnet50 wide_resnet101_2 densenet121"),
    ("torchvision", "inception", IMAGE, "googlenet"),
    ("torchvision", "inception", (3, 299, 299), "inception_v3"),
    ("torchvision", "compact", IMAGE, "squeezenet1_0 shufflenet_v2_x1_0 mobilenet_v2 mobilenet_v3_large mnasnet1_0"),
    ("torchvision", "compact", IMAGE, "efficientnet_b0 efficientnet_b7"),
    ("torchvision", "residual", IMAGE, "regnet_y_400mf convnext_tiny"),
    ("torchvision", "segmentation", IMAGE, "fcn_resnet50"),
    ("torchvision", "transformer", IMAGE, "vit_b_16 vit_b_32 swin_t"),
    ("torchaudio", "audio", SPEECH, "wav2vec2_base"),
)
# The models that are measured if the user names none
BUILT_IN = tuple(
    Model(name, source, family, shape) for source, family, shape, names in FAMILIES for name in names.split()
)
MEASURED_SHAPES = {model.name: shape_name(model.input_shape) for model in BUILT_IN}  # of one input, as tables write it

ALL_MEASURED = "measured"  # selects models among the names of ``--models``
STORY = ("mobilenet_v2", "resnet18")  # the models of the paper's story: the first needs a sixth of the second's FLOP
# The small selection of ``make report``, with every kind of layer; only the models of the story are trained
QUICK = (
    *STORY, "alexnet", "resnet50", "squeezenet1_0", "shufflenet_v2_x1_0", "mobilenet_v3_large", "vit_b_32",
)  # fmt: skip

PREFILL, DECODE, ENCODE = "prefill", "decode", "encode"
NAME = re.compile(r"(?P<size>\w+?)_(?P<phase>prefill|decode|encode)_(?P<length>[1-9]\d{0,6})")


@dataclass(frozen=True)
class Size:
    """A language model's sizes: ``inner`` is the width within a perceptron, ``positions`` the most tokens it takes."""

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
class LanguageTask:
    """The task of a language model's call: read ``length`` tokens, or one token after these."""

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


def parse_task(name: str) -> LanguageTask | None:
    """Return the task in a language model's name; None for other names. Raises UserError for a text too long."""
    found = NAME.fullmatch(name)
    size = SIZES.get(found["size"]) if found else None
    if found is None or size is None or found["phase"] not in size.phases:
        return None
    task = LanguageTask(size, found["phase"], int(found["length"]))
    if task.positions > size.positions:
        most = f"{found['size']} takes {size.positions} tokens at most"
        raise UserError(f"--models: {most}, not the {task.positions} of {name}; name fewer")
    return task
