"""The chapter on the puzzle: MobileNet-v2 against ResNet-18, from the rules of the world."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import rows_of, world, wrong

from report.chapters.puzzle import figures
from report.chapters.puzzle.facts import compared, here


def test_facts_by_hand():
    # An image moves at fp16, in a batch of 8: (4 + 7 * 0.4 + 8 * 16) / 2 / 8 MB, and (9 + 7 * 0.9 + 8 * 6) / 2 / 8 MB
    light, heavy = (4 + 2.8 + 128) / 16 * 1e6, (9 + 6.3 + 48) / 16 * 1e6
    expected = {
        # 1 and 2 GFLOP. At bf16 the layers of MobileNet-v2 move 2 * 10.1 MB, half of that, and 16 MB of parameters
        # for 64 inputs
        "needs.light_flop": 1e9, "needs.heavy_flop": 2e9, "needs.fewer": 2, "needs.light_byte": 10.1e6 + 16e6 / 64,
        # 80 / 60 on three devices, and 0.9, 1.0 and 1.1 ms over 0.8 ms on A1, C3 and D4
        "elsewhere.devices": 6, "elsewhere.slower": 6, "elsewhere.least": 0.9 / 0.8, "elsewhere.least.name": "A1",
        "elsewhere.most": 1.1 / 0.8, "elsewhere.most.name": "D4 (SXM)",
        "control.typical": (0.32 + 0.33) / 2,  # of 0.30 to 0.35
        "bounds.device": "Bead 2", "bounds.peak": 1e14, "bounds.bandwidth": 1e12, "bounds.ridge": 100,
        "bounds.light_arithmetic": 0.6e9 / 1e14, "bounds.heavy_arithmetic": 3.6e9 / 1e14,
        "bounds.light_bytes": light / 1e12, "bounds.heavy_bytes": heavy / 1e12,
        "bounds.light_intensity": 0.6e9 / light,
        "bounds.light": 80e-6, "bounds.heavy": 60e-6,
        # Products, 6 and 36 us of arithmetic, and then the other layers' 8 and 3 MB
        "bounds.light_share": (6 + 8) / 80, "bounds.heavy_share": (36 + 3) / 60,
        # 8.425 MB an input: 8 of them take 0.9 ms on A1, with 100 GB/s; one takes 40 us on Cog 3, with 20 TB/s
        "elsewhere.most_bytes": 8 * light / 1e11 / 0.9e-3, "elsewhere.most_bytes.name": "A1",
        "elsewhere.least_bytes": light / 2e13 / 40e-6, "elsewhere.least_bytes.name": "Cog 3",
        "elsewhere.by_bytes": 1,
        "problems.by_bytes": light / heavy, "problems.measured": 80 / 60, "problems.needed": 1e14 / (0.6e9 / light),
        # 64 inputs of 20 and 40 ms; with memory kept they are 2 and 2.1 times as fast
        "here.batch": 64, "here.light": 1.28, "here.heavy": 2.56, "here.ratio": 0.5, "here.kept": 0.5 * 2.1 / 2,
        "reference.ratio": 0.5,
    }  # fmt: skip
    assert wrong("puzzle", world(), expected) == {}


def test_conditions_have_to_agree_and_the_newest_software_counts():
    others = world().published
    rows = others.timings[(others.timings.device == "Bead 2") & (others.timings.computed == "fp16")]
    light, heavy = (rows[rows.model == f"timm:{name}"].head(1) for name in ("mobilenetv2_100", "resnet18"))
    apart = [light.assign(device="Apart", torch="2.8"), heavy.assign(device="Apart", torch="2.9")]
    older = [light.assign(torch="2.3", latency_s=9.0), heavy.assign(torch="2.3", latency_s=2.0)]
    unknown = [each.assign(device="Unknown", peak_flop_per_s=None) for each in (light, heavy)]
    timings = pd.concat([others.timings, *apart, *older, *unknown], ignore_index=True)
    paper = replace(world(), published=replace(others, timings=timings))
    found = compared(paper).set_index(["device", "computed"]).ratio
    assert "Apart" not in found.index.get_level_values("device")
    assert found["Bead 2", "fp16"] == found["Unknown", "fp16"] == pytest.approx(80 / 60)
    # Networks of torchvision are compared too
    names = {"timm:mobilenetv2_100": "mobilenet_v2", "timm:resnet18": "resnet18"}
    timings = others.timings.assign(model=others.timings.model.replace(names))
    assert len(compared(replace(world(), published=replace(others, timings=timings)))) == 12


@pytest.mark.parametrize(("batches", "batch", "light"), [((8,), 8, 0.064), ((), 64, 1.28)])
def test_here_takes_the_largest_batch_with_memory_kept(batches, batch, light):
    machine = world().machine("cpu")
    found = here(replace(machine, variants=machine.variants[machine.variants.batch.isin(batches)]))
    assert (found.batch.number, found.kept.is_missing) == (batch, not batches)
    assert found.light.number == pytest.approx(light)  # 8 * 10 ms * 0.8


def test_figures_show_the_ratios_and_both_intensities():
    ratios = dict(rows_of(figures.ratios.__wrapped__(world()), "name", "ratio"))
    assert (ratios["A1"], ratios["D4 (SXM)"]) in ((0.9 / 0.8, 1.1 / 0.8), (0.33, 0.35))
    points = rows_of(figures.plane.__wrapped__(world()), "name", "intensity", "whole")
    # At fp32 64 inputs of MobileNet-v2 move 32 MB of parameters and 20.2 MB each, or 0.501 MB each as a whole
    expected = [64e9 / (32e6 + 64 * 20.2e6), 64e9 / (32e6 + 64 * 0.501e6)]
    assert sorted(each[1] for each in points if each[0] == "MobileNet-v2") == pytest.approx(expected)
