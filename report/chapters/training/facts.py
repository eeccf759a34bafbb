"""The numbers of the chapter on training."""

from dataclasses import replace

import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import PRODUCT_KINDS
from report.chapters.training import costs, devices, traced
from report.facts import Facts, missing, source_of, sourced
from report.paper import ALONE, BASE_PRECISION, REFERENCE, Machine, Paper
from report.paper.cells import update_byte
from report.paper.frames import each, highest, matching
from report.stats.value import Name, Source, Value, count_of, estimated, exact, extremes, median_of, ratio

MOSTLY = 0.5  # a GPU that runs kernels for less of a step waits for its host
OTHERS = ("other", "outside the layers")  # no kinds of layer
DEVICE_BYTE = 10**9  # in the problem on the largest batch: so little that three digits give it exactly


class Counts(Facts):
    networks: Value  #: networks with a counted backward pass
    first_layer: Value  #: networks that lack exactly the first layer for a ratio of two
    least_bytes: Value  #: the lowest median over networks of bytes moved backward over forward, with its kind of layer
    most_bytes: Value  #: the highest such median, with its kind


class Embeddings(Facts):
    networks: Value  #: networks that begin with an embedding and lack nothing
    bytes: Value  #: the highest ratio of bytes moved backward over forward of embeddings, with its network


class StepRatios(Facts):
    """A training step of the machine at hand, over the networks at one batch size.

    If it has fewer than six, here and in all that follows, the reference machine's.
    """

    machine: Name  #: the machine
    networks: Value  #: networks with a measured step
    over_forward: Value  #: time of a step over its forward pass
    flop_over_forward: Value  #: FLOP of a step over its forward pass
    excess: Value  #: ratio of these ratios, time over FLOP: 1 if time follows FLOP
    over_operator_bound: Value  #: time of a step over the roofline layer by layer
    time_ratio: Value  #: backward over forward in time
    flop_ratio: Value  #: backward over forward in FLOP
    tolerance: Value  #: the largest relative difference of two ratios that are near
    near: Value  #: networks whose ratio in time is near their ratio in FLOP
    apart: Value  #: networks whose ratio in FLOP is outside the 95 % interval of their ratio in time


class Batches(Facts):
    """Backward over forward in time at two batch sizes, over the networks with both."""

    first: Value  #: the smaller batch size
    last: Value  #: the larger batch size
    networks: Value  #: networks with both
    change: Value  #: the ratio at the larger batch size over the ratio at the smaller one


class TrainingKinds(Facts):
    """Backward over forward in time by kind of layer, over the networks where the kind matters."""

    machine: Name  #: the machine at hand, or the reference machine if that alone has six profiled networks
    convolution: Value  #: backward over forward in time of convolutions
    normalisation: Value  #: backward over forward in time of normalisations
    pooling: Value  #: backward over forward in time of poolings


class TrainingShares(Facts):
    """Shares of a step by kind of layer, on the machine and at the batch size of the ratios by kind."""

    networks: Value  #: networks with a profiled step
    time_kind: Name  #: the kind that takes most time in most networks
    time_first: Value  #: networks where that kind takes most time
    memory_kind: Name  #: the kind that holds most memory in most networks
    memory_first: Value  #: networks where that kind holds most memory
    products_flop: Value  #: share of all operations that layers with products do
    products_time: Value  #: share of the time that layers with products take


class TrainingMemory(Facts):
    batch: Value  #: the batch size of the figures on memory
    peak_over_inference: Value  #: peak of a step over the peak of inference
    saved_share: Value  #: saved activations over the peak
    most_state: Value  #: the largest share of parameters, gradients and momentum in the peak, with its network
    halved: Value  #: peak at half the batch over the peak
    frozen_share: Value  #: the most that the last layer with products keeps of the saved bytes, all others frozen
    frozen_step: Value  #: FLOP of a step with all layers frozen but that one, over the whole step
    measured_off: Value  #: the largest distance of a measured peak from the counted one, as a share, with its network


