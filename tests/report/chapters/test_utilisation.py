"""The chapter on utilisation, from the rules of the world (tests/data/world/README.md); k counts its six networks."""

from dataclasses import replace
from statistics import median

import pandas as pd
import pytest
from helpers.world import CPU, GPU, cells_of, numbers, rows_of, world, wrong

from report import display
from report.chapters.utilisation import figures, tables
from report.chapters.utilisation.facts import batch_sizes, gap_terms

PARAMETERS = (8, 1, 7, 2, 6, 3)
SIX = range(6)
SHARE = [0.3 + 0.05 * k for k in SIX]
"""The operating system's share at 64, ten times the share at 1."""
GAIN = [2 + k / 10 for k in SIX]
LOWER = [3 + k / 10 for k in SIX]


def latency_s(k):
    """Of 64 inputs: twice 10 ms * 2^k each, twice that for k = 2 and 5."""
    return 64 * 0.02 * 2**k * (2 if k % 3 == 2 else 1)


def norm_mb(k):
    return PARAMETERS[k] / 2 + 64 * (2 * (k + 2) + k * k)


def layers_s(k):
    """Least time at 100 GFLOP/s and 10 GB/s: stem, features and head are compute-bound, the others have bytes alone."""
    return 0.64 * 2**k + (norm_mb(k) + 64 * (k + 2)) / 1e4


def test_facts_by_hand():
    layers = [layers_s(k) / latency_s(k) for k in SIX]
    shares = [0.03 + 0.005 * k for k in SIX]
    expected = {
        "roofs.peak": 1e11, "roofs.bandwidth": 1e10, "roofs.ridge": 10, "roofs.cache_gain": 500 / 10,
        "roofs.lowest": 510 / 100.504, "roofs.lowest.name": "broad", "roofs.side": "memory-bound",
        "roofs.networks": 6, "roofs.below": 0, "roofs.above": 0,
        "gap.batch": 64, "gap.networks": 6, "gap.slowdown": median(1 / each for each in layers),
        "gap.between": median(layers_s(k) / (0.64 * 2**k) for k in SIX), "gap.layers": median(layers),
        "gap.system": 0.425, "gap.host": None,
        "gap.rest": median(1 - each - share for each, share in zip(layers, SHARE, strict=True)),
        "gap.nearest": layers[0], "gap.nearest.name": "MobileNet-v2", "gap.farthest": layers[5],
        "gap.farthest.name": "ResNet-50", "gap.first_batch": 1,
        "gap.first_system": median([*shares, 0.1, 0.1]),  # with lean and deep
        "gap.drift": 1.02,
        # An input takes 0.8 of the time at 8, and twice the time at 64
        "batching.eager": 0.4, "batching.losing": 6, "batching.of": 6,
        "batching.kept": median(0.4 * gain / 1.25 for gain in GAIN),
        "gains.kept": 2.25, "gains.kept_surely": 6, "gains.kept_of": 6, "gains.kept_most": 2.5,
        "gains.kept_most.name": "ResNet-50", "gains.expected": median(1 / (1 - share) for share in SHARE),
        "gains.excess": median(gain * (1 - share) for gain, share in zip(GAIN, SHARE, strict=True)),
        # Ranks 1 to 12 of the shares; of the gains 6 to 1, for 1.1 - k / 100 at batch size 1, and 7 to 12
        "gains.agreement": 1 - 6 * 2 * (25 + 9 + 1) / (12 * 143),
        "gains.lower": 3.25, "gains.both": 3.25 * 1.5,
        "gains.lower_kept": median(1.5 * lower / gain for lower, gain in zip(LOWER, GAIN, strict=True)),
        # 64 inputs of 1 GFLOP and 0.501 MB each, 32 MB of parameters; bytes between layers 10.1 * 2 MB each
        "example.network": "MobileNet-v2", "example.peak": 1e11, "example.bandwidth": 1e10, "example.flop": 64e9,
        "example.arithmetic": 0.64, "example.byte": 64.064e6, "example.transfer": 6.4064e-3,
        "example.traffic": 32e6 + 64 * 20.2e6, "example.layers": layers_s(0), "example.latency": 1.28,
        "example.system": 0.3 * 1.28, "example.faults": 64_000, "example.threads": 2,
        "example.fault": 0.3 * 1.28 * 2 / 64_000, "example.rest": 0.7 * 1.28 - layers_s(0),
        # The profiler makes 1.02 of 1.2; depthwise layers take 0.4 of the time for 16 MB of parameters and 64 * 10 MB
        "reference.depthwise": 656e6 / (0.4 * 1.28 * 1.02 / 1.2), "reference.depthwise.name": "MobileNet-v2",
        "reference.normalisation": median(
            norm_mb(k) * 1e6 / ((0.15 + k / 100) * latency_s(k) * 1.02 / 1.2) for k in SIX
        ),
        "reference.most": 0.55, "reference.most.name": "ResNet-50", "reference.faulted": 6000 * 64 * 4096,
        "reference.read": 8e9, "reference.copy": 8e9,
        "reference.read_cache": 200e9,
    }  # fmt: skip
    assert wrong("utilisation", world(), expected) == {}


def test_networks_above_a_roof_show_that_it_is_too_low():
    machine = world().at_hand
    low = {"peak_flop_per_s": 5e10, "peak_low_flop_per_s": 4e10, "peak_high_flop_per_s": 6e10}
    disturbed = replace(machine, roofs=machine.roofs.assign(**low))
    others = tuple(each for each in world().machines if each is not machine)
    # The six reach 62.5 or 125 GFLOP/s at batch size 8, broad 85, deep 125, tokens 80 at 1; lean 50 at most
    paper = replace(world(), machines=(disturbed, *others))
    assert wrong("utilisation", paper, {"roofs.above": 9}) == {}


