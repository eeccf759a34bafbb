"""The chapter on the puzzle: ratios of two networks, their bounds and their time here, against arithmetic by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from measure.domain.roofs import Roofline
from report import facts
from report.chapters.puzzle import facts as chapter
from report.chapters.puzzle import figures
from report.display import Missing
from report.paper import load
from report.stats.published import TWINS
from tests.helpers import timed_networks
from tests.helpers.timed_networks import NETWORKS, NEWER, OLDER, count, kinds, timing

LIGHT, HEAVY = TWINS["mobilenet_v2"], TWINS["resnet18"]


def both(light_s: float, heavy_s: float, **about: Any) -> list[dict[str, Any]]:
    return [timing(LIGHT, latency_s=light_s, **about), timing(HEAVY, latency_s=heavy_s, **about)]


def test_the_ratio_is_of_times_under_the_same_conditions(tmp_path):
    timings = [
        *both(3.0, 2.0), *both(4.0, 5.0, device=NEWER),
        *both(1.0, 9.0, device="Compiled", compiler="torch.compile"),
        timing(LIGHT, "Apart", torch="2.8"), timing(HEAVY, "Apart", torch="2.9"),
        *both(1.0, 4.0, precision="fp64", autocast=""), *both(9.0, 2.0, torch="2.8"),
    ]  # fmt: skip
    paper = timed_networks.paper_of(tmp_path, timings, names=(LIGHT, HEAVY))
    found = chapter.compared(paper).set_index(["device", "computed"]).ratio.to_dict()
    assert found == {(OLDER, "fp16"): 1.5, (NEWER, "fp16"): 0.8, (OLDER, "fp64"): 0.25}
    elsewhere = chapter.of(paper).elsewhere
    assert (elsewhere.devices.number, elsewhere.slower.number) == (2, 1)
    assert (elsewhere.least.name, elsewhere.most.name) == ("Newer", "Older")
    assert not chapter.of(paper).claims["slower_everywhere"]


def test_networks_of_torchvision_are_compared_too(tmp_path):
    timings = [timing("mobilenet_v2", latency_s=2.0), timing("resnet18", latency_s=1.0)]
    paper = timed_networks.paper_of(tmp_path, timings, names=("mobilenet_v2", "resnet18"))
    assert chapter.compared(paper).ratio.tolist() == [2]


def test_a_device_without_a_roof_counts(tmp_path):
    paper = timed_networks.paper_of(tmp_path, both(3.0, 2.0, device="Unknown"), names=(LIGHT, HEAVY))
    assert chapter.of(paper).elsewhere.devices.number == 1


def test_bounds_on_paper_are_of_one_image(tmp_path):
    names = (*NETWORKS, LIGHT, HEAVY)
    timings = [*(timing(model) for model in NETWORKS), *both(8.0, 6.0)]
    counts = [*map(count, names[:-1]), count(HEAVY, 400)]
    kind_rows = [row for model in names[:-1] for row in kinds(model)] + [*kinds(HEAVY, 10)]
    bounds = chapter.of(timed_networks.paper_of(tmp_path, timings, counts, kind_rows)).bounds
    assert bounds.device.text == "Older"
    assert bounds.ridge.number == 10
    assert bounds.light_arithmetic.number == 1  # 100 FLOP at 100 FLOP/s
    assert bounds.heavy_arithmetic.number == 4
    assert bounds.light_bytes.number == 2.65  # 53 B for two images at 10 B/s
    assert bounds.heavy_bytes.number == 1.15  # (13 + 10) B
    assert bounds.light_intensity.number == pytest.approx(200 / 53)
    assert (bounds.light.number, bounds.heavy.number) == (4, 3)
    problems = chapter._problems(bounds)
    assert problems.by_bytes.number == pytest.approx(53 / 23)
    assert problems.needed.number == pytest.approx(26.5)  # 100 FLOP/s over 200 / 53 FLOP/B


def cell(model: str, batch: int, latency_s: float, variant: str = "eager", **about: Any) -> dict[str, Any]:
    return {
        "model": model, "batch": batch, "precision": "fp32", "status": "ok", "variant": variant, "latency_s": latency_s,
        "latency_low_s": 0.9 * latency_s, "latency_high_s": latency_s / 0.9, "traffic_intensity": 2.0,
        "compulsory_intensity": 50.0, "flop_per_s": 1e9,
    } | about  # fmt: skip


def machine(cells: list[dict[str, Any]], variants: list[dict[str, Any]]) -> Any:
    columns = [*cell("", 1, 1.0)]
    return SimpleNamespace(
        name="Chip", folder="chip", cells=pd.DataFrame(cells, columns=columns),
        variants=pd.DataFrame(variants, columns=columns), roof=lambda precision: Roofline(1e11, 1e10),
    )  # fmt: skip


def test_here_takes_the_largest_batch_of_both_with_memory_kept():
    cells = [
        cell("mobilenet_v2", 1, 1.0), cell("resnet18", 1, 4.0), cell("mobilenet_v2", 8, 6.0), cell("resnet18", 8, 5.0),
        cell("mobilenet_v2", 64, 9.0), cell("resnet18", 64, 1.0), cell("resnet18", 256, 1.0),
    ]  # fmt: skip
    kept = [cell("mobilenet_v2", 8, 3.0, "kept_memory"), cell("resnet18", 8, 4.0, "kept_memory")]
    found = chapter.here(machine(cells, kept))
    assert (found.batch.number, found.light.number, found.heavy.number) == (8, 6, 5)
    assert found.ratio.number == 1.2
    # Both intervals are a factor of 0.9 wide, so that of the ratio is 0.9 to the power of the root of 2: 0.862
    assert found.ratio.low == pytest.approx(1.2 * 0.862, abs=1e-3)
    assert found.kept.number == 0.75
    without = chapter.here(machine(cells, []))
    assert without.batch.number == 64
    assert without.kept.is_missing


def test_here_is_missing_without_both_networks_or_a_machine():
    assert chapter.here(machine([cell("resnet18", 1, 1.0)], [])).light.is_missing
    assert chapter.here(None).machine.is_missing


def test_figures_show_each_device_and_each_network_twice(tmp_path):
    paper = timed_networks.paper_of(tmp_path, both(3.0, 2.0), names=(LIGHT, HEAVY))
    assert "16 bits 1.50 to 1.50 on 1 devices" in figures.ratios.__wrapped__(paper)["description"]  # type: ignore[attr-defined]
    here = machine([cell("mobilenet_v2", 8, 6.0), cell("resnet18", 8, 5.0)], [])
    chart = figures.plane.__wrapped__(SimpleNamespace(at_hand=here))  # type: ignore[attr-defined]
    assert chart["description"].count("MobileNet-v2 at") == 2
    for make in (figures.ratios, figures.plane):
        with pytest.raises(Missing):
            make.__wrapped__(load(tmp_path))  # type: ignore[attr-defined]


def test_claims_hold_and_every_fact_has_a_meaning():
    found = facts.of_chapter("puzzle", timed_networks.project())
    assert [name for name, holds in found.claims.items() if not holds] == []
    assert [key for key, _, meaning in facts.entries("puzzle", found) if not meaning] == []


def test_the_text_names_only_facts_that_exist():
    known = {key for key, _, _ in facts.entries("puzzle", facts.of_chapter("puzzle", timed_networks.project()))}
    text = Path("report/chapters/puzzle/puzzle.qmd").read_text()
    named = {part.split("`")[0].split(".side")[0].removesuffix(".name") for part in text.split("`{python} ")[1:]}
    assert named <= known
