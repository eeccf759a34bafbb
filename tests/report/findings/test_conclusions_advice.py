"""Each conclusion by hand, and that its advice turns when the data do."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import many, tiny
from helpers.sentences import plain

from report.analysis import remedies
from report.analysis.available import DataMissingError
from report.findings.conclusions import chips, estimates, operators, settings, training
from report.load.paper import Clock
from report.published.verdict import AGREES, DIFFERS, NOT_COMPARABLE, Comparison, Verdict

SIX = [f"model{k}" for k in range(6)]


def cpu(change=lambda cells: cells):
    """The CPU of ``many`` with other cells."""
    machine = many().machine("cpu")
    return replace(machine, cells=change(machine.cells.copy()))


def text(conclusion):
    return plain(conclusion.sentences)


def shown(conclusion):
    effect = conclusion.effect
    return effect.factor, effect.interval, effect.count


def test_an_effect_tells_its_interval_at_the_confidence_that_is_asked_for():
    # Of 7 models the ends enclose the median with 1 - 2 / 128, 98.4 %
    machine = at_bf16({1: 2.0, 4: 3.0, 16: 2.0})
    assert settings.precision(many(), machine, confidence=0.984).effect.side == 1
    unknown = settings.precision(many(), machine, confidence=0.985)
    assert [effect.interval for effect in unknown.effects.values()] == [None] * 3
    assert "expect no speed of bf16" in text(unknown)


def at_bf16(faster, precision="bf16"):
    """Its cells at bf16 too, or at another precision, so many times as fast, by batch size."""

    def change(cells):
        lower = cells.assign(precision=precision, latency_s=cells.latency_s / cells.batch.map(faster))
        return pd.concat([cells, lower], ignore_index=True)

    return cpu(change)


def test_where_nothing_ran_at_bf16_the_lower_precision_is_fp16():
    found = text(settings.precision(many(), at_bf16({1: 2.0, 4: 3.0, 16: 2.0}, "fp16")))
    assert "run inference at fp16: the speed at fp16 over that at fp32 is 3.00 (3.00 to 3.00) at batch size 4 " in found


def test_precision():
    found = settings.precision(many(), at_bf16({1: 2.0, 4: 3.0, 16: 2.0}))
    assert found.effect.factor == pytest.approx(3)
    assert text(found) == (
        "On the Example CPU (4 cores), run inference at bf16: the speed at bf16 over that at fp32 is 3.00 (3.00 to "
        "3.00) at batch size 4 in the median of 7 models."
    )
    assert {at: str(effect) for at, effect in found.effects.items()} == {
        "batch size 1": "2.00 (2.00 to 2.00)", "batch size 4": "3.00 (3.00 to 3.00)",
        "batch size 16": "2.00 (2.00 to 2.00)",
    }  # fmt: skip
    slower = settings.precision(many(), at_bf16({1: 0.5, 4: 0.5, 16: 0.5}))
    assert "stay at fp32: the speed at bf16 over that at fp32 is 0.500" in text(slower)
    assert slower.effect.side == -1
    both = settings.precision(many(), at_bf16({1: 0.5, 4: 3.0, 16: 1.0}))
    assert "run inference at bf16 at batch size 4, at fp32 at batch size 1:" in text(both)
    neither = settings.precision(many(), at_bf16({1: 1.0, 4: 1.0, 16: 1.0}))
    assert "expect no speed of bf16" in text(neither)
    with pytest.raises(DataMissingError, match="--device cpu --precisions fp32 bf16` does"):
        settings.precision(many(), cpu())


def with_variants(**faster):
    """Cells of variants too, each so many times as fast as in eager mode, by batch size."""
    cells = cpu().cells
    rows = [cells.assign(variant=name, speed_up=cells.batch.map(factors)) for name, factors in faster.items()]
    return replace(cpu(), variants=pd.concat(rows, ignore_index=True))


def test_variant():
    found = settings.variant(
        many(), with_variants(kept_memory={1: 1.0, 4: 2.0, 16: 3.0}, channels_last={1: 1.5, 4: 1.5, 16: 1.5})
    )
    assert found.effect.factor == pytest.approx(3)
    assert text(found) == (
        "On the Example CPU (4 cores), run inference with kept_memory at batch size 4 and 16: the speed with it over "
        "that in eager mode is 3.00 (3.00 to 3.00) at batch size 16 in the median of 7 models."
    )
    # All six that were tried are tested
    names = ["kept_memory, batch size 1", "channels_last, batch size 16"]
    assert [found.effects[name].factor for name in names] == [1, 1.5]
    assert len(found.effects) == 6
    slower = settings.variant(many(), with_variants(cold={1: 0.5, 4: 0.5, 16: 0.5}))
    assert "do without cold: the speed with it over that in eager mode is 0.500" in text(slower)
    both = settings.variant(many(), with_variants(compile={1: 0.5, 4: 2.0, 16: 3.0}))
    assert "run inference with compile at batch size 4 and 16, without it at batch size 1: the" in text(both)
    neither = settings.variant(many(), with_variants(compile={1: 1.0, 4: 1.0, 16: 1.0}))
    assert "expect no speed of compile:" in text(neither)
    with pytest.raises(DataMissingError, match="--precisions fp32 --variants eager channels_last kept_memory"):
        settings.variant(many(), cpu())


def test_batch_size():
    # At 16 the eight models but g: 1, 4 and five times 2.04. Seven have 95 % of their best at 4: 2 / 2.04 is 98 %.
    found = settings.batch_size(many(), cpu())
    assert found.effect.factor == pytest.approx(2)
    assert text(found) == (
        "On the Example CPU (4 cores), in eager mode collect inputs into batches of 4: the throughput over that at "
        "batch size 1 is 2.00 (2.00 to 2.00) at batch size 4 in the median of 7 models. In eager mode the smallest "
        "batch size with 95 % of the best throughput is 4 in the median of 8 models, from 4 to 16."
    )
    assert {at: str(effect) for at, effect in found.effects.items()} == {
        "4 in place of 1": "2.00 (2.00 to 2.00)", "16 in place of 1": "2.0 (1.0 to 4.0)",
    }  # fmt: skip

    def slower(cells):
        return cells.assign(throughput_per_s=cells.throughput_per_s / cells.batch.map({1: 1, 4: 8, 16: 8}))

    found = settings.batch_size(many(), cpu(slower))
    assert "keep to batch size 1: the throughput over that at batch size 1 is 0.250" in text(found)
    assert "the smallest batch size with 95 % of the best throughput is 1 in the median of 8 models." in text(found)
    # A variant may turn it: 2 times 2 at batch size 4, 2 times 8 at 16
    kept = cpu().cells.assign(variant="kept_memory")
    kept["throughput_per_s"] *= kept.batch.map({1: 1, 4: 2, 16: 8})
    both = settings.batch_size(many(), replace(cpu(slower), variants=kept))
    assert "in eager mode keep to batch size 1: the throughput" in text(both)
    assert "; with kept_memory collect inputs into batches of 16: the throughput" in text(both)
    assert "; with kept_memory the smallest batch size" in text(both)
    assert len(both.effects) == 4
    with pytest.raises(DataMissingError, match="its saturation is not known"):
        settings.batch_size(many(), cpu(lambda cells: cells[cells.batch == 4]))


def test_device():
    # At batch size 1 the speed-ups of the models that were measured at 16 too are 4, 10, 14.1, 28.3, 40, 113 and 283.
    found = settings.device(many())
    assert text(found).startswith(
        "Prefer the Example GPU to the Example CPU (4 cores): the speed of the Example GPU over that of the Example "
        "CPU (4 cores) is "
    )
    assert " at batch size 16 in the median of 7 models. The measured roofs would have it " in text(found)
    assert str(found.effects["batch size 1"]) == "28 (4.0 to 280)"
    gpu = many().machine("gpu")
    slow = replace(gpu, cells=gpu.cells.assign(latency_s=gpu.cells.latency_s * 1e6))
    found = settings.device(replace(many(), machines=(cpu(), slow)))
    assert text(found).startswith("Prefer the Example CPU (4 cores) to the Example GPU:")
    slow = gpu.cells.assign(latency_s=gpu.cells.latency_s * gpu.cells.batch.map({1: 1e6, 4: 1, 16: 1}))
    found = settings.device(replace(many(), machines=(cpu(), replace(gpu, cells=slow))))
    assert text(found).startswith(
        "Run on the Example GPU at batch size 4 and 16, on the Example CPU (4 cores) at batch size 1:"
    )
    with pytest.raises(DataMissingError, match="No other machine"):  # a second CPU is not the reader's to choose
        settings.device(replace(many(), machines=(cpu(), replace(cpu(), folder="another"))))


def test_flop():
    def rates(cells):
        # Of the models half take four times as long for a FLOP: of 28 pairs 16 have a factor of 4, 12 of 1.
        factor = cells.model.isin(list("efgh")).map({True: 4.0, False: 1.0})
        latency_s = cells.forward_flop * 1e-9 * factor
        return cells.assign(latency_s=latency_s, flop_per_s=cells.forward_flop / latency_s)

    found = estimates.flop(many(), cpu(rates))
    assert found.effect.factor == pytest.approx(4)
    assert "do not scale one model's time to another by their FLOP: the time for a FLOP differs" in text(found)
    assert "in the median of all pairs of 7 models" in text(found)
    assert "are e with 250 MFLOP/s and a with 1.00 GFLOP/s" in text(found)
    # Here all take 10 ms a GFLOP at batch size 1.
    alike = estimates.flop(many(), cpu(lambda cells: cells[cells.batch == 1]))
    assert ", scale one model's time to another by their FLOP: " in text(alike)
    assert alike.effect.side == 0


def test_predictor():
    def by(column):
        return cpu(lambda cells: cells.assign(latency_s=cells[column].astype(float) * 1e-9))

    found = estimates.predictor(many(), by("forward_flop"))
    assert "estimate a latency by FLOP, not by " in text(found)
    found = estimates.predictor(many(), by("parameter_count"))
    assert found.effect.side == 1
    assert "estimate a latency by parameters, not by FLOP: FLOP err by 1.7 (1.02 to 2.4) times as much" in text(found)
    assert "Half of them are off the line through FLOP by more than a factor of 1.71, off that" in text(found)
    with pytest.raises(DataMissingError, match="too few models were measured"):
        estimates.predictor(tiny(), tiny().machine("gpu"))


def test_peak():
    # Measured are 100 GFLOP/s; 2 cores x 32 FLOP a cycle at 1 and 3 GHz are 64 and 192.
    machine = cpu()
    roofs = machine.roofs.assign(peak_low_flop_per_s=90e9, peak_high_flop_per_s=120e9)
    low = estimates.peak(many(), replace(machine, roofs=roofs, clock=Clock(1e9, None)))
    assert low.effect.factor == pytest.approx(0.64)
    assert low.effect.interval == pytest.approx((64 / 120, 64 / 90))
    assert low.is_margin  # two numbers of one machine
    assert "do not take the datasheet's peak for a bound: at fp32 it is 0.640 (0.533 to 0.711)" in text(low)
    high = estimates.peak(many(), replace(machine, roofs=roofs, clock=Clock(3e9, None)))
    assert "count on the measured peak, not on the datasheet's: at fp32 it is 1.92" in text(high)
    with pytest.raises(DataMissingError, match="no datasheet roof can be derived"):
        estimates.peak(many(), replace(machine, clock=None))


def comparison(printed, outcome):
    return Comparison("study", f"net {printed}", "FLOP", "FLOP", printed, 1.0, Verdict(outcome, f"because {printed}"))


def test_printed_figures(monkeypatch):
    # Off by 2 or 1/2, and one by 10: three causes; one differs from ours without a number beside it. The median of
    # the causes is that of 2, 2 and 10
    found = [comparison(value, DIFFERS) for value in (2.0, 0.5, 2.0, 0.5, 2.0, 10.0)]
    found.append(replace(comparison(3.0, DIFFERS), ours=None))
    found += [comparison(1.0, AGREES), comparison(1.0, AGREES), comparison(70.0, NOT_COMPARABLE)]
    monkeypatch.setattr(estimates, "comparisons", lambda paper: found)
    differing = estimates.printed_figures(tiny())
    assert text(differing) == (
        "Recompute a printed figure before you build on it: 7 of 9 printed figures that can be compared differ, by "
        "a factor of 2.0 in the median of 4 causes. At the most it is 10 (net 10.0: FLOP)."
    )
    monkeypatch.setattr(estimates, "comparisons", lambda paper: found[7:9])
    agreeing = estimates.printed_figures(tiny())
    assert text(agreeing) == "Build on printed figures: none of 2 printed figures that can be compared differ."
    assert agreeing.effect.side == 0
    monkeypatch.setattr(estimates, "comparisons", lambda paper: [])
    with pytest.raises(DataMissingError, match="--sections workload"):
        estimates.printed_figures(tiny())


def test_distance(monkeypatch):
    half = operators.distance(many(), cpu(lambda cells: cells.assign(attained=0.5)))
    assert half.effect.factor == pytest.approx(2)
    assert "look at the software before buying a faster chip: the time of a call over the least that the" in text(half)
    above = operators.distance(many(), cpu(lambda cells: cells.assign(attained=1.25)))
    assert "look for a faster chip or a leaner model: " in text(above)


@pytest.mark.parametrize(
    ("bases", "advice", "why"),
    [
        # Only what was measured to help more than half of the cells is advice.
        (("measured", "measured", "hypothesis"), "use kept_memory before", "kept_memory helps most in 2 of 3"),
        (("measured", "hypothesis", "hypothesis"), "look at the software", "kept_memory helps most in 1 of 3"),
        (("hypothesis", "none", "hypothesis"), "look at the software", None),
    ],
)
def test_only_a_measured_remedy_is_advice(monkeypatch, bases, advice, why):
    rows = pd.DataFrame({"term": ["convolution"] * 3, "remedy": ["kept_memory"] * 3, "basis": bases})
    monkeypatch.setattr(remedies, "largest", lambda paper, machine: rows)
    found = text(operators.distance(many(), cpu(lambda cells: cells.assign(attained=0.5))))
    assert f"{advice}" in found
    assert (f" Of what was measured {why} profiled cells." in found) if why else ("Of what was measured" not in found)


def test_fusion():
    def bounds(factor):
        return cpu(lambda cells: cells.assign(model_bound_s=0.1, operator_bound_s=0.1 * factor))

    found = operators.fusion(many(), bounds(3))
    assert found.effect.factor == pytest.approx(3)
    assert ", fuse operators: under the roof, the least time of operators run one by one" in text(found)
    assert "do not expect much of fusing operators" in text(operators.fusion(many(), bounds(1.1)))


def test_depthwise(monkeypatch):
    rows = pd.DataFrame({"model": SIX * 2, "batch": 1, "phase": "inference"})
    rows["group"] = ["convolution"] * 6 + ["depthwise convolution"] * 6

    def at(dense, depthwise):
        rates = [dense] * 6 + [depthwise] * 6
        monkeypatch.setattr(operators.operator_shares, "on_roof", lambda paper, machine: rows.assign(flop_per_s=rates))
        return operators.depthwise(many(), cpu())

    slow = at(40e9, 10e9)
    assert shown(slow) == (4, (4, 4), 6)
    assert not slow.is_margin  # it may be quicker too
    assert "do not trust the few FLOP of depthwise convolutions: the time of a FLOP in them over" in text(slow)
    assert ", trust the few FLOP of depthwise convolutions: " in text(at(10e9, 40e9))
    rows["group"] = "convolution"
    with pytest.raises(DataMissingError, match="No model with depthwise convolutions"):
        at(1e9, 1e9)


def test_step():
    def steps(factor):
        rows = pd.DataFrame({"model": SIX, "batch": 32, "precision": "fp32", "status": "ok", "forward_s": 2.0})
        rows = rows.assign(latency_s=2.0 * factor, flop_ratio=2.0, time_ratio=2.0, backward_flop=2e9)
        return training.step(many(), replace(cpu(), steps=rows))

    # By its FLOP a step takes 1 + 2 forward passes.
    assert text(steps(3.6)) == (
        "On the Example CPU (4 cores), expect more time than its FLOP say for a training step: it takes 1.20 "
        "(1.20 to 1.20) times as long, against its forward pass, as its FLOP do in the median of 6 models at batch "
        "size 32. In the medians a step takes as long as 3.60 forward passes, and has the FLOP of 3.00."
    )
    assert shown(steps(3.0)) == (1, (1, 1), 6)  # what is tested may be none
    assert "expect less time than its FLOP say" in text(steps(2.4))
    assert "expect the time that its FLOP say" in text(steps(3.0))
    with pytest.raises(DataMissingError, match="--sections workload training"):
        training.step(many(), replace(cpu(), steps=many().machine("cpu").steps))


def test_memory():
    def paper_of(saved, parameters):
        rows = many().workloads
        rows = rows[rows.batch == 16].assign(
            backward_flop=1.0, training_peak_byte=600, inference_peak_byte=100, saved_byte=saved,
            parameter_byte=parameters, gradient_byte=parameters, momentum_byte=parameters,
        )  # fmt: skip
        return training.memory(replace(many(), workloads=rows))

    found = paper_of(540, 18)
    assert shown(found) == (6, (6, 6), 8)
    assert found.is_margin
    assert text(found) == (
        "Keep fewer activations to train in less memory, by a smaller batch or by computing them again: training "
        "takes 6.00 (6.00 to 6.00) times the memory of inference in the median of 8 models at batch size 16. Of its "
        "peak, saved activations are 90 % in the median and parameters 3.0 %."
    )
    assert text(paper_of(60, 180)).startswith("Keep less of each parameter to train in less memory, by a leaner")


def gpus(**columns):
    """Six data-center GPUs of six years, at bf16 on tensor units and at fp32 on vector units."""
    like = tiny().chips.iloc[[0] * 12].reset_index(drop=True)
    rows = like.assign(
        chip=[f"NVIDIA A{k}" for k in range(6)] * 2, die="", chip_kind="gpu", memory_type="HBM2",
        year=[2010.0 + k for k in range(6)] * 2, precision=["bf16"] * 6 + ["fp32"] * 6,
        unit=["tensor"] * 6 + ["vector"] * 6, peak_flop_per_s=[400e12] * 6 + [100e12] * 6,
        sparse_peak_flop_per_s=[800e12] * 6 + [None] * 6,
    )  # fmt: skip
    return replace(tiny(), chips=rows.assign(**columns))


def test_sparsity():
    found = chips.sparsity(gpus())
    assert shown(found) == (2, (2, 2), 6)
    assert "one is 2.00 (2.00 to 2.00) in the median of 6 dies that have both" in text(found)
    assert shown(chips.sparsity(gpus(die=["one", "one", "one", "", "", ""] * 2)))[2] == 4
    with pytest.raises(DataMissingError, match="sparse peak"):
        chips.sparsity(gpus(sparse_peak_flop_per_s=None))


def test_tensor_units():
    found = chips.tensor_units(gpus())
    assert shown(found) == (4, (4, 4), 6)
    assert found.is_margin
    assert text(found).startswith("Run at 16 bits on a data-center GPU, and give it models or batches of high")
    assert "of the tensor units of 6 dies of data-center GPUs is 4.00 times (NVIDIA A" in text(found)
    apart = chips.tensor_units(gpus(peak_flop_per_s=[200e12, 1600e12, *[400e12] * 4, *[100e12] * 6]))
    assert "is 2.00 (NVIDIA A0) to 16.0 times (NVIDIA A1) that of their vector units at fp32." in text(apart)
    with pytest.raises(DataMissingError, match="no data-center GPU with a 16-bit rate"):
        chips.tensor_units(gpus(unit="vector"))


def test_ridge():
    # Twice as high each year, but for a little: from 2010 to 2015 by about 2^5
    wobble = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99] * 2
    rising = [2.0**k * off for k, off in zip([*range(6)] * 2, wobble, strict=True)]
    found = chips.ridge(gpus(ridge_flop_per_byte=rising))
    assert found.effect.factor == pytest.approx(32, rel=0.03)
    assert text(found).startswith(
        "Expect memory to bound more models on newer GPUs, and look at a chip's bandwidth first: over the years of the "
        "table ridge points rose by a factor of 3"
    )
    assert list(found.effects) == ["GPUs"]
    falling = chips.ridge(gpus(ridge_flop_per_byte=[1 / value for value in rising]))
    assert text(falling).startswith("Expect arithmetic to bound more models on newer GPUs, and look at a chip's peak")
    assert "ridge points moved by a factor of 0.03" in text(falling)
    assert text(found).endswith("for 6 dies of GPUs (2010 to 2015).")
    level = chips.ridge(gpus(ridge_flop_per_byte=[1.0, 9, 1, 1, 9, 1] * 2))
    assert text(level).startswith("Do not expect newer chips to bound models otherwise than older ones")
