"""The chapter on training, from the rules of the world (tests/data/world/README.md).

Steps at batch size 8 take, forward + backward + update in ms: lean 10 + 24 + 2, deep 400 + 1000 + 20, broad 50 + 98 +
12; network k of the six f + (1.8 + k / 10) f + (k + 1), where f is 64 ms * 2^k, twice that for k = 2 and 5.
"""

from dataclasses import replace
from statistics import median

import pandas as pd
import pytest
from helpers.world import nothing, rows_of, world, wrong

from report.chapters.training import costs, figures
from report.chapters.training.costs import agreeing
from report.chapters.training.facts import _kinds
from report.charts.panels import specified

SIX = range(6)
PARAMETERS = (8, 1, 7, 2, 6, 3)


def cpu():
    return world().machine("cpu")


def test_facts_by_hand():
    forward = [64 * 2**k * (2 if k % 3 == 2 else 1) for k in SIX]
    step = [f * (2.8 + k / 10) + k + 1 for k, f in enumerate(forward)]
    over = [*(s / f for s, f in zip(step, forward, strict=True)), 36 / 10, 1420 / 400, 160 / 50]
    flop = [*[2.9] * 6, 2.9, 119.2 / 40, 12.112 / 4.08]  # of the whole step over the forward pass
    # At 100 GFLOP/s: 8 * 2^k * 2.9 GFLOP; 2.32, 119.2 and 12.112
    arithmetic = [*(80 * 2**k * 2.9 for k in SIX), 23.2, 1192, 121.12]
    # MB of 64 inputs: parameters, their gradients and momentum 4 P each; saved 0.96 and 0.1 more, times k + 1
    state = [12 * p for p in PARAMETERS]
    peak = [held + 64 * 1.06 * (k + 1) for k, held in enumerate(state)]
    inference = [4 * p + 64 * ((k + 1) / 2 + 0.5) for k, p in enumerate(PARAMETERS)]
    # ResNet-18 at 8 inputs: 0.1, 0.8 and 0.1 of 160 ms; bytes of norm and pool in MB over 10 GB/s: 0.5 + 8 * 7 and
    # 8 * 3; backward 160, 1280 and 160, and twice the bytes
    operators = (160 + 5.65 + 2.4 + 304 + 11.3 + 4.8) / 1e3
    expected = {
        "counts.networks": 6, "counts.first_layer": 6,
        "step.networks": 9, "step.over_forward": median(over), "step.flop_over_forward": 2.9,
        "step.excess": median(one / other for one, other in zip(over, flop, strict=True)),
        "step.over_flop_bound": median(
            ms / least for ms, least in zip([*step, 36, 1420, 160], arithmetic, strict=True)
        ),
        "step.time_ratio": median([2.4, 2.5, 1.96, *(1.8 + k / 10 for k in SIX)]), "step.flop_ratio": 1.9,
        "step.agreeing": 2,  # 1.9 of ResNet-18, and 1.96 against 1.969 of broad; 2.0 is 5.3 % off
        "kinds.convolution": median([2, 2.5, *(1.8 + k / 10 for k in SIX)]),
        "kinds.normalisation": median([3, *(1.8 + k / 10 for k in SIX)]),
        "kinds.pooling": median((1.8 + k / 10) * 0.1 / (0.1 + k / 100) for k in SIX),
        "shares.networks": 8, "shares.time_kind": "convolution", "shares.time_first": 7,  # MobileNet-v2: depthwise
        "shares.memory_kind": "convolution",
        "memory.batch": 64, "memory.peak_over_inference": median(a / b for a, b in zip(peak, inference, strict=True)),
        "memory.saved_share": median(64 * 0.96 * (k + 1) / each for k, each in enumerate(peak)),
        "memory.most_state": state[0] / peak[0], "memory.most_state.name": "MobileNet-v2",
        "memory.halved": median((held + each) / 2 / each for held, each in zip(state, peak, strict=True)),
        # The head reads 0.1 (k + 2) MB and writes 0.02 (k + 1)
        "memory.frozen_share": (0.2 - 0.02) / 0.96, "memory.frozen_step": 1.1 / 2.9,
        "memory.measured_off": 0.1,  # 66 MB of lean measured, 60 counted
        "example.model": "ResNet-18", "example.batch": 8, "example.forward": 16e9, "example.backward": 30.4e9,
        "example.flop_s": 0.464, "example.operators_s": operators, "example.parameters": 4e6, "example.update": 20e6,
        "example.update_s": 0.002, "example.bound_s": operators + 0.002, "example.measured": step[1] / 1e3,
        "example.over": step[1] / 1e3 / (operators + 0.002),
        # Both passes of features: 6.4 + 12.8 GFLOP in half of 64 * 2.8 ms; stem and features backward: (1 + 16) * 1.6
        # GFLOP in 0.6 of 128 * 1.9 ms
        "first.model": "MobileNet-v2", "first.group": "depthwise convolution",
        "first.of_peak": 19.2e9 / (0.5 * 0.064 * 2.8) / 1e11,
        "second.model": "ResNet-18", "second.group": "convolution, both gradients",
        "second.of_peak": 27.2e9 / (0.6 * 0.128 * 1.9) / 1e11,
        # lean: 8 MB read from DRAM and 4 written; of the 20 MB that operators move three quarters are reads
        "counters.machine": "Bead 2", "counters.network": "lean", "counters.batch": 1, "counters.read": 8 / 15,
        "counters.network_read": 8 / 15, "counters.network_written": 4 / 5,
        "gpus.devices": 1, "gpus.fp32": 3.25, "gpus.fp16": 3.25,
        # The recorded step, at the rates of an MI300X: forward a second of arithmetic takes 4 s, half a second of bytes
        # 1 s; backward 2.5 s of arithmetic, a fifth of it computed again, take 8 s, and half a second of bytes 3 s;
        # collectives take 48 s, and an update without counts 1 s
        "recorded.network": "A step", "recorded.chip": "Instinct MI300X",
        "recorded.kernel_time": 16 / 8, "recorded.products": 3.5 / 12, "recorded.normalisation": 1 / 4,
        "recorded.closest": 1 / 2, "recorded.closest.name": "normalisation, forward",
        "reference.pooling_time": 0.12 / (0.1 + 0.5 + 0.18 + 0.12 + 0.05), "reference.pooling_flop": 5 / 4015,
        "reference.depthwise": 1, "reference.depthwise_above": 0, "reference.apart": 7,
        "problems.model": "ResNet-18", "problems.forward": 128e9, "problems.first": 12.8e9, "problems.ratio": 1.9,
        "problems.fixed": 12e6, "problems.input": 2.12e6, "problems.batch": (8000 - 12) // 2.12,
    }  # fmt: skip
    assert wrong("training", world(), expected) == {}


