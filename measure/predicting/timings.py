"""The latencies behind predictions: published latencies and tokens a second, and the cache's own measurements."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from measure.cache import table
from measure.cache.folders import Workloads
from measure.domain import words
from measure.domain.advice import COMPILE
from measure.domain.chips import fold_name
from measure.domain.models import DECODE, PREFILL, Size
from measure.domain.schema import file_of
from measure.domain.words import BACKWARD, EAGER, INFERENCE, LAYER_KINDS, STEP, stored_as
from measure.domain.workload_records import Layer, Operator, Workload
from measure.predicting.prediction_terms import (
    DECODES,
    EXPERTS,
    OWN_HOSTS,
    PLACE,
    READS,
    CallWork,
    ExpertBytes,
    LayerRoof,
    Numbers,
    PredictedDevice,
    of_chips,
    of_machines,
)
from measure.predicting.records import (
    AUTOCAST,
    BENCHMARK,
    CHANNELS_LAST,
    COMPILED,
    FOUR_BITS,
    HERE,
    LANGUAGE,
    OPTIONS,
    TF32_CONVOLUTIONS,
    HostCost,
    Setting,
    release,
)
from measure.published.records import PublishedCount, PublishedKind, PublishedTiming, PublishedTokens

VARIANTS = EAGER, COMPILED  # the predicted ways to run a model
PASSES = {False: (INFERENCE,), True: (INFERENCE, BACKWARD)}  # the counted stages of a call, by whether it trains


class Key(NamedTuple):
    """A counted call: model, shape of the input, batch size, stored precision, and whether it trains."""

    model: str
    input_shape: str
    batch: int
    precision: str
    trains: bool


Host = tuple[str, str, str, str]  # a machine or another device, source and software of its timings, and the phase
Costs = Mapping[Host, float]  # an operator's launch (microseconds) on the host behind timings
Hosts = Mapping[tuple[str, str], float]  # the same by measured machine and phase
STEP_LAUNCH = 1.8  # launches of published hosts in a step over a forward pass; 1.4 to 2.0 predict others alike
HOST_US = 25.0  # of a GPU's host if no GPU was measured
WITH_BIAS = "addmm", "convolution"
LARGEST_KEPT = 2**25  # bytes of the largest block that glibc keeps when it is freed (mallopt(3), M_MMAP_THRESHOLD)

LLAMAS = {  # A. Grattafiori et al., The Llama 3 herd of models, 2024, arXiv:2407.21783, table 3
    "LLaMA 3 8B": Size((PREFILL, DECODE), 4096, 32, 32, 8, 14336, 128256, 8192),
    "LLaMA 3 70B": Size((PREFILL, DECODE), 8192, 80, 64, 8, 28672, 128256, 8192),
}
# The files of Q4_K_M, as ``xiongjiedai_llm`` prints them, and the bits of a number in their embedding: Q4_K has 256
# numbers of 4 bits, 8 scales and 8 minima of 6 bits, and two numbers of 16 bits for these (llama.cpp, ggml-common.h)
FILE_BYTE = {"LLaMA 3 8B": 4.58 * 2**30, "LLaMA 3 70B": 39.59 * 2**30}
TABLE_BIT = 4.5
HALF_BYTE, SCORE_BYTE = 2, 4  # of an element at 16 bits, and of a score of attention
LAYER_CALLS = 40  # operators of a layer, as ``language:llama_1b`` calls them

Counted = Mapping[Key, CallWork]  # the work of each call of a counted model
Timed = tuple[str, str, tuple[str, ...], str, str, str, int]
"""A call of least_times: device, precision, options, phase, network, input shape and batch size."""


@dataclass(frozen=True, eq=False)
class TimedCall:
    """A latency (s) of a model under a setting, and the call's work.

    ``machine`` is the measured machine that launched the call. It is also the setting's device. A second call has the
    GPU's name and roof if the GPU has a datasheet. ``die``: of the device, its name if unknown. ``copied``: the time
    includes the input's copy.
    """

    setting: Setting
    model: str
    latency_s: float
    work: CallWork
    roof: LayerRoof
    chip_kind: str
    machine: str = ""
    copied: bool = False
    die: str = ""

    @property
    def host(self) -> Host:
        """What all calls launched by this call's host share in this phase."""
        return self.machine or self.setting.device, self.setting.source, self.setting.software, self.setting.phase


