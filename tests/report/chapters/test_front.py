"""The figure of the front page, from the rules of the world (tests/data/world/README.md)."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import nothing, rows_of, world

from report import display
from report.chapters.front import figures
from report.charts.panels import specified


def test_networks_under_the_roofs_of_both_devices():
    chart = figures.overview.__wrapped__(world())
    titles = [panel["title"] for panel in specified(chart)["concat"]]
    # Ten networks ran at batch size 1, eight at 8 and six at 64, fewer than three quarters
    assert titles == ["Bead 2, fp16, batch 8, timed by epoch", "Example CPU, Example core, 2 cores, fp32, batch 8"]
    rates = {row[1:]: row[0] for row in rows_of(chart, "name", "flop_per_s", "intensity")}
    # There 3.6 GFLOP in 60 us, on half of (9 + 7 * 0.9 + 8 * 6) MB for 8 images; here 8 * 2 GFLOP in 128 ms
    there, here = ((rate, at) for (rate, at), name in rates.items() if name == "ResNet-18")
    assert there == pytest.approx((3.6e9 / 60e-6, 3.6e9 / ((9 + 6.3 + 48) / 16 * 1e6)), rel=1e-5)
    assert here == pytest.approx((125e9, 16e9 / (4e6 + 8 * 31.3e6)), rel=1e-5)  # mb(1, 8): 4 + 8 * (10.1 * 3 + 1)


def test_a_gpu_with_enough_networks_comes_before_timings_of_others():
    one = world()
    gpu, models = one.machine("gpu"), ("vgg16", "resnet50", "densenet121", "vit_b_16", "mobilenet_v2", "resnet18")
    cells = [
        {"model": model, "batch": 8, "precision": "bf16", "status": "ok", "flags": "", "flop_per_s": 1e13 * k}
        | {"traffic_intensity": 10.0 * k}
        for k, model in enumerate(models, 1)
    ]
    rows = {"cells": pd.DataFrame(cells), "variants": gpu.variants[:0], "steps": gpu.steps[:0]}
    gpu = replace(gpu, environment=replace(gpu.environment, name="NVIDIA H100 SXM"), **rows)
    chart = figures.overview.__wrapped__(replace(one, machines=(one.machine("cpu"), gpu)))
    assert specified(chart)["concat"][0]["title"] == "Bead 2, bf16, batch 8, datasheet"
    drawn = {row[0]: row[1:] for row in rows_of(chart, "name", "flop_per_s", "intensity")[:6]}
    assert drawn["ResNet-18"] == (6e13, 60)


def test_one_device_is_enough():
    alone = replace(world(), published=nothing().published)
    assert len(specified(figures.overview.__wrapped__(alone))["concat"]) == 1
    with pytest.raises(display.Missing):
        figures.overview.__wrapped__(nothing())
