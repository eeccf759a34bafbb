"""Answer for the memory of a training step: ``measure model NAME --memory``, and ``measure.memory`` in Python."""

import argparse
import json
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from measure.cache.folders import MachineFolder
from measure.counting.step_memory import memory_of_call, step_memory
from measure.domain.models import Model
from measure.domain.records import Environment, Run
from measure.domain.step_memory import CheckpointPlan, StepMemory
from measure.domain.values import percent, si
from measure.domain.variants import OPTIMIZERS, SGD, with_optimizer
from measure.domain.words import EAGER, STEP, UPDATE, shape_name
from measure.errors import UserError, in_short, one_line, text_of
from measure.models.call import copy_to_meta
from measure.run.request import Request
from measure.run.storing import machine_folder
from measure.verbs.at_hand import call_at_hand, description
from measure.verbs.terminal import Line, Table, aligned, markdown, text

if TYPE_CHECKING:
    from torch import nn

NUMBERS = (
    "batch", "parameters", "gradients", "state", "saved", "peak", "measured", "output", "after forward",
    "after backward", "calls", "share", "of the peak", "recomputed",
)  # fmt: skip
BAR = 20  # characters of the peak
OPERATORS = 10  # listed in the text
BYTE = partial(si, unit="B")


def answer_memory(flags: argparse.Namespace, request: Request, device_kind: str, environment: Environment) -> int:
    """Count the steps of a request's model, at each batch size and precision, and print them."""
    (model,), optimizer = request.models, flags.optimizer or SGD
    folder = machine_folder(flags.data, flags.machine, environment)
    steps = []
    for precision in request.precisions:
        for batch in request.batch_sizes:
            try:
                counted = step_memory(model, batch, precision, optimizer, device_kind)
            except Exception as problem:  # a network may raise anything
                known = isinstance(problem, NotImplementedError)
                why = one_line(text_of(problem)) if known else in_short(problem)
                raise UserError(f"NAME: the training step of {model.name} could not be counted: {why}") from problem
            measured = measured_byte(folder, environment, model, counted)
            steps.append(MemoryAnswer(**vars(counted) | {"measured_byte": measured}))
    if flags.json:
        print(json.dumps({"steps": [step.as_json() for step in steps]}, indent=2, allow_nan=False))
    else:
        print("\n".join(memory_lines(steps, markdown if flags.markdown else aligned)))
    return 0


def measured_byte(folder: MachineFolder, environment: Environment, model: Model, counted: StepMemory) -> int | None:
    """Return the peak that torch measured of such a step in this environment, or None."""
    variant = with_optimizer(EAGER, counted.optimizer)
    wanted = model.name, model.code, counted.batch, counted.precision, STEP, variant, environment.environment_id
    peaks = [
        run.peak_byte
        for run in folder.rows(Run)
        if (run.model, run.code, run.batch, run.precision, run.phase, run.variant, run.environment_id) == wanted
    ]
    return max((peak for peak in peaks if peak is not None), default=None)


class MemoryAnswer(StepMemory):
    """The memory of a step, with its text."""

    def __str__(self) -> str:
        return "\n".join(memory_lines([self], aligned))

    __repr__ = __str__


def memory(network: "nn.Module", inputs: Any, name: str | None = None, optimizer: str = SGD) -> MemoryAnswer:
    """Count the memory of a network's training step: by block, by operator, over time, and with checkpoints.

    >>> answer = measure.memory(network, images)  # the inputs are as for measure.model
    >>> measure.memory(network, images, optimizer="adam")
    >>> answer.peak.byte, answer.blocks[0].saved_byte, answer.plans[-1].segments  # measure/domain/step_memory.py

    Nothing is run, and the network stays as it is. Raises ValueError for anything but a network and for inputs that it
    does not take; NotImplementedError, with a reason, for a network whose step cannot be counted.
    """
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer: {optimizer!r} is not one of {', '.join(OPTIMIZERS)}")
    call, precision = call_at_hand(network, inputs)
    model, batch, device = description(call, name)
    remade = partial(copy_to_meta, call, keep_constants=True)
    try:
        counted = memory_of_call(copy_to_meta(call), remade, None, optimizer, device.partition(":")[0])
    except NotImplementedError as problem:
        raise NotImplementedError(text_of(problem)) from None
    except Exception as problem:  # the network's own, under many frames of torch's
        raise ValueError(f"the network does not take these inputs: {one_line(text_of(problem))}") from None
    named = {"model": model.name, "input_shape": shape_name(model.input_shape), "batch": batch, "precision": precision}
    return MemoryAnswer(**vars(counted) | named)


