"""One token decoded by a network of ``transformers``, with the tokens before it in a cache."""

import copy
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from measure.errors import in_short
from measure.models.call import Call, cast, casting, meta_allocation, move_to_meta
from measure.models.tensors import walk_tensors

PROBE = 2  # the batch size of the call that shows the shapes of a cache
KEYWORDS = ("cache", "past_key_values", "cache_params", "state")  # of a cache; version 5.24 gave most the first name


@dataclass(frozen=True)
class Slot:
    """The place of a tensor in a cache, and its shape and type; the first dimension may be the batch."""

    number: int
    has_batch: bool
    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, number: int, tensor: torch.Tensor) -> "Slot":
        has_batch = tensor.shape[:1] == (PROBE,)
        return cls(number, has_batch, tuple(tensor.shape[has_batch:]), tensor.dtype)

    @property
    def name(self) -> str:
        return f"cache_{self.number}"

    def make(self, batch: int, device: str, dtype: torch.dtype | None) -> torch.Tensor:
        """Return random values of type ``dtype`` if the cache holds them in the network's type."""
        shape = (batch, *self.shape) if self.has_batch else self.shape
        if self.dtype.is_floating_point:
            return torch.randn(shape, device=device, dtype=dtype if self.dtype == torch.bfloat16 else self.dtype)
        return torch.zeros(shape, device=device, dtype=self.dtype)


class InPlace:
    """The part of a cache's layer that writes the decoded token's key and value into the last position, as servers do.

    transformers' own layer concatenates them with the earlier ones, which copies the whole layer at each token. Once a
    sliding window is full, the token takes the place of the oldest: which place it is does not change the work.
    """

    keys: torch.Tensor  # (batch, heads, positions, width), as are the values
    values: torch.Tensor
    indexer_keys: torch.Tensor  # (batch, positions, width), of sparse attention alone
    cumulative_length: int  # the tokens so far; transformers' sliding windows read it as well

    def update(
        self, key: torch.Tensor, value: torch.Tensor, *_given: Any, **_named: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.cumulative_length += 1
        self.keys[..., -1:, :], self.values[..., -1:, :] = key, value
        return self.keys, self.values

    def update_indexer(self, key: torch.Tensor) -> torch.Tensor:
        self.indexer_keys[..., -1:, :] = key
        return self.indexer_keys

    def get_seq_length(self) -> int:
        return self.cumulative_length


@functools.cache
def in_place(kind: type) -> type:
    """Return the class of a cache's layer that writes in place."""
    return type(f"InPlace{kind.__name__}", (InPlace, kind), {"_layer_type": None})  # transformers registers named types


def make_room(past: Any) -> None:
    """Give the layers of a cache that grow by concatenation room for one token, and let them write in place.

    Cross attention writes nothing, and a cache without such layers stays as it is.
    """
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    growing = DynamicLayer.update, DynamicSlidingWindowLayer.update
    layers = getattr(getattr(past, "self_attention_cache", past), "layers", [])
    for number, layer in enumerate(layers):
        kind: Any = type(layer)
        if getattr(kind, "update", None) not in growing or not layer.is_initialized:
            continue
        new: Any = object.__new__(in_place(kind))
        vars(new).update(vars(layer), cumulative_length=layer.get_seq_length())
        for name in ("keys", "values", "indexer_keys"):
            if isinstance(tensor := getattr(layer, name, None), torch.Tensor):
                *others, positions, width = tensor.shape
                setattr(new, name, tensor.new_empty(*others, positions + 1, width))
        layers[number] = new


@dataclass(frozen=True, eq=False)
class Past:
    """A cache after some tokens with slots in place of its tensors, and the output of an encoder before it."""

    keyword: str
    cache: Any
    slots: list[Slot]
    encoded: Slot | None


class Decoding(nn.Module):
    """A network that scores one token after the tokens in its cache.

    Each call makes the cache anew from the tensors named by its slots, so that no call changes the next one's work.
    ``encoded`` is the output of the encoder, if there is one; its keys and values are in the cache.
    """

    def __init__(self, network: nn.Module, past: Past) -> None:
        super().__init__()
        self.network, self.past = network, past

    def forward(self, encoded: torch.Tensor | None = None, **tensors: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise NotImplementedError("a token is decoded in inference alone; train the prefill")
        state = [tensors.pop(slot.name) for slot in self.past.slots]
        arguments: dict[str, Any] = {self.past.keyword: filled(self.past.cache, state), **tensors}
        if encoded is not None:
            from transformers.modeling_outputs import BaseModelOutput

            arguments["encoder_outputs"] = BaseModelOutput(last_hidden_state=encoded)
        logits: torch.Tensor = self.network(**arguments, use_cache=True).logits
        return logits


def filled(value: Any, state: list[torch.Tensor]) -> Any:
    """Copy a cache, with tensors in its slots. Parts that no call changes are shared."""
    if isinstance(value, Slot):
        return state[value.number]
    if isinstance(value, dict):
        return {key: filled(part, state) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(filled(part, state) for part in value)
    is_of_cache = isinstance(value, InPlace) or type(value).__module__.startswith("transformers.")
    if is_of_cache and not hasattr(value, "to_json_string"):
        new = copy.copy(value)
        vars(new).update((name, filled(part, state)) for name, part in vars(value).items())
        return new
    return value


def past_after(build: Callable[[], Any], arguments: Callable[[int, str, torch.dtype | None], dict[str, Any]]) -> Past:
    """Return the cache of a network after a call with the ``arguments`` for a batch, device and type.

    No memory is allocated. Raises NotImplementedError if the network keeps no cache, or fails.
    """
    with meta_allocation(), torch.no_grad():
        network = cast(build(), torch.bfloat16)  # experts' products have shapes on the meta device in this type alone
    parameters = inspect.signature(network.forward).parameters
    keyword = next((each for each in KEYWORDS if each in parameters), None)
    source = network.config.model_type
    if keyword is None or "use_cache" not in parameters:
        raise NotImplementedError(f"{source} keeps no cache to decode with; name its prefill")

    network = move_to_meta(Call(network, ()), keep_constants=True).network
    try:
        with torch.no_grad(), casting(network, "bf16", None, fake=True) as (device, dtype):
            output = network(**arguments(PROBE, device, dtype), use_cache=True)
    except Exception as problem:  # a network may raise anything
        raise NotImplementedError(f"{source} cannot decode: its prefill raised {in_short(problem)}") from None
    if getattr(output, keyword, None) is None:  # RecurrentGemma keeps its state in its modules
        raise NotImplementedError(f"{source} returns no cache to decode with; name its prefill")
    slots: list[Slot] = []

    def slot(tensor: torch.Tensor) -> Slot:
        slots.append(Slot.of(len(slots), tensor))
        return slots[-1]

    make_room(getattr(output, keyword))
    encoded = getattr(output, "encoder_last_hidden_state", None)
    past = walk_tensors(getattr(output, keyword), slot)
    return Past(keyword, past, slots, None if encoded is None else Slot.of(0, encoded))
