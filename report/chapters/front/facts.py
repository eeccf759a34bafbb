"""The numbers of the abstract and of the findings."""

from measure.cache.predictions import ALL, BY_DEVICE, BY_FAMILY, OURS
from measure.domain.advice import KEPT_MEMORY
from measure.domain.words import EAGER, INFERENCE
from report import host, options
from report.facts import Facts, missing, sourced
from report.host import Single
from report.paper import BASE_PRECISION, LOWER_PRECISIONS, Paper
from report.paper.chips import short_name
from report.paper.frames import matching
from report.stats import published
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of, ratio

SAME = 1.1  # bandwidths in a smaller ratio are called about the same


class Data(Facts):
    networks: Value  #: Networks counted operator by operator.
    chips: Value  #: Chips with sourced peaks.
    timings: Value  #: Published timings.


class FrontGpu(Facts):
    """The GPU of which others timed most networks, in eager mode."""

    device: Name  #: That GPU.
    alike: Value  #: Networks with about as many FLOP as ResNet-50.
    spread: Value  #: The time of the slowest of them over that of the quickest.
    puzzle: Value  #: Time of MobileNet-v2 over that of ResNet-18.
    whole: Value  #: Typical share of the roofline of the whole network.
    layers: Value  #: Typical share of the roofline drawn layer by layer.


class Buying(Facts):
    """What another GPU and a compiler bring."""

    before: Name  #: The GPU with the lower peak in the first pair that others timed.
    to_best: Value  #: How many times as fast networks are on the other GPU of that pair.
    to_best_peak: Value  #: The ratio of their peaks.
    to_best_bandwidth: Value  #: The ratio of their bandwidths.
    compiled: Value  #: Speed compiled over speed in eager mode, on the GPU of which most networks were timed.
    following: Name  #: The next GPU.
    bought: Value  #: Speed on the next GPU over speed on this one, in eager mode.
    both: Value  #: Speed compiled on the next GPU over speed in eager mode on this one.


class FrontMemory(Facts):
    """Freed memory kept by the allocator, on a processor that was measured."""

    machine: Name  #: The processor.
    batch: Value  #: The largest batch size at which it was measured.
    gain: Value  #: How many times as fast networks are with it.
    system: Value  #: Share of the threads' time in the operating system without it.


class FrontPrediction(Facts):
    """Typical errors of predicted times."""

    least_family: Value  #: The lowest error for families left out, with the GPU; GPUs with a whole library of timings.
    most_family: Value  #: The highest such error, with its GPU.
    device: Value  #: Error on a GPU left out at 16 bits, one vote a GPU.


class Front(Facts):
    data: Data
    gpu: FrontGpu
    buying: Buying
    memory: FrontMemory
    single: Single
    prediction: FrontPrediction
    claims: dict[str, bool]


def of(paper: Paper) -> Front:
    best = published.best_timed(paper)
    gpu, buying = sourced(_gpu(paper), published.SOURCE), sourced(_buying(paper), published.SOURCE)
    data = Data(
        count_of(paper.workloads.model.nunique() or None, "models"), count_of(paper.chips.chip.nunique(), "chips"),
        count_of(len(paper.elsewhere.timings), "timings"),
    )  # fmt: skip
    return Front(
        data=sourced(data, Source("chips.csv")),
        gpu=gpu,
        buying=buying,
        memory=_memory(paper),
        single=host.of(paper).single,
        prediction=sourced(_prediction(paper), Source("prediction/errors.csv", "terms", "python -m measure fit")),
        claims={
            "about_the_same_bandwidth": (buying.to_best_bandwidth.number or 9) < SAME,
            "gains_less_than_peak": buying.to_best.below(buying.to_best_peak.number or 0),
            "light_is_slower": (gpu.puzzle.number or 0) > 1,
            "most_wait_for_bytes": best is not None
            and (best.rows.flop / best.rows.layers_byte < best.roof.ridge_flop_per_byte).mean() > 0.5,
            "layers_explain_more": gpu.layers.above(gpu.whole.high or 1),
            "compiling_beats_buying": buying.compiled.above(buying.bought.high or 1),
        },
    )


def _gpu(paper: Paper) -> FrontGpu:
    best = published.best_timed(paper)
    if best is None:
        return missing(FrontGpu)
    rows = best.of_usual_size.set_index("model")
    light, heavy = (rows[rows.index == published.TWINS[model]] for model in ("mobilenet_v2", "resnet18"))
    puzzle = light.input_s.sum() / heavy.input_s.sum() if len(light) and len(heavy) else None
    alike = published.alike(best)
    quickest, slowest = extremes(alike.set_index("model").input_s)
    return FrontGpu(
        Name(short_name(best.device)), count_of(len(alike), "networks"), ratio(slowest, quickest),
        exact(puzzle), *(published.share(best.rows, bound) for bound in ("whole_s", "layers_s")),
    )  # fmt: skip


def _buying(paper: Paper) -> Buying:
    best, pairs = published.best_timed(paper), published.steps(paper)
    compiled, following = (published.of_best(found, best) for found in (published.compiled(paper), pairs))
    first = next((each for each in pairs if best and each.device_other.iloc[0] == best.device), None)
    both = None if best is None or following is None else published.on_the_next(paper, best, following)
    peak, bandwidth = (
        exact(None if first is None else first[f"{column}_other"].iloc[0] / first[column].iloc[0])
        for column in ("peak_flop_per_s", "bandwidth_byte_per_s")
    )
    return Buying(
        published.name_in(first), published.gain(first), peak, bandwidth, published.gain(compiled),
        published.name_in(following, "device_other"), published.gain(following), published.gain(both),
    )  # fmt: skip


def _memory(paper: Paper) -> FrontMemory:
    machine = paper.machine("cpu")
    if machine is None:
        return missing(FrontMemory)
    kept = matching(machine.variants, variant=KEPT_MEMORY, precision=BASE_PRECISION, status="ok")
    batch = None if kept.empty else int(kept.batch.max())
    ran = matching(machine.profiles, phase=INFERENCE, variant=EAGER, precision=BASE_PRECISION, status="ok")
    ran = ran[ran.batch == batch]
    share = ran.system_s / ((machine.environment.threads or 1) * ran.plain_s)
    found = FrontMemory(
        Name(machine.name), exact(batch), median_of(kept[kept.batch == batch].speed_up), median_of(share, "%")
    )
    return sourced(found, Source(f"machines/{machine.folder}/runs.csv", KEPT_MEMORY, options.measure_command()))


def _prediction(paper: Paper) -> FrontPrediction:
    rows = matching(paper.predictions.errors, method=OURS, batches=ALL, phase=INFERENCE, variant=EAGER)
    rows = rows[rows.precision.isin(LOWER_PRECISIONS)]
    gpus = rows[rows.device.isin(paper.chips[paper.chips.chip_kind == "gpu"].chip)]
    gpus = gpus.assign(version=gpus.software.map(published.version)).sort_values("version", kind="stable")
    family = matching(gpus, left_out=BY_FAMILY)
    family = family[family.models >= published.LIBRARY].drop_duplicates("device", keep="last")
    device = matching(gpus, left_out=BY_DEVICE).groupby("device").median_error.median()
    named = family.set_index(family.device.map(short_name)).median_error
    return FrontPrediction(*extremes(named, "%"), median_of(device, "%", "GPUs"))
