"""The chapter on the bound, from the rules of the world (tests/data/world/README.md)."""

from dataclasses import replace
from statistics import median

import numpy as np
import pandas as pd
import pytest
from helpers.world import rows_of, world, wrong

from report.chapters.bound import facts as chapter
from report.chapters.bound import figures

BEAD, COG = (1e14, 1e12), (2e14, 2e13)
"""Peak and bandwidth at 16 bits."""

ELMS = {22: 0.5, 23: 0.8}
"""The gains of the elms from compiling, where they are not 1.5."""

# Name, GFLOP; MB of products (first input, each further) and of other layers (each); µs of an input on Bead 2, by how
# much it is faster compiled, and on Cog 3
NETWORKS = [
    (f"oak{k}", k + 1, 10, 1, 0.1 * k, (k + 1) / (40 + k) * 1e3, 2, 3) for k in range(12)
] + [
    (f"elm{k}", k + 1, 10, 1, 0.1 * k, (k + 1) / (2 * k - 3) * 1e3, ELMS.get(k, 1.5), 1) for k in range(12, 24)
] + [
    ("ash0", 8.1, 10, 1, 17, 172, 1.6, 2), ("ash1", 8.2, 10, 1, 17, 176, 1.6, 2), ("ash2", 8.3, 10, 1, 17, 174, 1.6, 2),
    ("ash3", 8.4, 10, 1, 18, 180, 1.6, 2), ("resnet50", 8.2, 10, 1, 17, 178, 1.6, 2),
    ("mobilenetv2_100", 0.6, 4, 0.4, 16, 80, 1.6, 2), ("resnet18", 3.6, 9, 0.9, 6, 60, 1.6, 2),
]  # fmt: skip
NETWORKS[12] = ("elm12", 13, 1, 0.1, 9, *NETWORKS[12][5:])


def layers_us(network, chip):
    """Least time of an input by the roofline layer by layer: products, and behind them the other layers' bytes."""
    _, gflop, first, further, other, *_ = network
    peak, bandwidth = chip
    products = max(gflop * 1e9 / peak, (first + 7 * further) / 8 / 2 * 1e6 / bandwidth)
    return (products + other / 2 * 1e6 / bandwidth) * 1e6


def test_facts_by_hand():
    shares = [layers_us(each, BEAD) / each[5] for each in NETWORKS]
    compiled = [share * each[6] for share, each in zip(shares, NETWORKS, strict=True)]
    expected = {
        "timings.timings": 307, "timings.networks": 37,
        "shares.device": "Bead 2", "shares.networks": 35,
        "shares.layers": median(shares), "shares.left": 1 / median(shares), "shares.low": np.quantile(shares, 0.1),
        "shares.compiled": median(compiled),
        "shares.faster": 0, "shares.fastest": max(shares), "shares.fastest.name": "ResNet-18",
        # Times 2.2, 2.3, 2.4 on NVIDIA B2, with 40 TFLOP/s and 200 GB/s
        "first.older": "B2", "first.newer": "Bead 2", "first.networks": 31, "first.peak": 2.5, "first.bandwidth": 5,
        "first.speed": 2.3, "first.whole": 2.5,
        "first.layers": median(layers_us(each, (4e13, 2e11)) / layers_us(each, BEAD) for each in NETWORKS),
        "second.older": "Bead 2", "second.newer": "Cog 3", "second.networks": 31, "second.peak": 2,
        "second.bandwidth": 20, "second.speed": median(each[7] for each in NETWORKS), "second.whole": 2,
        "second.layers": median(layers_us(each, BEAD) / layers_us(each, COG) for each in NETWORKS),
        "calculation.network": "ResNet-50", "calculation.flop": 8.2e9, "calculation.byte": 17e6 / 2,
        "calculation.peak": 1e14, "calculation.bandwidth": 1e12, "calculation.arithmetic": 82e-6,
        "calculation.bytes": 8.5e-6, "calculation.total": 90.5e-6, "calculation.measured": 178e-6,
        "calculation.next_peak": 2e14, "calculation.next_bandwidth": 2e13, "calculation.next_total": 41e-6 + 0.425e-6,
        "calculation.promised": 90.5 / 41.425, "calculation.gained": 2,
        "problems.double_peak_total": 41e-6 + 8.5e-6, "problems.double_peak": 90.5 / 49.5,
        "problems.no_bytes": 90.5 / 82, "problems.compiled": 1.6,
    }  # fmt: skip
    assert wrong("bound", world(), expected) == {}


