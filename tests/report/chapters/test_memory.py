"""Two measured GPUs with the same peaks, one with twice the bandwidth: three networks, one of them profiled on both."""

from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
from helpers.world import world

from measure.cache.traces import StoredTrace
from measure.domain.roofs import CacheLevel
from measure.domain.trace_records import TraceDevice, TraceOperator
from report.chapters.cause import facts, interventions, memory
from report.paper import Paper
from report.stats.value import exact

SLOW, FAST = "NVIDIA H100 SXM", "Twin"  # 66.9 TFLOP/s at fp32; 3.35 and 6.7 TB/s
CACHE = 10**12  # bytes
KINDS = (  # kind, operator, calls, GFLOP, GB; s on the slow and on the fast memory
    ("activation", "relu", 4, 0, 3350, 0.5, 0.4),  # 838 GB of a call fit the cache: twice the memory's rate
    ("activation", "relu_", 1, 0, 1675, 0.5, 0.3),  # between once and twice the cache
    ("activation", "silu", 1, 0, 3350, 1.25, 0.75),  # at least 1 s on the slow one, 0.5 s on the fast one
    ("depthwise convolution", "convolution", 1, 1, 3350, 4, 4),
    ("convolution", "convolution", 1, 66_900, 1, 4.75, 4.75),
)  # no normalisation


def _operator(kind, name, calls, flop, byte, time_s) -> TraceOperator:
    counts = {"calls": calls, "kernels": 1, "time_s": time_s, "copy_s": 0.0, "gap_s": 0.0, "flop": flop * 10**9}
    about = {"rank": 0, "device": 0, "step": 0, "stage": "inference", "layer_kind": kind, "operator": name}
    more = {"shape": "8x8", "precision": "fp32", "reason": None, "other_flop": 0, "recompute_flop": 0, "kernel": None}
    return TraceOperator(**about, **counts, byte=byte * 10**9, **more)


def _trace(chip: str, column: int, network: str = "net2, batch 8, fp32, inference") -> StoredTrace:
    about = dict.fromkeys(TraceDevice.__dataclass_fields__) | {"rank": 0, "device": 0, "source": "machines/here"}
    device = TraceDevice(**about | {"network": network, "chip": chip, "fingerprint": chip, "world_size": 1})
    return StoredTrace(chip, [device], [], [_operator(*row[:5], row[column]) for row in KINDS])


def paper() -> Paper:
    chips = world().chips
    chips = chips.assign(cache_byte=chips.cache_byte.where(chips.chip != SLOW, CACHE))
    slow = chips[chips.chip == SLOW]
    fast = slow.assign(chip=FAST, alias="", bandwidth_byte_per_s=2 * slow.bandwidth_byte_per_s)
    gpu = world().machine("gpu")
    machines = []
    for chip, times in ((FAST, (1, 2, 3)), (SLOW, (1.2, 2.2, 6))):
        cells = [
            {"model": f"net{k}", "batch": batch, "precision": "bf16", "status": "ok", "latency_s": time_s * batch,
             "flags": "capped;wide" if (chip, k) == (FAST, 0) else ""}
            for k, time_s in enumerate(times) for batch in (1, 8)
        ]  # fmt: skip
        named = replace(gpu.environment, name=chip)
        machines.append(replace(gpu, environment=named, folder=chip, cells=pd.DataFrame(cells)))
    operators = [
        {"model": f"net{k}", "batch": batch, "stage": "inference", "precision": "bf16", "calls": 1}
        | {"flop": 10**12 * (k == 2), "byte": 10**9 * (k < 2)}
        for k in range(3) for batch in (1, 8)
    ]  # fmt: skip
    return replace(
        world(), operators=pd.DataFrame(operators), chips=pd.concat([chips, fast]), machines=tuple(machines),
        traces=(_trace(SLOW, 5), _trace(FAST, 6), _trace(SLOW, 5, "Alone, batch 8, fp32, inference")),
    )  # fmt: skip


