from dataclasses import replace

from helpers.cells import timed
from helpers.rows import layer, operator_time, workload

from measure.domain.model_work import beyond_weights, cell_work, layer_work, reached
from measure.domain.roofs import Roof

RATES = Roof({"fp32": 1000.0}, 100.0)  # the ridge point is at 10 FLOP/B
BYTES = {"parameter_byte": 60, "input_byte": 10, "activation_byte": 30, "inference_peak_byte": 80}


def test_a_demand_is_under_the_slope_or_the_flat_part():
    rows = [workload(batch=64, flop=5000, **BYTES), workload(batch=1, flop=500, **BYTES)]
    small, large = cell_work(rows, RATES, ["fp32"])
    assert (small.batch, small.byte, small.peak_byte) == (1, 100, 80)  # 60 + 10 + 30
    assert (small.intensity_flop_per_byte, small.attainable_flop_per_s, small.bound) == (5, 500, "memory")
    assert (large.intensity_flop_per_byte, large.attainable_flop_per_s, large.bound) == (50, 1000, "arithmetic")


def test_a_demand_says_what_its_counts_leave_out():
    row = replace(workload(**BYTES), uncounted="sort:2:0.1;a:1:2e-05", path="one run", inference_peak_byte=None)
    (demand,) = cell_work([row], RATES, ["fp32"])
    assert (demand.uncounted, demand.path, demand.peak_byte) == (["sort", "a"], "one run", 0)


def test_tf32_is_stored_as_fp32_and_failed_counts_bound_nothing():
    failed = replace(workload(batch=2), status="error", reason="no")
    (demand,) = cell_work([workload(**BYTES), failed], RATES, ["tf32"])
    assert (demand.precision, demand.attainable_flop_per_s, demand.bound) == ("tf32", None, None)


def test_a_cell_reaches_a_part_of_what_is_attainable():
    requested = cell_work([workload(flop=500, **BYTES)], RATES, ["fp32"])
    (found,) = reached([timed(), timed(latency_s=1.0, variant="compile"), timed(batch=8)], requested)
    # 500 FLOP in 2 s under a roof of 500 FLOP/s
    assert (found.timed, found.flop_per_s, found.roof_share) == (timed(), 250, 0.5)
    (failed,) = reached([replace(timed(), status="oom", latency_s=None)], requested)
    assert (failed.flop_per_s, failed.roof_share) == (None, None)


def test_layers_come_as_they_run_with_their_operators_time():
    layers = [replace(layer(position=1), path="tail"), layer(position=0), replace(layer(position=2), path="idle")]
    operators = [operator_time(), operator_time(name="add", time_s=0.5), operator_time(path="tail")]  # 0.25 s each
    found = layer_work(layers, "fp32", RATES, operators)
    assert [(each.path, each.time_s, each.time_share) for each in found] == [
        ("head", 0.75, 0.75), ("tail", 0.25, 0.25), ("idle", 0, 0),
    ]  # fmt: skip
    assert found[0].bound == "memory"  # 10 FLOP on 96 B
    assert layer_work(layers, "fp32", RATES, [])[0].time_s is None


def test_a_fused_layer_has_the_kind_of_most_of_its_flop():
    """PyTorch runs a whole encoder layer as one operator, so that its parts have no time of their own."""
    fused = replace(layer(position=0), path="blocks.0", layer_kind="other", forward_flop=0)
    parts = [
        replace(layer(position=place), path=f"blocks.0.{kind}", layer_kind=kind, forward_flop=flop)
        for place, (kind, flop) in enumerate((("attention", 20), ("linear", 30), ("normalisation", 1)), 1)
    ]
    (first, *_) = layer_work([fused, *parts], "fp32", RATES, [operator_time(path="blocks.0")])
    assert (first.layer_kind, first.time_share) == ("linear", 1)
    (first, *_) = layer_work([fused, *parts], "fp32", RATES, [operator_time(path="blocks.0.attention")])
    assert first.layer_kind == "other"  # its parts have their times


def test_work_beyond_the_weights_is_attention_and_repeated_projections():
    # 3 inputs. A head of 5 weights, called twice: 2 * 3 * 2 * 5 = 60 FLOP by its weights, of 100; another of its 60.
    # Attention without weights has 7; a tied head, linear and without weights, none
    head = replace(layer(flop=100), calls=2)
    attention = replace(layer(flop=7), layer_kind="attention", parameter_count=0)
    tied = replace(layer(flop=50), parameter_count=0)
    layers = layer_work([head, replace(head, forward_flop=60), attention, tied], "fp32", RATES, [])
    assert beyond_weights(layers, 3) == 40 + 0 + 7
