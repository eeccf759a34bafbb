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


def launch(start, correlation, name="cudaLaunchKernel", **where):
    return event("cuda_runtime", name, start, 1, {"correlation": correlation}, **where)


def kernel(name, start, duration, correlation, category="kernel", device=0, **arguments):
    known = {"device": device, "stream": 7, "correlation": correlation} | arguments
    return event(category, name, start, duration, known, thread=(device, 7))


def step(number, start, duration):
    return event("user_annotation", f"ProfilerStep#{number}", start, duration, {})


def trace(*events, **header):
    return {"schemaVersion": 1, "deviceProperties": [DEVICE], "record_shapes": 1} | header | {"traceEvents": [*events]}


def addmm(start, duration=20, dtype="c10::BFloat16", **where):
    """A linear layer of 64 inputs and 32 outputs on 8 rows."""
    shapes, types = [[32], [8, 64], [64, 32], [], []], [dtype] * 3 + ["Scalar"] * 2
    return operator("aten::addmm", start, duration, shapes, types, ["", "", "", "1", "1"], **where)


def relu(start, duration=10, **where):
    return operator("aten::relu", start, duration, [[8, 32]], "c10::BFloat16", **where)


def linear_step():
    """A linear layer and its activation: kernels of 10 and 5 µs, 15 µs apart."""
    return trace(
        step(3, 0, 200),
        operator("aten::linear", 10, 40, [[8, 64], [32, 64], [32]], "c10::BFloat16"),
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
