"""Networks of Hugging Face's ``transformers`` with random weights, from a configuration; nothing is downloaded.

``hf:gpt2`` has the configuration that transformers holds for a type of model, ``hf:path/to/config.json`` a user's.
Behind either, ``_prefill_512``, ``_decode_512`` or ``_encode_512`` says what a call does, as in
``measure.domain.models``.
"""

import copy
import fnmatch
import inspect
import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.domain.models import DECODE, ENCODE, PREFILL, SOUND, Model
from measure.errors import UserError, in_short
from measure.models.libraries import Library

if TYPE_CHECKING:
    import torch
    from torch import nn
    from transformers import PreTrainedConfig

NAME = re.compile(r"(?P<source>.+?)(?:_(?P<phase>prefill|decode|encode)_(?P<length>[1-9]\d{0,6}))?")
LENGTH = 128  # tokens unless the name says how many, or the most that the network takes

# The networks that a configuration stands for if it names none, first of all
HEADS = {
    PREFILL: ("MODEL_FOR_CAUSAL_LM_MAPPING",),
    ENCODE: ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING", "MODEL_MAPPING"),
}
FAMILIES = {"input_ids": "language", "pixel_values": "vision"}  # by the main input; others are audio


@dataclass(frozen=True, eq=False)
class HuggingFaceTask:
    """A configuration, its class of network, and what a call does; ``length`` is the tokens before a decoded one."""

    config: "PreTrainedConfig"
    network: Any
    phase: str
    length: int

    def build(self) -> "nn.Module":
        """Build the network alone; attention is torch's own operator where the network allows it."""
        network: nn.Module = self.network._from_config(copy.deepcopy(self.config))
        return network.eval()

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each argument without the batch, the main one first."""
        config, main = self.config, self.network.main_input_name
        read = (1 if self.phase == DECODE else self.length,)
        parts = getattr(config, "vision_config", config)
        size = getattr(parts, "image_size", None) or (224, 224)
        height, width = (size, size) if isinstance(size, int) else tuple(size)[-2:]
        known: dict[str, tuple[int, ...]] = {
            "input_ids": read,
            "pixel_values": (getattr(parts, "num_channels", 3), height, width),
            "input_features": (getattr(config, "num_mel_bins", 80), 2 * getattr(config, "max_source_positions", 1500)),
            "input_values": SOUND,
        }
        if main not in known:
            raise UserError(f"--models: {self.network.__name__} takes {main}; write a function that makes it")
        names = [main]
        is_two_encoders = parts is not config and not hasattr(config, "image_token_id")  # as CLIP; text has no images
        if (
            main == "input_ids"
            and is_two_encoders
            and "pixel_values" in inspect.signature(self.network.forward).parameters
        ):
            names.append("pixel_values")
        found = {name: known[name] for name in names}
        return found | ({"decoder_input_ids": read} if config.is_encoder_decoder else {})


class HuggingFace(Library):
    package = "transformers"
    extra = source = "hf"
    family = "language"
    prefix = "hf:"

    @property
    def api(self) -> Any:
        os.environ["HF_HUB_OFFLINE"] = "1"  # read at the first import
        return super().api

    def match(self, pattern: str) -> list[str]:
        """Return a name or file as it is, and for a glob the types of models whose names it fits."""
        if any(mark in pattern for mark in "*?["):
            return sorted(fnmatch.filter(self._types(), pattern))
        source = _parse(pattern)[0]
        return [pattern] if source in self._types() or source.endswith(".json") else []

    def _types(self) -> list[str]:
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

        return list(CONFIG_MAPPING_NAMES)

    def describe(self, name: str) -> Model:
        task = self._task(name)
        family = FAMILIES.get(task.network.main_input_name, "audio")
        return Model(self.prefix + name, self.source, family, self.native_shape(name))

    def native_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the main input of one call."""
        return next(iter(self._task(name).shapes().values()))

    def _task(self, name: str) -> HuggingFaceTask:
        return _task(self.api, name.removeprefix(self.prefix))

    def build(self, model: Model) -> "nn.Module":
        task = self._task(model.name)
        if task.phase != DECODE:
            return task.build()
        from measure.models.decoding import Decoding, cache_after

        return Decoding(task.build(), cache_after(task.build, task.length)[0])

    def make_inputs(
        self, model: Model, batch: int, device: str, dtype: "torch.dtype | None"
    ) -> tuple[Any, ...] | dict[str, Any]:
        """Return random arguments by name. Decoding also takes the tensors of a cache."""
        import torch

        task = self._task(model.name)
        vocabulary = getattr(task.config.get_text_config(), "vocab_size", 0)
        arguments: dict[str, Any] = {}
        for name, shape in task.shapes().items():
            if name.endswith("input_ids"):
                arguments[name] = torch.randint(vocabulary, (batch, *shape), device=device)
            else:
                arguments[name] = torch.randn(batch, *shape, device=device, dtype=dtype)
        if task.phase == DECODE:
            from measure.models.decoding import cache_after

            arguments["state"] = [
                {key: torch.randn(batch, *shape, device=device, dtype=dtype) for key, shape in layer.items()}
                for layer in cache_after(task.build, task.length)[1]
            ]
        return arguments


def _parse(name: str) -> tuple[str, str | None, int | None]:
    """Split a name into its configuration, phase and number of tokens."""
    found = NAME.fullmatch(name)
    assert found is not None, name
    return found["source"], found["phase"], int(found["length"]) if found["length"] else None


@cache
def _task(api: Any, name: str) -> HuggingFaceTask:
    """Return the task of a name. Raises UserError for a wrong configuration, phase or length."""
    source, phase, length = _parse(name)
    try:
        if source.endswith(".json"):
            values = json.loads(Path(source).read_text())
            config = api.CONFIG_MAPPING[values["model_type"]].from_dict(values)
        else:
            config = api.AutoConfig.for_model(source)
    except (OSError, ValueError, KeyError, TypeError) as problem:
        why = "give a config.json that names its model_type"
        raise UserError(
            f"--models: {source} is no configuration of transformers ({in_short(problem)}); {why}"
        ) from None
    scores_next = type(config) in api.MODEL_FOR_CAUSAL_LM_MAPPING and not config.is_encoder_decoder
    is_decoder = scores_next and type(config) not in api.MODEL_FOR_MASKED_LM_MAPPING
    phases = (PREFILL, DECODE) if is_decoder else (ENCODE,)
    if phase is not None and phase not in phases:
        raise UserError(f"--models: {source} cannot {phase}; its networks {' or '.join(phases)}")
    config.use_cache = False  # nobody reads what a prefill alone would keep
    heads = list(HEADS[phases[0]])
    if not is_decoder and getattr(api.MODEL_MAPPING.get(type(config), None), "main_input_name", "") == "pixel_values":
        heads.insert(0, "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING")
    classes = [getattr(api, each, None) for each in config.architectures or []]
    classes += [getattr(api, each).get(type(config), None) for each in heads]
    network = next((each for each in classes if each is not None), None)
    if network is None:
        raise UserError(f"--models: transformers has no network for {source}; write a function that makes it")
    text = config.get_text_config()
    limits = (getattr(text, each, None) for each in ("max_position_embeddings", "max_target_positions"))
    most = next((each for each in limits if isinstance(each, int) and each > 0), None)
    positions = (length or 0) + (phase == DECODE)
    if most is not None and positions > most:
        raise UserError(f"--models: {source} takes {most} tokens at most, not the {positions} of {name}; name fewer")
    return HuggingFaceTask(config, network, phase or phases[0], length or min(LENGTH, most or LENGTH))
