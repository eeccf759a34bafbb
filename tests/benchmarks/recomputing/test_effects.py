from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from recomputing import effects
from recomputing.effects import Conclusions, Subject
from recomputing.statistics import Effect


def cells(**throughputs):
    """Cells of eager mode at fp32: the throughput of each model at 1, 4, 16; not a number where it failed."""
    rows = [
        {"model": model, "batch": 4**place, "precision": "fp32", "variant": "eager", "status": "ok",
         "throughput_per_s": rate, "latency_s": 4**place / rate, "forward_flop": 100.0}
        for model, rates in throughputs.items()
        for place, rate in enumerate(rates)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def stub(rows):
    """A cache and a machine that hold these cells."""
    return SimpleNamespace(asked=lambda machine, **_: rows), SimpleNamespace(cells=rows)


def factors(sizes):
    return {size: effect.factor for size, effect in sizes.items()}


def test_a_larger_batch_is_held_against_the_first():
    cache, machine = stub(cells(a=[10, 20, 40], b=[10, 10, 5]))
    # The medians of 2 and 1, and of 4 and 0.5
    assert factors(effects.batch_size(cache, machine)["eager"]) == {4: 1.5, 16: 2.25}


def test_a_model_saturates_at_the_smallest_size_with_95_percent_of_its_best():
    _, machine = stub(cells(a=[10, 19, 20], b=[10, 9, 8], c=[10, np.nan, 20]))
    swept = effects.swept(machine)["eager"].set_index("model").saturation
    assert swept.to_dict() == {"a": 4, "b": 1, "c": 16}


def test_too_large_a_step_is_no_sweep():
    rows = cells(a=[10, 19, 20])
    rows["batch"] = rows.batch.replace(16, 17)
    assert effects.swept(stub(rows)[1]) == {}


def test_the_strongest_variant_is_the_one_that_is_clear():
    unclear, clear = Effect(3, 6, lambda _: (0.5, 9)), Effect(0.8, 6, lambda _: (0.7, 0.9))
    assert effects.strongest_variant({"cold": {1: unclear}, "kept_memory": {1: clear}}, 0.95) == "kept_memory"
    assert effects.strongest_variant({"cold": {1: unclear}}, 0.95) == "cold"


def test_the_time_for_a_flop_differs_by_the_median_over_pairs():
    cache, machine = stub(cells(a=[10], b=[20], c=[80]))
    assert factors(effects.flop(cache, machine)) == pytest.approx({1: 4})  # 2, 4 and 8


def test_a_predictor_is_held_against_flop():
    rows = cells(a=[8], b=[4], c=[2], d=[1]).assign(
        forward_flop=[1.0, 3, 2, 4], parameter_count=[1, 2, 4, 8], activation_byte=[4, 3, 2, 1],
        traffic_byte=[1, 1, 1, 1], operator_bound_s=np.nan,
    )  # fmt: skip
    found = effects.estimation(*stub(rows))
    # Latencies are 1/8 to 1, as parameters are, in the order of which FLOP exchange two
    assert (found.batch, found.best, found.other) == (1, "parameters", "FLOP")
    assert found.errors["parameters"] == pytest.approx(1)


def chips(*rows):
    columns = (
        "chip die chip_kind year precision unit peak_flop_per_s sparse_peak_flop_per_s bandwidth_byte_per_s memory_type"
    )
    table = pd.DataFrame(rows, columns=columns.split())
    return SimpleNamespace(chips=table.assign(ridge_flop_per_byte=table.peak_flop_per_s / table.bandwidth_byte_per_s))


GPUS = chips(
    ("NVIDIA T4", "TU104", "gpu", 2018, "fp32", "vector", 8, np.nan, 1, "GDDR6"),
    ("NVIDIA T4", "TU104", "gpu", 2018, "fp16", "tensor", 64, np.nan, 1, "GDDR6"),
    ("NVIDIA A10", "GA102", "gpu", 2021, "fp32", "vector", 30, np.nan, 1, "GDDR6"),
    ("NVIDIA A10", "GA102", "gpu", 2021, "bf16", "tensor", 120, 240, 1, "GDDR6"),
    ("NVIDIA A10", "GA102", "gpu", 2021, "int8", "tensor", 240, 720, 1, "GDDR6"),
    ("NVIDIA TITAN RTX", "TU102", "gpu", 2018, "fp32", "vector", 16, np.nan, 1, "GDDR6"),
    ("NVIDIA TITAN RTX", "TU102", "gpu", 2018, "fp16", "tensor", 160, np.nan, 1, "GDDR6"),
    ("AMD Instinct MI9", "", "gpu", 2024, "bf16", "tensor", 512, 1536, 2, "HBM3"),
    ("NVIDIA A40", "GA102", "gpu", 2022, "fp32", "vector", 40, np.nan, 1, "GDDR6"),
    ("NVIDIA A40", "GA102", "gpu", 2022, "bf16", "tensor", 800, 8000, 1, "GDDR6"),
    ("Groq", "", "asic", 2020, "fp16", "tensor", 100, np.nan, 1, "SRAM on chip"),
)


def test_tensor_units_are_those_of_data_center_gpus_that_print_both_a_die_once():
    pairs = effects.tensor_units(GPUS)
    # 64 / 8 and 120 / 30; the A40 is of the A10's die, and came later
    assert dict(zip(pairs.chip, pairs.ratio, strict=True)) == {"NVIDIA T4": 8, "NVIDIA A10": 4}


def test_a_sparse_peak_is_that_of_a_die():
    effect = effects.sparse_peaks(GPUS)
    assert (effect.factor, effect.count) == (2.75, 2)  # the medians of 2 and 3, and of 3


def test_ridge_points_are_those_of_each_kind_with_dies_enough():
    (series,) = effects.ridge_series(GPUS)
    assert (series.kind, series.rate, series.years) == ("gpu", "16-bit floating point on tensor units", (2018, 2024))
    # log 64, 160, 120, 256 over 2018, 2018, 2021, 2024 from the mean 2020.25
    logs, years = np.log([64, 160, 120, 256]), np.array([-2.25, -2.25, 0.75, 3.75])
    assert np.log(series.effect.factor) == pytest.approx(6 * (logs @ years) / (years @ years))


def test_the_listed_effects_are_clear_and_large_and_margins_stand_apart():
    def subject(topic, factor, low, high, is_margin=False):
        return Subject(topic, "", [Effect(factor, 9, lambda _: (low, high))], is_margin)

    found = Conclusions(SimpleNamespace())
    found.__dict__["subjects"] = [
        subject("small", 1.05, 1.04, 1.06), subject("down", 0.4, 0.3, 0.5), subject("none", 3, 0.9, 9),
        subject("up", 2, 1.5, 2.5), subject("margin", 9, 8, 10, is_margin=True),
    ]  # fmt: skip
    assert [each.topic for each in found.clear] == ["down", "up"]  # 1 / 0.4 = 2.5
    assert [each.topic for each in found.margins] == ["margin"]
    # Three of the four that are tested are clear: 1 - 3 · 5 % / 4
    assert len(found.tested) == 4
    assert found.confidence == pytest.approx(0.9625)