def test_layers_run_in_order_with_the_time_of_all_operators():
    rows = costs.layers(world(), cpu())
    lean = rows[rows.model == "lean"]
    assert lean.path.tolist() == ["features", "act", "head"]
    assert lean.forward_time_s.tolist() == pytest.approx([0.006, 0.001, 0.002])
    assert lean.backward_time_s.tolist() == pytest.approx([0.012, 0.004, 0.005])  # the head's 3 and 2 ms
    assert lean.backward_flop.tolist() == [1360e6, 160e6, 160e6]  # products, and the activation's other FLOP
    assert lean.forward_byte.tolist() == [25e6, 19.2e6, 3.8e6]  # parameters 1, 0 and 3 MB
    assert lean.backward_byte.tolist() == [5e6, 35.2e6, 3.8e6]  # saved 4, 35.2 and 0.8 MB
    assert "broad" in set(costs.steps(cpu()).model) - set(rows.model)  # measured, and not profiled
    # A layer that the profiler did not see takes no time
    rows = costs.layers(world(), replace(cpu(), operators=cpu().operators[cpu().operators.path != "act"]))
    assert rows[(rows.model == "lean") & (rows.path == "act")].forward_time_s.tolist() == [0.0]


def test_the_largest_part_of_the_gap_names_the_kind():
    # lean takes 2.4 times the time and 1.9 times the FLOP. Off by: convolution 12 - 1.9 x 6 = 0.6, activation
    # 4 - 1.9 = 2.1, linear 5 - 3.8 = 1.2 ms. deep, 1.98 times the FLOP: 900 - 713, 60 - 40, 25 - 24.
    found = costs.causes(world(), cpu())
    assert (found["lean"], found["deep"]) == ("activation", "convolution")
    quick = replace(cpu(), steps=cpu().steps.assign(time_ratio=0.5))  # now the gap is below, linear or not
    assert costs.causes(world(), quick)["lean"] == "convolution"


def test_attention_moves_more_bytes_backward(monkeypatch):
    rows = [("attention", 2.0, ratio) for ratio in (2.0, 2.5, 3.0)] + [("convolution", 2.0, 1.5)]
    found = pd.DataFrame(rows, columns=["layer_kind", "time_ratio", "byte_ratio"])
    monkeypatch.setattr(costs, "seen", lambda _paper, _machine: found)
    assert _kinds(world(), None).attention_bytes.number == 2.5


def test_a_time_ratio_agrees_by_interval_or_within_five_per_cent():
    rows = pd.DataFrame({
        "time_ratio": [2.0, 2.2, 2.2], "time_ratio_low": [1.99, 1.9, 2.1], "time_ratio_high": [2.01, 2.5, 2.3],
        "flop_ratio": [1.95, 1.95, 1.95],
    })  # fmt: skip
    assert agreeing(rows).tolist() == [True, True, False]


def test_only_timings_that_differ_in_the_phase_are_compared():
    found = costs.published_ratios(world())
    # Six oaks at both precisions; the autocast steps of 4 have no inference of 4
    assert sorted(found.ratio) == pytest.approx(sorted([3 + k / 10 for k in SIX] * 2))
    assert costs.counter_machine(nothing()) is None


