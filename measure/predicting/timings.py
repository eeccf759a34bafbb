"""The latencies behind predictions: published ones, and those of the cache's own machines."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from measure.cache import table
from measure.cache.folders import Workloads
from measure.cache.hand_kept import PublishedTiming
from measure.cache.predictions import ANY, HERE, Setting, release
from measure.cache.schema import file_of
from measure.cache.workload_records import Operator, PublishedCount, PublishedKind, Workload
from measure.domain.advice import CHANNELS_LAST, COMPILE
from measure.domain.chips import fold_name
from measure.domain.words import BACKWARD, EAGER, INFERENCE, PRECISION_BYTE, PRECISIONS, STEP, least_byte, stored_as
from measure.predicting.demand import MICROSECOND, OWN_HOSTS, Demand, LayerRoof, Numbers, by_kind, of_chips, of_machines

VARIANTS = EAGER, COMPILED = EAGER, "torch.compile"  # how a model is run that is predicted
PASSES = {False: (INFERENCE,), True: (INFERENCE, BACKWARD)}  # the counted stages of a call, by whether it trains

Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]


class Key(NamedTuple):
    """A counted call: model, shape of the input, batch size, stored precision, and whether it trains."""

    model: str
    input_shape: str
    batch: int
    precision: str
    trains: bool


Costs = Mapping[Setting, float]  # the time of an operator's launch (microseconds) on the host behind settings
Hosts = Mapping[tuple[str, str], float]  # the same by measured machine and phase
STEP_LAUNCH = 1.8  # of others' hosts in a training step, over a forward pass: 1.6 to 2.0 serve devices left out best
HOST_US = 25.0  # of a GPU's host where no GPU was measured
LARGEST_KEPT = 2**25  # bytes of the largest block that glibc keeps when it is freed (mallopt(3), M_MMAP_THRESHOLD)

Counted = Mapping[Key, tuple[Workload, Demand]]  # the demand of each call of a counted model


@dataclass(frozen=True, eq=False)
class TimedCall:
    """A latency (s) under a setting, and the call's demand; ``family`` is empty for a model without one.

    ``machine`` is the measured one that launched the call. It is also the setting's device. If its GPU has a datasheet,
    the call stands a second time under the chip's name and roof. ``copied``: the time includes the input's copy.
    """

    setting: Setting
    model: str
    family: str
    latency_s: float
    demand: Demand
    roof: LayerRoof
    chip_kind: str
    machine: str = ""
    copied: bool = False

    @property
    def architecture(self) -> str:
        return architecture_of(self.model)

    @property
    def host(self) -> Setting:
        """The setting of all calls of this phase that this call's host launched."""
        return self.setting._replace(device=self.machine or self.setting.device, precision=ANY, variant="")


@cache
def architecture_of(model: str) -> str:
    """Return the model without its library and the tag of its weights: left out of a fit as one."""
    return model.partition(":")[2].partition(".")[0] or model


def read(data: Path) -> list[TimedCall]:
    """Return all latencies of counted models on devices with known roofs. Raises UserError."""
    return [*published(data), *measured(data, counted(data))]


def published(data: Path) -> Iterator[TimedCall]:
    """Yield the latencies of ``data/published/measurements``. Raises UserError for a wrong table."""
    chips = of_chips(data)
    rows = table.read(file_of(PublishedCount, data), PublishedCount)
    counts = {(row.model, row.input_size): row for row in rows if row.status == "ok"}
    kinds: dict[tuple[str, int | None, str], list[PublishedKind]] = {}
    for kind in table.read(file_of(PublishedKind, data), PublishedKind):
        kinds.setdefault((kind.model, kind.input_size, kind.stage), []).append(kind)

    @cache
    def demand(shape: tuple[str, int | None], batch: int, width: float, trains: bool) -> Demand | None:
        """Scale the counts of one fp32 input to a batch; ``width`` is the bytes of an element over those of fp32."""
        count, passes = counts[shape], [kinds.get((*shape, stage), []) for stage in PASSES[trains]]
        rows = [row for found in passes for row in found]
        if not all(passes):
            return None
        flop, byte, further_byte = (
            by_kind((row.layer_kind, getattr(row, name)) for row in rows) for name in ("flop", "byte", "further_byte")
        )
        input_byte, parameter_byte = batch * (count.input_byte or 0), count.parameter_byte or 0
        return Demand(
            batch,
            batch * flop,
            width * (byte + (batch - 1) * further_byte),
            sum(row.calls for row in rows),
            float(input_byte),
            width * parameter_byte,
            len(passes) * width * least_byte(parameter_byte, input_byte, batch * (count.activation_byte or 0)),
            network=architecture_of(shape[0]),
            trains=trains,
        )

    for row in table.read(file_of(PublishedTiming, data), PublishedTiming):
        chip, shape = chips.get(fold_name(row.device)), (row.model, row.input_size)
        precision = row.autocast or row.precision
        variant, is_plain = row.compiler or EAGER, row.layout != CHANNELS_LAST
        roof = chip.layer_roof(precision) if chip and precision in PRECISIONS else None
        if chip is None or roof is None or shape not in counts or variant not in VARIANTS or not is_plain:
            continue
        width = PRECISION_BYTE[stored_as(precision)] / PRECISION_BYTE["fp32"]
        asked = demand(shape, row.batch, width, row.phase == STEP)
        if asked:
            setting = Setting(chip.name, row.source, row.torch or "", precision, variant, row.phase)
            # A rate covers all calls; a mean of single calls includes their interruptions
            latency_s = row.batch / row.throughput_per_s if row.throughput_per_s else row.latency_s
            family = counts[shape].family or ""
            copied = row.input_copied == "yes"
            yield TimedCall(setting, row.model, family, latency_s, asked, roof, chip.chip_kind, copied=copied)


