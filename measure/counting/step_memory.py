"""Count the memory of a training step by block, by operator and over time, on the meta device.

``step_memory`` takes a model by name, ``memory_of_call`` a call on the meta device. Both run nothing.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from measure.counting.count import explain, most_work
from measure.domain.models import OWN, Model
from measure.domain.step_memory import Moment, StepMemory
from measure.domain.variants import ADAM, SGD
from measure.domain.words import FULL_PRECISION, UPDATE, shape_name, stored_as
from measure.machine import settings
from measure.models.call import Call, casting, empty_inputs, refuse_layouts
from measure.models.catalog import prepare_on_meta
from measure.models.tensors import held_tensors

if TYPE_CHECKING:
    import torch

    from measure.counting.step_recorder import StepRecorder


def step_memory(
    model: Model, batch: int, precision: str = FULL_PRECISION, optimizer: str = SGD, device_kind: str = "cpu"
) -> StepMemory:
    """Count the memory of a model's training step with ``batch`` inputs.

    ``device_kind`` decides how the optimiser updates. Raises NotImplementedError, with the reason, for a network whose
    backward pass cannot be counted without values, and any exception of the network.
    """

    def make(keep_constants: bool = False) -> Call:
        return prepare_on_meta(model, [batch], keep_constants)[0]

    remade = partial(make, keep_constants=True)
    counted = memory_of_call(make(), remade, stored_as(precision), optimizer, device_kind, model.family)
    shape = shape_name(model.input_shape)
    return replace(counted, model=model.name, input_shape=shape, batch=batch, precision=precision)


@settings.preserve()
def memory_of_call(
    call: Call, remade: Callable[[], Call], precision: str | None, optimizer: str, device_kind: str, family: str = OWN
) -> StepMemory:
    """Count a call on the meta device; if that fails, the call that ``remade`` makes, with fake tensors.

    ``precision`` None keeps the types of the network; ``family`` decides the loss. Model, shape, batch and precision of
    the result are empty.
    """

    def count_empty(call: Call, fake: bool) -> StepMemory:
        with casting(call.network, precision, None, fake) as (device, dtype):
            return _memory_of(empty_inputs(call, device, dtype), optimizer, device_kind, family)

    refuse_layouts(call)
    with suppress(Exception):
        return count_empty(call, fake=False)
    try:
        return count_empty(remade(), fake=True)
    except Exception as problem:
        raise explain(problem) from problem


def _memory_of(call: Call, optimizer: str, device_kind: str, family: str) -> StepMemory:
    from measure.counting import step_rows
    from measure.counting.blocks import part_of_modules
    from measure.counting.memory import adam_byte, stored_byte, tensors_in
    from measure.counting.recording import record_training_by
    from measure.counting.step_recorder import StepRecorder
    from measure.counting.step_trace import StepTrace

    network = call.network

    def train() -> "tuple[StepRecorder, dict[torch.nn.Parameter, torch.Tensor]]":
        recorded = record_training_by(StepRecorder, network, call.inputs, family, **call.keywords)
        return recorded, {each: each.grad for each in network.parameters() if each.grad is not None}

    (recorder, trained), _ = most_work(network, train, is_real=False)
    if not trained:
        raise NotImplementedError("none of its parameters gets a gradient, so it has no training step")
    if recorder.trains_one_value:
        raise NotImplementedError("batch normalisation of one value a channel, which torch refuses; train at batch 2")
    gradients = tensors_in([*trained.values()])
    gradient_byte = stored_byte(gradients)
    resident = {
        "parameter_byte": stored_byte(network.parameters(), recorder.shares),
        "buffer_byte": stored_byte(network.buffers()),
        "input_byte": stored_byte(held_tensors([call.inputs, call.keywords])),
        "target_byte": stored_byte(recorder.targets),
        "state_byte": adam_byte([*trained]) if optimizer == ADAM else gradient_byte,
    }
    resident_byte = sum(resident.values())
    parts = part_of_modules(network)
    trace = StepTrace(recorder, parts, {recorder.memory.number(each) for each in gradients})
    owned = step_rows.owned_byte(network, recorder, parts, trained, optimizer)
    blocks = step_rows.block_rows(recorder, trace, parts, owned, resident_byte)
    update_byte = resident_byte + gradient_byte + _update_byte(trained, optimizer, device_kind)
    update = Moment(UPDATE, "", optimizer, update_byte, gradient_byte, 0)
    timeline = [*step_rows.moments(trace, resident_byte), update]
    plans = step_rows.checkpoint_plans(trace, parts, blocks, resident_byte, update_byte)
    network.zero_grad(set_to_none=True)
    return StepMemory(
        "", "", 0, "", optimizer, **resident, gradient_byte=gradient_byte,
        saved_byte=sum(block.saved_byte for block in blocks), peak=max(timeline, key=lambda moment: moment.byte),
        measured_byte=None, blocks=blocks, operators=step_rows.operator_rows(trace), plans=plans, timeline=timeline,
    )  # fmt: skip


def _update_byte(trained: "Iterable[torch.nn.Parameter]", optimizer: str, device_kind: str) -> int:
    """Return what an update allocates besides its state: in Adam the root of the second average, and its quotient.

    torch updates all parameters at once (``foreach``) on a GPU, where the root of all is alive and divided in place; a
    processor has root and quotient of one parameter. SGD with momentum works in place. Source: ``torch/optim/adam.py``.
    """
    if optimizer != ADAM:
        return 0
    byte = [parameter.nbytes for parameter in trained]
    return sum(byte) if device_kind == "cuda" else 2 * max(byte)
