"""Small traces as torch.profiler writes them, event by event. Times are in µs."""

import gzip
import json
from pathlib import Path

DEVICE = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "totalGlobalMem": 85018279936}
HOST = (100, 100)  # process and thread


def event(category, name, start, duration, arguments, thread=HOST):
    pid, tid = thread
    return {
        "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": duration,
        "args": arguments,
    }  # fmt: skip


def operator(name, start, duration, shapes=None, types=(), values=(), strides=(), number=None, sequence=None, **where):
    """``types`` is one for all, or a list. Texts of ``values`` are empty for tensors, as in a trace."""
    arguments = {} if number is None else {"External id": number}
    if sequence is not None:
        arguments["Sequence number"] = sequence
    if shapes is not None:
        types = [types] * len(shapes) if isinstance(types, str) else list(types)
        arguments |= {"Input Dims": shapes, "Input type": types, "Input Strides": list(strides)}
        arguments["Concrete Inputs"] = list(values) or [""] * len(shapes)
    return event("cpu_op", name, start, duration, arguments, **where)


TYPES = {"bf16": "c10::BFloat16", "fp16": "c10::Half", "fp32": "float", "fp64": "double", "int64": "long int"}


def recorded(argument):
    """The shape, type and text that a trace has of an argument.

    Tensors are texts such as "bf16 8x64", lists of them lists of shapes such as ["8x64"], which have no types; an empty
    list is not recorded. Numbers and their lists are themselves, None is an argument that was not given.
    """
    if isinstance(argument, str):
        dtype, _, shape = argument.partition(" ")
        return [int(size) for size in shape.split("x") if size], TYPES[dtype], ""
    if isinstance(argument, list) and all(isinstance(each, str) for each in argument):
        return [recorded(f"fp32 {shape}")[0] for shape in argument], "TensorList", ""
    kind = "" if argument is None else "ScalarList" if isinstance(argument, list) else "Scalar"
    return [], kind, "" if argument is None else str(argument)


def call(name, *arguments, start=10, duration=20, **more):
    """A call of an operator by its arguments, as in ``recorded``."""
    name = name if "::" in name or name.startswith("triton") else f"aten::{name}"
    return operator(name, start, duration, *map(list, zip(*map(recorded, arguments), strict=True)), **more)


def launch(start, correlation, name="cudaLaunchKernel", **where):
    return event("cuda_runtime", name, start, 1, {"correlation": correlation}, **where)


def kernel(name, start, duration, correlation, category="kernel", device=0, **arguments):
    arguments = {"device": device, "stream": 7, "correlation": correlation} | arguments
    return event(category, name, start, duration, arguments, thread=(device, 7))


def step(number, start, duration):
    return event("user_annotation", f"ProfilerStep#{number}", start, duration, {})


def trace(*events, **header):
    return {"schemaVersion": 1, "deviceProperties": [DEVICE], "record_shapes": 1} | header | {"traceEvents": [*events]}


LINEAR_FLOP, BIAS_FLOP = 2 * 8 * 64 * 32, 8 * 32  # of ``addmm``


def addmm(start, duration=20, dtype="bf16", **where):
    """A linear layer of 64 inputs and 32 outputs on 8 rows."""
    tensors = (f"{dtype} {shape}" for shape in ("32", "8x64", "64x32"))
    return call("addmm", *tensors, 1, 1, start=start, duration=duration, **where)


def relu(start, duration=10, **where):
    return call("relu", "bf16 8x32", start=start, duration=duration, **where)


def ran(*operators):
    """Operators, and a kernel of 5 us that is launched at 15."""
    return [*operators, launch(15, 5), kernel("k", 20, 5, 5)]


def only(found):
    (row,) = found.operators
    return row


def linear_step():
    """A linear layer and its activation: kernels of 10 and 5 µs, 15 µs apart."""
    return trace(
        step(3, 0, 200),
        call("linear", "bf16 8x64", "bf16 32x64", "bf16 32", duration=40),
        addmm(15, 30),
        launch(20, 1),
        relu(60),
        launch(65, 2),
        kernel("gemm", 100, 10, 1),
        kernel("relu_kernel", 125, 5, 2),
    )


def write(path: Path, document) -> Path:
    text = document if isinstance(document, str) else json.dumps(document)
    content = text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
