"""The abstract's and the findings' numbers, from the rules of the world (tests/data/world/README.md)."""

from statistics import median

from helpers.world import CPU, mutated, numbers, world, wrong

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
        # Of NVIDIA B2 and of Bead 2 in its newest software; an older release has 1 %
        "prediction.least_family": 0.08, "prediction.least_family.name": "B2", "prediction.most_family": 0.10,
        "prediction.most_family.name": "Bead 2", "prediction.device": (0.2 + 0.3) / 2,
    }  # fmt: skip
    assert wrong("front", world(), expected) == {}


def test_cells_of_a_loaded_machine_are_counted_and_enter_no_finding_and_no_advice(tmp_path):
    def disturb(row):
        is_disturbed = row["phase"] == "inference" and row["variant"] == "eager"
        return row | ({"flags": "loaded"} if is_disturbed else {})

    calm, disturbed = world(), world(mutated(tmp_path / "world", {f"machines/{CPU}/runs.csv": disturb}), (CPU,))
    vars(disturbed)["reference"] = calm.reference
    cpu = disturbed.machine("cpu")
    assert numbers("machine", disturbed)["at_hand.loaded"] == len(cpu.cells) > 0
    assert numbers("machine", calm)["at_hand.loaded"] is None
    # A gain of keeping memory rests on eager mode as well
    for key in ("memory.gain", "memory.batch"):
        assert (numbers("front", calm)[key], numbers("front", disturbed)[key]) == (numbers("front", calm)[key], None)
    assert numbers("remedies", disturbed)["here.kept"] is None
    assert len(disturbed.calm.machine("cpu").steps) == len(cpu.steps)
