"""A network compiled with ``torch.compile`` and its default backend."""

from dataclasses import replace
from typing import TYPE_CHECKING

from measure.cache.models import Model
from measure.cache.variants.base import Variant

if TYPE_CHECKING:
    from measure.cache.call import Call


class Compile(Variant):
    name, order = "compile", 4
    words = "fuses operators"
    tried_on = ("gpu",)
    first_call_s = 600.0
    unprofiled = "a compiled network's kernels are each of several modules"

    def change(self, call: "Call", model: Model) -> "Call":
        import torch

        return replace(call, network=torch.compile(call.network))