class TrainingState(Facts):
    """Parameters, gradients and the optimiser's state of the largest counted network, as shares of the peak."""

    network: Name  #: the counted network with most parameters
    momentum: Value  #: share with SGD and momentum, for one input
    adam: Value  #: share with Adam, for one input
    batch: Value  #: the larger batch size
    adam_large: Value  #: share with Adam at the larger batch size


class TrainingExample(Facts):
    model: Name  #: the network of the worked example
    batch: Value  #: its batch size
    forward: Value  #: FLOP of the forward pass
    backward: Value  #: FLOP of the backward pass
    peak: Value  #: the machine's measured peak
    flop_s: Value  #: FLOP of both passes at the peak
    operators_s: Value  #: least time of both passes, operator by operator
    parameters: Value  #: bytes of the parameters
    update: Value  #: bytes that the optimiser moves
    bandwidth: Value  #: the machine's measured bandwidth
    update_s: Value  #: bytes of the update at the bandwidth
    bound_s: Value  #: least time of the step
    measured: Value  #: measured time of the step
    over: Value  #: the measured step over its least time


class Groups(Facts):
    machine: Name  #: the machine that ran it
    model: Name  #: a network with a profiled step
    group: Name  #: its group of operators that takes most time
    of_peak: Value  #: FLOP/s of that group over the peak


class TrainingReference(Facts):
    pooling_time: Value  #: pooling's share of GoogLeNet's forward time
    pooling_flop: Value  #: pooling's share of the operations of GoogLeNet's forward pass
    forward_rate: Value  #: bytes a second of normalisation, forward
    backward_rate: Value  #: bytes a second of normalisation, backward
    apart: Value  #: networks whose ratio in FLOP is outside the interval of their ratio in time
    pooled: Value  #: of these, networks where pooling or normalisation moves the time ratio farthest
    depthwise: Value  #: networks with depthwise convolutions
    depthwise_above: Value  #: of these, networks where they take more than twice as long backward


class TrainingProblems(Facts):
    model: Name  #: the network of the problems
    forward: Value  #: FLOP of its forward pass
    first: Value  #: FLOP of its first layer
    ratio: Value  #: FLOP ratio that follows from the first layer
    memory: Value  #: memory of the device in the problem
    fixed: Value  #: memory of the example that does not depend on the batch
    input: Value  #: memory of the example for each input
    batch: Value  #: largest batch that fits into the device's memory


class Training(Facts):
    counts: Counts
    embeddings: Embeddings
    step: StepRatios
    batches: Batches
    kinds: TrainingKinds
    shares: TrainingShares
    memory: TrainingMemory
    state: TrainingState
    example: TrainingExample
    first: Groups
    second: Groups
    counters: traced.Counters
    own: devices.StepRange
    idle: devices.IdleStep
    pair: devices.StepPair
    gpus: devices.PublishedSteps
    reference: TrainingReference
    recorded: traced.RecordedTraining
    problems: TrainingProblems
    host_bound: bool
    kinds_elsewhere: bool  # whether the kinds of layer are another machine's than the steps
    claims: dict[str, bool]


def of(paper: Paper) -> Training:
    machine, of_kinds = costs.subject(paper), costs.subject(paper, is_profiled=True)
    of_two = costs.subject(paper, costs.TWO, True)
    counted = source_of("workload/models.csv", "fp32, with a backward pass", "workload")
    measured = _source(machine, "samples", "phases step, forward, backward, update; fp32", "workload training")
    profiled, of_pair = (
        _source(each, "operators", "phase step, fp32", "workload training operators") for each in (of_kinds, of_two)
    )
    pair = [*costs.pick(costs.groups(paper, of_two).model, STORY), None, None]
    reference, claims = _reference(paper.reference)
    idle = devices.idle(paper)
    counts, embeddings = _counts(paper)
    memory = _memory(paper, machine)
    memory = replace(memory, measured_off=replace(memory.measured_off, source=measured))
    return Training(
        counts=sourced(counts, counted),
        embeddings=sourced(embeddings, counted),
        step=sourced(_step(machine), measured),
        batches=sourced(_batches(machine), measured),
        kinds=sourced(_kinds(paper, of_kinds), profiled),
        shares=sourced(_shares(paper, of_kinds), profiled),
        memory=sourced(memory, counted),
        state=sourced(_state(paper), counted),
        example=sourced(_example(machine), measured),
        first=sourced(_groups(paper, of_two, pair[0]), of_pair),
        second=sourced(_groups(paper, of_two, pair[1]), of_pair),
        counters=traced.counters(paper),
        own=devices.own(costs.shared(costs.comparable(costs.everywhere(paper)))),
        idle=idle,
        pair=devices.pair(paper),
        gpus=devices.published_steps(paper),
        reference=sourced(reference, replace(profiled, table=f"machines/{REFERENCE}/operators.csv")),
        recorded=traced.recorded_facts(paper),
        problems=sourced(_problems(paper), counted),
        host_bound=idle.busy.number is not None and idle.busy.number < MOSTLY,
        kinds_elsewhere=machine is not of_kinds,
        claims=claims,
    )


