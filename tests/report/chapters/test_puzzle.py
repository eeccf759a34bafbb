"""The chapter on the puzzle: MobileNet-v2 against ResNet-18, from the rules of the world."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import rows_of, world, wrong

from report.chapters.puzzle import figures
from report.chapters.puzzle.facts import _on_gpu, compared, here, of


def test_facts_by_hand():
    # An image moves at fp16, in a batch of 8: (4 + 7 * 0.4 + 8 * 16) / 2 / 8 MB, and (9 + 7 * 0.9 + 8 * 6) / 2 / 8 MB
    light, heavy = (4 + 2.8 + 128) / 16 * 1e6, (9 + 6.3 + 48) / 16 * 1e6
    expected = {
        # 1 and 2 GFLOP. At bf16 the layers of MobileNet-v2 move 2 * 10.1 MB, half of that, and 16 MB of parameters
        # for 64 inputs
        "needs.light_flop": 1e9, "needs.heavy_flop": 2e9, "needs.fewer": 2, "needs.light_byte": 10.1e6 + 16e6 / 64,
        # 80 / 60 on three devices, and 0.9, 1.0 and 1.1 ms over 0.8 ms on A1, C3 and D4
        "elsewhere.devices": 6, "elsewhere.slower": 6,
        "bounds.device": "Bead 2", "bounds.peak": 1e14, "bounds.bandwidth": 1e12,
        "bounds.light_arithmetic": 0.6e9 / 1e14, "bounds.heavy_arithmetic": 3.6e9 / 1e14,
        "bounds.light_bytes": light / 1e12, "bounds.heavy_bytes": heavy / 1e12,
        "bounds.light_intensity": 0.6e9 / light,
        "bounds.light": 80e-6, "bounds.heavy": 60e-6,
        # Products, 6 and 36 us of arithmetic, and then the other layers' 8 and 3 MB
        "bounds.light_share": (6 + 8) / 80, "bounds.heavy_share": (36 + 3) / 60,
        # 8.425 MB an input: 8 of them take 0.67 of 0.9 ms on A1, with 100 GB/s; one takes 40 us on Cog 3, with 20 TB/s
        "elsewhere.by_bytes": 1, "elsewhere.batch": 8, "elsewhere.other_batch": 8,
        "problems.by_bytes": light / heavy, "problems.measured": 80 / 60, "problems.needed": 1e14 / (0.6e9 / light),
        # 64 inputs of 20 and 40 ms; with memory kept they are 2 and 2.1 times as fast
        "here.batch": 64, "here.ratio": 0.5, "here.kept": 0.5 * 2.1 / 2,
        "reference.ratio": 0.5,
    }  # fmt: skip
    assert wrong("puzzle", world(), expected) == {}


def test_conditions_have_to_agree_and_the_newest_software_counts():
    others = world().published
    rows = others.timings[(others.timings.device == "Bead 2") & (others.timings.computed == "fp16")]
    light, heavy = (rows[rows.model == f"timm:{name}"].head(1) for name in ("mobilenetv2_100", "resnet18"))
    apart = [light.assign(device="Apart", torch="2.8"), heavy.assign(device="Apart", torch="2.9")]
    older = [light.assign(torch="2.3", latency_s=9.0), heavy.assign(torch="2.3", latency_s=2.0)]
    unknown = [each.assign(device="Unknown", attained=None) for each in (light, heavy)]  # no datasheet
    timings = pd.concat([others.timings, *apart, *older, *unknown], ignore_index=True)
    paper = replace(world(), published=replace(others, timings=timings))
    found = compared(paper).set_index("device").ratio
    assert not {"Apart", "Unknown"} & set(found.index)
    assert found["Bead 2"] == pytest.approx(80 / 60)
    # Networks of torchvision are compared too
    names = {"timm:mobilenetv2_100": "mobilenet_v2", "timm:resnet18": "resnet18"}
    timings = others.timings.assign(model=others.timings.model.replace(names))
    kinds = others.kinds.assign(model=others.kinds.model.replace(names))
    assert len(compared(replace(world(), published=replace(others, timings=timings, kinds=kinds)))) == 6


@pytest.mark.parametrize(("batches", "batch"), [((8,), 8), ((), 64)])
def test_here_takes_the_largest_batch_with_memory_kept(batches, batch):
    machine = world().machine("cpu")
    found = here(replace(machine, variants=machine.variants[machine.variants.batch.isin(batches)]))
    assert (found.batch.number, found.kept.is_missing) == (batch, not batches)
    assert found.ratio.number == pytest.approx(0.5)


def test_figures_show_the_ratios_and_the_life_of_operators():
    rows = {label: rest for label, *rest in rows_of(figures.ratios.__wrapped__(world()), "label", "ratio", "decided")}
    assert rows["A1, 8"] == [pytest.approx(0.9 / 0.8), figures.MOST]
    assert rows["Cog 3, 8"] == [pytest.approx(80 / 60, rel=1e-5), figures.LESS]
    blocks = rows_of(figures.life.__wrapped__(world()), "lane", "operator", "from", "to")
    # The first network: each operator is launched in 3 units and computed in 0.7 of them, its bytes take 1
    assert blocks[:6] == [
        ("host", 1, 0, 3), ("arithmetic", 1, 3, 3.7), ("memory", 1, 3, 4),
        ("host", 2, 3, 6), ("arithmetic", 2, 6, 6.7), ("memory", 2, 6, 7),
    ]  # fmt: skip


def test_words_depend_on_the_ratios():
    # A GPU of one precision; the processor at hand has a ratio of its own
    found = of(world())
    assert (found.always_slower, found.bits_count, found.here_is_apart, found.has_measured_ratio) == (
        True, False, True, True
    )  # fmt: skip
    others = world().published
    shorter = others.timings.latency_s.where(others.timings.model != "timm:mobilenetv2_100", 1e-9)
    faster = replace(others, timings=others.timings.assign(latency_s=shorter))
    assert not of(replace(world(), published=faster)).always_slower


def test_the_ratio_on_a_gpu_takes_the_largest_batch_with_all_four_times():
    times = {("fp32", 8): (0.9, 1.0), ("bf16", 8): (0.6, 0.4), ("fp32", 64): (7.0, 8.0)}
    cells = pd.DataFrame([
        {"model": model, "batch": batch, "precision": precision, "status": "ok", "flags": "", "latency_s": time_s}
        for (precision, batch), both in times.items()
        for model, time_s in zip(("mobilenet_v2", "resnet18"), both, strict=True)
    ])  # fmt: skip
    gpu = world().machine("gpu")
    none = cells[:0]
    found = _on_gpu(replace(world(), machines=(replace(gpu, cells=cells, variants=none, steps=none),)))
    assert (found.batch.number, found.precision.text) == (8, "bf16")
    assert (found.base.number, found.lower.number) == pytest.approx((0.9, 1.5))