def test_parts_of_memory_sum_to_all_of_it():
    shares = rows_of(figures.memory.__wrapped__(world()), "network", "share")
    for network in {name for name, _ in shares}:
        assert sum(share for name, share in shares if name == network) == pytest.approx(1, abs=1e-4)


def test_the_roof_alone_sets_the_axes_of_the_operators():
    """10 FLOP/B on the example CPU. Groups far to the right of 200 times that are still on the plane."""
    chart = figures.kernels.__wrapped__(world())
    slopes = {level: ends for level, *ends in rows_of(chart, "level", "intensity", "rate")}
    assert slopes["L1"] == [0.2, 100e9]  # 500 GB/s meet the peak
    drawn = specified(chart)
    layers = [layer for content in drawn["concat"] for layer in content["layer"] if "encoding" in layer]
    low, high = layers[0]["encoding"]["x"]["scale"]["domain"]
    assert low == pytest.approx(10 / 200, rel=0.2)
    assert high >= 200 * 10
    assert all(layer["encoding"]["x"]["scale"]["domain"] == [low, high] for layer in layers)
    assert {param["name"] for param in drawn["params"]} == {"left", "right", "only", "level", "least"}


def test_marks_of_a_recorded_step_are_the_kinds_of_both_passes():
    marks = sorted(rows_of(figures.recorded.__wrapped__(world()), "kind", "share"))
    assert marks == [("convolution", pytest.approx(4 / 16)), ("convolution", pytest.approx(8 / 16))]  # others: no FLOP


def test_small_slices_are_one_and_last():
    # Of 100: 60, 30, and 4 + 3 + 3 as "other"
    amounts = {"b": 30, "a": 60, "c": 4, "d": 3, "other": 3, "none": 0}
    rows = pd.DataFrame({"network": "net", "layer_kind": amounts.keys(), "time": amounts.values()})
    cut = figures.slices(rows, "time")
    assert [*zip(cut.kind, cut.share, strict=True)] == [("a", 0.6), ("b", 0.3), ("other", pytest.approx(0.1))]


def test_a_group_has_a_rate_only_where_its_work_was_counted():
    rows = costs.groups(world(), cpu())
    lean = rows[rows.model == "lean"].set_index("group")
    # 240 MFLOP in 3 + 2 ms on 57 MB; an activation and the update, 0 FLOP and the latter 0 B, are on no roofline
    assert lean.flop_per_s["matrix product"] == pytest.approx(240e6 / 0.005)
    assert lean.intensity["matrix product"] == pytest.approx(240 / 57)
    assert lean.loc[["elementwise", "optimiser"], ["flop_per_s", "intensity"]].isna().all(axis=None)


def test_the_kinds_in_the_figure_of_ratios_are_medians_over_networks():
    chart = figures.ratios.__wrapped__(world())
    # Backward a stem has its FLOP once, features twice: 1.7 over 0.9; the median of that, 776 / 392 of deep, and 1 of
    # MobileNet-v2, whose features are depthwise. The other kinds have no products. All bytes twice
    flop = {"convolution (8)": 17 / 9, "depthwise convolution (1)": 2, "linear (8)": 2}
    assert dict(rows_of(chart, "kind", "flop")) == pytest.approx(flop)
    kinds = [kind for kind, _ in rows_of(chart, "kind", "time")]
    assert kinds[:2] == ["activation (1)", "normalisation (7)"]  # the highest ratio of time first
    assert dict(rows_of(chart, "kind", "byte")) == pytest.approx(dict.fromkeys(kinds, 2))


def test_figures_of_passes_have_shares_of_their_sum():
    # Forward 0.95 of AlexNet's 1.024 s, its layers 0.1, 0.5, 0.16, 0.14, 0.05; backward 2.2 times 0.91 of it
    strip = rows_of(figures.strip.__wrapped__(world()), "network", "path", "up", "down")
    features = [row[2:] for row in strip if row[:2] == ("AlexNet", "features")]
    assert features[0] == pytest.approx((0.5 / (0.95 + 2.2 * 0.91), -2.2 * 0.5 / (0.95 + 2.2 * 0.91)), rel=1e-5)
    # In FLOP: 0.1, 0.8 and 0.1 forward, 0.1, 1.6 and 0.2 backward, and 15 M of 16 G others
    assert features[1] == pytest.approx((0.8 / 2.9, -1.6 / 2.9), rel=3e-3)
    pies = rows_of(figures.pies.__wrapped__(world()), "network", "of", "kind", "share")
    found = {kind: share for network, of, kind, share in pies if (network, of) == ("MobileNet-v2", "time, forward")}
    assert (found["depthwise convolution"], found["pooling"]) == pytest.approx((0.5 / 0.95, 0.1 / 0.95), rel=1e-5)
    # 4.096 s forward: 3.3 times that, and 6 ms; 8 inputs of 32 GFLOP times 2.9 at 100 GFLOP/s
    steps = rows_of(figures.steps.__wrapped__(world()), "network", "latency_s", "flop_bound_s")
    assert ("ResNet-50", pytest.approx(3.3 * 4.096 + 0.006), pytest.approx(7.424)) in steps
