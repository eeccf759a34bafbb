"""The front page: its findings' numbers, and the networks that both panels of its figure name."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from measure.domain.roofs import Roofline
from report import facts
from report.chapters.front import facts as chapter
from report.chapters.front import figures
from report.display import Missing
from report.paper import load
from report.stats.published import TWINS
from tests.helpers import timed_networks
from tests.helpers.timed_networks import NETWORKS, count, timing


def test_the_puzzle_is_told_of_the_best_timed_gpu(tmp_path):
    light, heavy = TWINS["mobilenet_v2"], TWINS["resnet18"]
    timings = [*map(timing, NETWORKS), timing(light, latency_s=9.0), timing(heavy, latency_s=6.0)]
    gpu = chapter.of(timed_networks.paper_of(tmp_path, timings, names=(*NETWORKS, light, heavy))).gpu
    assert (gpu.device.text, gpu.puzzle.number) == ("Older", 1.5)


def test_buying_and_compiling(tmp_path):
    buying = chapter.of(timed_networks.two_gpus(tmp_path)).buying
    # The newer GPU is the best timed: the step to it brings 8 s over 6.4 s for twice the peak; compiling 6.4 s over 4 s
    assert (buying.before.text, buying.to_best.number, buying.to_best_peak.number) == ("Older", 1.25, 2)
    assert buying.to_best_bandwidth.number == 1
    assert buying.compiled.number == 1.6
    assert buying.both.is_missing


def processor(**tables: Any) -> Any:
    return SimpleNamespace(
        name="Chip", folder="chip", chip_kind="cpu", environment=SimpleNamespace(recorded_at="", threads=2), **tables
    )


def test_kept_memory_is_told_at_its_largest_batch(tmp_path):
    variants = pd.DataFrame(
        [("kept_memory", "fp32", "ok", batch, gain) for batch, gain in [(1, 1.0), *[(64, 1.5)] * 7]],
        columns=["variant", "precision", "status", "batch", "speed_up"],
    )
    profiles = pd.DataFrame(
        [("inference", "eager", "fp32", "ok", batch, system, 1.0) for batch, system in [(1, 0.1), *[(64, 0.6)] * 6]],
        columns=["phase", "variant", "precision", "status", "batch", "system_s", "plain_s"],
    )
    paper = replace(load(tmp_path), machines=(processor(variants=variants, profiles=profiles),))
    memory = chapter.of(paper).memory
    assert (memory.batch.number, memory.gain.number) == (64, 1.5)
    assert memory.system.number == 0.3  # 0.6 s of two threads' seconds


def test_errors_count_each_gpu_once(tmp_path):
    def error(
        device: str, left_out: str, value: float, software: str = "2.9", models: int = 900, **about: Any
    ) -> dict[str, Any]:
        return {
            "method": "terms", "batches": "all", "phase": "inference", "variant": "eager", "precision": "fp16",
            "device": device, "left_out": left_out, "median_error": value, "software": software, "models": models,
        } | about  # fmt: skip

    rows = [
        error("NVIDIA A", "family", 0.5, "2.8"), error("NVIDIA A", "family", 0.08, "2.10"),
        error("NVIDIA B", "family", 0.09), error("NVIDIA C", "family", 0.9, models=30), error("CPU", "family", 0.9),
        # Six GPUs, of which one has three settings: the middle of 0.1, 0.2, 0.3 (of 0.1, 0.3, 0.9), 0.4, 0.5, 0.6
        *(error(f"NVIDIA {each}", "device", 0.1 * at) for each, at in {"A": 1, "B": 2, "D": 4, "E": 5, "F": 6}.items()),
        *(error("NVIDIA C", "device", value) for value in (0.1, 0.3, 0.9)),
        error("NVIDIA A", "device", 0.9, precision="fp32"),
    ]  # fmt: skip
    chips = pd.DataFrame(
        {"chip": [*(f"NVIDIA {name}" for name in "ABCDEF"), "CPU"], "chip_kind": [*["gpu"] * 6, "cpu"]}
    )
    paper = load(tmp_path)
    predictions = replace(paper.predictions, errors=pd.DataFrame(rows))
    found = chapter.of(replace(paper, chips=chips, predictions=predictions)).prediction
    assert (found.least_family.number, found.least_family.name) == (0.08, "A")
    assert (found.most_family.number, found.most_family.name) == (0.09, "B")
    assert found.device.number == pytest.approx(0.35)


def test_the_same_networks_are_named_in_both_panels(tmp_path):
    named = list(TWINS)
    cells = pd.DataFrame(
        [
            (model, batch, "fp32", "ok", 1e9, 5.0)
            for batch, models in ((1, [*named, "timm:resnet18"]), (64, named), (256, named[:2])) for model in models
        ],
        columns=["model", "batch", "precision", "status", "flop_per_s", "traffic_intensity"],
    )  # fmt: skip
    machine = processor(cells=cells, roof=lambda precision: Roofline(1e11, 1e10))
    twins = [*TWINS.values(), *NETWORKS]
    published = timed_networks.paper_of(tmp_path, [*map(timing, twins)], names=twins)
    chart = figures.overview.__wrapped__(replace(published, machines=(machine,)))  # type: ignore[attr-defined]
    assert "Older, fp16, timed by others and Chip, fp32, batch 64" in chart["description"]
    assert [panel["title"] for panel in chart["concat"]] == ["Older, fp16, timed by others", "Chip, fp32, batch 64"]
    for panel in chart["concat"]:
        assert all(name in str(panel) for name in figures.NAMED)


def test_one_panel_where_nothing_was_measured_and_none_where_nothing_was_timed(tmp_path):
    chart = figures.overview.__wrapped__(timed_networks.two_gpus(tmp_path))  # type: ignore[attr-defined]
    assert len(chart["concat"]) == 1
    with pytest.raises(Missing):
        figures.overview.__wrapped__(load(tmp_path))  # type: ignore[attr-defined]


def test_claims_hold_and_every_fact_has_a_meaning():
    found = facts.of_chapter("front", timed_networks.project())
    assert [name for name, holds in found.claims.items() if not holds] == []
    assert [key for key, _, meaning in facts.entries("front", found) if not meaning] == []


def test_networks_alike_in_flop_differ_in_time(tmp_path):
    flop = [8_000_000_000] * 19 + [1_000_000_000]
    timings = [timing(model, latency_s=2.0 + at) for at, model in enumerate(NETWORKS)]
    counts = [count(model, each) for model, each in zip(NETWORKS, flop, strict=True)]
    paper = timed_networks.paper_of(tmp_path, timings, counts)
    found = chapter.of(paper).gpu
    assert found.alike.number == 19
    assert found.spread.number == 10  # 20 s over 2 s; the one with fewer FLOP takes 21 s