def test_own_gpus_are_compared_at_the_largest_batch():
    """Seven networks with 8 inputs, under the datasheet's 3.35 TB/s: net1 moves a tenth of that in a second, net2 two
    tenths and so on; half at bf16.
    """
    sides = [(k, batch, precision, slower) for k in range(1, 8) for batch in (1, 8)
             for precision, slower in (("fp32", 1), ("bf16", 2))]  # fmt: skip
    cells = [
        {"model": f"net{k}", "batch": batch, "precision": precision, "status": "ok", "flags": "", "latency_s": 1.0}
        for k, batch, precision, _ in sides
    ]  # fmt: skip
    operators = [
        {"model": f"net{k}", "batch": batch, "precision": precision, "stage": "inference", "calls": 1, "flop": 0}
        | {"byte": k / 10 / slower / (8 // batch) * 3.35e12}
        for k, batch, precision, slower in sides
    ]  # fmt: skip
    none = pd.DataFrame(columns=["model", "batch", "precision", "flags"])
    gpu = world().machine("gpu")
    named = replace(gpu.environment, name="NVIDIA H100 SXM")
    gpu = replace(gpu, environment=named, cells=pd.DataFrame(cells), variants=none, steps=none)
    paper = replace(world(), machines=(gpu,), operators=pd.DataFrame(operators))
    found, step = chapter._own(paper)
    assert step.base.is_missing
    assert found.device.text == gpu.name
    assert (found.base.number, found.lower.number, found.precision.text) == (
        pytest.approx(0.4), pytest.approx(0.2), "bf16"
    )  # fmt: skip
    rows = chapter.everywhere(paper).set_index("name")
    own = rows[rows.who == "Roofwright"]
    assert dict(own.share) == pytest.approx({f"{gpu.name} at fp32, batch 8": 0.4, f"{gpu.name} at bf16, batch 8": 0.2})
    # Seven values 0.1 to 0.7: the tenth lies at 0.1 + 0.1 * 0.6
    assert (own.tenth.iloc[0], own.nine_tenths.iloc[0]) == pytest.approx((0.16, 0.64))
    # An A100 before it, and an H200 with the same peak behind it and 4.8 TB/s in place of 3.35
    other, faster = (
        replace(gpu, folder=name, name=name, environment=replace(named, name=f"NVIDIA {name}"))
        for name in ("A100 SXM 40GB", "H200 SXM")
    )
    first, step = chapter._own(replace(paper, machines=(other, faster, gpu)))
    assert (first.device.text, step.newer.text, step.networks.number) == (gpu.name, "H200 SXM", 7)
    assert (first.base.number, step.base.number, step.lower.number) == pytest.approx((0.4, 3.35 / 4.8, 3.35 / 4.8))
    assert chapter._own(replace(paper, machines=(other, gpu)))[0].device.text == "A100 SXM 40GB"


def test_every_device_is_compared():
    shares = chapter.everywhere(world()).set_index("name").share
    # Cog 3, twice the peak, reaches as much of its roof as Bead 2 with the seven others, 1.5 times as much with oaks
    on_cog = median(layers_us(each, COG) / each[5] * each[7] for each in NETWORKS)
    found = {name.split(" at fp16")[0]: share for name, share in shares.items()}
    assert found["Cog 3"] == pytest.approx(on_cog)
    assert found["Bead 2"] == pytest.approx(median(layers_us(each, BEAD) / each[5] for each in NETWORKS))
    facts = chapter.of(world()).everywhere
    assert (facts.least.number, facts.least.name) == (found["Bead 2"], "Bead 2 at fp16, batch 8")
    # On Bead 2 with channels last the 24 oaks and elms are 1.1 times as fast
    large = [layers_us(each, BEAD) / each[5] * 1.1 for each in NETWORKS[:24]]
    assert (facts.channels_last.number, facts.channels_last.name) == (pytest.approx(median(large)), facts.least.name)
    drawn = rows_of(figures.shares.__wrapped__(world()), "name", "share")
    assert dict(drawn) == pytest.approx(dict(shares), rel=1e-5)


def test_a_figure_shows_precisions_of_any_name():
    products = world().published.products.assign(precision="fp32")
    paper = replace(world(), published=replace(world().published, products=products))
    assert ("Bead 2", "fp32") in rows_of(figures.delivered.__wrapped__(paper), "name", "what")


def test_figures_show_the_facts():
    chart = figures.gains.__wrapped__(world())
    gains = {each[0]: each[1:] for each in rows_of(chart, "name", "speed", "low")}
    assert gains["compiled on Bead 2"][0] == pytest.approx(1.6)
    assert gains["B2 to Bead 2"] == pytest.approx((2.3, 2.2))
    promised = rows_of(chart, "name", "roofline", "promised")
    # Another card alone has a promise; compiling leaves both bounds as they are
    assert {name for name, *_ in promised} == {"B2 to Bead 2", "Bead 2 to Cog 3"}
    delivered = rows_of(figures.delivered.__wrapped__(world()), "name", "what", "share")
    # 0.9 of 1 TB/s read by 4096 threads, 0.8 for triads; 15 of 20 TB/s written; 90 of 100 TFLOP/s, 100 of 200
    shares = {("Bead 2", "read"): 0.9, ("Bead 2", "triad"): 0.8, ("Cog 3", "write"): 0.75, ("Bead 2", "bf16"): 0.9}
    assert {each[:2]: each[2] for each in delivered} == pytest.approx(shares | {("Cog 3", "bf16"): 0.5})
