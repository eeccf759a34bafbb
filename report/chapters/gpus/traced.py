"""One network on two GPUs, kind by kind, from traces that others recorded."""

from functools import cache
from typing import Any

import pandas as pd

from measure.cache.trace_records import TraceOperator
from measure.cache.traces import StoredTrace
from measure.domain.roofs import Roof, Roofline
from measure.domain.step_parts import step_parts
from report.paper import Paper
from report.paper.chips import roof_of

GPUS = ("NVIDIA H100 SXM", "AMD Instinct MI300X")
"""The two on which the same networks were recorded with the same inputs."""

PRECISION = "bf16"  # of those networks
VIDEO, IMAGES = "TimeSformer-Base", "ViT-Base"  # a network that fills a GPU, and one that does not
SEEN = 0.005  # the share of a step that a kind needs on one of the two, to be compared
SOFTMAX = "_softmax"  # attention as separate operators: its products and its softmax wait for different things


def kind_of(row: TraceOperator) -> str:
    return "softmax" if row.operator == SOFTMAX else row.layer_kind


def roofs(paper: Paper) -> tuple[Roof, ...]:
    """Return the datasheets' roofs of both GPUs; none if a chip is not among the paper's."""
    found = tuple(roof for chip in GPUS if (roof := roof_of(paper.chips, chip)))
    return found if len(found) == len(GPUS) else ()


def grown(paper: Paper) -> Roofline:
    """Return how many times the peak and the bandwidth of the first GPU the second one has."""
    first, second = ([roof.flop_per_s[PRECISION], roof.byte_per_s or 0.0] for roof in roofs(paper))
    return Roofline(*(after / before for before, after in zip(first, second, strict=True)))


def pairs(paper: Paper) -> dict[str, list[StoredTrace]]:
    """Return the two traces of each network that was recorded on both GPUs."""
    known = {(each.devices[0].network, each.devices[0].chip): each for each in paper.traces}
    networks = [network for network, chip in known if network and chip == GPUS[0]]
    return {
        name: [known[name, chip] for chip in GPUS] for name in sorted(networks) if all((name, c) in known for c in GPUS)
    }


@cache
def kinds(paper: Paper) -> pd.DataFrame:
    """One row is a kind of layer in a step of one network on one GPU: its time, its rates, its share of the roof."""
    found: list[dict[str, Any]] = []
    both = roofs(paper)
    for network, traces in pairs(paper).items() if both else ():
        for chip, roof, trace in zip(GPUS, both, traces, strict=True):
            parts = step_parts(trace.operators, roof, kind_of)
            total_s = sum(part.time_s for part in parts)
            found += [
                {
                    "network": network, "chip": chip, "kind": part.name, "time_s": part.time_s,
                    "share": part.time_s / total_s, "roof_share": part.roof_share, "bound": part.bound,
                    "intensity": (part.flop + part.other_flop) / part.byte,
                    "flop_per_s": (part.flop + part.other_flop) / part.time_s,
                }
                for part in parts
                if part.byte and part.time_s
            ]  # fmt: skip
    return pd.DataFrame(found)


def ratios(paper: Paper) -> pd.DataFrame:
    """One row is a kind of layer in one network: its time on the second GPU over that on the first, and the shares."""
    rows = kinds(paper)
    if rows.empty:
        return rows
    first, second = (rows[rows.chip == chip] for chip in GPUS)
    both = first.merge(second, on=["network", "kind"], suffixes=("", "_other"))
    both = both[both[["share", "share_other"]].max(axis=1) >= SEEN]
    return both.assign(ratio=both.time_s_other / both.time_s)


def kernel_ratio(paper: Paper, network: str) -> float:
    """Return the time of all kernels of a step on the second GPU over that on the first."""
    first, second = (
        sum(part.time_s for part in step_parts(trace.operators, None, kind_of)) for trace in pairs(paper)[network]
    )
    return second / first
