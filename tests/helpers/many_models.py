"""The world with many models more on its CPU, made by arithmetic: for what has to hold however many there are."""

import shutil
from dataclasses import replace
from random import Random

from helpers.rows import cell_columns, layer, operator, run, workload
from helpers.world import WORLD
from measure.cache.records import OperatorTime, Profile, Run, Sample
from measure.cache.table import append
from measure.cache.workload_records import Layer, Operator, Workload
from measure.domain.words import BACKWARD, EAGER, FORWARD, INFERENCE, STAGES, STEP

FAMILIES = ("plain", "residual", "compact", "transformer", "audio")
BATCHES = (1, 4, 16)
TRAINED = 16
"""The batch size of training, and of its profiles; those of inference are at 1."""

ROUNDS, SAMPLES = 3, 6
OK = {"status": "ok", "reason": None, "recorded_at": "2026-01-02"}


def write_many(data, count):
    """Writes the cache with so many models more into a folder that is not there yet; the same each time."""
    shutil.copytree(WORLD, data)
    random, rows = Random(0), {}
    for number in range(count):
        for row in _rows(f"net{number:04}", FAMILIES[number % len(FAMILIES)], random):
            rows.setdefault(type(row), []).append(row)
    machine = data / "machines" / "example-cpu"
    tables = {
        Workload: data / "workload" / "models.csv", Layer: data / "workload" / "layers.csv",
        Operator: data / "workload" / "operators.csv", Run: machine / "runs.csv", Sample: machine / "samples.csv",
        Profile: machine / "profiles.csv", OperatorTime: machine / "operators.csv",
    }  # fmt: skip
    for record, path in tables.items():
        append(path, record, rows[record])


def _rows(model, family, random):
    """The rows of a model: 3/4 of all that it asks for are in a convolution, the rest in a linear layer."""
    flop, parameters, activations = (
        int(least * 2 ** random.uniform(0, doublings)) for least, doublings in ((1e8, 9), (1e6, 7), (1e6, 6))
    )
    forward_s = flop / random.uniform(1e10, 9e10)  # of one input
    for batch in BATCHES:
        yield from _counted(model, family, batch, flop, parameters, activations)
        for number in range(ROUNDS):
            yield from _round(model, batch, INFERENCE, number, batch * forward_s * random.uniform(0.98, 1.02))
    stages_s = [TRAINED * forward_s * times for times in (1, random.uniform(1.5, 2.5), 0.1)]
    for phase, latency_s in zip((*STAGES, STEP), (*stages_s, sum(stages_s)), strict=True):
        yield from _round(model, TRAINED, phase, 0, latency_s)
    yield from _profile(model, 1, INFERENCE, forward_s, [(INFERENCE, "conv2d", 0.6), (INFERENCE, "linear", 0.2)])
    forward = [(FORWARD, "conv2d", 0.2), (FORWARD, "linear", 0.1)]
    backward = [(BACKWARD, "convolution_backward", 0.4), (BACKWARD, "mm", 0.2)]
    yield from _profile(model, TRAINED, STEP, sum(stages_s), forward + backward)


def _counted(model, family, batch, flop, parameters, activations):
    """The row of a workload, with its layers and operators."""
    sums = {
        "parameter_count": parameters, "parameter_byte": 4 * parameters, "activation_byte": 4 * batch * activations,
        "traffic_byte": 4 * parameters + 12 * batch * activations, "forward_flop": batch * flop,
        "forward_other_flop": batch * activations, "saved_byte": 4 * batch * activations,
        "backward_traffic_byte": 8 * parameters + 24 * batch * activations, "backward_flop": 2 * batch * flop,
        "backward_other_flop": 2 * batch * activations, "recompute_flop": 0,
    }  # fmt: skip
    peak = sums["parameter_byte"] + sums["activation_byte"]
    yield replace(
        workload(model, batch), family=family, **sums, buffer_byte=0, input_byte=600_000 * batch,
        output_byte=4_000 * batch, inference_peak_byte=peak, training_peak_byte=3 * peak,
        gradient_byte=4 * parameters, momentum_byte=4 * parameters, adam_byte=8 * parameters,
    )  # fmt: skip
    linear = {column: whole // 4 for column, whole in sums.items()}
    convolution = {column: whole - linear[column] for column, whole in sums.items()}
    named = (("features", "Conv2d", "convolution", convolution), ("head", "Linear", "linear", linear))
    for position, (path, module, kind, own) in enumerate(named):
        yield replace(layer(model, batch, position), path=path, type=module, layer_kind=kind, **own)
    for kind, own in (("convolution", convolution), ("linear", linear)):
        forward, backward = ("convolution", "convolution_backward") if kind == "convolution" else ("addmm", "mm")
        for stage in (INFERENCE, FORWARD):
            yield operator(
                model, batch, forward, own["forward_flop"], stage=stage, layer_kind=kind, byte=own["traffic_byte"]
            )
        asked = {"stage": BACKWARD, "layer_kind": kind, "byte": own["backward_traffic_byte"]}
        yield operator(model, batch, backward, own["backward_flop"], **asked)


def _round(model, batch, phase, number, latency_s):
    yield replace(run(model, batch, round_=number, phase=phase), environment_id="cpu-new")
    cell = cell_columns(model, batch, phase, EAGER, "cpu-new")
    for index in range(SAMPLES):
        yield Sample(**cell, sample=index, block=1, latency_s=latency_s * (1 + index / 1000), round=number)


def _profile(model, batch, phase, plain_s, shares):
    """A profile, in which operators take these shares of a call."""
    cell = cell_columns(model, batch, phase, EAGER, "cpu-new")
    yield Profile(**cell, **OK, steps=10, plain_s=plain_s, profiled_s=1.1 * plain_s)
    for stage, name, share in shares:
        path = "features" if "conv" in name else "head"
        yield OperatorTime(**cell, stage=stage, path=path, operator=name, calls=1, time_s=share * plain_s)
