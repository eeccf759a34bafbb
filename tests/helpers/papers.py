"""Papers for the tests, from the tiny cache in tests/data, made for arithmetic by hand, and an empty one."""

from dataclasses import replace
from functools import cache

import pandas as pd

from helpers.places import ROOT, TESTS
from helpers.rows import cell_columns, layer, operator, run, workload
from measure.cache.folders import MachineFolder
from measure.cache.records import RoofMeasurement, Run, Sample
from measure.cache.workload_records import Layer, Operator, Workload
from measure.domain.roofs import machine_roof, merge_rounds
from measure.domain.words import SUSTAINED
from report.paper import Paper, cells, chips, frame, hand_tables, load, workloads
from report.paper.roofs import measured_roofs, with_rates

REFERENCES = ROOT / "bib" / "references.bib"


@cache
def tiny() -> Paper:
    return load(TESTS / "data", REFERENCES)


@cache
def wide() -> Paper:
    """The tiny paper with more chips: generations of product lines, and chips at several precisions."""
    more = chips.read(TESTS / "data" / "more-chips.csv", hand_tables.read_keys(REFERENCES))
    return replace(tiny(), chips=pd.concat([tiny().chips, more], ignore_index=True))


EIGHT_BITS = {"cpu": {"int8": 200e9}, "gpu": {"fp8": 100e12, "int8": 100e12}}
"""What products of 8 bits reach on the machines of ``with_eight_bits``: more than their other arithmetic."""

PRINTED_EIGHT_BITS = {"fp8": 200e12, "int8": 400e12}
"""What the datasheet of its GPU says of them."""


@cache
def with_eight_bits() -> Paper:
    """The tiny paper with products of 8 bits, measured on both machines and printed of its GPU."""
    machines = []
    for machine in tiny().machines:
        rows = MachineFolder(TESTS / "data", machine.folder).rows(RoofMeasurement)
        product = [row for row in rows if row.roof_kernel == "matmul" and row.status == "ok"][-1]
        for precision, rate in EIGHT_BITS[machine.chip_kind].items():
            time_s = product.flop / rate
            times = {"latency_s": time_s, "latency_low_s": time_s, "latency_high_s": time_s}
            rows.append(replace(product, precision=precision, pace=SUSTAINED, **times))
        merged, roof = merge_rounds(rows), machine_roof(rows)
        measured = with_rates(frame(merged, RoofMeasurement))
        machines.append(replace(machine, roof_measurements=measured, measured_roof=roof, roofs=measured_roofs(roof)))
    table = tiny().chips
    printed = table[(table.chip == "Bead 2") & (table.precision == "bf16")]
    more = [printed.assign(precision=name, peak_flop_per_s=peak) for name, peak in PRINTED_EIGHT_BITS.items()]
    return replace(tiny(), chips=pd.concat([table, *more], ignore_index=True), machines=tuple(machines))


MANY = "abcdefgh"
MANY_BATCHES = (1, 4, 16)
MANY_PARAMETERS = (8, 1, 7, 2, 6, 3, 5, 4)
"""The models of ``many``, their batch sizes, and their parameters in millions."""


def many_latencies(device: str) -> dict[tuple[str, int], float]:
    """The latencies (s) of ``many``, by model and batch size; 2 ** k GFLOP is what the model k from 0 on asks for.

    On the CPU 10 ms a GFLOP at batch size 1, twice the throughput of that at 4 and 2 % more at 16; but that of h
    doubles again, that of a falls to the half, and g ran out of memory at 16. On the GPU 1 ms times the root of the
    GFLOP, whatever the batch size, but c takes five times and f a fifth of that.
    """
    times = {}
    for k, model in enumerate(MANY):
        for batch in MANY_BATCHES:
            if device == "cpu":
                faster = {1: 1, 4: 2, 16: {"a": 1, "h": 4}.get(model, 2.04)}[batch]
                times[model, batch] = 0.01 * 2**k * batch / faster
            else:
                times[model, batch] = 0.001 * 2 ** (k / 2) * {"c": 5, "f": 0.2}.get(model, 1)
    if device == "cpu":
        del times["g", 16]
    return times


@cache
def many() -> Paper:
    """The tiny paper with eight models at three batch sizes on its CPU and its GPU, enough for intervals."""
    counted, layers, operators = [], [], []
    for batch in MANY_BATCHES:
        for k, model in enumerate(MANY):
            flop, parameters = 2**k * batch * 10**9, MANY_PARAMETERS[k] * 10**6
            asked = workload(
                model, batch, flop, parameter_count=parameters, parameter_byte=4 * parameters,
                input_byte=batch * 10**6, output_byte=batch * 10**3, activation_byte=batch * (k + 1) * 10**6,
                traffic_byte=batch * (k + 2) * 10**7,
            )  # fmt: skip
            counted.append(replace(asked, forward_other_flop=0))
            # A quarter of c's FLOP is depthwise; a model calls as many operators as its place, one is bound by bytes.
            kinds = {"convolution": 4 - (model == "c"), "depthwise convolution": int(model == "c")}
            for position, (kind, quarters) in enumerate(kinds.items()):
                part = layer(model, batch, position, flop * quarters // 4)
                layers.append(replace(part, layer_kind=kind, path=kind))
            asked = {"layer_kind": "convolution", "other_flop": 0, "byte": 10**3}
            operators.append(operator(model, batch, "conv", flop // (k + 1), k + 1, **asked))
    shown = workloads.shown(frame(counted, Workload), {})
    parts = [
        workloads.parts_of(frame(rows, record), shown) for rows, record in ((layers, Layer), (operators, Operator))
    ]
    machines = []
    for machine in tiny().machines:
        times = many_latencies(machine.chip_kind)
        runs = [run(model, batch) for model, batch in times]
        if machine.chip_kind == "cpu":
            runs.append(run("g", 16, "oom", "needs 9 GB"))
        taken = [
            Sample(**cell_columns(model, batch, "inference"), sample=index, block=1, latency_s=latency_s, round=0)
            for (model, batch), latency_s in times.items()
            for index in range(6)
        ]
        derived = cells.derive(frame(runs, Run), frame(taken, Sample), shown, parts[1], machine.roof)
        machines.append(replace(machine, cells=derived))
    return replace(tiny(), workloads=shown, layers=parts[0], operators=parts[1], machines=tuple(machines))


@cache
def committed_chips() -> pd.DataFrame:
    return chips.read(ROOT / "data" / "chips.csv", hand_tables.read_keys(REFERENCES))


@cache
def empty() -> Paper:
    return load(TESTS / "no-such-folder", REFERENCES)
