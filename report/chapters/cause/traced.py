"""One network on two GPUs, kind by kind, from traces that others recorded."""

from functools import cache

import pandas as pd

from measure.cache.traces import StoredTrace
from measure.domain.roofs import Roof, Roofline
from report.facts import Facts, missing, sourced
from report.paper import Paper, operator_groups
from report.paper.chips import roof_of, short_name
from report.paper.frames import matching
from report.stats.value import Name, Source, Value, exact

GPUS = ("NVIDIA H100 SXM", "AMD Instinct MI300X")
"""Two GPUs that recorded the same networks with the same inputs."""

PRECISION = "bf16"
VIDEO, IMAGES = "TimeSformer-Base", "ViT-Base"  # a network that fills a GPU, and one that does not
SEEN = 0.005  # the least share of the kernels' time on one of the two to compare a kind


class TracedKinds(Facts):
    """Kinds of layer in one network that fills both GPUs: times on the second over the first, shares of their roofs."""

    kernels: Value  #: Time of all kernels in one network, second GPU over first.
    linear: Value  #: Time of the linear layers in one network, second GPU over first.
    linear_first: Value  #: Share of the peak that the linear layers reach on the first GPU.
    linear_second: Value  #: Share of the peak that the linear layers reach on the second GPU.
    pointwise: Value  #: Time of additions, multiplications and the like in one network, second GPU over first.
    pointwise_first: Value  #: Share of the bandwidth that additions and the like reach on the first GPU.
    pointwise_second: Value  #: Share of the bandwidth that additions and the like reach on the second GPU.
    softmax: Value  #: Time of softmax in one network, second GPU over first.
    softmax_roof: Value  #: The larger of both GPUs' shares of the bandwidth that softmax reaches.


class TracedStep(Facts):
    """One network with kernels too small to fill the GPUs: times on the second over the first, and idle shares."""

    batch: Value  #: Inputs of the small network.
    torch_first: Name  #: The release of PyTorch that recorded it on the first GPU.
    torch_second: Name  #: The release of PyTorch that recorded it on the second GPU.
    kernels: Value  #: Time of all kernels of a small network, second GPU over first.
    step: Value  #: Time from its first kernel to its last, second GPU over first.
    idle_first: Value  #: Idle share of that time on the first GPU.


class Traced(Facts):
    """Steps of the same networks on two GPUs, recorded by others."""

    first: Name  #: The GPU with the lower peak.
    second: Name  #: The GPU with the higher peak.
    peak: Value  #: The second GPU's peak over the first's.
    bandwidth: Value  #: The second GPU's bandwidth over the first's.
    reached_first: Value  #: The fastest published matrix product on the first GPU over its peak.
    reached_second: Value  #: The fastest published matrix product on the second GPU over its peak.
    video: TracedKinds
    images: TracedStep


def roofs(paper: Paper) -> tuple[Roof, ...]:
    """Return the datasheets' roofs of both GPUs; none if a chip is not among the paper's."""
    found = tuple(roof for chip in GPUS if (roof := roof_of(paper.chips, chip)))
    return found if len(found) == len(GPUS) else ()


def grown(paper: Paper) -> Roofline:
    """Return the ratios of peaks and of bandwidths, second GPU over first."""
    first, second = ([roof.flop_per_s[PRECISION], roof.byte_per_s or 0.0] for roof in roofs(paper))
    return Roofline(*(after / before for before, after in zip(first, second, strict=True)))


def pairs(paper: Paper) -> dict[str, list[StoredTrace]]:
    """Return the two traces of each network that was recorded on both GPUs."""
    traces = {(each.devices[0].network, each.devices[0].chip): each for each in paper.traces}
    networks = sorted({network for network, _ in traces if network})
    return {
        network: [traces[network, chip] for chip in GPUS]
        for network in networks
        if all((network, chip) in traces for chip in GPUS)
    }


