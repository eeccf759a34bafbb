"""Images and weights of convolutions that lie in memory pixel by pixel."""

from typing import TYPE_CHECKING

from measure.cache.models import Model
from measure.cache.variants.base import Variant

if TYPE_CHECKING:
    from measure.cache.call import Call


class ChannelsLast(Variant):
    name, order = "channels_last", 2
    words = "lays images out pixel by pixel"
    tried_on = ("cpu", "gpu")

    def change(self, call: "Call", model: Model) -> "Call":
        import torch

        from measure.cache.call import Call, mapped

        found_image = False

        def laid_out(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal found_image
            if tensor.ndim != 4:
                return tensor
            found_image = True
            return tensor.to(memory_format=torch.channels_last)

        inputs, keywords = mapped(call.inputs, laid_out), mapped(call.keywords, laid_out)
        if not found_image:
            raise NotImplementedError(f"channels_last is a layout of images, which {model.name} does not take")
        return Call(call.network.to(memory_format=torch.channels_last), inputs, keywords)