def network_of(model: str) -> str:
    """Return the name that a network has in every library, without timm's tag of weights.

    Configurations of transformers and a user's own functions keep their whole names, because the last part may be the
    name of another network.
    """
    library, _, name = model.partition(":")
    if library == "timm":
        return name.partition(".")[0]
    return name if library in ("torchvision", "torchaudio") else model


def decode_after(model: str, input_shape: str) -> str:
    """Return the name of the decode after a language model's prefill."""
    return f"{re.sub(rf'_{PREFILL}_[0-9]+$', '', model)}_{DECODE}_{input_shape}"


def after(prefill: Key) -> Key:
    """Return the call that decodes a token after a prefill."""
    return Key(decode_after(prefill.model, prefill.input_shape), "1", prefill.batch, prefill.precision, False)


def rate_of(model: str) -> str:
    """Return the unit of a model's rate: a decode reads a token, a prefill a prompt."""
    found = re.search(rf"_({DECODE}|{PREFILL})_[0-9]+$", model)
    return {DECODE: "tokens/s", PREFILL: "prompts/s"}[found[1]] if found else "inputs/s"


def read(data: Path) -> list[TimedCall]:
    """Return all latencies of counted models on devices with a roof. Raises UserError."""
    return [*published(data), *measured(data, counted(Workloads(data))), *served(data)]


def published(data: Path) -> Iterator[TimedCall]:
    """Yield the latencies of ``data/published/measurements``. Raises UserError."""
    sums: dict[tuple[str, int | None, str], Numbers] = defaultdict(lambda: np.zeros((4, len(LAYER_KINDS))))
    for kind in table.read(file_of(PublishedKind, data), PublishedKind):
        of_kind = sums[kind.model, kind.input_size, kind.stage]
        of_kind[:, PLACE[kind.layer_kind]] += kind.calls, kind.flop, kind.byte, kind.further_byte
    for row, count, chip, setting, latency_s in _published(data):
        precision = setting.precision
        roof = chip.layer_roof(precision, tf32=TF32_CONVOLUTIONS in setting.ran_with)
        stages = [(row.model, row.input_size, stage) for stage in PASSES[row.phase == STEP]]
        if not (roof and all(stage in sums for stage in stages)):
            continue
        # Counts are of one input at fp32
        calls, flop, byte, further_byte = np.sum([sums[stage] for stage in stages], axis=0)
        width, batch = words.PRECISION_BYTE[stored_as(precision)] / words.PRECISION_BYTE["fp32"], row.batch
        input_byte, parameter_byte = batch * (count.input_byte or 0), count.parameter_byte or 0
        footprint_byte = words.least_byte(parameter_byte, input_byte, batch * (count.activation_byte or 0))
        work = CallWork(
            batch, batch * flop, width * (byte + (batch - 1) * further_byte), int(calls.sum()), float(input_byte),
            width * parameter_byte, len(stages) * width * footprint_byte, 0.0, network_of(row.model),
            count.input_shape or "", count.family or "",
        )  # fmt: skip
        copied, die = row.input_copied == "yes", chip.die or chip.name
        yield TimedCall(setting, row.model, latency_s, work, roof, chip.chip_kind, copied=copied, die=die)


def _published(
    data: Path, networks: Container[str] | None = None
) -> Iterator[tuple[PublishedTiming, PublishedCount, PredictedDevice, Setting, float]]:
    """Yield timings of known chips and counted networks, some or all, with their counts, settings and latencies (s)."""
    chips, rows = of_chips(data), table.read(file_of(PublishedCount, data), PublishedCount)
    wanted = (row for row in rows if row.status == "ok" and (networks is None or network_of(row.model) in networks))
    counts = {(row.model, row.input_size): row for row in wanted}
    for row in table.read_some(file_of(PublishedTiming, data), PublishedTiming, ("model", "input_size"), counts):
        chip, precision = chips.get(fold_name(row.device)), row.autocast or row.precision
        if chip and precision in words.PRECISIONS and (variant := row.compiler or EAGER) in VARIANTS:
            options = _options(row, chip, precision)
            setting = Setting(chip.name, row.source, row.torch or "", precision, variant, row.phase, options)
            # A rate covers all calls; a mean of single calls includes their interruptions
            latency_s = row.batch / row.throughput_per_s if row.throughput_per_s else row.latency_s
            yield row, counts[row.model, row.input_size], chip, setting, latency_s


