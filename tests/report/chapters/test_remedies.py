"""Gains of remedies by hand arithmetic; what needs no machine is there without one."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, tiny

from report import facts
from report.chapters.remedies.facts import of

MODELS = "abcdef"


def cell(model, batch, rate, precision="fp32", variant="eager", speed_up=float("nan")):
    """A cell whose latency has an interval of ±10 %."""
    latency_s = batch / rate
    return {
        "model": model, "batch": batch, "precision": precision, "variant": variant, "latency_s": latency_s,
        "latency_low_s": 0.9 * latency_s, "latency_high_s": 1.1 * latency_s, "throughput_per_s": rate, "status": "ok",
        "speed_up": speed_up,
    }  # fmt: skip


def machine():
    """Six networks. Inputs per second: 100, 150 and 50 at batch sizes 1, 8 and 64, and 100 at 64 at bf16.

    With memory kept 100, 160 and 150, and at bf16 and 64 it is 300.
    """
    eager = [cell(model, batch, rate) for model in MODELS for batch, rate in ((1, 100), (8, 150), (64, 50))]
    eager += [cell(model, 64, 100, "bf16") for model in MODELS]
    kept = [
        cell(model, batch, rate, variant="kept_memory", speed_up=speed_up)
        for model in MODELS
        for batch, rate, speed_up in ((1, 100, 1.0), (8, 160, 1.07), (64, 150, 3.0))
    ]
    kept += [cell(model, 64, 300, "bf16", "kept_memory", 3.0) for model in MODELS]
    return replace(tiny().machine("cpu"), cells=pd.DataFrame(eager), variants=pd.DataFrame(kept))


def test_gains_are_speeds_over_eager_mode_at_fp32():
    here = of(replace(tiny(), machines=(machine(),))).here
    assert here.batch.number == 64
    assert here.kept.number == pytest.approx(3)
    assert here.precision.number == pytest.approx(2)
    assert here.both.number == pytest.approx(6)
    assert here.noise.number == pytest.approx(0.1)


def test_the_best_batch_size_is_where_most_networks_are_fastest_with_memory_kept():
    here = of(replace(tiny(), machines=(machine(),))).here
    assert (here.first_batch.number, here.best_batch.number) == (1, 8)
    assert here.batching.number == pytest.approx(1.6)


def test_without_kept_memory_eager_mode_stands_in():
    known = machine()
    here = of(replace(tiny(), machines=(replace(known, variants=known.variants[:0]),))).here
    assert here.kept.is_missing
    assert here.batch.number == 64
    assert here.batching.number == pytest.approx(1.5)


def test_nothing_measured_keeps_the_threshold():
    found = facts.of_chapter("remedies", empty())
    known = {key for key, value, _ in facts.entries("remedies", found) if not value.is_missing}
    assert "remedies.here.threshold" in known
    assert not any(key.startswith("remedies.here") for key in known - {"remedies.here.threshold"})
