"""Libraries of models: torchvision, timm, torchaudio, and the language models written here.

Weights are random: the time of a call does not depend on their values. A library is imported when it is first needed.
"""

import fnmatch
import importlib
import sys
from contextlib import suppress
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any

from measure.domain.models import DECODE, IMAGE, SIZES, SOUND, LanguageTask, Model, parse_task

if TYPE_CHECKING:
    import torch


COMPILER = "torch._dynamo.utils"
WITH_TORCHVISION = ("torchvision", "timm", "transformers")


def _is_compile_supported(device_type: str) -> bool:
    return bool(importlib.import_module(COMPILER).is_compile_supported(device_type))


def import_package(name: str) -> Any:
    """Import a package of models without torch's compiler, which takes as long to import as torch itself.

    torchvision asks the compiler about a device in one function of detectors, and imports it for that. Here it gets a
    function that imports the compiler when it is called. If torchvision asks for more, it is imported as usual.
    """
    if name in WITH_TORCHVISION and COMPILER not in sys.modules:
        stand_in: Any = ModuleType(COMPILER)
        stand_in.is_compile_supported = _is_compile_supported
        sys.modules[COMPILER] = stand_in
        with suppress(ImportError):
            importlib.import_module("torchvision")
        if sys.modules.get(COMPILER) is stand_in:
            del sys.modules[COMPILER]
    return importlib.import_module(name)