@cache
def kinds(paper: Paper) -> pd.DataFrame:
    """Return one row per network, GPU and kind of layer: its time, its rates, its share of the roof."""
    found = []
    both = roofs(paper)
    for network, traces in pairs(paper).items() if both else ():
        for chip, roof, trace in zip(GPUS, both, traces, strict=True):
            rows = operator_groups.traced(trace.operators, roof)
            found.append(rows.dropna(subset=["intensity", "flop_per_s"]).assign(network=network, chip=chip))
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame()


def ratios(paper: Paper) -> pd.DataFrame:
    """Return one row per network and kind of layer; ``ratio`` is its time on the second GPU over the first."""
    rows = kinds(paper)
    if rows.empty:
        return rows
    first, second = (rows[rows.chip == chip] for chip in GPUS)
    both = first.merge(second, on=["network", "kind"], suffixes=("", "_other"))
    both = both[both[["share", "share_other"]].max(axis=1) >= SEEN]
    return both.assign(ratio=both.time_s_other / both.time_s)


def kernel_ratio(paper: Paper, network: str) -> float:
    """Return the ratio of a step's time in kernels, second GPU over first."""
    first, second = (operator_groups.traced(trace.operators, None).time_s.sum() for trace in pairs(paper)[network])
    return second / first


def _reached(paper: Paper) -> list[float | None]:
    """Return the fastest published product over the peak, of both GPUs."""
    products = matching(paper.published.products, precision=PRECISION).groupby("device").flop_per_s.max()
    peaks = [roof.flop_per_s[PRECISION] for roof in roofs(paper)]
    return [
        float(products[chip]) / peak if chip in products.index else None for chip, peak in zip(GPUS, peaks, strict=True)
    ]


def _batch(trace: StoredTrace) -> int | None:
    """Return the batch size of a network of images by the shape of its first convolution, such as 4x3x224x224."""
    shapes = (row.shape for row in trace.operators if row.layer_kind == "convolution" and row.shape)
    return next((int(shape.split("x")[0]) for shape in shapes), None)


def of(paper: Paper) -> Traced:
    found = pairs(paper) if roofs(paper) else {}
    if not {VIDEO, IMAGES} <= found.keys():
        return missing(Traced)
    both, rows = grown(paper), ratios(paper)
    video = rows[rows.network == VIDEO].set_index("kind")
    if not {"linear", "pointwise", "softmax"} <= set(video.index):
        return missing(Traced)
    linear, pointwise, softmax = (video.loc[kind] for kind in ("linear", "pointwise", "softmax"))
    steps = [trace.steps for trace in found[IMAGES]]
    spent, busy = (
        [sum(getattr(step, column) or 0 for step in each) for each in steps] for column in ("span_s", "busy_s")
    )
    reached = _reached(paper)
    releases = [Name((each.devices[0].torch or "").split("+")[0] or None) for each in found[IMAGES]]
    facts = Traced(
        Name(short_name(GPUS[0])), Name(short_name(GPUS[1])), exact(both.peak_flop_per_s),
        exact(both.bandwidth_byte_per_s), exact(reached[0], "%"),
        exact(reached[1], "%"),
        TracedKinds(
            exact(kernel_ratio(paper, VIDEO)), exact(linear.ratio), exact(linear.roof_share, "%"),
            exact(linear.roof_share_other, "%"), exact(pointwise.ratio), exact(pointwise.roof_share, "%"),
            exact(pointwise.roof_share_other, "%"), exact(softmax.ratio),
            exact(max(softmax.roof_share, softmax.roof_share_other), "%"),
        ),
        TracedStep(
            exact(_batch(found[IMAGES][0])), releases[0], releases[1],
            exact(kernel_ratio(paper, IMAGES)), exact(spent[1] / spent[0]),
            exact(1 - busy[0] / spent[0], "%"),
        ),
    )  # fmt: skip
    return sourced(facts, Source("traces/*/operators.csv", "inference"))