def _source(machine: Machine | None, table: str, rows: str, sections: str) -> Source:
    return source_of(f"machines/{machine.folder if machine else '*'}/{table}.csv", rows, sections)


def _counts(paper: Paper) -> tuple[Counts, Embeddings]:
    rows, layers = costs.trained(paper), costs.trained_layers(paper)
    first = layers[layers.forward_flop > 0].drop_duplicates("model").set_index("model").forward_flop
    shortfall = 2 * rows.forward_flop - rows.backward_flop
    embedded = shortfall[shortfall.index.isin(layers[layers.layer_kind == "embedding"].model)]
    moved = costs.byte_ratios(paper)
    kinds = moved[~moved.layer_kind.isin(OTHERS)].groupby("layer_kind")
    medians = kinds.ratio.median()[kinds.model.nunique() >= FEWEST_MODELS]
    embeddings = matching(moved, layer_kind="embedding").set_index("model").ratio
    counts = Counts(
        count_of(len(rows), "models"),
        count_of((shortfall == first.reindex(rows.index)).sum()),
        *extremes(medians, fewest=2),
    )
    most = extremes(embeddings.rename(model_name))[1]
    return counts, Embeddings(exact(int((embedded == 0).sum()) or None), most)


def _step(machine: Machine | None) -> StepRatios:
    rows = costs.steps(machine)
    over, flop = rows.latency_s / rows.forward_s, 1 + rows.flop_ratio
    return StepRatios(
        machine=Name(machine.name if machine and len(rows) else None),
        networks=count_of(len(rows), "models"),
        over_forward=median_of(over),
        flop_over_forward=median_of(flop),
        excess=median_of(over / flop),
        over_operator_bound=median_of(rows.latency_s / rows.operator_bound_s),
        time_ratio=median_of(rows.time_ratio),
        flop_ratio=median_of(rows.flop_ratio),
        tolerance=exact(costs.NEAR, "%"),
        near=count_of(costs.near(rows).sum()),
        apart=count_of(costs.apart(rows).sum()),
    )


def _batches(machine: Machine | None) -> Batches:
    if machine is None:
        return missing(Batches)
    rows = costs.timed(machine)
    counts = rows.groupby("batch").model.nunique()
    sizes = [int(batch) for batch in counts.index[counts >= FEWEST_MODELS]]
    if len(sizes) < 2:
        return missing(Batches)
    first, last = (matching(rows, batch=batch).set_index("model").time_ratio for batch in (sizes[0], sizes[-1]))
    change = (last / first).dropna()
    return Batches(exact(sizes[0]), exact(sizes[-1]), count_of(len(change), "models"), median_of(change))


def _kinds(paper: Paper, machine: Machine | None) -> TrainingKinds:
    rows = costs.seen(paper, machine)

    def typical(kind: str) -> Value:
        return median_of(matching(rows, layer_kind=kind).time_ratio)

    name = Name(machine.name if machine and len(rows) else None)
    return TrainingKinds(name, typical("convolution"), typical("normalisation"), typical("pooling"))


