"""Networks of Hugging Face's ``transformers`` with random weights, from a configuration; nothing is downloaded.

``hf:gpt2`` has the configuration that transformers ships for a type of model, ``hf:path/to/config.json`` a user's.
``_prefill_512``, ``_decode_512`` or ``_encode_512`` after either names the task, as in ``measure.domain.models``; the
number may be left out. A prefill scores every token that it reads, which is the network's default.
"""

import copy
import fnmatch
import importlib
import inspect
import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.domain.models import DECODE, ENCODE, IMAGE, PREFILL, SOUND, Model
from measure.errors import UserError, in_short, one_line, text_of, unknown
from measure.models.libraries import Library
from measure.serving.configuration import read_json, scheme_of
from measure.serving.formats import FORMATS, Quantisation, read_quantisation

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedConfig

    from measure.models.decoding import Past

NAME = re.compile(r"(?s)(?P<source>.*?)(?:_(?P<phase>prefill|decode|encode)(?:_(?P<length>[1-9]\d{0,6}))?)?")
MAPPING = re.compile(r"MODEL_FOR_\w+_MAPPING")
FRAMES = 100  # of a spectrogram in a second: one each 10 ms
LENGTH = 128  # tokens unless the name says how many, or the most that the network takes

# transformers' mappings from configurations to networks, by task, for configurations that name no network
HEADS = {
    "decodes": ("MODEL_FOR_CAUSAL_LM_MAPPING", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING"),
    "translates": ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING"),
    "classifies": ("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING",),
}
# Families by the main input. Any other input is audio
FAMILIES = {"input_ids": "language", "pixel_values": "vision", "pixel_values_videos": "vision", "past_values": "other"}


@dataclass(frozen=True, eq=False)
class HuggingFaceTask:
    """A configuration, its class of network, and the phase of a call; ``length`` is the tokens before a decoded one.

    ``quantisation``: how a server stores the weights, None as they are.
    """

    config: "PreTrainedConfig"
    network: Any
    phase: str
    length: int
    quantisation: Quantisation | None = None

    def build(self) -> "nn.Module":
        """Build the network alone. Attention is torch's own operator if the network allows it.

        Quantised weights are built as others are, and their modules note the stored bits: counting goes by them.
        """
        network: nn.Module = self.network._from_config(copy.deepcopy(self.config))
        if self.quantisation is not None:
            _note_stored_bits(network, self.quantisation)
        return network.eval()

    @property
    def parameters(self) -> "Mapping[str, inspect.Parameter]":
        return inspect.signature(self.network.forward).parameters

    @cached_property
    def past(self) -> "Past":
        """The cache after the tokens before the decoded one. Raises NotImplementedError if there is none."""
        from measure.models.decoding import past_after

        return past_after(self.build, self.arguments)

    @property
    def token(self) -> str:
        """The argument that takes a decoded token."""
        return "decoder_input_ids" if self._has_decoder else "input_ids"

    @property
    def _has_decoder(self) -> bool:
        """Whether an encoder is followed by a decoder: BLIP-2 has the argument for one, whatever its language model."""
        return bool(self.config.is_encoder_decoder) and "decoder_input_ids" in self.parameters

    def _first(self, name: str, default: Any) -> Any:
        """Return a setting of images from the vision part, the configuration, or the parts within, outermost first."""
        parts = [getattr(self.config, "vision_config", None), self.config]
        for part in parts:
            if value := getattr(part, name, None):
                return value
            if part is not None:
                parts += [getattr(part, each, None) for each in part.sub_configs]
        return default

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each argument of a whole call without the batch, the main one first.

        Raises UserError if the network takes something else.
        """
        config, main = self.config, self.network.main_input_name
        size = self._first("image_size", IMAGE[1:])
        if ratios := getattr(config, "scaled_images_ratios", None):  # Depth Pro: the smallest copy fills a patch
            size = round(config.patch_size / min(ratios))
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        image = (self._first("num_channels", 3), height, width)
        shapes: dict[str, tuple[int, ...]] = {
            "input_ids": (self.length,),
            "decoder_input_ids": (self.length,),
            "bbox": (self.length, 4),  # the place of each token of a text on its page
            "pixel_values": (frames, *image) if (frames := getattr(config, "num_frames", None)) else image,
            "pixel_values_videos": (getattr(config, "frames_per_clip", 16), *image),
            "input_features": self._spectrogram(),
            "input_values": self._sound(),
        }
        if "past_values" in self.parameters and hasattr(config, "num_input_channels"):  # PatchTST: a series
            shapes["past_values"] = (config.context_length, config.num_input_channels)
        # CLIP takes both, and so do ViLT and CLAP. A text for LLaVA may do without images or sound.
        sees = hasattr(config, "vision_config") or hasattr(config, "image_size")
        optional = {"bbox"} | ({"decoder_input_ids"} if self._has_decoder else set())
        if sees and not hasattr(config, "image_token_id"):
            optional |= {"input_ids", "pixel_values"}
        if "return_loss" in self.parameters and hasattr(config, "audio_config"):
            optional |= {"input_features"}
        variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        # A part of a network inherits the name of the whole one's input.
        if isinstance(main, list) or main not in self.parameters:
            main = next((name for name in self.parameters if name in shapes), main)
        names = [main]
        for name, parameter in self.parameters.items():
            is_required = parameter.default is inspect.Parameter.empty and parameter.kind not in variadic
            if name not in ("self", main) and (is_required or name in optional):
                names.append(name)
        if others := [name for name in names if name not in shapes]:
            raise UserError(
                f"--models: {self.network.__name__} takes {' and '.join(others)}; write a function that makes them"
            )
        if any(name.endswith("input_ids") for name in names):
            self.vocabulary()
        return {name: shapes[name] for name in names}

    def _spectrogram(self) -> tuple[int, ...]:
        """Return the shape of a spectrogram: bands first as for Whisper, or a second of frames first.

        CLAP folds a spectrogram into a square image, and stretches one that has fewer frames.
        """
        config = getattr(self.config, "audio_config", self.config)
        bands = getattr(config, "num_mel_bins", 80)
        if hasattr(config, "spec_size"):
            return (1, config.spec_size**2 // bands, bands)
        for name in ("input_feat_per_channel", "feature_projection_input_dim"):
            if hasattr(config, name):
                return (FRAMES, getattr(config, name))
        positions = getattr(config, "max_source_positions", None)
        return (bands, 2 * positions) if positions else (FRAMES, bands)

    def _sound(self) -> tuple[int, ...]:
        """Return the shape of a second of sound: samples, by channels if the network has any, or frames of bands."""
        config = self.config
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
            return (config.max_length, config.num_mel_bins)
        return (config.audio_channels, *SOUND) if hasattr(config, "audio_channels") else SOUND

    def vocabulary(self) -> int:
        size = getattr(self.config.get_text_config(decoder=True), "vocab_size", None)
        if not size:
            raise UserError(f"--models: {self.config.model_type} names no vocabulary; write a function that makes it")
        return int(size)

    def arguments(self, batch: int, device: str, dtype: "torch.dtype | None") -> "dict[str, torch.Tensor]":
        import torch

        arguments = {}
        for name, shape in self.shapes().items():
            if name == "bbox":
                arguments[name] = torch.zeros(batch, *shape, dtype=torch.int64, device=device)
            elif name.endswith("input_ids"):
                arguments[name] = torch.randint(self.vocabulary(), (batch, *shape), device=device)
            else:
                arguments[name] = torch.randn(batch, *shape, device=device, dtype=dtype)
        return arguments


class HuggingFace(Library):
    package = "transformers"
    extra = source = "hf"
    family = "language"
    prefix = "hf:"

    @property
    def api(self) -> Any:
        os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}  # read at the first import
        return super().api

    def match(self, pattern: str) -> list[str]:
        """Return a name or file as it is. A glob returns the matching types of models that can be made."""
        if any(mark in pattern for mark in "*?["):
            return [name for name in fnmatch.filter(self.names(), pattern) if self._can_make(name)]
        source = _parse(pattern)[0]
        return [pattern] if source in self.names() or source.endswith(".json") else []

    def names(self) -> list[str]:
        return sorted(self.api.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)

    def _can_make(self, name: str) -> bool:
        try:
            self.describe(name)
        except UserError:
            return False
        return True

    def describe(self, name: str) -> Model:
        task = self._task(name)
        family = FAMILIES.get(next(iter(task.shapes())), "audio")
        return Model(self.prefix + name, self.source, family, self.native_shape(name), code=_code(name))

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the main input of one call."""
        task = self._task(name)
        return (1,) if task.phase == DECODE else next(iter(task.shapes().values()))

    def is_quantised(self, name: str) -> bool:
        return self._task(name).quantisation is not None

    def _task(self, name: str) -> HuggingFaceTask:
        return _task(self.api, name.removeprefix(self.prefix))

    def build(self, model: Model) -> "nn.Module":
        task = self._task(model.name)
        if task.phase != DECODE:
            return task.build()
        from measure.models.decoding import Decoding

        return Decoding(task.build(), task.past)

    def make_inputs(
        self, model: Model, batch: int, device: str, dtype: "torch.dtype | None"
    ) -> tuple[Any, ...] | dict[str, Any]:
        """Return random arguments by name. Decoding takes the tensors of a cache, and the output of an encoder."""
        task = self._task(model.name)
        arguments = task.arguments(batch, device, dtype)
        if task.phase != DECODE:
            return arguments
        tensors = {task.token: arguments[task.token][:, :1].clone()}
        tensors |= {slot.name: slot.make(batch, device, dtype) for slot in task.past.slots}
        if task.past.encoded:
            tensors["encoded"] = task.past.encoded.make(batch, device, dtype)
        return tensors


def _note_stored_bits(network: Any, quantisation: Quantisation) -> None:
    """Note the bits of quantised weights in ``stored_bits`` of their modules. Such weights are not trained.

    Those are the matrices of linear layers and of experts. The embedding, the product with the vocabulary, routers,
    and what the quantisation leaves out keep their bits.
    """
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    head = network.get_output_embeddings() if hasattr(network, "get_output_embeddings") else None
    for path, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            is_linear = isinstance(module, (nn.Linear, Conv1D)) and name == "weight" and module is not head
            whole = path if is_linear else f"{path}.{name}"
            if (is_linear or (parameter.dim() == 3 and "experts" in path)) and not quantisation.leaves_out(whole):
                vars(module).setdefault("stored_bits", {})[name] = quantisation.weights.bit
                parameter.requires_grad_(False)


def _parse(name: str) -> tuple[str, str | None, int | None]:
    """Split a name into configuration, phase and number of tokens."""
    found = NAME.fullmatch(name)
    assert found is not None, name
    return found["source"], found["phase"], int(found["length"]) if found["length"] else None


def _code(name: str) -> str | None:
    """Hash the settings of a user's own file, in the form of an own model's code: an edit makes another network."""
    source = _parse(name)[0]
    if not source.endswith(".json"):
        return None
    return sha256(json.dumps(_read(source), sort_keys=True).encode()).hexdigest()[:8] + "-"


def _read(source: str) -> dict[str, Any]:
    path = Path(source)
    return read_json(path, f"--models: {path}")


@cache
def _task(api: Any, name: str) -> HuggingFaceTask:
    """Return the task of a name. Raises UserError for a wrong configuration, phase or length."""
    source, phase, length = _parse(name)
    is_file = source.endswith(".json")
    values = _read(source) if is_file else {"model_type": source}
    kinds = api.models.auto.configuration_auto.CONFIG_MAPPING_NAMES
    if not isinstance(kind := values.get("model_type"), str):
        raise UserError(f'--models: {source} names no model_type; add one, such as "model_type": "llama"')
    if kind not in kinds:
        raise unknown(f"--models: model_type in {source}", kind, kinds)
    try:
        config = api.CONFIG_MAPPING[kind].from_dict(values) if is_file else api.CONFIG_MAPPING[kind]()
    except Exception as problem:  # a configuration validates itself, and may raise anything
        why = one_line(f"{type(problem).__name__}: {text_of(problem)}").partition(". ")[0]
        advice = "correct it" if is_file else f"give a config.json of a {kind}"
        raise UserError(f"--models: transformers refuses the configuration {source} ({why}); {advice}") from None
    quantisation = None
    if scheme := scheme_of(values, Path(source) if is_file else None):
        quantisation = read_quantisation(scheme, FORMATS["bf16"], f"--models: {source}")
        for part in (config, config.get_text_config()):
            vars(part).pop("quantization_config", None)  # building with it takes the weights themselves
    try:
        kind = _kind(api, config)
        network = _network(api, config, HEADS.get(kind, ()))
    except Exception as problem:  # a configuration may name a part that this version of transformers lacks
        raise UserError(f"--models: transformers cannot make {source}: {in_short(problem)}; upgrade it") from None
    if network is None:
        raise UserError(f"--models: transformers has no network for {source}; write a function that makes it")
    phases = {"decodes": (PREFILL, DECODE), "translates": (ENCODE, DECODE)}.get(kind, (ENCODE,))
    if phase is not None and phase not in phases:
        raise UserError(f"--models: {source} cannot {phase}; its networks {' or '.join(phases)}")
    for each in (config, *(getattr(config, part, None) for part in config.sub_configs)):
        for attribute in vars(each) if each else ():
            if attribute.endswith("layerdrop"):
                setattr(each, attribute, 0.0)  # layers dropped at random would make the work of training random
    config.use_cache = False  # nobody reads the cache of a prefill alone
    if getattr(config, "image_token_id", 0) is None:  # BLIP-2's own, which fails without one: any token will do
        config.image_token_id = 0
    text = config.get_text_config(decoder=True)
    limits = (getattr(text, each, None) for each in ("max_position_embeddings", "max_target_positions"))
    most = next((each for each in limits if isinstance(each, int) and each > 0), None)
    positions = (length or 0) + (phase == DECODE)
    if most is not None and positions > most:
        raise UserError(f"--models: {source} takes {most} tokens at most, not the {positions} of {name}; name fewer")
    return HuggingFaceTask(config, network, phase or phases[0], length or min(LENGTH, most or LENGTH), quantisation)


def _kind(api: Any, config: "PreTrainedConfig") -> str:
    """Return the task of a configuration's networks: a key of ``HEADS``, or "encodes"."""

    def is_in(name: str) -> bool:
        return type(config) in getattr(api, name)

    if config.is_encoder_decoder:
        return "translates" if any(is_in(name) for name in HEADS["translates"]) else "encodes"
    if any(is_in(name) for name in HEADS["decodes"]) and not is_in("MODEL_FOR_MASKED_LM_MAPPING"):
        return "decodes"
    base = _network(api, config, ())
    takes_images = getattr(base, "main_input_name", None) == "pixel_values"  # CLIP's takes a text too
    return "classifies" if takes_images and is_in(*HEADS["classifies"]) else "encodes"


def _network(api: Any, config: "PreTrainedConfig", heads: tuple[str, ...]) -> Any:
    """Return the class of a network: the one that the configuration names, one of ``heads``, or any of its type."""
    named = (getattr(api, name, None) for name in config.architectures or [])
    mappings = vars(api.models.auto.modeling_auto)
    others = [name for name in sorted(mappings) if MAPPING.fullmatch(name)]
    listed = (mappings[name].get(type(config), None) for name in (*heads, "MODEL_MAPPING", *others))
    for found in (*named, *listed):
        if found is not None:
            return found[0] if isinstance(found, (tuple, list)) else found
    with suppress(ImportError):  # parts of other networks are in no mapping
        module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
        for found in reversed(vars(module).values()):
            if getattr(found, "config_class", None) is type(config) and not found.__name__.endswith("PreTrainedModel"):
                return found
    return None
