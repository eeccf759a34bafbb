from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, many
from helpers.sentences import plain

from report.analysis.available import Missing
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
