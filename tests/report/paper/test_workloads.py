from dataclasses import replace
from pathlib import Path

import pytest
from helpers import rows
from helpers.world import WORLD, world

from measure.cache.folders import Workloads
from measure.cache.workload_records import Layer, Workload
from measure.errors import UserError
from report.paper import frame, workloads


def tables():
    tiny_tables = Workloads(WORLD)
    return frame(tiny_tables.rows(Workload), Workload), frame(tiny_tables.rows(Layer), Layer)


def with_row(**changed):
    """The tiny table and one more row: the first one at another shape, say."""
    rows = Workloads(WORLD).rows(Workload)
    return frame([*rows, replace(rows[-1], **changed)], Workload)


def test_shown():
    rows = world().workloads.set_index(["model", "batch", "precision"])
    # lean at batch 1: 4.0 MB parameters + 0.5 MB inputs + 5.5 MB activations; 100 MFLOP
    assert rows.loc[("lean", 1, "fp32")].footprint_byte == 10e6
    assert rows.loc[("lean", 1, "fp32")].footprint_intensity == 10
    # compulsory: 4.0 MB + 0.5 MB + 4 kB outputs
    assert rows.loc[("lean", 1, "fp32")].compulsory_byte == 4.504e6
    # traffic: 4.0 MB parameters and 16 MB of reads and writes
    assert rows.loc[("lean", 1, "fp32")].traffic_intensity == 5
    # the row counted at bf16 has half the bytes, so twice the intensity
    assert rows.loc[("lean", 1, "bf16")].footprint_intensity == 20
    # lean at batch 8: 4 + 4 + 44 MB; 800 MFLOP
    assert rows.loc[("lean", 8, "fp32")].footprint_intensity == pytest.approx(800 / 52)


def test_a_row_has_the_bytes_of_its_own_precision():
    models, _ = tables()
    odd = models.precision == "bf16"
    models.loc[odd, "activation_byte"] += 1_000_000  # what stays in fp32, say
    rows = workloads.shown(models, {}).set_index(["model", "batch", "precision"])
    assert rows.loc[("lean", 1, "bf16")].footprint_byte == 6e6  # 2.0 + 0.25 + 2.75 + 1.0


def test_least_bytes_leave_out_what_a_call_cannot_touch():
    models, _ = tables()
    models["untouched_byte"] = models.untouched_byte.mask(models.model == "lean", 3_000_000)  # a table's other rows
    rows = workloads.shown(models, {}).set_index(["model", "batch", "precision"])
    # lean at batch 1: 4.0 - 3.0 MB parameters + 0.5 MB inputs, and 5.5 MB activations or 4 kB outputs; 100 MFLOP
    assert rows.loc[("lean", 1, "fp32")].footprint_byte == 7e6
    assert rows.loc[("lean", 1, "fp32")].compulsory_byte == 1.504e6
    assert rows.loc[("lean", 1, "fp32")].compulsory_intensity == pytest.approx(100 / 1.504)
    assert rows.loc[("lean", 1, "fp32")].traffic_intensity == 5  # by operators: no change


def test_rows_with_autocast_and_failures_are_left_out():
    models, _ = tables()
    assert "opaque" in set(models.model)
    assert "cpu" in set(models.autocast)
    # Four models at two batch sizes and precisions; six at four and three; Llama at two
    assert len(world().workloads) == 16 + 6 * 7 + 2


def test_a_backward_pass_that_was_not_counted_leaves_its_reason():
    rows = world().workloads.set_index(["model", "batch", "precision"])
    assert "more than 1 value" in rows.loc[("broad", 1, "fp32")].backward_gap
    assert rows.backward_gap.isna().sum() == len(rows) - 4  # at both precisions, and Llama at both batch sizes


def test_a_model_of_the_users_own_is_shown_at_the_smallest_shape_counted():
    # lean is counted at 3x448x448 too, with four times the FLOP
    assert set(world().workloads.input_shape) == {"3x224x224", "1"}
    # by numbers, not by letters: 96 is less than 224
    small = workloads.shown(with_row(model="lean", input_shape="3x96x96"), {})
    assert set(small[small.model == "lean"].input_shape) == {"3x96x96"}


def counted(model, *shapes):
    rows = Workloads(WORLD).rows(Workload)
    return frame([replace(rows[-1], model=model, input_shape=shape) for shape in shapes], Workload)


def test_a_built_in_model_is_shown_at_the_shape_at_which_it_would_be_measured():
    (row,) = workloads.shown(counted("inception_v3", "3x224x224", "3x299x299"), {}).itertuples()
    assert row.input_shape == "3x299x299"
    (row,) = workloads.shown(counted("resnet50", "3x600x600"), {}).itertuples()  # counted at no other
    assert row.input_shape == "3x600x600"


def test_a_model_is_shown_at_the_shape_at_which_it_was_measured_and_at_no_other():
    both = counted("wav2vec2_base", "16000", "160000")
    (row,) = workloads.shown(both, {"wav2vec2_base": "16000"}).itertuples()
    assert row.input_shape == "16000"
    assert workloads.shown(both, {"wav2vec2_base": "8000"}).empty


def test_the_shape_at_which_a_model_is_shown_is_todays_where_that_has_a_result_else_the_last():
    def shown(*tried):
        return workloads.measured_shapes(
            [
                replace(rows.run(model, status=status), input_shape=shape, recorded_at=f"2026-01-0{day}")
                for day, (model, shape, status) in enumerate(tried, 1)
            ]
        )

    ten, one = ("wav2vec2_base", "160000", "ok"), ("wav2vec2_base", "16000", "ok")
    assert shown(ten, one) == shown(one, ten) == {"wav2vec2_base": "160000"}
    assert shown(one, ("wav2vec2_base", "160000", "oom")) == {"wav2vec2_base": "16000"}
    assert shown(("own:net", "8", "ok"), ("own:net", "4", "ok"), ("timm:vgg11", None, "ok")) == {"own:net": "4"}


def test_layers_are_those_of_the_rows_shown():
    layers = world().layers
    assert len(layers) == 16 * 3 + 6 * 3 * 5
    assert set(layers.input_shape) == {"3x224x224"}


def test_layers_sum_to_their_model():
    models, layers = tables()
    path = Path("some")
    workloads.check_sums(models, layers, path)
    workloads.check_sums(models, layers.iloc[:0], path)
    wrong = layers.assign(forward_flop=layers.forward_flop.where(layers.index != 0, 1))
    said = "some: the layers of broad at 3x224x224, batch size 1 and bf16 do not sum to its forward_flop"
    with pytest.raises(UserError, match=f"^{said} .* --force --models broad$"):
        workloads.check_sums(models, wrong, path)
