"""What one forward pass asks for, counted on the meta device: no weights, no arithmetic, no memory.

FLOP come from torch's own counter (convolutions, matrix products and attention at 2 FLOP a multiply-add);
bytes from the shapes of parameters, inputs and the outputs of leaf modules, at fp32.
"""

from typing import TYPE_CHECKING, Any

from measure.catalog import Model, build_on_meta, make_input
from measure.records import Workload

if TYPE_CHECKING:
    import torch
    from torch import nn


class LeafOutputs:
    """Collects the outputs of leaf modules during a forward pass, each storage once.

    A leaf is a module that ran no other module inside it: ``nn.MultiheadAttention`` is one, since it uses the
    weights of its output projection without calling it.
    """

    def __init__(self, network: "nn.Module") -> None:
        self._ran_a_child: list[bool] = []
        self._storages: dict[int, Any] = {}
        for module in network.modules():
            module.register_forward_pre_hook(self._enter)
            module.register_forward_hook(self._leave)

    def _enter(self, _module: "nn.Module", _inputs: Any) -> None:
        if self._ran_a_child:
            self._ran_a_child[-1] = True
        self._ran_a_child.append(False)

    def _leave(self, _module: "nn.Module", _inputs: Any, output: Any) -> None:
        if not self._ran_a_child.pop():
            for tensor in tensors_in(output):
                storage = tensor.untyped_storage()
                self._storages[storage._cdata] = storage  # held, so that no address is used twice

    @property
    def byte(self) -> int:
        return sum(storage.nbytes() for storage in self._storages.values())


def tensors_in(value: Any) -> "list[torch.Tensor]":
    """All tensors in a module's output: a tensor, or tuples, lists and dictionaries of them."""
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def _byte(tensors: "list[torch.Tensor]") -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def count(model: Model, batch: int) -> Workload:
    """Counts one forward pass of ``batch`` inputs."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    # The fused inference path of nn.MultiheadAttention is an operator that the counter does not know.
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        network = build_on_meta(model)
        outputs = LeafOutputs(network)
        inputs = make_input(model, batch, "meta")
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            result = network(inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
    parameters = list(network.parameters())
    return Workload(
        model=model.name,
        source=model.source,
        family=model.family,
        input_shape="x".join(str(size) for size in model.input_shape),
        batch=batch,
        parameter_count=sum(parameter.numel() for parameter in parameters),
        parameter_byte=_byte(parameters),
        buffer_byte=_byte(list(network.buffers())),
        input_byte=_byte([inputs]),
        output_byte=_byte(tensors_in(result)),
        activation_byte=outputs.byte,
        forward_flop=counter.get_total_flops(),
    )