def least_times(published: Path, data: Path, counts: Counted) -> dict[Timed, tuple[bool, float]]:
    """Return the least published or measured time (s) of counted calls, after whether it includes the input's copy.

    A time with the copy stands only where there is no other. Raises UserError.
    """
    times = [
        (setting, network_of(row.model), count.input_shape or "", row.batch, row.input_copied == "yes", latency_s)
        for row, count, _, setting, latency_s in _published(published, {work.network for work in counts.values()})
    ]
    for call in measured(data, counts):
        times.append((call.setting, call.work.network, call.work.input_shape, call.work.batch, False, call.latency_s))
    found: dict[Timed, tuple[bool, float]] = {}
    for setting, network, shape, batch, copied, latency_s in times:
        place = setting.device, setting.precision, setting.ran_with, setting.phase, network, shape, batch
        found[place] = min(found.get(place, (True, inf)), (copied, latency_s))
    return found


def _options(row: PublishedTiming, chip: PredictedDevice, precision: str) -> str:
    """Return what a published call ran with besides its variant. torch has TF32 convolutions at fp32 by default."""
    ran = {
        AUTOCAST: bool(row.autocast),
        BENCHMARK: row.tuned == "yes",
        CHANNELS_LAST: row.layout == CHANNELS_LAST,
        TF32_CONVOLUTIONS: precision == words.FULL_PRECISION,
    }
    return ";".join(chip.usable(option for option in OPTIONS if ran[option]))


def measured(data: Path, counts: Counted) -> Iterator[TimedCall]:
    """Yield the latencies of counted calls in each machine's newest environment, if its roofs were measured."""
    shapes, chips = {key.model: key.input_shape for key in counts}, of_chips(data)
    for folder, environment, device in of_machines(data):
        chip = chips.get(fold_name(environment.name)) if device.chip_kind == "gpu" else None
        for cell, named in product(folder.cells(environment, models=shapes), filter(None, (device, chip))):
            roof, shape = named.layer_roof(cell.precision), cell.input_shape or shapes.get(cell.model, "")
            work = counts.get(Key(cell.model, shape, cell.batch, stored_as(cell.precision), cell.phase == STEP))
            variant = COMPILED if cell.variant == COMPILE else cell.variant
            if cell.latency_s is not None and roof and work and variant in VARIANTS:
                setting = Setting(named.name, HERE, environment.torch or "", cell.precision, variant, cell.phase)
                latency_s, die = cell.latency_s, named.die or named.name
                yield TimedCall(setting, cell.model, latency_s, work, roof, device.chip_kind, folder.name, die=die)


def served(data: Path) -> Iterator[TimedCall]:
    """Yield the published tokens a second on one chip: the time of a decoded token, or of a prompt."""
    chips = of_chips(data)
    for row in table.read(file_of(PublishedTokens, data), PublishedTokens):
        chip = chips.get(fold_name(row.device))
        roof = chip.layer_roof("fp16", serves=True) if chip else None
        if chip and roof and row.gpus == 1:
            has_few = row.weights == FOUR_BITS
            setting = Setting(chip.name, row.source, "", FOUR_BITS if has_few else "fp16", row.phase, INFERENCE)
            latency_s = (row.tokens if row.phase == PREFILL else 1) / row.tokens_per_s
            size = LLAMAS[row.model]
            stored_byte = FILE_BYTE[row.model] - size.width * size.vocabulary * TABLE_BIT / 8 if has_few else None
            work = work_of_tokens(size, row.phase, row.tokens, stored_byte)
            kind = READS if row.phase == PREFILL else DECODES
            yield TimedCall(setting, row.model, latency_s, work, roof, kind, die=chip.die or chip.name)


