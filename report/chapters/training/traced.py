"""GPUs under a profiler: the kinds of layer in a recorded training step under the chip's roof; hardware counters."""

from functools import cache
from typing import NamedTuple

import pandas as pd

from measure.cache.traces import StoredTrace
from measure.domain.kernel_names import ALGORITHMS
from measure.domain.names import model_name
from measure.domain.roofs import Roof, Roofline
from measure.domain.trace_records import COMMUNICATION
from measure.domain.words import BACKWARD
from report.chapters.training import costs
from report.chapters.training.costs import PASSES
from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import Paper
from report.paper.chips import roof_of, short_name
from report.paper.operator_groups import traced
from report.stats.value import Name, Source, Value, exact, extremes

SOURCE = Source("traces/*/operators.csv", "stages forward and backward")
PRODUCTS = ["convolution", *(f"convolution by {each}" for each in ALGORITHMS), "linear", "attention"]
SEEN = 0.005  # a smaller share is not drawn


class RecordedTraining(Facts):
    """A training step that a profiler recorded on a GPU, without its collectives."""

    network: Name  #: the network of the recorded step
    chip: Name  #: the GPU of the recorded step
    kernel_time: Value  #: mean time of a kernel
    products: Value  #: share of the peak that convolutions, linear layers and attention reach
    normalisation: Value  #: share of the bandwidth that normalisations reach
    closest: Value  #: the largest share of the roof that a kind of layer reaches, with its name


class Counters(Facts):
    """Bytes of a forward pass by hardware counters. Writes are no test: a result that fits a cache waits there."""

    machine: Name  #: the machine with hardware counters
    network: Name  #: a network with hardware counters
    precision: Name  #: the precision of its kernels
    batch: Value  #: its largest batch size with counters
    read: Value  #: bytes read from DRAM over the bytes that its operators read
    written: Value  #: bytes written to DRAM, while the kernels ran, over the bytes that its operators write


class RecordedStep(NamedTuple):
    """A trace, and the datasheet's roof of its chip, also at the precision of most of its time."""

    trace: StoredTrace
    datasheet: Roof
    roof: Roofline
    precision: str

    @property
    def chip(self) -> str:
        return self.trace.devices[0].chip or ""


@cache
def recorded(paper: Paper) -> RecordedStep | None:
    """Return the longest training step that was measured here, else the longest imported one."""
    found = []
    for trace in paper.traces:
        rows = [row for row in trace.operators if row.step is not None and row.layer_kind != COMMUNICATION]
        times = pd.DataFrame([(row.precision, row.time_s) for row in rows if row.precision], columns=["precision", "s"])
        of_chip = roof_of(paper.chips, trace.devices[0].chip)
        if of_chip is None or times.empty or BACKWARD not in {row.stage for row in rows}:
            continue
        precision = str(times.groupby("precision").s.sum().idxmax())
        if roof := of_chip.at(precision):
            found.append(RecordedStep(trace, of_chip, roof, precision))
    return max(found, key=lambda each: (each.trace.is_measured, each.trace.step_s or 0.0), default=None)


def groups(step: RecordedStep) -> pd.DataFrame:
    """Return one row per kind of layer and pass, without collectives and kinds that were not counted.

    ``share`` is of the time in these rows.
    """
    found = []
    for stage in PASSES:
        rows = (row for row in step.trace.operators if row.stage == stage and row.layer_kind != COMMUNICATION)
        found.append(traced(rows, step.datasheet).assign(stage=stage))
    counted = pd.concat(found, ignore_index=True).dropna(subset=["intensity", "flop_per_s"])
    return counted.assign(share=counted.time_s / counted.time_s.sum())


def recorded_facts(paper: Paper) -> RecordedTraining:
    step = recorded(paper)
    if step is None:
        return sourced(missing(RecordedTraining), SOURCE)
    rows = groups(step)
    seen = rows[rows.share >= SEEN]
    sums = rows.groupby("kind")[["time_s", "flop", "byte"]].sum()
    products, norms = (sums.reindex(kinds).sum(min_count=1) for kinds in (PRODUCTS, ["normalisation"]))
    found = RecordedTraining(
        network=Name((step.trace.devices[0].network or "").removesuffix(", step") or None),
        chip=Name(short_name(step.chip)),
        kernel_time=exact(rows.time_s.sum() / rows.kernels.sum(), "s"),
        products=exact(products.flop / products.time_s / step.roof.peak_flop_per_s, "%"),
        normalisation=exact(norms.byte / norms.time_s / step.roof.bandwidth_byte_per_s, "%"),
        closest=extremes(seen.set_index(seen.kind + ", " + seen.stage).roof_share, "%")[1],
    )
    return sourced(found, SOURCE)


def counters(paper: Paper) -> Counters:
    command = measure_command("--device cuda --sections workload hardware-counters")
    source = Source("machines", "hardware_counters.csv", command)
    machine = costs.counter_machine(paper)
    calls = costs.counted_calls(paper, machine).sort_values("batch")
    rows = calls.drop_duplicates("model", keep="last").set_index("model")
    if machine is None or rows.empty:
        return sourced(missing(Counters), source)
    (model,) = costs.pick(pd.Series(rows.index), ("resnet18",))
    row = rows.loc[model]
    found = Counters(
        machine=Name(machine.name),
        network=Name(model_name(model)),
        precision=Name(str(row.precision)),
        batch=exact(row.batch),
        read=exact(row.dram_read_byte / row.read_byte, "%"),
        written=exact(row.dram_write_byte / row.written_byte, "%"),
    )
    return sourced(found, source)
