from dataclasses import replace

import pytest
from helpers.rows import run
from helpers.world import WORLD, world

from measure.cache.folders import Workloads
from measure.domain.workload_records import Layer, Workload
from measure.errors import UserError
from report.paper import frame, workloads


def tables():
    tiny_tables = Workloads(WORLD)
    return frame(tiny_tables.rows(Workload), Workload), frame(tiny_tables.rows(Layer), Layer)


def test_a_row_has_the_bytes_that_its_call_can_touch():
    models, _ = tables()
    models.loc[models.precision == "bf16", "activation_byte"] += 1_000_000  # what stays in fp32, say
    lean = (models.model == "lean") & (models.precision == "fp32")
    models["untouched_byte"] = models.untouched_byte.mask(lean, 3_000_000)  # a table's other rows
    rows = workloads.shown(models, {}).set_index(["model", "batch", "precision"])
    assert rows.loc[("lean", 1, "bf16")].footprint_byte == 6e6  # 2.0 + 0.25 + 2.75 + 1.0
    row = rows.loc[("lean", 1, "fp32")]
    # 4.0 - 3.0 MB parameters + 0.5 MB inputs, and 5.5 MB activations or 4 kB outputs; 100 MFLOP; traffic is unchanged
    assert (row.footprint_byte, row.compulsory_byte, row.traffic_intensity) == (7e6, 1.504e6, 5)
    assert row.compulsory_intensity == pytest.approx(100 / 1.504)


def test_rows_with_autocast_and_failures_are_left_out():
    models, _ = tables()
    assert "opaque" in set(models.model)
    assert "cpu" in set(models.autocast)
    # Four models at two batch sizes and precisions; six at four and three; Llama at two; three or five layers each
    rows, layers = world().workloads, world().layers
    assert (len(rows), len(layers)) == (16 + 6 * 7 + 2, 16 * 3 + 6 * 3 * 5)


@pytest.mark.parametrize(
    ("model", "counted", "measured", "shown"),
    [
        ("lean", ("3x96x96", "3x224x224"), None, "3x96x96"),  # of a user's own the smallest, by numbers
        ("inception_v3", ("3x224x224", "3x299x299"), None, "3x299x299"),  # the shape of a measurement
        ("resnet50", ("3x600x600",), None, "3x600x600"),  # counted at no other
        ("wav2vec2_base", ("16000", "160000"), "16000", "16000"),
        ("wav2vec2_base", ("16000", "160000"), "8000", None),
    ],
)
def test_a_model_is_shown_at_the_shape_it_is_measured_at(model, counted, measured, shown):
    row = Workloads(WORLD).rows(Workload)[-1]
    models = frame([replace(row, model=model, input_shape=shape) for shape in counted], Workload)
    found = workloads.shown(models, {model: measured} if measured else {})
    assert found.input_shape.tolist() == ([shown] if shown else [])


TEN, ONE = ("wav2vec2_base", "160000", "ok"), ("wav2vec2_base", "16000", "ok")


@pytest.mark.parametrize(
    ("tried", "shown"),
    [
        ((TEN, ONE), {"wav2vec2_base": "160000"}),  # today's shape, where that has a result
        ((ONE, TEN), {"wav2vec2_base": "160000"}),
        ((ONE, ("wav2vec2_base", "160000", "oom")), {"wav2vec2_base": "16000"}),
        ((("own:net", "8", "ok"), ("own:net", "4", "ok"), ("timm:vgg11", None, "ok")), {"own:net": "4"}),  # the last
    ],
)
def test_the_shape_at_which_a_model_was_measured(tried, shown):
    rows = [
        replace(run(model, status=status), input_shape=shape, recorded_at=f"2026-01-0{day}")
        for day, (model, shape, status) in enumerate(tried, 1)
    ]
    assert workloads.measured_shapes(rows) == shown


def test_layers_sum_to_their_model():
    models, layers = tables()
    workloads.check_sums(models, layers, Workloads(WORLD))
    workloads.check_sums(models, layers.iloc[:0], Workloads(WORLD))
    wrong = layers.assign(forward_flop=layers.forward_flop.where(layers.index != 0, 1))
    message = "models.csv, line 2, column forward_flop: is not the sum of the model's layers"  # broad at bf16
    with pytest.raises(UserError, match=f"^{WORLD}/workload/{message} .* --force --models broad --data {WORLD}$"):
        workloads.check_sums(models, wrong, Workloads(WORLD))
