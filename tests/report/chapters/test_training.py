"""The chapter on training, on the tiny cache of `helpers.training_papers`: milliseconds by hand.

The CPU's roof is 100 GFLOP/s and 10 GB/s. A step of lean takes 10 + 24 + 2 ms, of deep 400 + 1000 + 20, of broad
50 + 98 + 12.
"""

import re
from dataclasses import replace

import pandas as pd
import pytest
from helpers.counted_papers import counted
from helpers.papers import empty
from helpers.places import ROOT
from helpers.training_papers import trained

from report import facts
from report.chapters.training import costs, figures, tables
from report.chapters.training.costs import agreeing
from report.chapters.training.facts import of
from report.paper import load

CHAPTER = ROOT / "report" / "chapters" / "training"
DRAWN = (figures.ratios, figures.memory, figures.pies, figures.strip, figures.steps, figures.kernels, figures.counters)


@pytest.fixture
def cpu():
    return trained().machine("cpu")


@pytest.fixture(scope="module")
def reference():
    """The facts of the project's own data."""
    return of(load(ROOT / "data", chosen=[]))


def of_model(rows, model, column):
    own = rows[rows.model == model]
    return dict(zip(own.layer_kind, own[column], strict=True))


def test_layers_run_in_order_with_the_time_of_all_their_operators(cpu):
    rows = costs.layers(trained(), cpu)
    lean = rows[rows.model == "lean"]
    assert lean.path.tolist() == ["features", "act", "head"]
    assert lean.forward_time_s.tolist() == pytest.approx([0.006, 0.001, 0.002])
    assert lean.backward_time_s.tolist() == pytest.approx([0.012, 0.004, 0.005])  # the head's 3 and 2 ms
    assert lean.backward_flop.tolist() == [1360e6, 160e6, 160e6]  # products, and the activation's other FLOP
    assert lean.forward_byte.tolist() == [25e6, 19.2e6, 3.8e6]  # parameters 1, 0 and 3 MB
    assert lean.backward_byte.tolist() == [5e6, 35.2e6, 3.8e6]  # saved 4, 35.2 and 0.8 MB


def test_only_steps_that_were_measured_and_profiled_have_layers(cpu):
    assert set(costs.steps(cpu).model) == {"lean", "deep", "broad"}
    assert set(costs.layers(trained(), cpu).model) == {"lean", "deep"}
    unseen = replace(cpu, operators=cpu.operators[cpu.operators.path != "act"])
    rows = costs.layers(trained(), unseen)
    assert rows[(rows.model == "lean") & (rows.path == "act")].forward_time_s.tolist() == [0.0]


def test_ratios_by_kind_of_layer(cpu):
    rows = costs.kinds(trained(), cpu)
    # 12 / 6, 4 / 1 and 5 / 2 ms; 1360 / 720 and 160 / 80 MFLOP of products, none in the activation
    assert of_model(rows, "lean", "time_ratio") == pytest.approx({"convolution": 2, "activation": 4, "linear": 2.5})
    flop = of_model(rows, "lean", "flop_ratio")
    assert (flop["convolution"], flop["linear"]) == (pytest.approx(1360 / 720), 2)
    assert pd.isna(flop["activation"])
    # 6, 1 and 2 of the 9 ms in layers
    shares = of_model(rows, "lean", "forward_time_s_share")
    assert shares == pytest.approx({"convolution": 6 / 9, "activation": 1 / 9, "linear": 2 / 9})


def test_the_largest_part_of_the_gap_names_the_kind(cpu):
    # lean takes 2.4 times the time and 1.9 times the FLOP. Off by: convolution 12 - 1.9 x 6 = 0.6, activation
    # 4 - 1.9 = 2.1, linear 5 - 3.8 = 1.2 ms. deep, 1.98 times the FLOP: 900 - 713, 60 - 40, 25 - 24.
    assert costs.causes(trained(), cpu).to_dict() == {"lean": "activation", "deep": "convolution"}
    quick = replace(cpu, steps=cpu.steps.assign(time_ratio=0.5))  # now the gap is below, linear or not
    assert costs.causes(trained(), quick)["lean"] == "convolution"


def test_groups_of_operators_have_the_rate_of_their_counted_work(cpu):
    rows = costs.groups(trained(), cpu)
    row = rows[(rows.model == "lean") & (rows.group == "convolution, both gradients")].iloc[0]
    assert row.share == pytest.approx(12 / 33)  # all operators of the step: 9.5 + 21.5 + 2 ms
    assert row.flop_per_s == pytest.approx(1360e6 / 0.012)
    assert row.intensity == pytest.approx(1360 / 146)
    assert rows[rows.group == "optimiser"].flop_per_s.isna().all()  # its work is not counted


def test_the_batch_size_is_that_of_most_networks(cpu):
    def shown(*batches):
        return set(costs.steps(replace(cpu, steps=cpu.steps.assign(batch=[*batches, 1]))).batch)

    steps = cpu.steps[cpu.steps.status == "ok"]
    assert len(steps) == 3
    cpu = replace(cpu, steps=cpu.steps.sort_values("status"))  # the failed step last
    assert shown(64, 64, 8) == {64}
    assert shown(64, 8, 8) == {8}