def _shares(paper: Paper, machine: Machine | None) -> TrainingShares:
    rows = costs.kinds(paper, machine)
    both = {cost: rows[f"forward_{cost}"] + rows[f"backward_{cost}"] for cost in ("time_s", "flop", "byte")}
    rows = rows[["model", "layer_kind"]].assign(**both)
    largest = [rows.loc[rows.groupby("model")[cost].idxmax()].layer_kind.value_counts() for cost in ("time_s", "byte")]
    (time_kind, time_first), (memory_kind, memory_first) = (
        (str(counts.index[0]), counts.iloc[0]) if len(counts) else (None, 0) for counts in largest
    )
    products = rows[rows.layer_kind.isin(PRODUCT_KINDS)].groupby("model")[[*both]].sum()
    whole = rows.groupby("model")[[*both]].sum()
    return TrainingShares(
        networks=count_of(rows.model.nunique(), "models"),
        time_kind=Name(time_kind),
        time_first=count_of(time_first),
        memory_kind=Name(memory_kind),
        memory_first=count_of(memory_first),
        products_flop=median_of(products.flop / whole.flop, "%"),
        products_time=median_of(products.time_s / whole.time_s, "%"),
    )


def _memory(paper: Paper, machine: Machine | None) -> TrainingMemory:
    rows = costs.trained(paper)
    state = costs.held_share(rows, "momentum_byte")
    half = matching(paper.workloads, precision=BASE_PRECISION).set_index("model")
    half_peak = half[half.batch.isin(rows.batch / 2)].training_peak_byte
    last = costs.trained_layers(paper).query("calls > 0 and parameter_count > 0 and forward_flop > 0")
    last = last.drop_duplicates("model", keep="last").set_index("model").reindex(rows.index)
    saved = last.traffic_byte - last.parameter_byte - last.activation_byte  # a product reads parameters and its input
    saved = saved.clip(upper=rows.saved_byte)  # the network's own input is not saved for it
    steps = costs.steps(machine)
    off = (steps.peak_byte / steps.training_peak_byte - 1).abs().set_axis(steps.model.map(model_name))
    return TrainingMemory(
        batch=exact(next(iter(rows.batch), None)),
        peak_over_inference=median_of(rows.training_peak_byte / rows.inference_peak_byte),
        saved_share=median_of(rows.saved_byte / rows.training_peak_byte, "%"),
        most_state=extremes(state.rename(model_name), "%")[1],
        halved=median_of(half_peak / rows.training_peak_byte, "%"),
        frozen_share=extremes(saved / rows.saved_byte, "%")[1],
        frozen_step=median_of((rows.forward_flop + last.forward_flop) / (rows.forward_flop + rows.backward_flop), "%"),
        measured_off=extremes(off, "%")[1],
    )


def _state(paper: Paper) -> TrainingState:
    rows = matching(paper.workloads, precision=BASE_PRECISION)
    rows = rows[rows.backward_flop.notna()].set_index("model")
    single, large = rows[rows.batch == ALONE], costs.trained(paper)
    single = single[single.index.isin(large.index)]
    if single.empty:
        return missing(TrainingState)
    model = str(single.parameter_byte.astype(float).idxmax())

    def share(rows: pd.DataFrame, state: str) -> Value:
        return exact(costs.held_share(rows, state)[model], "%")

    return TrainingState(
        Name(model_name(model)), share(single, "momentum_byte"), share(single, "adam_byte"),
        exact(large.batch[model]), share(large, "adam_byte"),
    )  # fmt: skip


def _example(machine: Machine | None) -> TrainingExample:
    rows = costs.steps(machine)
    rows = rows[rows.operator_bound_s.notna()]
    row = next(each(rows[rows.model.isin(costs.pick(rows.model, ("resnet18",)))]), None)
    roof = machine.roof(BASE_PRECISION) if machine else None
    if row is None or roof is None:
        return missing(TrainingExample)
    measured, least = estimated(row, "latency_s", "s"), row.operator_bound_s
    return TrainingExample(
        model=Name(model_name(row.model)),
        batch=exact(row.batch),
        forward=exact(row.forward_flop, "FLOP"),
        backward=exact(row.backward_flop, "FLOP"),
        peak=exact(roof.peak_flop_per_s, "FLOP/s"),
        flop_s=exact(row.flop_bound_s, "s"),
        operators_s=exact(row.forward_bound_s + row.backward_bound_s, "s"),
        parameters=exact(row.parameter_byte, "B"),
        update=exact(update_byte(row), "B"),
        bandwidth=exact(roof.bandwidth_byte_per_s, "B/s"),
        update_s=exact(row.update_bound_s, "s"),
        bound_s=exact(least, "s"),
        measured=measured,
        over=ratio(measured, Value(least, "s", least, least)),
    )