class Library:
    """A source of models. ``build`` uses torch's default device."""

    package: str
    extra = "measure"  # ``pip install roofwright[extra]`` installs the package
    source: str
    family: str
    prefix = ""

    @property
    def api(self) -> Any:
        return import_package(self.package)

    def match(self, pattern: str) -> list[str]:
        """Return the names that a name or a glob selects."""
        raise NotImplementedError

    def names(self) -> list[str]:
        return self.match("*")

    def describe(self, name: str) -> Model:
        return Model(self.prefix + name, self.source, self.family, self.native_shape(name))

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one input, without the batch, that the published weights take."""
        raise NotImplementedError

    def make_inputs(
        self, model: Model, batch: int, device: str, dtype: "torch.dtype | None"
    ) -> tuple[Any, ...] | dict[str, Any]:
        """Return the arguments of one call, by position or name. The default is a random (batch, *input_shape)."""
        import torch

        return (torch.randn(batch, *model.input_shape, device=device, dtype=dtype),)


# The family of a classification model by the start of its name. Every other kind is a family itself.
FAMILIES = {
    "plain": ("alexnet", "vgg"),
    "residual": ("resnet", "resnext", "wide_resnet", "densenet", "regnet", "convnext"),
    "inception": ("googlenet", "inception"),
    "compact": ("squeezenet", "shufflenet", "mobilenet", "mnasnet", "efficientnet"),
    "transformer": ("vit", "swin", "maxvit"),
}
KINDS = ("classification", "segmentation", "detection", "video", "optical flow")


class Torchvision(Library):
    """Classification, segmentation, detection, video and optical flow, without the quantized models (for CPUs only)."""

    package = source = "torchvision"

    def kinds(self) -> dict[str, str]:
        models = self.api.models
        modules = {kind: getattr(models, kind.replace(" ", "_"), models) for kind in KINDS}
        return {name: kind for kind, module in modules.items() for name in models.list_models(module)}

    def match(self, pattern: str) -> list[str]:
        return fnmatch.filter(self.kinds(), pattern)

    def describe(self, name: str) -> Model:
        """Return the model at 3 x 224 x 224 if it classifies or segments images, else at its native size."""
        kind = self.kinds()[name]
        shape = IMAGE if kind in ("classification", "segmentation") else self.native_shape(name)
        if kind == "classification":
            kind = next((family for family, starts in FAMILIES.items() if name.startswith(starts)), "other")
        return Model(name, self.source, kind, shape)

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the crop of classification and video, the resized (here square) image of segmentation."""
        kind = self.kinds()[name]
        if kind in ("optical flow", "detection"):  # they take any size; torchvision counts them at this one
            side = 512 if kind == "optical flow" else next((side for side in (300, 320) if str(side) in name), 800)
            return (3, side, side)
        transforms = self.api.models.get_model_weights(name).DEFAULT.transforms()
        if kind == "video":
            return (3, 16, *transforms.crop_size)  # MViT takes no other number of frames
        (side,) = transforms.crop_size if kind == "classification" else transforms.resize_size
        return (3, side, side)

    def build(self, model: Model) -> Any:
        """Build the network with the published parameters, also of its auxiliary heads, which never run."""
        from torch.nn import BatchNorm2d
        from torchvision.ops import FrozenBatchNorm2d

        kind, settings = self.kinds()[model.name], dict[str, Any]()
        if model.name in ("googlenet", "inception_v3"):
            settings["init_weights"] = False  # it is slow
        if model.name == "googlenet":
            settings["aux_logits"] = False
        if kind in ("segmentation", "detection"):
            settings["weights_backbone"] = None
        if model.name.startswith(("fcn", "deeplabv3")):
            settings["aux_loss"] = True
        if model.name.startswith("vit"):
            settings["image_size"] = model.input_shape[-1]  # it learns one position for each patch
        network = self.api.models.get_model(model.name, weights=None, **settings)
        for head in ("aux_classifier", "AuxLogits"):
            if getattr(network, head, None) is not None:  # move it where ``forward`` does not look
                network.auxiliary_head = getattr(network, head)
                setattr(network, head, None)
                network.aux_logits = False  # otherwise inception_v3 returns a pair in training
        if kind == "detection" and model.name.endswith("_fpn"):
            # Scale and shift of batch normalisation are constants, which torchvision makes only with loaded weights.
            for path, module in list(network.named_modules()):
                if isinstance(module, BatchNorm2d):
                    parent, _, name = path.rpartition(".")
                    frozen = FrozenBatchNorm2d(module.num_features, module.eps)
                    setattr(network.get_submodule(parent), name, frozen)
        return network

    def make_inputs(self, model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
        """Return images or clips (batch, *input_shape); a list of ``batch`` images for detection; two for RAFT."""
        (images,) = super().make_inputs(model, batch, device, dtype)
        kind = self.kinds()[model.name]
        if kind == "detection":
            return (list(images),)
        return (images, *super().make_inputs(model, batch, device, dtype)) if kind == "optical flow" else (images,)


class Timm(Library):
    package = extra = source = "timm"
    family = "other"
    prefix = "timm:"  # torchvision has different models of the same names

    def match(self, pattern: str) -> list[str]:
        """Return the names that a name, with or without its tag, or a glob selects."""
        return [pattern] if self.api.is_model(pattern) else list(self.api.list_models(pattern))

    def module_of(self, name: str) -> str:
        """Return the module of timm that builds the model: the networks of one paper, or of a few close ones."""
        return str(self.api.models.model_entrypoint(self._current_name(name)).__module__.rpartition(".")[2])

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of one image for the default weights; 3 x 224 x 224 if there are none."""
        settings = self.api.models.get_pretrained_cfg(self._current_name(name), allow_unregistered=False)
        return tuple(settings.input_size) if settings else IMAGE

    def _current_name(self, name: str) -> str:
        """Replace a name from an earlier version, which timm still builds, by its current one."""
        plain = name.removeprefix(self.prefix)
        return self.api.models.get_deprecated_models().get(plain) or plain

    def build(self, model: Model) -> Any:
        """Build the network for its input size. Transformers take ``img_size``; other networks take any size."""
        name = model.name.removeprefix(self.prefix)
        size = {} if model.input_shape == self.native_shape(name) else {"img_size": model.input_shape[-2:]}
        try:
            return self.api.create_model(name, pretrained=False, **size)
        except TypeError:
            return self.api.create_model(name, pretrained=False)


TEXT_LENGTH = 20  # symbols for one second of speech
MEL_FRAMES = 86  # of 80 bands for one second in Tacotron2: 22,050 samples by steps of 256
SOURCES = {"sources": ["drums", "bass", "other", "vocals"]}
TRANSFORMERS = (
    *("wav2vec2_base", "wav2vec2_large", "wav2vec2_large_lv60k", "wav2vec2_xlsr_300m", "wav2vec2_xlsr_1b"),
    *("wav2vec2_xlsr_2b", "hubert_base", "hubert_large", "hubert_xlarge", "wavlm_base", "wavlm_large"),
)
# The shape of one input without the batch, and the arguments without a default in torchaudio's factory.
RECIPES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    # Layers dropped at random in training would make its work random.
    **dict.fromkeys(TRANSFORMERS, (SOUND, {"encoder_layer_drop": 0.0})),
    "Wav2Letter": ((1, *SOUND), {}),
    # A frame of 80 mel bands each 10 ms, and 4 frames of padding: torchaudio.pipelines.EMFORMER_RNNT_BASE_LIBRISPEECH.
    "emformer_rnnt_base": ((104, 80), {"num_symbols": 4097}),
    "DeepSpeech": ((1, 100, 80), {"n_feature": 80}),  # the same frames: it defines none of its own
    "Tacotron2": ((TEXT_LENGTH,), {}),
    # The example of its documentation at 5 frames of 200 samples, as torchaudio's recipe (examples/pipeline_wavernn)
    # trains it. One second would be 22,050 steps in sequence.
    "WaveRNN": ((1, 1000), {"upsample_scales": [5, 5, 8], "n_classes": 512, "hop_length": 200}),
    "conv_tasnet_base": ((1, 8000), {}),  # the rate of torchaudio.pipelines.CONVTASNET_BASE_LIBRI2MIX
    "hdemucs_low": ((2, 8000), SOURCES),  # stereo, at the rates in its documentation
    "hdemucs_medium": ((2, 16000), SOURCES),
    "hdemucs_high": ((2, 44100), SOURCES),
    "squim_objective_base": (SOUND, {}),
    "squim_subjective_base": (SOUND, {}),
}


class Torchaudio(Library):
    """Models at one second of sound, except WaveRNN and the built-in wav2vec2_base.

    Left out: classes without a size of their own (Conformer, Emformer, RNNT, the ``*_model`` factories), and
    ``hubert_pretrain_*``, which needs labels.
    """

    package = source = "torchaudio"
    family = "audio"

    def match(self, pattern: str) -> list[str]:
        return fnmatch.filter(RECIPES, pattern)

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return samples, (channels, samples), (frames, bands) or, for Tacotron2, symbols."""
        return RECIPES[name][0]

    def build(self, model: Model) -> Any:
        return getattr(self.api.models, model.name)(**RECIPES[model.name][1])

    def make_inputs(self, model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
        """Return the sound. Some networks also take a reference, a spectrogram, or a text and lengths."""
        import torch

        def random(*shape: int) -> torch.Tensor:
            return torch.randn(batch, *shape, device=device, dtype=dtype)

        def whole(value: int, *shape: int) -> torch.Tensor:
            return torch.full((batch, *shape), value, device=device, dtype=torch.int32)

        length = model.input_shape[0]
        if model.name == "Tacotron2":  # as in training: the text and its target spectrogram
            return whole(0, length), whole(length), random(80, MEL_FRAMES), whole(MEL_FRAMES)
        sound = random(*model.input_shape)
        if model.name == "emformer_rnnt_base":
            return sound, whole(length), whole(0, TEXT_LENGTH), whole(TEXT_LENGTH)
        if model.name == "WaveRNN":  # its first layer is 5 frames wide and drops 4 frames of the spectrogram
            return sound, random(1, 128, model.input_shape[-1] // 200 + 4)
        return (sound, random(*model.input_shape)) if model.name == "squim_subjective_base" else (sound,)


LENGTHS = (128, 512, 2048)  # the numbers of tokens that globs select; a name may have any other number


class Language(Library):
    """The networks of ``language_models``: a model for each task and number of tokens (``measure.domain.models``)."""

    package = "torch"
    source = family = "language"

    def match(self, pattern: str) -> list[str]:
        if parse_task(pattern):
            return [pattern]
        names = []
        for name, size in SIZES.items():
            for phase, length in product(size.phases, LENGTHS):
                if LanguageTask(size, phase, length).positions <= size.positions:
                    names.append(f"{name}_{phase}_{length}")
        return fnmatch.filter(names, pattern)

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the number of tokens that a call reads."""
        return (self._task(name).read,)

    def _task(self, name: str) -> LanguageTask:
        task = parse_task(name)
        assert task is not None, name
        return task

    def build(self, model: Model) -> Any:
        from measure.models.language_models import NETWORKS

        task = self._task(model.name)
        return NETWORKS[model.name.partition(f"_{task.phase}_")[0]](task)

    def make_inputs(self, model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
        """Return random tokens (batch, tokens). Decoding also takes a cache of keys and values."""
        import torch

        task = self._task(model.name)
        size = task.size
        tokens = torch.randint(size.vocabulary, (batch, *model.input_shape), device=device)
        if task.phase != DECODE:
            return (tokens,)
        # Layers, keys and values, batch, heads of keys, positions, width of a head.
        shape = (size.depth, 2, batch, size.key_heads, task.positions, size.width // size.heads)
        return tokens, torch.randn(shape, device=device, dtype=dtype)


TIMM = Timm()