def test_facts_of_a_gpu_by_hand():
    # Kernels are busy for 0.9 - 0.05 k of a latency, a plain call takes 1.02 of it; 32 TFLOP/s at bf16 over 8 at fp32
    idle = median(1 - (0.9 - 0.05 * k) / 1.02 for k in SIX)
    expected = {
        "roofs.lower": "bf16", "roofs.lower_gain": 4, "roofs.side": "compute-bound", "gap.host": idle,
        "gap.system": None, "example.system": 0.02 * (1 - 0.9 / 1.02), "example.faults": None, "gains.kept": None,
        "batching.eager": (64 / 20) / (8 / 4),  # 4 times the time of one input at 8, 20 times at 64
    }  # fmt: skip
    assert wrong("utilisation", world(chosen=(GPU, CPU)), expected) == {}


def test_the_terms_of_a_gap_sum_to_the_latency():
    terms = gap_terms(world().machine("cpu"))
    sums = terms.whole_s + terms.between_s + terms.outside_s + terms.rest_s
    assert sums.tolist() == pytest.approx(terms.latency_s.tolist())
    gpu = world().machine("gpu")
    busy = replace(gpu, profiles=gpu.profiles.assign(busy_s=2 * gpu.profiles.plain_s))
    assert set(gap_terms(busy).outside) == {0}  # never below none, though kernels overlap


@pytest.mark.parametrize(("profiled", "networks"), [(True, 5), (False, 1)])
def test_a_larger_batch_with_too_few_networks_does_not_count(profiled, networks):
    """Profiles of six are needed; without any, the batch sizes count that most networks have."""
    cpu = world().machine("cpu")
    models = set(list(cpu.profiles.model[cpu.profiles.batch == 64])[:networks])

    def larger(rows):
        return pd.concat([rows, rows[(rows.batch == 64) & rows.model.isin(models)].assign(batch=256)])

    profiles = larger(cpu.profiles) if profiled else cpu.profiles[:0]
    changed = replace(cpu, cells=larger(cpu.cells), profiles=profiles)
    assert batch_sizes(changed) == (1, 8, 64)
    found = numbers("utilisation", replace(world(), machines=(changed,)))
    assert (found["gap.batch"], found["batching.eager"]) == (64 if profiled else None, pytest.approx(0.4))


def test_figures_and_tables_show_the_facts():
    bars = rows_of(figures.gap.__wrapped__(world()), "network", "share")
    assert bars[0][0] == "ResNet-50"  # the largest share of the system
    for network in {name for name, _ in bars}:
        assert sum(share for name, share in bars if name == network) == pytest.approx(1, abs=1e-4)
    points = rows_of(figures.kept.__wrapped__(world()), "network", "size", "outside", "speed_up")
    assert {row[:2]: row[2:] for row in points}["ResNet-50", "64"] == pytest.approx((0.55, 2.5))
    rates = [rate for (rate,) in rows_of(figures.streams.__wrapped__(world()), "rate")]
    assert pytest.approx(numbers("utilisation", world())["reference.normalisation"], rel=1e-5) in rates
    machine = world().at_hand
    capped = replace(machine, roofs=machine.roofs.assign(peak_note=" (power cap)"))
    roofs = cells_of(tables.roofs.__wrapped__(replace(world(), machines=(capped, *world().machines[1:]))))
    assert (roofs["fp32"][0], roofs["memory"][0]) == ("multiply-add (power cap)", "triad")
    both = next(line for line in tables.gains.__wrapped__(world()).splitlines() if "memory kept and bf16" in line)
    assert "`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1`, `model.bfloat16()`" in both
    assert both.rstrip(" |").split("| ")[-1].startswith("4\\.9")


def test_without_a_cell_no_operator_moves_bytes():
    machine = world().machine("cpu")
    with pytest.raises(display.Missing):
        figures.streams.__wrapped__(replace(world(), machines=(replace(machine, cells=machine.cells[:0]),)))


def test_figures_and_tables_of_roofs_and_throughput():
    roofs = cells_of(tables.roofs.__wrapped__(world()))
    assert roofs["fp32"] == ["multiply-add", "100 (80–125) GFLOP/s"]
    assert (roofs["L1"], roofs["memory"]) == (["triad", "500 GB/s"], ["triad", "10.0 (8.0–12.0) GB/s"])
    points = rows_of(figures.roofs.__wrapped__(world()), "network", "flop_per_s", "compulsory_intensity")
    # 64 inputs of 2 GFLOP in 2.56 s; 4 MB of parameters, and 0.501 an input
    assert ("ResNet-18", 50e9, pytest.approx(64 * 2000 / (4 + 64 * 0.501), rel=1e-5)) in points
    rates = rows_of(figures.throughput.__wrapped__(world()), "network", "batch", "ratio")
    # Over batch size 8; with memory kept the gain is 2.1 at 64 and 1.25 at 8
    last = [ratio for network, batch, ratio in rates if (network, batch) == ("ResNet-18", 64)]
    assert last == pytest.approx([0.4, 0.4 * 2.1 / 1.25])
    levels = rows_of(figures.sweep.__wrapped__(world()), "name", "last")
    assert levels == [("L1", 60e3), ("L2", 1.92e6), ("memory", 24e6)]
    bf16, kept = (cells_of(tables.gains.__wrapped__(world()))[name] for name in ("bf16", "memory kept"))
    assert bf16[:3] == ["`model.bfloat16()`", "–", "–"]
    assert bf16[3].startswith("3.25")
    assert [value.split()[0] for value in kept[1:]] == ["1.075", "1.25", "2.25"]
