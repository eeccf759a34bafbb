"""The numbers of the chapter on several GPUs: what they add, what they exchange, and how long they wait."""

from math import ceil
from typing import Any

from measure.domain.statistics import FEWEST_MODELS
from report.chapters.several import here, timed
from report.facts import Facts, missing, sourced
from report.paper import ALONE, BASE_PRECISION, Paper
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.served import decoder_of, of_groups, settings
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

COLLECTIVES, CHIPS = "published/kernels/collectives.csv", "chips.csv"
EXAMPLE = "NVIDIA H100 SXM"  # the GPU of the calculation
NODES = 50e9  # B/s of an adapter of 400 Gbit/s to other nodes
BATCH = 4_000_000  # tokens of a training step, as Llama 3 began with (Grattafiori et al. 2024)
FORWARD, BACKWARD = 2, 4  # FLOP of a parameter and a token
GRADIENT = 2  # bytes of a gradient in bf16, as of any number
SERVED, REQUESTS = "meta-llama/Llama-3.1-70B", 16  # of the second problem
NETWORK = "resnet50"


class SplitModel(Facts):
    """A model that one card cannot hold, its layers split over some cards: tokens a second of one request."""

    model: Name  #: The model.
    weights: Name  #: The format of its weights.
    device: Name  #: The card.
    tokens: Value  #: Tokens that are written.
    few: Value  #: The fewest cards.
    some: Value  #: The next number of cards.
    many: Value  #: The most cards.
    few_rate: Value  #: Tokens a second with the fewest cards.
    some_rate: Value  #: Tokens a second with the next number.
    many_rate: Value  #: Tokens a second with the most cards.
    times: Value  #: The most cards over the fewest.
    speed: Value  #: Tokens a second with the most cards over those with the fewest.
    prompt_speed: Value  #: The same of reading the longest prompt.


class MeasuredLinks(Facts):
    """All-reduces of eight GPUs, by the fastest published kernel of each size."""

    gpus: Value  #: The GPUs.
    fastest: Value  #: The highest bus bandwidth of any size, with its GPU.
    slowest: Value  #: The lowest such bandwidth, with its GPU.
    share_least: Value  #: The lowest share of the datasheet's link, with its GPU.
    share_most: Value  #: The highest share, with its GPU.
    half_least: Value  #: The smallest message at which a GPU reaches half of its highest bandwidth, with its name.
    half_most: Value  #: The largest such message, with its GPU.
    short_least: Value  #: The shortest all-reduce of any size, with its GPU.
    short_most: Value  #: The shortest of the GPU where it takes longest, with its name.


class DataParallel(Facts):
    """Data parallelism on paper: tokens of a GPU at which gradients take as long to exchange as to compute."""

    device: Name  #: The GPU.
    peak: Value  #: Its dense peak at 16 bits.
    link: Value  #: Its link to the GPUs of its node, each way.
    both_ways: Value  #: The link both ways, as datasheets print it.
    ridge: Value  #: The peak over the link.
    tokens: Value  #: Tokens of a GPU at which both take the same time.
    batch: Value  #: Tokens of the step.
    gpus: Value  #: GPUs at which both take the same time for this batch.
    nodes: Value  #: The link between nodes, each way.
    node_tokens: Value  #: Tokens of a GPU over that link.
    node_gpus: Value  #: GPUs for the batch over that link.
    own_tokens: Value  #: Tokens of a GPU if each GPU of a node has such a link.
    images: Value  #: The fewest images of ResNet-50 on each of many GPUs whose FLOP take as long as the exchange.


class ServedGroups(Facts):
    """The share of published collectives in the time of a served token: medians of settings served on both groups."""

    settings: Value  #: The settings.
    few_gpus: Value  #: The fewest GPUs of a group.
    few: Value  #: The share there.
    many_gpus: Value  #: The most GPUs of a group on one board.
    many: Value  #: The share there.
    answers: Value  #: Such a share of all settings there whose answers are longer than prompts.
    prompts: Value  #: Such a share of those whose prompts are longer.


class WaitingRanks(Facts):
    """The collectives of a training step, as a trace of every rank shows them: means over the ranks."""

    network: Name  #: The network.
    device: Name  #: The GPU.
    ranks: Value  #: The ranks.
    calls: Value  #: Collectives of a step.
    transfer: Value  #: Time of the transfers: of each collective the shortest of all ranks.
    share: Value  #: The share of waiting in the time of collectives.
    least: Value  #: The wait of the rank that waits least.
    most: Value  #: The wait of the rank that waits longest.


class LinkProblems(Facts):
    requests: Value  #: Requests at once.
    width: Value  #: Numbers of a token's vector in the example of the chapter on tokens.
    array: Value  #: Bytes of their all-reduce at 16 bits.


class SeveralGpus(Facts):
    split: SplitModel
    links: MeasuredLinks
    data: DataParallel
    served: ServedGroups
    here: here.MeasuredGroup
    ranks: WaitingRanks
    problems: LinkProblems


def of(paper: Paper) -> SeveralGpus:
    return SeveralGpus(
        sourced(_split(paper), Source("published/measurements/tokens.csv", "several GPUs")),
        sourced(_links(paper), Source(COLLECTIVES, "all_reduce, 8 GPUs")),
        sourced(_data(paper), Source(CHIPS, EXAMPLE)),
        sourced(_served(paper), Source("published/servers.csv", "aggregated, several GPUs")),
        here.of(paper),
        sourced(_ranks(paper), Source("traces/*/collectives.csv", "several ranks")),
        sourced(_problems(paper), Source("published/configurations", SERVED)),
    )