def memory_lines(steps: Sequence[StepMemory], table: Table) -> list[str]:
    """Return a table of the steps; of the first its blocks, operators and plans of checkpoints."""
    first = steps[0]
    optimizer = "SGD with momentum" if first.optimizer == SGD else first.optimizer.capitalize()
    title = f"{first.model}, inputs of {first.input_shape}: memory of a training step with {optimizer}, counted"
    has_measured = any(step.measured_byte is not None for step in steps)
    measured = ["measured"] if has_measured else []
    rows: list[Line] = [
        ("batch", "precision", "parameters", "gradients", "state", "saved", "peak", *measured, "peak in", "operator")
    ]
    for step in steps:
        held = step.parameter_byte, step.gradient_byte, step.state_byte, step.saved_byte, step.peak.byte
        beside = [text(step.measured_byte, BYTE)] if has_measured else []
        where = step.peak.phase if step.peak.phase == UPDATE else f"{step.peak.phase} of {step.peak.part}"
        rows.append((str(step.batch), step.precision, *map(BYTE, held), *beside, where, step.peak.operator))
    lines = [title, "", *table(rows, NUMBERS)]
    if has_measured:
        lines += ["", "Measured is what torch allocated at most, workspace of its libraries included."]
    of = f"batch size {first.batch} at {first.precision}"
    lines += ["", f"At the peak of {of}: {peak_line(first)}.", "", f"By block, {of}:", "", *block_lines(first, table)]
    lines += ["", "A storage that several keep for the backward pass is saved by the first."]
    if table is aligned:
        lines.append(f"A bar is the bytes alive after a block's pass; {BAR} characters are the peak.")
    if first.operators:
        lines += ["", "Saved by operator:", "", *operator_lines(first, table)]
    lines += ["", "With checkpoints (torch.utils.checkpoint, use_reentrant=False):", "", *plan_lines(first, table)]
    return lines


def peak_line(step: StepMemory) -> str:
    peak = step.peak
    other = peak.byte - step.resident_byte - peak.gradient_byte - peak.saved_byte
    parts = {
        "parameters": step.parameter_byte,
        "state of the optimiser": step.state_byte,
        "buffers and inputs": step.buffer_byte + step.input_byte,
        "targets": step.target_byte,
        "gradients of parameters": peak.gradient_byte,
        "saved": peak.saved_byte,
        "others": other,
    }
    return ", ".join(f"{BYTE(byte)} {name}" for name, byte in parts.items() if byte)


def block_lines(step: StepMemory, table: Table) -> list[str]:
    """Return a table of the blocks; in a terminal with a bar of the bytes alive after each pass."""
    has_bars = table is aligned
    bars = ["forward", "backward"] if has_bars else []
    head = "block", "type", "parameters", "gradients", "state", "saved", "output", "after forward", "after backward"
    rows: list[Line] = [(*head, *bars)]
    for block in step.blocks:
        own = block.parameter_byte, block.gradient_byte, block.state_byte, block.saved_byte, block.output_byte
        alive = block.after_forward_byte, block.after_backward_byte
        drawn = ["#" * round(BAR * (byte or 0) / step.peak.byte) for byte in alive] if has_bars else []
        rows.append((block.path, block.type, *map(BYTE, own), *(text(byte, BYTE) for byte in alive), *drawn))
    return table(rows, NUMBERS)


def operator_lines(step: StepMemory, table: Table) -> list[str]:
    rows: list[Line] = [("operator", "calls", "saved", "share")]
    for each in step.operators[:OPERATORS]:
        share = each.saved_byte / step.saved_byte
        rows.append((each.operator, str(each.calls), BYTE(each.saved_byte), percent(share)))
    if others := step.operators[OPERATORS:]:
        byte, calls = sum(each.saved_byte for each in others), sum(each.calls for each in others)
        rows.append(("others", str(calls), BYTE(byte), percent(byte / step.saved_byte)))
    return table(rows, NUMBERS)


def plan_lines(step: StepMemory, table: Table) -> list[str]:
    """Return a table of the plans, and the segments of the last one, which has the least peak."""
    if len(step.blocks) == 1:
        return ["One layer: there is nothing to checkpoint."]
    if len(step.plans) == 1:
        return ["The blocks are no chain, in which one runs after the other, so there is no plan for them."]
    rows: list[Line] = [("plan", "peak", "of the peak", "recomputed")]
    for plan in step.plans:
        shares = percent(plan.peak_byte / step.plans[0].peak_byte, 3), percent(plan.recompute_share)
        rows.append((plan.name, BYTE(plan.peak_byte), *shares))
    best = step.plans[-1]
    notes = ["Recomputed is a share of the step's FLOP with the recomputation."]
    if best.segments:
        notes.append(f"The least peak has these segments under a checkpoint each: {segments_text(best)}.")
    else:
        notes.append("No plan lowers the peak: what checkpoints drop is not alive then.")
    if best.peak_byte == step.timeline[-1].byte:
        notes.append(f"No checkpoint lowers the {BYTE(best.peak_byte)} of the update.")
    return [*table(rows, NUMBERS), "", *notes]


def segments_text(plan: CheckpointPlan) -> str:
    return ", ".join(first if first == last else f"{first} to {last}" for first, last in plan.segments)