def measured(data: Path, counts: Counted) -> Iterator[TimedCall]:
    """Yield the latencies of counted calls in each machine's newest environment, if its roofs were measured."""
    shapes, chips = {key.model: key.input_shape for key in counts}, of_chips(data)
    for folder, environment, device in of_machines(data):
        chip = chips.get(fold_name(environment.name)) if device.chip_kind == "gpu" else None
        for cell, named in product(folder.cells(environment), filter(None, (device, chip))):
            roof, trains = named.layer_roof(cell.precision, uses_tf32=False), cell.phase == STEP
            if named is chip and roof != chip.layer_roof(cell.precision):
                continue  # this program times fp32 without TF32, others with it
            shape = cell.input_shape or shapes.get(cell.model, "")
            found = counts.get(Key(cell.model, shape, cell.batch, stored_as(cell.precision), trains))
            variant = COMPILED if cell.variant == COMPILE else cell.variant
            if cell.latency_s is None or not roof or not found or variant not in VARIANTS:
                continue
            workload, demand = found
            setting = Setting(named.name, HERE, environment.torch or "", cell.precision, variant, cell.phase)
            of_cell = cell.model, workload.family, cell.latency_s
            yield TimedCall(setting, *of_cell, demand, roof, device.chip_kind, folder.name)


def counted(data: Path) -> Counted:
    """Return the demands of the calls in ``data/workload``."""
    workloads = Workloads(data)
    return counted_demands(workloads.rows(Workload), workloads.columns(Operator))


def counted_demands(workloads: Iterable[Workload], operators: table.Columns) -> Counted:
    """Return the counted workloads, forward and as a training step, each with the demand of a call.

    ``operators`` stand by column: there may be a million.
    """
    cells = (operators[name] for name in ("model", "input_shape", "batch", "precision", "stage", "autocast"))
    counts = (operators[name] for name in ("layer_kind", "calls", "flop", "byte"))
    work: dict[tuple[Any, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0, 0, 0, 0]))
    for key, (kind, calls, flop, byte) in zip(zip(*cells, strict=True), zip(*counts, strict=True), strict=True):
        sums = work[key][kind]
        sums[0] += calls
        sums[1] += calls * flop
        sums[2] += calls * byte
        if byte / 2 > LARGEST_KEPT:  # half of an operator's bytes are its output
            sums[3] += calls * byte / 2
    found = {}
    for workload in workloads:
        key = workload.model, workload.input_shape, workload.batch, workload.precision
        if workload.status != "ok" or workload.autocast is not None or (*key, INFERENCE, None) not in work:
            continue
        for trains in (False, True) if workload.backward_flop is not None else (False,):
            called = [each for stage in PASSES[trains] for each in work[*key, stage, None].items()]
            demand = Demand(
                workload.batch,
                by_kind((kind, flop) for kind, (_, flop, *_) in called),
                by_kind((kind, byte) for kind, (_, _, byte, _) in called),
                int(sum(calls for _, (calls, *_) in called)),
                float(workload.input_byte or 0),
                float(workload.parameter_byte or 0),
                float(len(PASSES[trains]) * workload.footprint_byte),
                sum(fresh_byte for _, (*_, fresh_byte) in called),
                architecture_of(workload.model),
                trains,
            )
            found[Key(*key, trains)] = workload, demand
    return found


