"""One token decoded by a network of ``transformers``, with the tokens before it in a cache."""

import copy
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import nn

PROBE = 2  # the batch size of the call that shows the shapes of a cache


def cache_keyword(network: nn.Module) -> str:
    """Return the name of the cache among a network's arguments and results, which version 5.24 changed."""
    return "cache" if "cache" in inspect.signature(network.forward).parameters else "past_key_values"


class Decoding(nn.Module):
    """A network that scores one token after those in its cache.

    ``state`` holds the tensors of each layer of the cache by attribute. As each call makes the cache anew from them, no
    call changes the next one's work.
    """

    def __init__(self, network: nn.Module, cache: Any) -> None:
        super().__init__()
        self.network, self.cache = network, cache
        self._keyword = cache_keyword(network)

    def forward(self, input_ids: torch.Tensor, state: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        if self.training:
            raise NotImplementedError("a token is decoded in inference alone; train the prefill")
        past = copy.copy(self.cache)
        past.layers = [copy.copy(layer) for layer in self.cache.layers]
        for layer, tensors in zip(past.layers, state, strict=True):
            vars(layer).update(tensors)
        logits: torch.Tensor = self.network(input_ids=input_ids, use_cache=True, **{self._keyword: past}).logits
        return logits


@cache
def cache_after(build: Callable[[], nn.Module], length: int) -> tuple[Any, list[dict[str, tuple[int, ...]]]]:
    """Return a cache after ``length`` tokens, without its tensors, and their shapes by layer, without the batch."""
    with torch.device("meta"), torch.no_grad():
        tokens = torch.zeros(PROBE, length, dtype=torch.int64)
        network = build().to(torch.bfloat16)  # experts' products have shapes on the meta device in it alone
        past = getattr(network(input_ids=tokens, use_cache=True), cache_keyword(network))
    shapes = []
    for layer in past.layers:
        held = {key: each for key, each in vars(layer).items() if isinstance(each, torch.Tensor)}
        shapes.append({key: tuple(tensor.shape[1:]) for key, tensor in held.items()})
        for key in held:
            setattr(layer, key, None)
    return past, shapes
