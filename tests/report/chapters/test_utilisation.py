"""The gap's terms sum to the latency, and the chapter's numbers are those of hand arithmetic."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, tiny

from report import display, facts
from report.chapters.utilisation import figures, tables
from report.chapters.utilisation.facts import batch_sizes, gap_terms, of

MODELS = ("mobilenet_v2", "resnet18", "vgg11", "vgg16", "alexnet", "swin_t")
SHARES = (0.55, 0.3, 0.35, 0.4, 0.45, 0.5)
"""The operating system's share in each model's profile at batch size 64; a tenth of that at batch size 1."""


def cell(model, batch, latency_s, precision="fp32", variant="eager", speed_up=float("nan")):
    """A cell of 0.2 GFLOP, 1 MB and 20 MB of traffic an input.

    At the 100 GFLOP/s and 10 GB/s of ``tiny`` the arithmetic takes 2 ms; operators one by one are given 3 ms.
    """
    return {
        "model": model, "batch": batch, "precision": precision, "variant": variant, "phase": "inference",
        "status": "ok", "latency_s": latency_s, "latency_low_s": 0.9 * latency_s, "latency_high_s": 1.1 * latency_s,
        "throughput_per_s": batch / latency_s, "forward_flop": 2e8 * batch, "compulsory_byte": 1e6 * batch,
        "traffic_byte": 2e7 * batch, "compulsory_intensity": 200.0, "traffic_intensity": 10.0 - (model == "vgg11"),
        "flop_per_s": 2e8 * batch / latency_s, "model_bound_s": 0.002 * batch, "operator_bound_s": 0.003 * batch,
        "speed_up": speed_up, "speed_up_low": 0.9 * speed_up, "speed_up_high": 1.1 * speed_up,
    }  # fmt: skip


def profile(model, batch, plain_s, system_s, busy_s=0.0):
    return {
        "model": model, "batch": batch, "precision": "fp32", "variant": "eager", "phase": "inference", "status": "ok",
        "plain_s": plain_s, "profiled_s": 2 * plain_s, "busy_s": busy_s, "system_s": system_s, "page_faults": 1000.0,
    }  # fmt: skip


def machine():
    """Six networks: 10 ms an input at batch sizes 1 and 8, 20 ms at 64; with memory kept 8 ms, so 1.25 and 2.5 times
    as fast; at bf16 4 ms, with memory kept 2 ms. Two threads took ``SHARES`` of a profiled call of 2 s at 64.
    """
    cells = [cell(model, batch, 0.01 * batch) for model in MODELS for batch in (1, 8)]
    cells += [cell(model, 64, 0.02 * 64) for model in MODELS]
    cells += [cell(model, 64, 0.004 * 64, "bf16") for model in MODELS]
    kept = [
        cell(model, batch, 0.008 * batch, variant="kept_memory", speed_up=speed_up)
        for model in MODELS
        for batch, speed_up in ((1, 1.25), (8, 1.25), (64, 2.5))
    ]
    kept += [cell(model, 64, 0.002 * 64, "bf16", "kept_memory", 2.0) for model in MODELS]
    profiles = [profile(model, 64, 2.0, 2 * 2.0 * share) for model, share in zip(MODELS, SHARES, strict=True)]
    profiles += [profile(model, 1, 0.01, 2 * 0.01 * share / 10) for model, share in zip(MODELS, SHARES, strict=True)]
    frames = map(pd.DataFrame, (cells, kept, profiles))
    given = dict(zip(("cells", "variants", "profiles"), frames, strict=True))
    cpu = tiny().machine("cpu")
    return replace(cpu, environment=replace(cpu.environment, threads=2), **given)


def paper(*machines):
    """The tiny paper with these machines; its reference is empty, so that nothing else is read."""
    made = replace(tiny(), machines=machines)
    vars(made)["reference"] = empty()
    return made


def test_the_terms_of_a_gap_sum_to_the_latency_whatever_the_profiled_process_took():
    terms = gap_terms(machine())
    assert (terms.whole_s + terms.between_s + terms.outside_s + terms.rest_s).tolist() == pytest.approx(
        terms.latency_s.tolist()
    )
    # 64 inputs: a roof of 128 ms, 64 ms more layer by layer, 55 % of 1.28 s in the system; 384 ms remain
    row = terms[(terms.model == "mobilenet_v2") & (terms.batch == 64)].iloc[0]
    found = [row.whole_s, row.between_s, row.outside_s, row.rest_s]
    assert found == pytest.approx([0.128, 0.064, 0.704, 0.384])


def test_on_a_gpu_the_third_term_is_the_time_without_a_kernel():
    gpu = tiny().machine("gpu")
    profiles = pd.DataFrame([profile("vgg11", 1, 0.01, 5.0, busy_s=0.006), profile("vgg16", 1, 0.01, 5.0, busy_s=0.02)])
    cells = pd.DataFrame([cell("vgg11", 1, 0.02), cell("vgg16", 1, 0.02)])
    shares = gap_terms(replace(gpu, cells=cells, profiles=profiles)).outside
    assert shares.tolist() == pytest.approx([0.4, 0])  # never below none, though kernels overlap


def test_the_gap_is_taken_apart_at_the_largest_batch_size_that_enough_networks_were_profiled_at():
    known = machine()
    assert batch_sizes(known) == (1, 8, 64)
    few = pd.DataFrame([cell(model, 256, 6.0) for model in MODELS[:5]])
    more = pd.DataFrame([profile(model, 256, 6.0, 1.0) for model in MODELS[:5]])
    larger = replace(known, cells=pd.concat([known.cells, few]), profiles=pd.concat([known.profiles, more]))
    assert batch_sizes(larger) == (1, 8, 64)


def test_without_profiles_the_largest_batch_size_that_most_networks_have_stands_in():
    known = machine()
    few = pd.DataFrame([cell("vgg11", 256, 6.0)])
    unprofiled = replace(known, cells=pd.concat([known.cells, few]), profiles=known.profiles[:0])
    assert batch_sizes(unprofiled) == (1, 8, 64)
    found = of(paper(unprofiled))
    assert found.gap.system.is_missing
    assert found.gap.batch.is_missing
    assert found.batching.eager.number == pytest.approx(0.5)


def test_shares_and_gains_are_medians_over_networks():
    found = of(paper(machine()))
    assert found.gap.system.number == pytest.approx(0.425)  # between 40 and 45 %
    assert found.gap.first_system.number == pytest.approx(0.0425)
    assert found.gap.layers.number == pytest.approx(0.15)  # 192 ms of 1.28 s
    assert found.gap.between.number == pytest.approx(1.5)
    assert found.gap.drift.number == pytest.approx(2 / 1.28)
    assert found.gap.host.is_missing
    assert found.gains.kept.number == pytest.approx(2.5)
    assert found.gains.kept_surely.number == 6
    assert found.gains.expected.number == pytest.approx((1 / 0.6 + 1 / 0.55) / 2)
    assert found.gains.excess.number == pytest.approx((2.5 * 0.6 + 2.5 * 0.55) / 2)
    assert found.gains.lower.number == pytest.approx(5)  # 20 ms over 4 ms
    assert found.gains.both.number == pytest.approx(10)
    assert found.gains.lower_kept.number == pytest.approx(4)


def test_batching_compares_with_the_batch_size_that_shares_most_networks():
    found = of(paper(machine())).batching
    assert (found.small.number, found.large.number) == (8, 64)
    assert found.eager.number == pytest.approx(0.5)
    assert found.kept.number == pytest.approx(1)
    assert (found.losing.number, found.of.number) == (6, 6)


def test_networks_lie_on_their_side_of_the_ridge_by_either_intensity():
    found = of(paper(machine())).roofs
    assert str(found.side) == "compute-bound"  # 200 FLOP/B, above a ridge of 10
    assert (found.below.number, found.networks.number) == (1, 6)  # VGG-11, 9 FLOP/B layer by layer


def test_the_worked_example_can_be_redone_on_paper():
    found = of(paper(machine())).example
    assert str(found.network) == "MobileNet-v2"
    assert found.arithmetic.number == pytest.approx(12.8e9 / 100e9)
    assert found.transfer.number == pytest.approx(64e6 / 10e9)
    assert found.system.number == pytest.approx(0.704)
    assert found.faults.number * found.fault.number / found.threads.number == pytest.approx(0.704)
    whole = found.layers.number + found.system.number + found.rest.number
    assert whole == pytest.approx(found.latency.number)


def test_nothing_measured_leaves_no_fact_but_a_command_for_each():
    made = paper()
    found = facts.of_chapter("utilisation", made)
    values = [value for key, value, _ in facts.entries("utilisation", found) if "reference" not in key]
    assert all(value.is_missing for value in values)
    assert all(value.source.command.startswith("python -m measure") for value in values)
    for make in (figures.roofs, figures.gap, figures.kept, figures.streams, tables.gains, tables.roofs):
        with pytest.raises(display.Missing) as gap:
            make.__wrapped__(made)
        assert gap.value.command.startswith("python -m measure")


def bars_of(figure):
    """The rows of a figure's bars."""
    bars = next(layer for layer in figure["layer"] if layer.get("mark", {}).get("type") == "bar")
    return figure["datasets"][bars["data"]["name"]]


def test_the_bars_of_the_gap_fill_their_row_and_the_largest_system_share_is_first():
    rows = bars_of(figures.gap.__wrapped__(paper(machine())))
    assert rows[0]["network"] == "MobileNet-v2"
    for model in {row["network"] for row in rows}:
        assert sum(row["share"] for row in rows if row["network"] == model) == pytest.approx(1, abs=1e-4)


def test_the_table_of_gains_names_the_settings():
    lines = tables.gains.__wrapped__(paper(machine())).splitlines()
    both = next(line for line in lines if line.startswith("| memory kept and bf16"))
    assert "`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1`, `model.bfloat16()`" in both
    assert both.rstrip(" |").endswith("10\\.0")
