"""Run a network under a recorder: a forward pass without gradients, or the passes of training."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch import nn
from torch.nn import functional

from measure.counting.recorder import Recorder
from measure.domain.models import OWN
from measure.models.call import Call, preserve_state
from measure.models.tensors import held_tensors

AnyRecorder = TypeVar("AnyRecorder", bound=Recorder)


@contextmanager
def _recording(network: nn.Module, inputs: Any, kind: type[AnyRecorder]) -> Iterator[AnyRecorder]:
    """Record the operators inside. An exception gets a note with the module and operator that raised it."""
    recorder = kind(network, inputs)
    with preserve_state(network):
        try:
            with recorder.recording():
                yield recorder
        except Exception as problem:
            if recorder.failure is not None and recorder.failure[0] is problem:
                _, module, operator = recorder.failure
                path = next((path for path, each in network.named_modules() if each is module), "")
                place = f"{path} ({type(module).__name__})" if path else type(module).__name__
                problem.add_note(f"{place}, operator {operator}" if operator else place)
            raise


def record_inference(network: nn.Module, inputs: Sequence[Any], /, **keywords: Any) -> tuple[Recorder, Any]:
    """Run the network in eval mode without gradients; return the recorder and the output."""
    network.eval()
    with torch.no_grad(), _recording(network, [inputs, keywords], Recorder) as recorder:
        output = Call(network, tuple(inputs), keywords).run()
    return recorder, output


def _any_number_of_values(recorder: Recorder) -> AbstractContextManager[Any]:
    """Let normalisation in training take one value a channel, which torch refuses; note that it did."""
    verify = functional._verify_batch_size  # type: ignore[attr-defined]

    def note(size: Any) -> None:
        try:
            verify(size)
        except ValueError:
            recorder.trains_one_value = True

    return patch.object(functional, "_verify_batch_size", note)


def record_training(network: nn.Module, inputs: Sequence[Any], family: str = OWN, /, **keywords: Any) -> Recorder:
    """Run the network forward and backward as ``record_training_by`` does."""
    return record_training_by(Recorder, network, inputs, family, **keywords)


def record_training_by(
    kind: type[AnyRecorder], network: nn.Module, inputs: Sequence[Any], family: str = OWN, /, **keywords: Any
) -> AnyRecorder:
    """Run the network in train mode forward, then backward to every parameter that needs a gradient.

    ``family`` decides the loss.

    Raises NotImplementedError if there are such parameters, and no output depends on them.
    """
    network.train()
    network.zero_grad(set_to_none=True)
    with (
        torch.enable_grad(),
        _recording(network, [inputs, keywords], kind) as recorder,
        _any_number_of_values(recorder),
    ):
        output = Call(network, tuple(inputs), keywords).run()
        outputs = [tensor for tensor in held_tensors(output) if tensor.requires_grad]
        if not outputs and any(parameter.requires_grad for parameter in network.parameters()):
            raise NotImplementedError("no output has a gradient; return the tensors that the loss is made from")
        recorder.run_backward(outputs, family)
    return recorder
