"""Count the work, traffic and memory of a network on the meta device, which computes and allocates nothing.

The network runs forward in eval mode, then forward and backward in train mode. ``recorder`` sees the operators,
``formulas`` gives their FLOP, ``memory`` their bytes, and ``layers`` sums them by module. A network that decides by
values runs once for real.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.domain.models import OWN, Model
from measure.domain.values import si
from measure.domain.words import BACKWARD, FORWARD, FULL_PRECISION, INFERENCE, shape_name
from measure.domain.workload_records import ONE_RUN, Layer, Operator, Workload
from measure.errors import in_short, text_of
from measure.machine import settings
from measure.machine.container import available_memory_byte
from measure.models.call import Call, casting, empty_inputs, refuse_layouts
from measure.models.catalog import prepare, prepare_on_meta
from measure.models.draws import HIGHEST, LOWEST, same_draws
from measure.models.hugging_face import HuggingFace
from measure.models.tensors import held_tensors, torch_dtype

if TYPE_CHECKING:
    from torch import nn
    from torch.utils._python_dispatch import TorchDispatchMode

    from measure.counting.recorder import Recorder

# The version of the formulas, stored with each count. Raise it when a change to ``measure/counting`` changes a number.
# Counts and failures of another version are repeated when their model is requested.
VERSION = 1

LIMIT_S = 50  # of one real run; less than the usual limit of a call in a worker, so that it ends with a reason


class LimitError(NotImplementedError):
    """A real run takes more memory or time than it may."""


class Count(NamedTuple):
    """The rows of one workload: itself, its layers, and the calls of its operators."""

    workload: Workload
    layers: list[Layer]
    operators: list[Operator]


def identity(model: Model, batch: int, precision: str, autocast: str | None) -> dict[str, Any]:
    """Return the key columns of a workload."""
    shape = shape_name(model.input_shape)
    return {"model": model.name, "input_shape": shape, "batch": batch, "precision": precision, "autocast": autocast}


def not_counted(model: Model, batch: int, precision: str, autocast: str | None, status: str, reason: str) -> Count:
    """Make the row of a workload that could not be counted. It has no layers and no operators."""
    columns = identity(model, batch, precision, autocast) | _origin(model)
    return Count(Workload(status=status, reason=reason, **columns), [], [])


def _origin(model: Model) -> dict[str, Any]:
    """Return the columns of a workload about its model's origin and the version of the formulas."""
    return {"source": model.source, "family": model.family, "code": model.code, "counting": VERSION}


def count(model: Model, batch: int, precision: str = "fp32", autocast: str | None = None) -> Count:
    """Count a model's workload, layers and operators at ``batch`` inputs.

    With ``autocast``, a type of device, torch decides the precision of each operator as on that device. Raises
    LimitError if values decide which operators run and a real run takes too much, and any exception of the network.
    """
    return count_all(model, [batch], precision, autocast)[0]


def count_all(
    model: Model,
    batches: Sequence[int],
    precision: str,
    autocast: str | None,
    beat: Callable[[], None] = lambda: None,
    may_run: bool = True,
) -> list[Count]:
    """Count a model at several batch sizes, in rising order; a library's network is built once.

    Calls ``beat`` after each and before each real run. If one takes too much, larger batches are not counted either.
    Without ``may_run``, networks that decide by values are refused.
    """
    counts: list[Count] = []
    with _shipped_settings(model):
        calls = prepare_on_meta(model, batches)
    for batch, prepared in zip(batches, calls, strict=True):

        def remade(batch: int = batch) -> Call:
            return prepare_on_meta(model, [batch], keep_constants=True)[0]

        def real(batch: int = batch) -> Call:
            beat()
            dtype = torch_dtype(FULL_PRECISION if autocast else precision)
            return prepare(model, batch, autocast or "cpu", dtype)

        try:
            with _shipped_settings(model):
                run = real if may_run else None
                columns, layers, operators = count_call(prepared, remade, run, precision, autocast, model.family)
        except LimitError as problem:
            if not counts:
                raise
            why = precision, autocast, "unsupported", in_short(problem)
            return counts + [not_counted(model, each, *why) for each in batches[len(counts) :]]
        key = identity(model, batch, precision, autocast)
        workload = Workload(status="ok", **key, **_origin(model), **columns)
        rows = [Layer(**key, **row) for row in layers], [Operator(**key, **row) for row in operators]
        counts.append(Count(workload, *rows))
        beat()
    return counts