def test_networks_are_picked_and_filled_up():
    assert costs.pick(pd.Series(["a", "b", "c"]), ("c", "z")) == ["c", "a"]
    assert costs.pick(pd.Series([], dtype=object), ("c",)) == []


def test_a_time_ratio_agrees_by_its_interval_or_within_five_per_cent():
    rows = pd.DataFrame({
        "time_ratio": [2.0, 2.2, 2.2], "time_ratio_low": [1.99, 1.9, 2.1], "time_ratio_high": [2.01, 2.5, 2.3],
        "flop_ratio": [1.95, 1.95, 1.95],
    })  # fmt: skip
    assert agreeing(rows).tolist() == [True, True, False]


def test_the_calculation_adds_up():
    example = of(trained()).example
    # forward max(7.2, 7.3) + 4 + max(0.8, 1.9), backward max(13.6, 14.6) + 8 + 3.8; the update moves 5 x 4 MB
    assert example.flop_s.number == pytest.approx((0.8 + 1.52) / 100)
    assert example.operators_s.number == pytest.approx((7.3 + 4 + 1.9 + 14.6 + 8 + 3.8) / 1e3)
    assert (example.update.number, example.update_s.number) == (20e6, pytest.approx(0.002))
    assert example.bound_s.number == pytest.approx(0.0416)
    assert example.over.number == pytest.approx(36 / 41.6)


def test_facts_of_steps_and_memory():
    found = of(trained())
    assert found.step.over_forward.number == pytest.approx(3.55)  # of 3.6, 3.55 and 3.2
    assert found.step.over_forward.is_missing  # three networks are too few for the text
    assert found.memory.measured_off.number == pytest.approx(0.1)  # 66 MB measured, 60 counted
    problems = found.problems
    room = problems.memory.number - problems.fixed.number
    assert problems.batch.number <= room / problems.input.number < problems.batch.number + 1


def test_counters_stand_between_ideal_and_unfused_bytes():
    # lean: 6 + 2 and 2 + 2 MB of two kernels; parameters, input and output are 4 + 0.5 + 0.004 MB; operators move 20
    found = of(counted()).counters
    assert found.over_ideal.number == pytest.approx(12 / 4.504)
    assert found.of_unfused.number == pytest.approx(12 / 20)
    assert costs.counter_machine(empty()) is None


def test_only_timings_that_differ_in_the_phase_alone_are_compared():
    columns = (
        "source",
        "device",
        "model",
        "batch",
        "input_size",
        "precision",
        "autocast",
        "layout",
        "compiler",
        "torch",
    )
    alike = ("a", "GPU", "net", 12, 224.0, "fp32", "", "contiguous", "", "")
    other = (*alike[:3], 64, *alike[4:])
    rows = [(*alike, "inference", 0.010), (*alike, "step", 0.034), (*other, "step", 0.100)]
    timings = pd.DataFrame(rows, columns=[*columns, "phase", "latency_s"])
    paper = replace(empty(), elsewhere=replace(empty().elsewhere, timings=timings))
    pairs = costs.published_ratios(paper)
    assert pairs.ratio.tolist() == [pytest.approx(3.4)]


def test_parts_of_memory_fill_the_bar():
    chart = figures.memory.__wrapped__(trained())
    shares = {}
    for rows in chart["datasets"].values():
        for row in rows:
            if "share" in row:
                shares[row["network"]] = shares.get(row["network"], 0) + row["share"]
    assert list(shares.values()) == pytest.approx([1] * 4, abs=1e-5)


def test_without_data_facts_are_missing_and_figures_are_gaps():
    found = list(facts.entries("training", of(empty())))
    assert all(value.is_missing or value.number == 0 for key, value, _ in found if ".reference." not in key)
    for make in DRAWN:
        with pytest.raises(figures.display.Missing, match="python -m measure"):
            make.__wrapped__(empty())
    for make in (tables.ratios, tables.steps):
        assert make(empty()).markdown.startswith("::: {.gap command=")


def test_every_value_of_the_text_is_a_fact_and_every_fact_is_told(reference):
    text = (CHAPTER / "training.qmd").read_text(encoding="utf-8")
    told = {re.sub(r"\.(name|side\(.*)$", "", name) for name in re.findall(r"`\{python\} (training\.[^`]+)`", text)}
    known = {key: meaning for key, _, meaning in facts.entries("training", reference)}
    assert told == set(known)
    assert all(known.values())  # each has a meaning
    assert "median" not in text


def test_what_the_text_says_of_our_machine_holds(reference):
    named = re.findall(r'claims="([^"]+)"', (CHAPTER / "training.qmd").read_text(encoding="utf-8"))
    assert set(" ".join(named).split()) <= {name for name, holds in reference.claims.items() if holds}
