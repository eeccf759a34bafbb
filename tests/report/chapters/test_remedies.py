"""Gains of remedies, from the rules of the world (tests/data/world/README.md); k counts its six networks."""

from dataclasses import replace
from statistics import median

import pytest
from helpers.world import numbers, world, wrong

SIX = range(6)
PARAMETERS = (8, 1, 7, 2, 6, 3)


def test_facts_by_hand():
    peak = [12 * p + 64 * 1.06 * (k + 1) for k, p in enumerate(PARAMETERS)]  # MB of a step of 64
    inference = [4 * p + 64 * ((k + 1) / 2 + 0.5) for k, p in enumerate(PARAMETERS)]
    expected = {
        "here.batch": 64, "here.kept": 2.25, "here.precision": 3.25, "here.both": 3.25 * 1.5,
        # With memory kept an input at 8 is 1.25 / 0.8 times as fast as eager mode at 1, at 1 1.1 - k / 100 times
        "here.first_batch": 1, "here.best_batch": 8, "here.batching": median(1.5625 / (1.1 - k / 100) for k in SIX),
        "published.device": "Bead 2", "published.compiled": 1.6, "published.layout": 1.1,
        "counted.training": median(a / b for a, b in zip(peak, inference, strict=True)),
        "counted.saved": median(64 * 0.96 * (k + 1) / each for k, each in enumerate(peak)),
        # Llama: 2.4 GB and 20.256 MB a sequence
        "counted.decode": 2500 / 2420.256, "counted.decode_batched": 8 * 2500 / (2400 + 8 * 20.256),
    }  # fmt: skip
    assert wrong("remedies", world(), expected) == {}


def test_without_kept_memory_eager_mode_stands_in():
    cpu = world().machine("cpu")
    found = numbers("remedies", replace(world(), machines=(replace(cpu, variants=cpu.variants[:0]),)))
    assert (found["here.kept"], found["here.batch"]) == (None, 64)
    assert found["here.batching"] == pytest.approx(1 / 0.8)
