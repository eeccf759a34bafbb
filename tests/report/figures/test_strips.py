import pytest
import vl_convert
from helpers.charts import drawn
from helpers.papers import tiny
from helpers.training_papers import trained

from report.analysis import layer_costs
from report.figures import marks, strips


def record(chart, model):
    (data,) = chart["datasets"].values()
    (found,) = [row for row in data if row["model"] == model]
    return found


def test_shares_are_of_both_passes_together():
    lean = record(drawn(strips.one, trained()), "lean")
    assert lean["layer"] == ["features", "act", "head"]
    # 9 ms forward and 21 ms backward
    assert lean["time_s_forward"] == [20.0, 3.33, 6.67]
    assert lean["time_s_backward"] == [40.0, 13.3, 16.7]
    # parameters 1, 0, 3 and activations 24, 19.2, 0.8; saved 4, 35.2, 0.8 and gradients 1, 0, 3: 92 MB
    assert lean["byte_backward"] == [5.43, 38.3, 4.13]


def test_layers_that_are_small_in_everything_are_left_out():
    layers = layer_costs.of_layers(trained(), trained().machine("cpu")).copy()
    small = layers.path == "act"
    layers.loc[small, layer_costs.COSTS] = layers.loc[small, layer_costs.COSTS] / 1000
    assert set(strips.layer_shares(layers).path) == {"features", "norm", "head"}


def test_the_reader_chooses_a_model():
    specification = drawn(strips.one, trained())
    (choice,) = [param for param in specification["params"] if param["name"] == "model"]
    assert choice["bind"]["options"] == ["deep", "lean"]
    assert choice["value"] == "deep"
    assert [panel["encoding"]["y"]["title"] for panel in specification["concat"]] == ["time", "FLOP", "memory"]


def test_whose_layers_are_shown():
    assert marks.first_of(strips.MODELS, {"resnet18", "net", "alexnet"}, 4) == ["alexnet", "resnet18"]


@pytest.mark.parametrize("gpu", [True, False])
def test_it_is_drawn(gpu):
    specification = drawn(strips.one, trained(gpu=gpu))
    assert "features in deep" in specification["description"]
    assert vl_convert.vegalite_to_svg(specification).count("mark-rect") >= 3


def test_without_steps_it_is_a_sentence():
    assert "--device cpu --sections workload training" in strips.one(tiny())
