"""The rows of a step's memory: blocks, operators, moments and plans of checkpoints, from a recorded step."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import nn

from measure.counting.blocks import BlockPart
from measure.counting.checkpoints import Chain, Segments
from measure.counting.memory import adam_byte, storage_key, stored_byte, tensors_in
from measure.counting.step_recorder import StepRecorder
from measure.counting.step_trace import StepTrace
from measure.domain.step_memory import BlockMemory, CheckpointPlan, Moment, OperatorMemory
from measure.domain.variants import ADAM
from measure.domain.words import BACKWARD, FORWARD

HALF = 0.5  # of the blocks' forward pass, which one of the plans recomputes at most

Parts = Mapping[nn.Module, BlockPart]
Owned = Mapping[BlockPart, Mapping[str, int]]


def owned_byte(
    network: nn.Module,
    recorder: StepRecorder,
    parts: Parts,
    gradients: Mapping[nn.Parameter, torch.Tensor],
    optimizer: str,
) -> Owned:
    """Sum parameters, gradients and the optimiser's state by part.

    A parameter belongs to the module that uses it first, else to its holder.
    """
    modules = dict(network.named_modules())
    owned: defaultdict[BlockPart, Counter[str]] = defaultdict(Counter)
    for name, parameter in network.named_parameters():
        part = parts[recorder.users.get(storage_key(parameter), modules[name.rpartition(".")[0]])]
        owned[part]["parameter_byte"] += stored_byte([parameter], recorder.shares)
        if parameter in gradients:
            gradient_byte = stored_byte(tensors_in([gradients[parameter]]))
            owned[part]["gradient_byte"] += gradient_byte
            owned[part]["state_byte"] += adam_byte([parameter]) if optimizer == ADAM else gradient_byte
    return owned


def block_rows(
    recorder: StepRecorder, trace: StepTrace, parts: Parts, owned: Owned, resident_byte: int
) -> list[BlockMemory]:
    """Return a row for each part that runs or has parameters, in the order of their first run."""
    saved, output = _saved_by_part(trace), _output_by_part(trace)
    flop: dict[str, Counter[BlockPart]] = {FORWARD: Counter(), BACKWARD: Counter()}
    for phase, record in ((FORWARD, recorder.forward), (BACKWARD, recorder.backward)):
        for module, totals in record.modules.items():
            flop[phase][parts[module]] += totals.flop

    def alive_after(part: BlockPart, is_backward: bool) -> int | None:
        times = trace.times_of(part, is_backward)
        return resident_byte + int(trace.settled[times[-1] + 1]) if len(times) else None

    first_run = {part: time for time, part in reversed([*enumerate(trace.part_of_run)])}
    busy = [part for part in dict.fromkeys(parts.values()) if part in first_run or part in owned]
    rows = []
    for part in sorted(busy, key=lambda part: first_run.get(part, trace.end)):
        own = {name: owned[part][name] if part in owned else 0 for name in OWNED}
        row = BlockMemory(
            part.path, part.type, part.is_block, **own, saved_byte=saved[part], output_byte=output[part],
            forward_flop=flop[FORWARD][part], backward_flop=flop[BACKWARD][part],
            after_forward_byte=alive_after(part, is_backward=False),
            after_backward_byte=alive_after(part, is_backward=True),
        )  # fmt: skip
        rows.append(row)
    return rows


OWNED = ("parameter_byte", "gradient_byte", "state_byte")


def _first_savers(trace: StepTrace) -> dict[int, int]:
    """Return the time of the first operator that keeps each storage, by the storage's place."""
    first: dict[int, int] = {}
    for place, time in trace.saves.T.tolist():
        first[place] = min(time, first.get(place, time))
    return first


def _saved_by_part(trace: StepTrace) -> Counter[BlockPart]:
    saved: Counter[BlockPart] = Counter()
    for place, time in _first_savers(trace).items():
        saved[trace.part_of_run[time]] += int(trace.byte[place])
    return saved


def _output_by_part(trace: StepTrace) -> Counter[BlockPart]:
    """Sum the storages of the forward pass that another part reads, or that live to the step's end, by their maker."""
    makers = [trace.part_of_run[time] for time in trace.birth]
    handed = {place for place, time in trace.reads.T.tolist() if trace.part_of_run[time] != makers[place]}
    handed |= set(((trace.birth < trace.forward_end) & (trace.death >= trace.end)).nonzero()[0].tolist())
    output: Counter[BlockPart] = Counter()
    for place in handed:
        output[makers[place]] += int(trace.byte[place])
    return output


def operator_rows(trace: StepTrace) -> list[OperatorMemory]:
    """Return the operators that keep storages, the one with the most bytes first."""
    byte, times = Counter[str](), defaultdict[str, set[int]](set)
    for place, time in _first_savers(trace).items():
        name = trace.runs[time].operator
        byte[name] += int(trace.byte[place])
        times[name].add(time)
    return [OperatorMemory(name, len(times[name]), most) for name, most in byte.most_common()]


def moments(trace: StepTrace, resident_byte: int) -> list[Moment]:
    """Return a moment for each operator of both passes."""
    alive, gradient, saved = trace.alive(), trace.alive(trace.is_gradient), trace.alive(trace.is_saved)
    rows = []
    for time, (run, part) in enumerate(zip(trace.runs, trace.part_of_run, strict=True)):
        byte = resident_byte + int(alive[time]), int(gradient[time]), int(saved[time])
        rows.append(Moment(BACKWARD if run.is_backward else FORWARD, part.path, run.operator, *byte))
    return rows


def checkpoint_plans(
    trace: StepTrace, parts: Parts, rows: Sequence[BlockMemory], resident_byte: int, update_byte: int
) -> list[CheckpointPlan]:
    """Return plans for the chain of blocks; the plan without checkpoints alone if the blocks are no chain."""
    by_path = {part.path: part for part in parts.values()}
    blocks = [row for row in rows if row.is_block and None not in (row.after_forward_byte, row.after_backward_byte)]
    chain = Chain(trace, [by_path[row.path] for row in blocks], [row.forward_flop for row in blocks])
    step_flop = sum(row.forward_flop + row.backward_flop for row in rows)

    def plan(name: str, segments: Segments) -> CheckpointPlan:
        peak_byte = max(resident_byte + chain.replay(segments).peak_byte, update_byte)
        flop = chain.recompute_flop(segments)
        paths = [(blocks[first].path, blocks[last].path) for first, last in segments]
        return CheckpointPlan(name, paths, peak_byte, flop, flop / (step_flop + flop) if flop else 0.0)

    plans = [plan("none", [])]
    if chain.is_chain:
        number = max(2, round(math.sqrt(len(blocks))))
        plans += [
            plan(f"{number} segments", chain.equal_segments(number)),
            plan("every block", chain.each),
            plan("least peak, at most half again", chain.least_peak(HALF)),
            plan("least peak", chain.least_peak(1.0)),
        ]
    return plans
