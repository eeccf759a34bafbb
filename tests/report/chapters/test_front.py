"""The abstract's and the findings' numbers, from the rules of the world (tests/data/world/README.md)."""

from dataclasses import replace
from statistics import median

from helpers.world import numbers, world, wrong

from report.chapters.front import figures

OAKS, ELMS = range(12), range(12, 24)
OTHERS = ((8.1, 172), (8.2, 176), (8.3, 174), (8.4, 180), (0.6, 80), (3.6, 60), (8.2, 178))
"""GFLOP and µs of the ashes and the twins."""


def test_facts_by_hand():
    # Per cent of 100 TFLOP/s, which are 0.1 GFLOP a µs; and 10 GFLOP in 1 to 4 ms
    shares = [*(40 + k for k in OAKS), *(2 * k - 3 for k in ELMS), *(100 * gflop / us / 0.1 for gflop, us in OTHERS)]
    shares += [10, 5, 10 / 3, 2.5]
    expected = {
        "data.chips": 41, "data.timings": 307,
        "gpu.device": "Bead 2", "gpu.alike": 7, "gpu.spread": (9 / 0.48) / (8 / 0.47), "gpu.puzzle": 80 / 60,
        "gpu.whole": median(shares) / 100,  # all are compute-bound as a whole
        # NVIDIA B2 has 40 TFLOP/s and 200 GB/s and takes 2.2 to 2.4 times as long
        "buying.before": "B2", "buying.to_best": 2.3, "buying.to_best_peak": 100 / 40, "buying.to_best_bandwidth": 5,
        # 31 gains: 12 of 2, 10 of 1.5, 0.5 and 0.8, 7 of 1.6
        "buying.compiled": 1.6,
        # Cog 3: 12 of 3, 12 of 1, 7 of 2; compiled there 12 of 3.6 and 12 of 1.2
        "buying.following": "Cog 3", "buying.bought": 2, "buying.both": 2.4,
        # 2 + k / 10 for k = 0 to 5; the system's share is 0.3 + 0.05 k
        "memory.batch": 64, "memory.gain": 2.25, "memory.system": 0.425,
        "prediction.device": (0.2 + 0.3) / 2,
    }  # fmt: skip
    assert wrong("front", world(), expected) == {}


def test_errors_count_each_gpu_once_in_its_newest_software():
    """Bead 2 has an older release, with 1 % for networks left out."""
    found = numbers("front", world())
    assert (found["prediction.least_family"], found["prediction.least_family.name"]) == (0.08, "B2")
    assert (found["prediction.most_family"], found["prediction.most_family.name"]) == (0.10, "Bead 2")


def test_both_panels_name_the_same_networks():
    chart = figures.overview.__wrapped__(world())
    titles = [panel["title"] for panel in chart["concat"]]
    assert titles == [
        "Bead 2, fp16, timed by others",
        f"{world().machine('cpu').name}, fp32, batch 8",
    ]  # that most networks ran
    assert len(figures.overview.__wrapped__(replace(world(), machines=()))["concat"]) == 1
