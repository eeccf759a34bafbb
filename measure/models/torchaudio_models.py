"""The models of torchaudio, each with one second of sound, but for WaveRNN, and wav2vec2_base as it is built in.

Left out are the classes without a size of their own (Conformer, Emformer, RNNT and the ``*_model`` factories), and
``hubert_pretrain_*``: HuBERT with a random mask and a loss on top, which needs labels.
"""

import fnmatch
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from measure.domain.models import SOUND, Model

if TYPE_CHECKING:
    import torch
    from torch import nn

TEXT_LENGTH = 20
"""Symbols of the text that goes with one second of speech."""

MEL_FRAMES = 86
"""Frames of the 80 mel bands in one second as Tacotron2 makes them: 22,050 samples by steps of 256."""


@dataclass(frozen=True)
class Recipe:
    """The shape of one input without the batch, and the arguments that torchaudio's factory has no default for."""

    input_shape: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)


# Layers that are left out at random in training would make its work random.
EVERY_LAYER = {"encoder_layer_drop": 0.0}
SOURCES = {"sources": ["drums", "bass", "other", "vocals"]}

TRANSFORMERS = (
    *("wav2vec2_base", "wav2vec2_large", "wav2vec2_large_lv60k"),
    *("wav2vec2_xlsr_300m", "wav2vec2_xlsr_1b", "wav2vec2_xlsr_2b"),
    *("hubert_base", "hubert_large", "hubert_xlarge", "wavlm_base", "wavlm_large"),
)

RECIPES = {
    **dict.fromkeys(TRANSFORMERS, Recipe(SOUND, EVERY_LAYER)),
    "Wav2Letter": Recipe((1, *SOUND)),
    # A frame of 80 mel bands each 10 ms, and 4 frames of padding: torchaudio.pipelines.EMFORMER_RNNT_BASE_LIBRISPEECH.
    "emformer_rnnt_base": Recipe((104, 80), {"num_symbols": 4097}),
    "DeepSpeech": Recipe((1, 100, 80), {"n_feature": 80}),  # the same frames, since it has none of its own
    "Tacotron2": Recipe((TEXT_LENGTH,)),
    # The example of its documentation, at 5 frames of 200 samples: torchaudio's recipe (examples/pipeline_wavernn)
    # trains on 5 frames, and a second is 22,050 steps one after the other.
    "WaveRNN": Recipe((1, 1000), {"upsample_scales": [5, 5, 8], "n_classes": 512, "hop_length": 200}),
    "conv_tasnet_base": Recipe((1, 8000)),  # the rate of torchaudio.pipelines.CONVTASNET_BASE_LIBRI2MIX
    "hdemucs_low": Recipe((2, 8000), SOURCES),  # stereo, at the rates that its documentation names
    "hdemucs_medium": Recipe((2, 16000), SOURCES),
    "hdemucs_high": Recipe((2, 44100), SOURCES),
    "squim_objective_base": Recipe(SOUND),
    "squim_subjective_base": Recipe(SOUND),
}


def matching(pattern: str) -> list[str]:
    """Return the names that a name or a glob selects."""
    return fnmatch.filter(RECIPES, pattern)


def describe(name: str) -> Model:
    """Return the model at one second of sound."""
    return Model(name, "torchaudio", "audio", native_shape(name))


def native_shape(name: str) -> tuple[int, ...]:
    """Return one input's shape: samples, (channels, samples), (frames, bands) or, for Tacotron2, symbols."""
    return RECIPES[name].input_shape


def build(model: Model) -> "nn.Module":
    """Build the network with random weights; in training, too, it executes all its layers."""
    import torchaudio

    return getattr(torchaudio.models, model.name)(**RECIPES[model.name].settings)


def make_inputs(model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
    """Return the sound, and what some networks also take: a reference, a spectrogram, or a text and lengths."""
    import torch

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(batch, *shape, device=device, dtype=dtype)

    def text(length: int) -> torch.Tensor:
        return torch.zeros(batch, length, device=device, dtype=torch.int32)

    def lengths(length: int) -> torch.Tensor:
        return torch.full((batch,), length, device=device, dtype=torch.int32)

    if model.name == "Tacotron2":  # as in training: the text and the spectrogram it should become
        (length,) = model.input_shape
        return text(length), lengths(length), random(80, MEL_FRAMES), lengths(MEL_FRAMES)
    sound = random(*model.input_shape)
    if model.name == "emformer_rnnt_base":
        return sound, lengths(model.input_shape[0]), text(TEXT_LENGTH), lengths(TEXT_LENGTH)
    if model.name == "WaveRNN":  # its first layer, 5 frames wide, leaves out 4 of the spectrogram's frames
        return sound, random(1, 128, model.input_shape[-1] // 200 + 4)
    if model.name == "squim_subjective_base":
        return sound, random(*model.input_shape)
    return (sound,)
