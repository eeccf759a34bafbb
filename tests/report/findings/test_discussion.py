from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, many
from helpers.sentences import plain

from report.analysis.available import Missing
from report.analysis.correlations import Correlation
from report.analysis.effect import Effect
from report.analysis.elsewhere_pairs import Fused, Instead, PairedChange
from report.findings import discussion


def cpu():
    return many().machine("cpu")


def paper(machine):
    return replace(many(), machines=(machine,))


def kept(**faster):
    """The CPU with memory kept, by batch size so many times as fast."""
    factors = {int(batch.removeprefix("at_")): factor for batch, factor in faster.items()}
    rows = cpu().cells.assign(variant="kept_memory", speed_up=cpu().cells.batch.map(factors))
    return paper(replace(cpu(), variants=rows))


def test_memory_that_explains_what_a_larger_batch_costs():
    assert plain(discussion.kept_memory(kept(at_1=1.0, at_4=1.5, at_16=3.0))) == (
        "On the Example CPU (4 cores) memory is part of what a larger batch costs: where blocks are kept rather than "
        "returned to the operating system, cells run 3.00 (3.00 to 3.00) times as fast at batch size 16 in the median "
        "of 7 models, against 1.00 (1.00 to 1.00) at 1."
    )


def test_memory_that_explains_nothing():
    """Where it helps as much at every batch size, there is nothing to set beside; where it does not, it is told so."""
    assert "against" not in discussion.kept_memory(kept(at_1=3.0, at_4=3.0, at_16=3.0))
    text = plain(discussion.kept_memory(kept(at_1=2.0, at_4=1.0, at_16=0.8)))
    assert text.startswith("Memory that goes back to the operating system does not explain what a larger batch costs")
    assert "cells run 0.800 (0.800 to 0.800) times as fast at batch size 16" in text
    untried = discussion.kept_memory(many())
    assert isinstance(untried, Missing)
    assert "--variants kept_memory" in untried


def test_the_systems_share_is_told_where_it_agrees(monkeypatch):
    # At batch size 1 a third model was profiled, which has no part in the comparison
    shares = pd.DataFrame({"model": [*"abcab"], "batch": [1, 1, 1, 16, 16], "system_share": [0.1, 0.2, 0.3, 0.4, 0.5]})
    monkeypatch.setattr(discussion.waterfall, "profiled", lambda machine: shares)
    told = plain(discussion.kept_memory(kept(at_1=1.0, at_4=1.5, at_16=3.0)))
    assert told.endswith("agrees: it grows from 15 % at batch size 1 to 45 % at 16.")
    falling = shares.assign(system_share=shares.system_share[::-1].to_numpy())
    monkeypatch.setattr(discussion.waterfall, "profiled", lambda machine: falling)
    assert "agrees" not in discussion.kept_memory(kept(at_1=1.0, at_4=1.5, at_16=3.0))


def lowered(times_as_fast, peak=2.0):
    """The CPU with cells at bf16 so many times as fast, and with a peak there so many times as high."""
    rows = cpu().cells
    faster = rows.assign(precision="bf16", latency_s=rows.latency_s / times_as_fast)
    roofs = cpu().roofs[cpu().roofs.precision == "fp32"]
    higher = roofs.assign(precision="bf16", peak_flop_per_s=peak * roofs.peak_flop_per_s)
    cells = pd.concat([rows, faster], ignore_index=True)
    return paper(replace(cpu(), cells=cells, roofs=pd.concat([roofs, higher], ignore_index=True)))


@pytest.mark.parametrize(
    ("times_as_fast", "follows"),
    [
        (3.0, "They come nearer to it, since tensors of half the length save traffic as well."),
        (2.0, "They come no nearer to it: what holds them back at fp32 does so at bf16."),
        (1.5, "They fall further behind it: what bf16 does not shorten weighs more."),
    ],
)
def test_a_lower_precision_is_held_against_its_roof(times_as_fast, follows):
    told = plain(discussion.lower_precision(lowered(times_as_fast)))
    assert told.startswith(f"On the Example CPU (4 cores) models run {times_as_fast:.2f} (")
    assert "as fast at bf16 as at fp32, where the peak is 2.00 times as high. " in told
    assert told.endswith(follows)


def test_what_is_missing_is_said():
    assert "--precisions fp32 bf16" in discussion.lower_precision(many())
    for told in (discussion.kept_memory, discussion.lower_precision):
        assert isinstance(told(empty()), Missing)


def compiled(device="Bead 2"):
    return PairedChange("torch.compile", device, "inference at fp16", pd.Series(dtype=float))


def fused(value, low, high):
    return Fused(compiled(), Correlation(value, (low, high), 500, 500), 1.25, 1.75)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            [fused(0.3, 0.2, 0.4)],
            "The quarter of models in which these move least of the bytes runs 1.25 times as fast with it on the Bead "
            "2 (inference at fp16), the quarter in which they move most 1.75 times. That is a part of its gain: ρ = "
            "0.30 (0.20 to 0.40) over 500 models.",
        ),
        ([fused(0.8, 0.7, 0.9)], "That is most of its gain: ρ = 0.80 (0.70 to 0.90) over 500 models."),
        # On one of two devices it may be chance
        ([fused(0.3, 0.2, 0.4), fused(0.1, -0.1, 0.3)], "cannot be told from chance: ρ = 0.30 (0.20 to 0.40)"),
        ([fused(-0.3, -0.4, -0.2)], "does not explain what it brings"),
    ],
)
def test_fusing(monkeypatch, found, words):
    monkeypatch.setattr(discussion.elsewhere_pairs, "fused", lambda paper: found)
    assert words in plain(discussion.fusing(many()))


@pytest.mark.parametrize(
    ("factor", "low", "high", "words"),
    [
        (
            1.2,
            1.1,
            1.3,
            "Compile before you buy: with torch.compile models run 1.20 (1.10 to 1.30) times as fast on the ",
        ),
        (1.0, 0.9, 1.1, "Whether to compile or to buy cannot be told from chance: with torch.compile models run 1.00 "),
        (0.8, 0.7, 0.9, "Buy rather than compile, if you cannot do both: with torch.compile models run 0.800 "),
    ],
)
def test_compile_or_buy(monkeypatch, factor, low, high, words):
    advantage = Effect(factor, lambda _: (low, high), 24)
    found = Instead(compiled(), compiled("Bead 2 to Cog 3"), advantage)
    monkeypatch.setattr(discussion.elsewhere_pairs, "compiled_instead", lambda paper: found)
    text = plain(discussion.compile_or_buy(many()))
    assert text.startswith(words)
    assert text.endswith("on the Bead 2 as without it on a Cog 3 (inference at fp16), in the median of 24 models.")


@pytest.mark.parametrize("finding", [discussion.fusing, discussion.compile_or_buy])
def test_without_timings_of_others_there_is_a_command(finding):
    assert isinstance(finding(empty()), Missing)
    assert "add-published" in finding(empty())