def _split(paper: Paper) -> SplitModel:
    rows = timed.split(paper.published)
    if len(rows) < 3:
        return missing(SplitModel)
    few, some, many = rows.iloc[0], rows.iloc[1], rows.iloc[-1]
    prompts = timed.read_prompts(paper.published, few.device, [few.gpus, many.gpus])
    return SplitModel(
        Name(few.model), Name(few.weights), Name(short_name(few.device)), exact(int(few.tokens)), exact(int(few.gpus)),
        exact(int(some.gpus)), exact(int(many.gpus)), exact(few.tokens_per_s, "tokens/s"),
        exact(some.tokens_per_s, "tokens/s"), exact(many.tokens_per_s, "tokens/s"), exact(round(many.gpus / few.gpus)),
        exact(many.tokens_per_s / few.tokens_per_s),
        exact(prompts.iloc[-1] / prompts.iloc[0] if len(prompts) else None),
    )  # fmt: skip


def _links(paper: Paper) -> MeasuredLinks:
    rows = timed.by_device(paper)
    if len(rows) < 2:
        return missing(MeasuredLinks)
    rows.index = rows.index.map(short_name)
    slowest, fastest = extremes(rows.bus, "B/s")
    shares = (rows.bus / rows.link).dropna()
    return MeasuredLinks(
        exact(timed.GROUP), fastest, slowest, *extremes(shares, "%"), *extremes(rows.half_byte, "B"),
        *extremes(rows.shortest_s, "s"),
    )  # fmt: skip


def _data(paper: Paper) -> DataParallel:
    rows, links = matching(paper.chips, chip=EXAMPLE, precision="bf16"), timed.links(paper)
    if rows.empty or EXAMPLE not in links:
        return missing(DataParallel)
    peak, link = float(rows.peak_flop_per_s.max()), float(links[EXAMPLE])
    tokens, beyond = (2 * GRADIENT * peak / ((FORWARD + BACKWARD) * each) for each in (link, NODES))
    return DataParallel(
        Name(short_name(EXAMPLE)), exact(peak, "FLOP/s"), exact(link, "B/s"), exact(2 * link, "B/s"),
        exact(peak / link, "FLOP/B"), exact(round(tokens)), exact(BATCH), exact(int(BATCH / tokens)),
        exact(NODES, "B/s"), exact(round(beyond)), exact(int(BATCH / beyond)), exact(round(beyond / timed.GROUP)),
        _images(paper, peak, link),
    )  # fmt: skip


def _images(paper: Paper, peak: float, link: float) -> Value:
    rows = matching(paper.workloads, model=NETWORK, batch=ALONE, precision=BASE_PRECISION)
    if rows.empty:
        return exact(None)
    row: Any = rows.iloc[0]
    sent_s = 2 * GRADIENT * row.parameter_count / link
    return exact(ceil(sent_s * peak / (row.forward_flop + row.backward_flop)))


def _served(paper: Paper) -> ServedGroups:
    rows = timed.communication(paper.served)
    counts = rows.groupby("plan_gpus").size()
    sizes = [int(size) for size in counts.index[counts >= FEWEST_MODELS] if size <= timed.GROUP]
    if len(sizes) < 2:
        return missing(ServedGroups)
    few, many = sizes[0], sizes[-1]
    pairs = of_groups(paper.served, few, many)
    every = settings(paper.served)
    every = matching(every.assign(lost=every.communication_s / every.tpot_s), plan_gpus=many)
    longer = [every.lost[sign * (every.output_tokens - every.input_tokens) > 0] for sign in (1, -1)]
    shares = pairs.communication_s_few / pairs.tpot_s_few, pairs.communication_s / pairs.tpot_s, *longer
    at_few, at_many, answers, prompts = (median_of(share, "%", "settings") for share in shares)
    return ServedGroups(count_of(len(pairs), "settings"), exact(few), at_few, exact(many), at_many, answers, prompts)


def _ranks(paper: Paper) -> WaitingRanks:
    found = timed.traced(paper)
    if found is None:
        return missing(WaitingRanks)
    trace, times = found
    waits, transfers = ([float(getattr(each, name) or 0.0) for each in times] for name in ("wait_s", "transfer_s"))
    first = trace.devices[0]
    return WaitingRanks(
        Name(first.network), Name(short_name(first.chip or first.device_name or "")), count_of(len(times), "ranks"),
        exact(round(sum(each.calls for each in times) / len(times))), exact(sum(transfers) / len(times), "s"),
        exact(sum(waits) / (sum(waits) + sum(transfers)), "%"), exact(min(waits), "s"), exact(max(waits), "s"),
    )  # fmt: skip


def _problems(paper: Paper) -> LinkProblems:
    decoder = decoder_of(SERVED, "bf16")
    if decoder is None or timed.reductions(paper.served).empty:
        return missing(LinkProblems)
    numbers = REQUESTS * decoder.hidden
    return LinkProblems(exact(REQUESTS), exact(decoder.hidden), exact(numbers * GRADIENT, "B"))