def counted(*homes: Workloads) -> Counted:
    """Return the work of all calls that some folders count, forward and as a training step. The last folder wins.

    The memory of a prefill holds the cache that it leaves behind: the inputs of the decode after it, if counted.
    """
    found = {key: work for home in homes for key, work in _counted_in(home).items()}
    for key, work in found.items():
        decode = found.get(after(key))
        if decode and work.peak_byte and not key.trains:
            found[key] = replace(work, peak_byte=work.peak_byte + int(decode.input_byte))
    return found


def _counted_in(home: Workloads) -> dict[Key, CallWork]:
    operators = home.columns(Operator)  # there may be a million
    cells = (operators[name] for name in ("model", "input_shape", "batch", "precision", "stage", "autocast"))
    counts = (operators[name] for name in ("layer_kind", "operator", "calls", "flop", "byte", "other_flop"))
    work: dict[tuple[Any, ...], list[list[float]]] = defaultdict(lambda: [[0.0] * 4 for _ in LAYER_KINDS])
    for key, (kind, name, calls, flop, byte, *other) in zip(
        zip(*cells, strict=True), zip(*counts, strict=True), strict=True
    ):
        sums = work[key][PLACE[kind]]
        sums[0] += calls
        sums[1] += calls * flop
        sums[2] += calls * byte
        if byte > LARGEST_KEPT and (fresh_byte := _fresh_byte(key, name, flop, byte, *other)) > LARGEST_KEPT:
            sums[3] += calls * fresh_byte
    expert_byte = _expert_bytes(home) if any(sums[EXPERTS][1] for sums in work.values()) else Counter()
    found = {}
    for row, trains in product(home.rows(Workload), PASSES):
        key = row.model, row.input_shape, row.batch, row.precision
        stages = [(*key, stage, row.autocast) for stage in PASSES[trains]]
        if row.status != "ok" or row.autocast or (trains and row.backward_flop is None) or stages[0] not in work:
            continue
        calls, flop, byte, fresh_byte = np.sum([work[stage] for stage in stages], axis=0).T
        footprint_byte, peak_byte = row.footprint_byte, row.training_peak_byte if trains else row.inference_peak_byte
        experts, tokens = None, row.batch * int(row.input_shape) if row.input_shape.isdigit() else 0
        if tokens and row.family == LANGUAGE and (parameter_byte := expert_byte[key]):
            # A token takes 2 FLOP a parameter of each expert that it goes to
            width = words.PRECISION_BYTE[row.precision]
            share = work[stages[0]][EXPERTS][1] * width / (2 * tokens * parameter_byte)
            experts = ExpertBytes.of(parameter_byte, share, tokens)
            byte[EXPERTS] -= len(stages) * (experts.most - experts.expected)  # counts assume the most
            footprint_byte -= round(experts.most - experts.least)
        found[Key(*key, trains)] = CallWork(
            row.batch, flop, byte, int(calls.sum()), float(row.input_byte or 0), float(row.parameter_byte or 0),
            float(len(stages) * footprint_byte), float(fresh_byte.sum()), network_of(row.model),
            row.input_shape, row.family or "", peak_byte, row.output_byte or 0, experts,
        )  # fmt: skip
    return found


def _fresh_byte(key: tuple[Any, ...], name: str, flop: int, byte: int, other_flop: int) -> float:
    """Return the bytes of an operator's output: half of what it moves besides parameters; none if it works in place."""
    _, input_shape, batch, precision, stage, _ = key
    width = words.PRECISION_BYTE[precision]
    if name.endswith("_"):
        return 0.0
    if name in WITH_BIAS and other_flop and stage != BACKWARD:
        return float(width * other_flop)  # each output adds its bias once
    if name == "mm" and input_shape.isdigit() and stage != BACKWARD:
        # 2 FLOP a parameter of each token; a head may take the last ones alone
        parameter_byte = width * flop / (2 * batch)
        return (byte - (parameter_byte if parameter_byte <= byte else parameter_byte / int(input_shape))) / 2
    return byte / 2