@contextmanager
def _shipped_settings(model: Model) -> Iterator[None]:
    """Explain a failure of a Hugging Face network: the settings of some types do not fit together."""
    try:
        yield
    except (NotImplementedError, MemoryError):
        raise
    except Exception as problem:
        if model.source != HuggingFace.source or model.code:
            raise
        remedy = "give the config.json of a published network, hf:PATH/config.json"
        why = f"{in_short(problem)}; it fails with the settings that transformers ships for its type: {remedy}"
        raise NotImplementedError(why) from problem


Rows = tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]


@settings.preserve()  # a network may set some in its forward pass, and the next one is counted in this process
def count_call(
    call: Call,
    remade: Callable[[], Call],
    real: Callable[[], Call] | None,
    precision: str | None,
    autocast: str | None,
    family: str = OWN,
) -> Rows:
    """Return the rows of ``count_network`` for a call on the meta device; if that fails, with fake tensors.

    Many networks fail on meta alone: they make tensors on the CPU, ask for the device's name, or read constants.
    Attention of joined sequences depends on their lengths, which fake tensors keep if the network gives them.
    ``remade`` makes the call anew, with its constants, and ``real`` with memory: unless it is None, it runs once if
    values decide. Raises the network's exceptions, with module and operator, and LimitError.
    """
    from measure.counting.attention import BY_TOKENS

    def count_empty(call: Call, fake: bool) -> Rows:
        with casting(call.network, precision, autocast, fake) as (device, dtype):
            inputs = empty_inputs(call, device, dtype)
            return count_network(call.network, inputs.inputs, inputs.keywords, family=family)

    refuse_layouts(call)
    counted, refusal = None, None
    with suppress(Exception):
        counted = count_empty(call, fake=False)
    if counted is not None:
        reads_lengths = any(row["operator"].startswith(BY_TOKENS) for row in counted[2])
        if counted[0].get("backward_flop") is not None and not reads_lengths:
            return counted
    call = remade()
    try:
        counted = count_empty(call, fake=True)
    except Exception as problem:
        refusal = explain(problem)
        if counted is None and not (real and isinstance(refusal, ValuesDecideError)):
            raise refusal from problem
    if counted is not None and (real is None or READS_VALUES not in (counted[0]["reason"] or "")):
        return counted
    assert real is not None  # without it, the refusal was raised
    try:
        with real_call(call, real, precision, autocast) as run:
            found = count_network(run.network, run.inputs, run.keywords, is_real=True, family=family)
        return counted if counted is not None and found[0].get("backward_flop") is None else found
    except Exception as problem:
        if counted is not None:
            return counted
        if isinstance(problem, LimitError):
            raise LimitError(f"{refusal}; {problem}") from problem
        raise explain(problem) from problem


@contextmanager
def real_call(bare: Call, make: Callable[[], Call], precision: str | None, autocast: str | None) -> Iterator[Call]:
    """Yield the call that ``make`` returns, which may run inside for ``LIMIT_S``. ``bare`` is it without memory.

    Random numbers are the same in every run, so the counts are too. Raises LimitError if it takes too much.
    """
    import torch

    weights = [*bare.network.parameters(), *bare.network.buffers()]
    # Own networks are built in fp32 and then cast; each weight has a gradient.
    least_byte = sum(2 * tensor.numel() * max(4, tensor.element_size()) for tensor in weights)
    least_byte += sum(tensor.numel() * tensor.element_size() for tensor in held_tensors([bare.inputs, bare.keywords]))
    free_byte = available_memory_byte()
    if least_byte > free_byte:
        need = f"one real run takes {si(least_byte, 'B')} for weights, gradients and inputs"
        raise LimitError(f"{need}, and {si(free_byte, 'B')} are free")
    dtype = torch_dtype(precision) if autocast and precision else None
    try:
        with same_draws(), _time_limit(), torch.autocast(autocast or "cpu", dtype, enabled=autocast is not None):
            yield make()
    except (MemoryError, RuntimeError) as problem:
        if not isinstance(problem, MemoryError) and "allocate memory" not in text_of(problem):
            raise
        raise LimitError(f"one real run takes more memory than the {si(free_byte, 'B')} that are free") from problem