def _groups(paper: Paper, machine: Machine | None, model: str | None) -> Groups:
    rows = matching(costs.groups(paper, machine), model=model or "")
    roof = machine.roof(BASE_PRECISION) if machine else None
    if machine is None or roof is None or rows.empty:
        return missing(Groups)
    most = highest(rows, "share")
    of_peak = exact(most.flop_per_s / roof.peak_flop_per_s, "%")
    return Groups(Name(machine.name), Name(model_name(most.model)), Name(most.group), of_peak)


def _reference(paper: Paper) -> tuple[TrainingReference, dict[str, bool]]:
    machine = costs.subject(paper)
    rows = costs.seen(paper, machine)
    of_kind = {kind: matching(rows, layer_kind=kind).set_index("model") for kind in ("normalisation", "pooling")}
    normalisation, pooling = of_kind["normalisation"], of_kind["pooling"].reindex(["googlenet"]).iloc[0]
    depthwise = matching(rows, layer_kind="depthwise convolution").set_index("model").time_ratio
    steps = costs.steps(machine).set_index("model")
    apart = costs.causes(paper, machine)[costs.apart(steps)]
    facts = TrainingReference(
        pooling_time=exact(pooling.forward_time_s_share, "%"),
        pooling_flop=exact(pooling.forward_flop_share, "%"),
        forward_rate=median_of(normalisation.traffic_byte / normalisation.forward_time_s, "B/s"),
        backward_rate=median_of(normalisation.backward_traffic_byte / normalisation.backward_time_s, "B/s"),
        apart=count_of(len(apart)),
        pooled=count_of(apart.isin(list(of_kind)).sum()),
        depthwise=count_of(len(depthwise)),
        depthwise_above=count_of((depthwise > 2).sum()),
    )
    slow = facts.forward_rate.below(facts.backward_rate.low or 0)
    claims = {
        "googlenet_lowest": bool(len(steps)) and steps.time_ratio.astype(float).idxmin() == "googlenet",
        "pooling_forward": bool(pooling.forward_time_s_share > 0.3 and pooling.forward_flop_share < 0.01),
        "normalisation_forward": slow and median_of(normalisation.time_ratio).below(normalisation.byte_ratio.min()),
        "mostly_pooled": 2 * (facts.pooled.number or 0) > (facts.apart.number or 0),
        "depthwise_above_two": (facts.depthwise_above.number or 0) > max(2, 0.8 * len(depthwise)),
    }
    return facts, claims


def _problems(paper: Paper) -> TrainingProblems:
    rows = costs.trained(paper)
    row = next(each(rows.loc[costs.pick(pd.Series(rows.index), ("resnet18",))]), None)
    if row is None:
        return missing(TrainingProblems)
    layers = matching(costs.trained_layers(paper), model=row.Index)
    first = layers[layers.forward_flop > 0].forward_flop.iloc[0]
    fixed = row.parameter_byte + row.gradient_byte + row.momentum_byte
    of_input = (row.training_peak_byte - fixed) / row.batch
    return TrainingProblems(
        model=Name(model_name(row.Index)),
        forward=exact(row.forward_flop, "FLOP"),
        first=exact(first, "FLOP"),
        ratio=exact(2 - first / row.forward_flop),
        memory=exact(float(DEVICE_BYTE), "B"),
        fixed=exact(fixed, "B"),
        input=exact(of_input, "B"),
        batch=exact(int((DEVICE_BYTE - fixed) // of_input)),
    )