def test_the_gain_from_memory_by_hand():
    found = memory.of(paper())
    assert (found.first.text, found.second.text, found.bandwidth.number) == ("H100 SXM", "Twin", 2)
    # 1.2, 1.1 and 2 times as fast
    assert (found.batch.number, found.networks.number, found.speed.number) == (8, 3, pytest.approx(1.2))
    assert found.capped.number == 1  # net0, on the fast one
    # The same with one input. Bytes alone in net0 and net1, FLOP alone in net2: 2, 2 and 1 promised
    assert (found.smaller.number, found.smaller_least.name) == (1, "net1")
    assert (found.smaller_least.number, found.smaller_most.number) == pytest.approx((1.1, 2))
    assert found.roof.number == pytest.approx(2)
    assert (found.recorded.number, found.recorded_batch.text) == (1, "batch 8")
    sizes = [(each.gain.number, each.memory.number) for each in (found.fits, found.larger)]
    assert sizes == [pytest.approx((0.5 / 0.4, 1 / 0.5)), pytest.approx((1.25 / 0.75, 1 / 1.25))]
    assert (found.depthwise.gain.number, found.depthwise.memory.number) == pytest.approx((1, 0.25))
    # Kernels: 11 s over 10.2 s. From memory: 1 + 0.5 + 1 + 1 + 1 s over 0.5 + 0.25 + 0.5 + 0.5 + 1 s.
    assert found.gained.number == pytest.approx(11 / 10.2)
    assert found.promised.number == pytest.approx(4.5 / 2.75)
    assert (found.cache.number, found.cache_bandwidth.is_missing) == (CACHE, True)


def test_the_gain_of_a_single_depthwise_layer():
    about = {"model": "net2", "batch": 8, "phase": "inference", "variant": "eager", "operator": "conv2d"}
    one, machines = paper(), []
    for machine, times in zip(paper().machines, ((2, 3, 1), (3, 3, 9)), strict=True):  # the fast one, then the slow
        rows = [about | {"path": path, "precision": "fp32", "time_s": s}
                for path, s in zip(("thin", "wide", "dense"), times, strict=True)]  # fmt: skip
        machines.append(replace(machine, operators=pd.DataFrame(rows)))
    kinds = {"thin": memory.DEPTHWISE, "wide": memory.DEPTHWISE, "dense": "convolution"}
    layers = [{"model": "net2", "path": path, "layer_kind": kind} for path, kind in kinds.items()]
    found = memory.of(replace(one, machines=tuple(machines), layers=pd.DataFrame(layers)))
    assert found.depthwise_most.number == 1.5  # 3 s over 2 s; wide gains nothing, dense is no depthwise convolution


def test_the_idle_share_is_of_the_largest_batch_profiled():
    one = paper()
    about = {"status": "ok", "phase": "inference", "variant": "eager", "precision": "bf16", "plain_s": 1.0, "load": 0.0}
    passes = [("net0", 1, 0.1), ("net0", 8, 0.9), ("net1", 8, 0.75)]
    profiles = pd.DataFrame([about | {"model": model, "batch": batch, "busy_s": s} for model, batch, s in passes])
    found = memory.of(replace(one, machines=tuple(replace(each, profiles=profiles) for each in one.machines)))
    assert (found.profiled_batch.number, found.idle.number) == (8, pytest.approx(0.25))


def test_the_cache_of_the_machine_comes_before_the_datasheets():
    levels = [SimpleNamespace(bandwidth_byte_per_s=rate) for rate in (9e12, 6.7e12, 3e12)]
    caches = (CacheLevel(1, 2 * CACHE, 8), CacheLevel(2, CACHE // 2, 1))
    one = paper()
    swept = [replace(each, caches=caches, levels=levels) for each in one.machines]
    found = memory.of(replace(one, machines=tuple(swept)))
    # No activation fits 0.5 TB; relu has more than once, the others more than twice its bytes
    assert (found.cache.number, found.fits.gain.is_missing) == (CACHE // 2, True)
    assert found.larger.gain.number == pytest.approx((0.5 + 1.25) / (0.3 + 0.75))
    assert found.cache_bandwidth.number == 2  # 6.7 TB/s over 3.35 TB/s


def test_the_table_of_gains_has_the_memory_of_the_gpu_at_hand_alone():
    one = paper()
    gains = [
        {row.what: row.gain for row in interventions.table(replace(one, machines=machines)).networks.itertuples()}
        for machines in (one.machines, one.machines[::-1])  # the fast memory at hand, then the slow one
    ]
    assert [of.get("memory × 2.00, batch 8") for of in gains] == [None, pytest.approx(1.2)]


def test_the_text_tells_a_cache_from_memory_if_large_activations_gain_nearly_all():
    found = memory.of(paper())  # 1.25 and 1.67 times as fast, of 2
    assert not facts._steps_at_cache(found)
    assert facts._steps_at_cache(replace(found, larger=replace(found.larger, gain=exact(1.9))))


def test_cards_with_other_peaks_are_no_pair():
    one = paper()
    chips = one.chips.assign(peak_flop_per_s=one.chips.peak_flop_per_s.where(one.chips.chip != FAST, 1e12))
    assert memory.memories(replace(one, chips=chips)) is None
    assert memory.of(replace(one, machines=one.machines[:1])).speed.is_missing
