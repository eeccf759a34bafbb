"""A network at hand and its inputs, as the functions for notebooks take them."""

from typing import TYPE_CHECKING, Any

from measure.domain.models import OWN, Model
from measure.domain.words import PRECISION_BYTE
from measure.errors import as_called
from measure.models.call import Call, refuse_hidden
from measure.models.tensors import held_tensors, torch_dtype

if TYPE_CHECKING:
    from torch import nn


def call_at_hand(network: "nn.Module", inputs: Any) -> tuple[Call, str]:
    """Return the call of a network with a tensor, a tuple of arguments or a dictionary of keywords, and its precision.

    The precision is that of the parameters, or of the inputs if there are none. Raises ValueError for anything but a
    network, for inputs without a tensor and for a precision that is not counted; NotImplementedError for a network that
    hides its modules or weights.
    """
    import torch

    if not isinstance(network, torch.nn.Module):
        given = repr(network) if isinstance(network, str) else f"a {type(network).__name__}"
        raise ValueError(
            f"network: {given} is not a torch.nn.Module; build one, such as torchvision.models.resnet18(), or use "
            f"{as_called('measure model NAME')}"
        )
    call = Call.of(network, inputs)
    tensors = held_tensors((call.inputs, call.keywords))
    if not tensors:
        raise ValueError("inputs hold no tensor; give a tensor, a tuple of arguments or a dictionary of keywords")
    values = list(network.parameters()) or [tensor for tensor in tensors if tensor.is_floating_point()]
    types = {each.dtype.to_real() for each in values} or {torch.float32}  # complex numbers are two real ones
    precision = next((each for each in PRECISION_BYTE if torch_dtype(each) in types), None)
    if precision is None:
        precisions = ", ".join(PRECISION_BYTE)
        raise ValueError(f"the network's parameters are none of {precisions}; convert it, or count it alone")
    refuse_hidden(network)
    return call, precision


def description(call: Call, name: str | None) -> tuple[Model, int, str]:
    """Return the model of a call under a name, its batch size, and the name of its device."""
    first = held_tensors((call.inputs, call.keywords))[0]
    kind, batch = first.device.type, first.shape[0] if first.ndim else 1
    model = Model(name or type(call.network).__name__, OWN, OWN, tuple(first.shape[1:]) or (1,))
    return model, batch, f"{kind}:{first.device.index or 0}" if kind == "cuda" else kind