@dataclass(frozen=True, eq=False)
class FitRows:
    """Timed calls as arrays of one row each, ``(rows,)``; ``terms`` (s) are ``(rows, terms)``.

    ``launch_s`` is the time of a host's launches, 0 where the device is its own host: then ``terms`` have them.
    ``host`` is that host's time over the reference's, ``flop_s`` is the FLOP at the peak, ``roof_s`` each kind of layer
    at its roof.
    """

    latency_s: Numbers
    terms: Numbers
    launch_s: Numbers
    host: Numbers
    flop_s: Numbers
    roof_s: Numbers
    batch: Numbers
    setting: Texts
    device: Texts
    architecture: Texts
    family: Texts
    sort: Texts

    def __len__(self) -> int:
        return len(self.latency_s)

    def where(self, chosen: Mask | Places) -> "FitRows":
        """Return the rows of a mask, or those at some places, each as often as its place occurs."""
        return FitRows(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def scaled(self, factors: Mapping[str, float]) -> "FitRows":
        """Return the rows with their terms times the factors of their networks, 1 for others."""
        of_rows = np.array([factors.get(network, 1.0) for network in self.architecture])
        return replace(self, terms=self.terms * of_rows[:, None])

    def weights(self) -> Numbers:
        """Return weights ``(rows,)`` by which a setting counts as the square root of its number of rows."""
        counts = Counter(self.setting)
        return np.array([counts[setting] ** -0.25 for setting in self.setting])


def fit_rows(calls: Sequence[TimedCall], costs: Costs) -> FitRows:
    """Return calls, at least one, as arrays. A host without a cost counts as the reference."""
    arithmetic_s = np.array([call.demand.arithmetic_s(call.roof) for call in calls])
    memory_s = np.array([call.demand.memory_s(call.roof) for call in calls])
    launched, reference = [], hosts_of(costs.items())
    for call in calls:
        usual_us = reference["", call.setting.phase]
        host_us = costs.get(call.host, usual_us)
        is_compiled = call.setting.variant == COMPILED
        terms_of_call = call.demand.terms(call.roof, call.chip_kind, host_us, is_compiled, call.copied)
        launched.append((*terms_of_call, host_us / usual_us))
    terms, launch_s, host = (np.array(each) for each in zip(*launched, strict=True))
    setting = np.empty(len(calls), dtype=object)
    setting[:] = [call.setting for call in calls]  # np.array would make a tuple a second dimension

    def texts(names: Iterable[str]) -> Texts:
        return np.array(list(names), dtype=object)

    return FitRows(
        latency_s=np.array([call.latency_s for call in calls]),
        terms=terms,
        launch_s=launch_s,
        host=host,
        flop_s=arithmetic_s.sum(axis=1),
        roof_s=np.maximum(arithmetic_s, memory_s).sum(axis=1),
        batch=np.array([float(call.demand.batch) for call in calls]),
        setting=setting,
        device=texts(call.setting.device for call in calls),
        architecture=texts(call.architecture for call in calls),
        family=texts(call.family or call.architecture for call in calls),
        sort=texts(call.demand.sort(call.family) for call in calls),
    )


def launch_costs(calls: Iterable[TimedCall]) -> dict[Setting, float]:
    """Return the time of an operator (microseconds) on the host of each GPU, by ``TimedCall.host``.

    On a measured machine it is the median over networks, at the smallest batch, of latency over operators: the GPU has
    next to no work. Of others' forward passes in eager mode it is the least, because the GPU's work only adds to it.
    """
    found: dict[Setting, list[tuple[int, float]]] = defaultdict(list)
    for call in calls:
        stands_twice = call.machine and call.machine != call.setting.device
        if call.setting.variant == EAGER and call.chip_kind not in OWN_HOSTS and not stands_twice:
            found[call.host].append((call.demand.batch, call.latency_s / MICROSECOND / call.demand.calls))
    costs = {}
    for host, rows in found.items():
        if host.source == HERE:
            costs[host] = float(np.median([each for batch, each in rows if batch == min(rows)[0]]))
        elif host.phase == INFERENCE:
            costs[host] = min(each for _, each in rows)
            costs[host._replace(phase=STEP)] = STEP_LAUNCH * costs[host]
    return costs


def hosts_of(costs: Iterable[tuple[Setting, float]]) -> Hosts:
    """Return the time of an operator (microseconds) on the host of each measured machine, by machine and phase.

    Under "" is the reference: the least of those measured with the newest torch.
    """
    found = {("", phase): HOST_US for phase in (INFERENCE, STEP)}
    measured_here = (cost for cost in costs if cost[0].source == HERE)
    for setting, host_us in sorted(measured_here, key=lambda cost: (release(cost[0]), -cost[1])):
        found[setting.device, setting.phase] = found["", setting.phase] = host_us
    return found