def _time_limit() -> "TorchDispatchMode":
    """Return a context that raises LimitError at the first operator after ``LIMIT_S``, in either pass."""
    from torch.utils._python_dispatch import TorchDispatchMode

    end = time.monotonic() + LIMIT_S

    class TimeLimit(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if time.monotonic() > end:
                remedy = "name fewer tokens or inputs, or count it with --force while the machine is idle"
                raise LimitError(f"one real run takes longer than {LIMIT_S} s; {remedy}")
            return func(*args, **(kwargs or {}))

    return TimeLimit()


class ValuesDecideError(NotImplementedError):
    """Which operators run depends on values of tensors."""


READS_VALUES = "it reads values of tensors, and counting knows none"


def explain(problem: Exception) -> Exception:
    """Make an exception that names its module and operator, with a remedy."""
    place = " ".join(getattr(problem, "__notes__", []))
    text = text_of(problem)
    if found := re.search(r"derivative for aten::(\w+) is not implemented", text):
        why = "torch has no derivative of it; train with other operators, or freeze the layers before it"
        return NotImplementedError(f"operator {found[1]}: {why}")
    if isinstance(problem, (MemoryError, LimitError)) or not place:
        return problem
    reads = "tensor subclass" in text or "data is not allocated" in text or "_local_scalar_dense" in place
    if "active drivers" in text:
        why = "a Triton kernel needs a GPU; wrap it with torch.library.triton_op and give that a fake (register_fake)"
    elif "no fake impl" in text or (type(problem).__name__ == "UnsupportedOperatorException" and "nested" not in place):
        why = "torch cannot tell its output without running it; give it one with torch.library.register_fake"
    elif type(problem).__name__ in DEPENDS_ON_VALUES or reads:
        if "operator _nested" not in place:
            return ValuesDecideError(f"{place}: {READS_VALUES}; decide by shapes, or pass a Python number")
        why = "its nested tensors have torch's old layout; make them with layout=torch.jagged, or pad"
    else:
        kind, _, why = in_short(problem).rstrip(".").partition(": ")
        if not isinstance(problem, NotImplementedError):
            return RuntimeError(f"{place}: {why}" if kind == "RuntimeError" else f"{place}: {kind}: {why}")
    return NotImplementedError(f"{place}: {why}")


# The exceptions of torch's fake tensors if an operator's output, or its shape, depends on values.
DEPENDS_ON_VALUES = ("DataDependentOutputException", "DynamicOutputShapeException", "UnsupportedOperatorException")


def count_network(
    network: "nn.Module",
    inputs: Sequence[Any],
    keywords: Mapping[str, Any] | None = None,
    is_real: bool = False,
    family: str = OWN,
) -> Rows:
    """Count the columns of ``Workload``, of each ``Layer`` and of each ``Operator`` for one call of a network.

    If the training pass fails (no output has a gradient, for example), its columns are None and ``reason`` says why.
    ``is_real``: the tensors have values, and the counts follow the path of one run. ``family`` decides the loss.
    """
    from measure.counting.layers import call_rows, layer_rows
    from measure.counting.memory import adam_byte, stored_byte, tensors_in
    from measure.counting.recording import record_inference, record_training

    keywords = keywords or {}

    infer = partial(record_inference, network, inputs, **keywords)
    (inference, output), decided = most_work(network, infer, is_real)
    passes, parameters = {INFERENCE: inference.forward}, list(network.parameters())
    arguments = held_tensors([inputs, dict(keywords)])
    columns: dict[str, Any] = {
        "reason": None,
        "path": ONE_RUN if is_real else None,
        "input_byte": stored_byte(arguments),
        "output_byte": stored_byte(tensors_in(held_tensors(output))),
        "parameter_count": sum(parameter.numel() for parameter in parameters),
        "parameter_byte": stored_byte(parameters, inference.shares),
        "buffer_byte": stored_byte(network.buffers()),
        "untouched_byte": inference.untouched_byte([*parameters, *arguments]),
        "read_byte": inference.forward.total("read_byte"),
    }
    resident_byte = sum(columns[name] for name in ("input_byte", "parameter_byte", "buffer_byte"))
    columns["inference_peak_byte"] = resident_byte + inference.memory.peak_byte
    del output  # the training pass would count it as resident memory

    def train() -> "tuple[Recorder, list[tuple[Any, Any]]]":
        recorded = record_training(network, inputs, family, **keywords)
        return recorded, [(each, each.grad) for each in parameters if each.grad is not None]

    try:
        (training, trained), training_decided = most_work(network, train, is_real)
    except Exception as problem:  # a model may raise anything
        columns["reason"] = f"backward not counted: {text_of(explain(problem))}"
    else:
        decided |= training_decided
        if training.trains_one_value:
            refusal = "batch normalisation of one value a channel; train at batch 2"
            columns["reason"] = f"backward counted, but torch refuses it: {refusal}"
        passes |= {FORWARD: training.forward, BACKWARD: training.backward}
        gradient_byte = stored_byte(tensors_in([gradient for _, gradient in trained]))
        columns |= {
            "gradient_byte": gradient_byte,
            "momentum_byte": gradient_byte,
            "adam_byte": adam_byte([parameter for parameter, _ in trained]),
            "training_peak_byte": sum(
                (resident_byte, stored_byte(training.targets), gradient_byte, training.memory.peak_byte)
            ),
        }

    if decided:
        drawn = "random draws decide what runs; counted is the most of three runs: ordinary, lowest and highest draws"
        columns["reason"] = "; ".join(filter(None, (columns["reason"], drawn)))

    # Operators without a formula, as name:calls:share of the bytes that inference and the backward pass move.
    once = [record for stage, record in passes.items() if stage != FORWARD]
    traffic_byte = sum(record.total("traffic_byte") for record in once)
    calls = sum((record.uncounted for record in once), Counter[str]())
    byte = sum((record.uncounted_byte for record in once), Counter[str]())
    uncounted = [f"{name}:{calls[name]}:{byte[name] / traffic_byte:.2g}" for name in sorted(calls)]
    columns["uncounted"] = ";".join(uncounted) or None

    layers = layer_rows(network, passes, inference.users)
    for name in [name for name in layers[0] if name.endswith(("_flop", "_byte")) and name not in columns]:
        parts = [layer[name] for layer in layers]
        columns[name] = None if None in parts else sum(parts)
    network.zero_grad(set_to_none=True)
    return columns, layers, call_rows(passes)


def most_work(
    network: "nn.Module", record: "Callable[[], tuple[Recorder, Any]]", is_real: bool
) -> "tuple[tuple[Recorder, Any], bool]":
    """Record a pass with the same random numbers each time; return it, and whether they decide which operators run.

    A network may leave out layers at random. If it draws numbers, the pass is recorded again with the lowest and with
    the highest ones. The pass with the most FLOP counts.
    """

    def work(recorded: "tuple[Recorder, Any]") -> tuple[int, ...]:
        passes = recorded[0].forward, recorded[0].backward
        return tuple(sum(each.total(name) for each in passes) for name in ("flop", "other_flop", "traffic_byte"))

    found, problems = [], []
    for pin in (None, LOWEST, HIGHEST):
        try:
            with same_draws(pin, network) as draws:
                found.append(record())
        except Exception as problem:  # without the layers that are left out, nothing may have a gradient
            problems.append(problem)
        if is_real or not draws.made:
            break
    if not found:
        raise problems[0]
    return max(found, key=work), bool(problems) or len(set(map(work, found))) > 1