def _expert_bytes(home: Workloads) -> Counter[tuple[Any, ...]]:
    """Sum the bytes of the experts' parameters of each workload."""
    layers, found = home.columns(Layer), Counter[tuple[Any, ...]]()
    names = ("model", "input_shape", "batch", "precision", "autocast", "layer_kind", "parameter_byte")
    for *key, autocast, kind, byte in zip(*(layers[name] for name in names), strict=True):
        if kind == LAYER_KINDS[EXPERTS] and autocast is None:
            found[tuple(key)] += byte
    return found


def work_of_tokens(size: Size, phase: str, tokens: int, stored_byte: float | None = None) -> CallWork:
    """Return the work of a prompt of ``tokens``, or of one token while as many are generated.

    Weights have 16 bits unless ``stored_byte`` tells the bytes of all that a token reads.

    A generated token attends to half of them in the mean. Only the last token of a prompt is scored.
    """
    read, reached = (tokens, tokens) if phase == PREFILL else (1, tokens // 2)
    keys, head = size.width * size.key_heads // size.heads, size.width * size.vocabulary
    made = 2 * size.width + 2 * keys + 3 * size.inner  # the width of a layer's products for one token
    parameters = size.depth * size.width * made
    cache_byte = HALF_BYTE * 2 * keys * reached * size.depth
    widths = read * size.width * size.depth
    flop, byte = np.zeros((2, len(LAYER_KINDS)))
    flop[PLACE["linear"]] = 2.0 * (read * parameters + head)
    flop[PLACE["attention"]] = 4.0 * widths * reached
    parameter_byte = float(HALF_BYTE * (parameters + head)) if stored_byte is None else stored_byte
    byte[PLACE["linear"]] = parameter_byte + HALF_BYTE * (read * size.depth * made + 6 * widths)
    byte[PLACE["attention"]] = cache_byte + HALF_BYTE * 2 * widths
    if phase == PREFILL:  # the program writes the scores of attention and reads them
        byte[PLACE["other"]] = SCORE_BYTE * 2 * size.heads * read * reached * size.depth
    return CallWork(
        1, flop, byte, LAYER_CALLS * size.depth, 0.0, parameter_byte, parameter_byte + cache_byte,
        network=str(tokens), input_shape=str(read), family=LANGUAGE,
    )  # fmt: skip


def launch_costs(calls: Iterable[TimedCall]) -> dict[Host, float]:
    """Return the time of an operator (microseconds) on the host of each GPU, by ``TimedCall.host``.

    On a measured machine it is the median over networks of latency over operators at the smallest batch, because the
    GPU has next to no work there. A published host takes the least over its eager forward passes, because the GPU's
    work only adds to it.
    """
    found: dict[Host, list[tuple[int, float]]] = defaultdict(list)
    for call in calls:
        is_second = call.machine and call.machine != call.setting.device
        if call.setting.variant == EAGER and call.chip_kind not in OWN_HOSTS and not is_second:
            found[call.host].append((call.work.batch, 1e6 * call.latency_s / call.work.calls))
    costs = {}
    for host, rows in found.items():
        device, source, software, phase = host
        if source == HERE:
            costs[host] = float(np.median([each for batch, each in rows if batch == min(rows)[0]]))
        elif phase == INFERENCE:
            costs[host] = min(each for _, each in rows)
            costs[device, source, software, STEP] = STEP_LAUNCH * costs[host]
    return costs


def host_costs(costs: Costs) -> list[HostCost]:
    """Return the costs of the measured machines' hosts."""
    return [
        HostCost(machine, phase, software, cost)
        for (machine, source, software, phase), cost in costs.items()
        if source == HERE
    ]


def hosts_of(costs: Iterable[HostCost]) -> Hosts:
    """Return the time of an operator (microseconds) on the host of each measured machine, by machine and phase.

    The machine "" is the reference: the least time measured with the newest torch.
    """
    found = {("", phase): HOST_US for phase in (INFERENCE, STEP)}
    for cost in sorted(costs, key=lambda cost: (release(cost.software), -cost.launch_us)):
        found[cost.machine, cost.phase] = found["", cost.phase] = cost.launch_us
    return found
