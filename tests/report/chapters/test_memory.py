"""Two measured GPUs with the same peaks, one with twice the bandwidth: three networks, one of them profiled on both."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import world

from measure.cache.traces import StoredTrace
from measure.domain.trace_records import TraceDevice, TraceOperator
from report.chapters.gpus import memory
from report.paper import Paper

SLOW, FAST = "NVIDIA H100 SXM", "Twin"  # 66.9 TFLOP/s at fp32; 3.35 and 6.7 TB/s
KINDS = (  # kind, operator, GFLOP, GB; s on the slow and on the fast memory
    ("activation", "relu", 0, 3350, 1.25, 0.75),  # at least 1 s on the slow one, 0.5 s on the fast one
    ("depthwise convolution", "convolution", 1, 3350, 4, 4),
    ("convolution", "convolution", 66_900, 1, 4.75, 4.75),
    ("pooling", "max_pool2d", 0, 1, 1e-3, 1e-3),  # too little to be seen
)


def _operator(kind, name, flop, byte, time_s) -> TraceOperator:
    counts = {"calls": 1, "kernels": 1, "time_s": time_s, "copy_s": 0.0, "gap_s": 0.0, "flop": flop * 10**9}
    about = {"rank": 0, "device": 0, "step": 0, "stage": "inference", "layer_kind": kind, "operator": name}
    more = {"shape": "8x8", "precision": "fp32", "reason": None, "other_flop": 0, "recompute_flop": 0, "kernel": None}
    return TraceOperator(**about, **counts, byte=byte * 10**9, **more)


def _trace(chip: str, column: int, network: str = "net2, batch 8, fp32, inference") -> StoredTrace:
    about = dict.fromkeys(TraceDevice.__dataclass_fields__) | {"rank": 0, "device": 0, "source": "machines/here"}
    device = TraceDevice(**about | {"network": network, "chip": chip, "fingerprint": chip, "world_size": 1})
    return StoredTrace(chip, [device], [], [_operator(*row[:4], row[column]) for row in KINDS])


def paper() -> Paper:
    chips = world().chips
    slow = chips[chips.chip == SLOW]
    fast = slow.assign(chip=FAST, alias="", bandwidth_byte_per_s=2 * slow.bandwidth_byte_per_s)
    gpu = world().machine("gpu")
    machines = []
    for chip, times in ((FAST, (1, 2, 3)), (SLOW, (1.2, 2.2, 6))):
        cells = [
            {"model": f"net{k}", "batch": batch, "precision": "bf16", "status": "ok", "latency_s": time_s * batch,
             "flags": ""}
            for k, time_s in enumerate(times) for batch in (1, 8)
        ]  # fmt: skip
        named = replace(gpu.environment, name=chip)
        machines.append(replace(gpu, environment=named, folder=chip, cells=pd.DataFrame(cells)))
    return replace(
        world(), chips=pd.concat([chips, fast]), machines=tuple(machines),
        traces=(_trace(SLOW, 4), _trace(FAST, 5), _trace(SLOW, 4, "Alone, batch 8, fp32, inference")),
    )  # fmt: skip


def test_the_gain_from_memory_by_hand():
    found = memory.of(paper())
    assert (found.first.text, found.second.text, found.bandwidth.number) == ("H100 SXM", "Twin", 2)
    # 1.2, 1.1 and 2 times as fast
    assert (found.batch.number, found.networks.number, found.speed.number) == (8, 3, pytest.approx(1.2))
    assert found.most.number == pytest.approx(2)
    assert (found.activation.gain.number, found.activation.roof.number) == pytest.approx((1.25 / 0.75, 1 / 1.25))
    assert (found.depthwise.gain.number, found.depthwise.roof.number) == pytest.approx((1, 0.25))
    # Kernels: 10 s over 9.5 s. Roofs: 1 + 1 + 1 s over 0.5 + 0.5 + 1 s.
    assert found.gained.number == pytest.approx(10 / 9.5)
    assert found.promised.number == pytest.approx(3 / 2)


def test_cards_with_other_peaks_are_no_pair():
    one = paper()
    chips = one.chips.assign(peak_flop_per_s=one.chips.peak_flop_per_s.where(one.chips.chip != FAST, 1e12))
    assert memory.memories(replace(one, chips=chips)) is None
    assert memory.of(replace(one, machines=one.machines[:1])).speed.is_missing
