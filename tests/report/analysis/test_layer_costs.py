from dataclasses import replace

import pytest
from helpers.papers import empty, tiny
from helpers.training_papers import trained

from report.analysis import available, layer_costs
from report.analysis.available import DataMissingError
from report.analysis.layer_costs import CELL, OUTSIDE


def layers(kind, model):
    rows = layer_costs.of_layers(trained(), trained().machine(kind))
    return rows[rows.model == model]


def kinds(model, stage, quantity, scale=1.0):
    rows = layer_costs.of_kinds(trained(), trained().machine("cpu"))
    own = rows[(rows.model == model) & (rows.stage == stage)]
    return {row.layer_kind: pytest.approx(scale * getattr(row, quantity), abs=1e-9) for row in own.itertuples()}


def test_layers_run_in_order_with_the_time_of_all_their_operators():
    rows = layers("cpu", "lean")
    assert rows.path.tolist() == ["features", "act", "head"]
    assert rows.forward_time_s.tolist() == pytest.approx([0.006, 0.001, 0.002])
    assert rows.backward_time_s.tolist() == pytest.approx([0.012, 0.004, 0.005])  # the head's 3 and 2 ms
    assert rows.backward_flop.tolist() == [1360e6, 160e6, 160e6]  # products, and the activation's other FLOP
    assert rows.forward_byte.tolist() == [25e6, 19.2e6, 3.8e6]  # parameters 1, 0 and 3 MB
    assert rows.backward_byte.tolist() == [5e6, 35.2e6, 3.8e6]  # saved 4, 35.2 and 0.8 MB


def test_kinds_and_the_named_remainder():
    # Of 10 ms forward the layers take 9, of 24 ms backward 21: the loss is outside.
    assert kinds("lean", "forward", "time_s", 1e3) == {
        "convolution": 6, "activation": 1, "linear": 2, OUTSIDE: 1,
    }  # fmt: skip
    assert kinds("lean", "backward", "time_s", 1e3) == {
        "convolution": 12, "activation": 4, "linear": 5, OUTSIDE: 3,
    }  # fmt: skip
    assert kinds("lean", "backward", "byte", 1e-6) == {
        "convolution": 5, "activation": 35.2, "linear": 3.8, OUTSIDE: 0,
    }  # fmt: skip


def test_parts_sum_to_what_was_measured_and_counted():
    for machine in trained().machines:
        rows, steps = layer_costs.of_kinds(trained(), machine), available.steps(machine).set_index("model")
        for (model, stage), own in rows.groupby(["model", "stage"]):
            step = steps.loc[model]
            assert own.time_s.sum() == pytest.approx(step[f"{stage}_s"], rel=1e-12)
            assert own.flop.sum() == step[f"{stage}_flop"] + step[f"{stage}_other_flop"]
            memory = {
                "forward": step.parameter_byte + step.activation_byte,
                "backward": step.saved_byte + step.gradient_byte,
            }
            assert own.byte.sum() == memory[stage]
        assert layer_costs.shares(rows, "time_s").groupby([rows.model, rows.stage]).sum().tolist() == [
            pytest.approx(1)
        ] * (2 * rows.model.nunique())


def test_only_cells_that_were_measured_and_profiled_count():
    assert set(layer_costs.of_layers(trained(), trained().machine("cpu")).model) == {"lean", "deep"}


def test_a_layer_that_was_not_seen_took_no_time():
    cpu = trained().machine("cpu")
    without = replace(cpu, operators=cpu.operators[cpu.operators.path != "act"])
    rows = layer_costs.of_layers(trained(), without)
    assert rows[(rows.model == "lean") & (rows.path == "act")].forward_time_s.tolist() == [0.0]


def test_most_costly():
    first = layer_costs.most_costly(layer_costs.of_kinds(trained(), trained().machine("cpu")))
    # Of deep's 392 ms in layers 360, of lean's 9 ms 6
    assert first["time_s", "forward"] == ("convolution", 2, pytest.approx((360 / 392 + 6 / 9) / 2))
    # lean keeps 35.2 of 44 MB for its activation; deep 68 of 112 MB for its convolution
    assert first["byte", "backward"][1] == 1


def test_pivoted():
    table = layer_costs.pivoted(layer_costs.of_kinds(trained(), trained().machine("cpu")), "time_s")
    (row,) = table[(table.model == "deep") & (table.layer_kind == OUTSIDE)].itertuples()
    assert (row.forward, row.backward) == (pytest.approx(0.008), pytest.approx(0.015))
    assert list(table.columns) == [*CELL, "layer_kind", "forward", "backward"]


def test_the_batch_size_that_is_shown_is_that_of_most_models():
    steps = available.steps(trained().machine("cpu"))
    more = steps.assign(batch=[64, 64, 8])
    assert (layer_costs.shown_batch(steps), layer_costs.shown_batch(more)) == (8, 8)
    assert layer_costs.shown_batch(steps.assign(batch=[64, 64, 64])) == 64


def test_the_first_machine_with_layers_is_shown():
    machine, rows = layer_costs.of_shown(trained(), layer_costs.of_kinds)
    assert machine.chip_kind == "cpu"
    cpu = trained().machine("cpu")
    no_cpu = replace(cpu, profiles=cpu.profiles.iloc[:0])
    paper = replace(trained(), machines=(no_cpu, trained().machine("gpu")))
    machine, rows = layer_costs.of_shown(paper, layer_costs.of_kinds)
    assert (machine.chip_kind, set(rows.model)) == ("gpu", {"lean"})


def test_what_is_missing():
    cpu = trained().machine("cpu")
    with pytest.raises(
        DataMissingError,
        match=r"time of the layers of a training step on the Example CPU \(4 cores\) has not been measured; `python -m "
        "measure --device cpu --sections workload operators` measures it",
    ):
        layer_costs.of_layers(trained(), replace(cpu, profiles=cpu.profiles.iloc[:0]))
    with pytest.raises(DataMissingError, match=r"No training step .*CPU.* No training step .*GPU"):
        layer_costs.of_shown(tiny(), layer_costs.of_layers)
    with pytest.raises(DataMissingError, match="No machine"):
        layer_costs.of_shown(empty(), layer_costs.of_layers)
