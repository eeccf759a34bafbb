import numpy as np
import pandas as pd
import pytest
from recomputing import cache
from recomputing.cache import COLUMNS, Machine

ENVIRONMENT = pd.Series({"device": "cpu", "name": "EPYC", "cores": 2.0, "physical_cores": 2})


def table(name, rows):
    return pd.DataFrame(rows, columns=COLUMNS[name].split())


def machine(**tables):
    return Machine(ENVIRONMENT, **{name: tables.get(name, table(name, [])) for name in COLUMNS})


def rounds(variant, times, sitting="a", flags="", phase="inference", model="net", batch=1, shape="", precision="fp32"):
    """The runs and samples of a cell: of each round the times of its samples."""
    cell = (model, batch, precision, phase, variant)
    runs = [(*cell, "ok", number, sitting, flags, shape) for number in range(len(times))]
    samples = [(*cell, number, at, time) for number, taken in enumerate(times) for at, time in enumerate(taken)]
    return runs, samples


def of_cells(*cells):
    runs, samples = ([row for cell in cells for row in cell[part]] for part in (0, 1))
    return machine(runs=table("runs", runs), samples=table("samples", samples))


@pytest.mark.parametrize(("ran", "lower"), [(["fp32"], "bf16"), (["fp32", "fp16"], "fp16"), (["fp16", "bf16"], "bf16")])
def test_the_lower_precision_is_the_first_that_ran(ran, lower):
    # bf16 through a variant alone is held against nothing
    cells = [rounds("eager", [[1.0]], precision=precision) for precision in ran]
    assert of_cells(*cells, rounds("channels_last", [[1.0]], precision="bf16")).lower == lower


def test_medians_over_batch_sizes_take_the_models_that_have_all():
    rows = pd.DataFrame(
        [*(("abc"[at], size) for at in range(3) for size in (1, 64)), ("d", 1), ("a", 8)], columns=["model", "batch"]
    )
    # 4, 3 and 1 models: 8 has fewer than half of 4; d lacks 64
    same = cache.comparable(rows)
    assert sorted(set(same.model)) == ["a", "b", "c"]
    assert sorted(set(same.batch)) == [1, 64]


def test_a_batch_size_goes_while_fewer_than_half_of_the_models_have_all():
    rows = pd.DataFrame(
        [*(("abcd"[at], 1) for at in range(4)), ("a", 8), ("b", 8), ("c", 64), ("d", 64), ("e", 64)],
        columns=["model", "batch"],
    )  # fmt: skip
    # No model has 1, 8 and 64. Without 8, which has the fewest, c and d are two of five; without 64 all of four have 1.
    same = cache.comparable(rows)
    assert sorted(zip(same.model, same.batch, strict=True)) == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_a_cell_joins_its_rounds_and_is_wide_by_the_interval_between_them():
    cells = of_cells(
        rounds("eager", [[1.0, 1.0], [2.0, 2.0], [4.0, 4.0]], flags="drifting"), rounds("cold", [[1.0]], flags="wide")
    ).cells.set_index("variant")
    assert cells.latency_s.to_dict() == {"eager": 2.0, "cold": 1.0}
    assert cells["flags"].to_dict() == {"eager": "wide", "cold": "wide"}
    assert cells.low_s["eager"] == pytest.approx(0.28729, rel=1e-4)  # as in the statistics' test
    assert np.isnan(cells.low_s["cold"])


def test_a_cell_of_which_a_round_failed_has_failed():
    runs, samples = rounds("eager", [[1.0], [1.1]])
    runs[1] = (*runs[1][:5], "oom", *runs[1][6:])
    (cell,) = machine(runs=table("runs", runs), samples=table("samples", samples[:1])).cells.itertuples()
    assert (cell.status, cell.rounds, cell.latency_s) == ("oom", 1, 1.0)


def test_a_variant_is_held_against_eager_mode_in_the_rounds_of_one_sitting():
    eager = rounds("eager", [[4.0], [6.0]])
    kept = rounds("kept_memory", [[2.0], [2.0]])
    other = rounds("jemalloc", [[1.0]], sitting="b")
    (row,) = of_cells(eager, kept, other).speed_ups.itertuples()
    # 4 / 2 and 6 / 2
    assert (row.variant, row.speed_up) == ("kept_memory", 2.5)


def test_a_machine_is_its_newest_environment_without_the_samples_of_killed_rounds(tmp_path):
    runs, samples = rounds("eager", [[1.0], [2.0]])
    tables = {"runs": table("runs", runs[:1]), "samples": table("samples", samples)}
    for name, rows in tables.items():
        both = pd.concat([rows.assign(environment_id="new"), rows.assign(environment_id="old")])
        both.to_csv(tmp_path / f"{name}.csv", index=False)
    environments = [
        {"environment_id": "new", "recorded_at": "2026-02"},
        {"environment_id": "old", "recorded_at": "2026-01"},
    ]
    pd.DataFrame(environments).to_csv(tmp_path / "machine.csv", index=False)
    found = cache.machine_of(tmp_path)
    assert found.environment.environment_id == "new"
    assert (list(found.runs["round"]), list(found.samples.latency_s)) == ([0], [1.0])


ROOFS = [
    ("matmul", "fp32", 512, 2e9, 0, "ok", 0.02, 0.018, 0.021, "sustained", np.nan),
    ("fma", "fp32", 9, 3e9, 0, "ok", 0.02, 0.015, 0.025, "sustained", np.nan),
    ("fma", "fp32", 9, 9e9, 0, "ok", 0.02, 0.015, 0.025, "burst", np.nan),
    ("stream_triad", "fp64", 8e9, 0, 8e9, "ok", 0.2, 0.1, 0.3, "sustained", 0),
    ("stream_triad", "fp64", 8e9, 0, 8e9, "ok", 0.8, 0.7, 0.9, "sustained", 1),
    ("stream_read", "fp64", 1e3, 0, 1e3, "ok", 1e-9, 1e-9, 1e-9, "sustained", np.nan),
    ("chain", "int64", 1000, 1000, 0, "ok", 2.5e-7, 2e-7, 3e-7, "sustained", np.nan),
]


def test_a_roof_is_the_fastest_sustained_arithmetic_and_stream_through_memory():
    found = machine(roofs=table("roofs", ROOFS))
    # 3e9 / 0.02; 8e9 over the median of 0.2 and 0.8
    assert found.peaks["fp32"].median == pytest.approx(150e9)
    assert (found.peaks["fp32"].low, found.peaks["fp32"].high) == pytest.approx((120e9, 200e9))
    assert found.byte_per_s == pytest.approx(16e9)
    assert found.stream.roof_kernel == "stream_triad"
    assert found.hertz == pytest.approx(4e9)


def test_an_operator_is_a_convolution_by_name():
    names = ["conv2d", "mkldnn_convolution", "conv_transpose2d", "convert", "linear"]
    assert list(cache.is_convolution(pd.DataFrame({"operator": names}))) == [True, True, True, False, False]


def test_model_numbers_are_lists_and_ranges():
    assert cache.model_numbers("1;4-7") == {1, 4, 5, 6, 7}


WORKLOAD = {
    "model": "net", "family": "plain", "input_shape": "3x8x8", "batch": 1, "precision": "fp32", "autocast": None,
    "status": "ok", "parameter_byte": 100, "input_byte": 10, "output_byte": 20, "activation_byte": 90,
    "forward_flop": 600, "backward_flop": 1200,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A cache with one model and a chip's table, whose roof is 100 FLOP/s and 10 B/s in the tests."""
    (tmp_path / "workload").mkdir()
    pd.DataFrame([WORKLOAD]).to_csv(tmp_path / "workload" / "models.csv", index=False)
    operators = [
        ("net", "3x8x8", 1, "fp32", None, "inference", "convolution", "convolution", 300, 0, 40, 1),
        ("net", "3x8x8", 1, "fp32", None, "inference", "depthwise convolution", "convolution", 50, 25, 20, 2),
        ("net", "3x8x8", 1, "fp32", None, "inference", "linear", "addmm", 200, 0, 5, 1),
    ]
    columns = [
        "model",
        "input_shape",
        "batch",
        "precision",
        "autocast",
        "stage",
        "layer_kind",
        "operator",
        "flop",
        "other_flop",
        "byte",
        "calls",
    ]
    pd.DataFrame(operators, columns=columns).to_csv(tmp_path / "workload" / "operators.csv", index=False)
    layers = [("net", "a", "convolution"), ("net", "b", "depthwise convolution")]
    pd.DataFrame(layers, columns=["model", "path", "layer_kind"]).to_csv(
        tmp_path / "workload" / "layers.csv", index=False
    )
    return tmp_path


def slow(**tables):
    roofs = [
        ("fma", "fp32", 9, 100, 0, "ok", 1, 1, 1, "sustained", np.nan),
        ("stream_read", "fp64", 10, 0, 10, "ok", 1, 1, 1, "sustained", 0),
    ]
    return machine(roofs=table("roofs", roofs), **tables)


def test_a_cell_is_held_against_the_roof(folder):
    runs, samples = (table(*each) for each in zip(("runs", "samples"), rounds("eager", [[40.0]]), strict=True))
    (row,) = cache.Cache(folder).asked(slow(runs=runs, samples=samples)).itertuples()
    # 600 FLOP take 6 s, the footprint of 200 B 20 s, the 130 compulsory bytes 13 s
    assert row.attained == pytest.approx(20 / 40)
    assert row.model_bound_s == pytest.approx(13)
    # The longer of 3 s and 4 s, twice that of 0.5 s and 2 s, and that of 2 s and 0.5 s
    assert row.operator_bound_s == pytest.approx(4 + 2 * 2 + 2)


def test_convolutions_are_told_apart_by_their_layers(folder):
    times = [("net", 1, "fp32", "inference", "eager", path, name, time_s) for path, name, time_s in
             (("a", "conv2d", 0.6), ("b", "conv2d", 0.6), ("a", "add_", 9.0))]  # fmt: skip
    profiles = table("profiles", [("net", 1, "fp32", "inference", "eager", "ok")])
    (row,) = cache.Cache(folder).convolutions(slow(profiles=profiles, operators=table("operators", times))).itertuples()
    # 0.6 s of 2 · (50 + 25) FLOP, and of 300
    assert (row.depthwise, row.others) == pytest.approx((0.004, 0.002))


def test_a_step_stands_beside_its_forward_pass(folder):
    parts = [
        rounds("eager", [[time]], phase=phase) for phase, time in (("step", 9.0), ("forward", 2.0), ("backward", 6.0))
    ]
    runs, samples = (
        table(name, [row for part in parts for row in part[at]]) for at, name in enumerate(("runs", "samples"))
    )
    (row,) = cache.Cache(folder).steps(slow(runs=runs, samples=samples)).itertuples()
    assert (row.latency_s, row.forward_s, row.backward_flop / row.forward_flop) == (9, 2, 2)


def test_a_processors_peak_is_cores_times_work_times_clock(folder):
    known = [("AMD", 25, "16-31", "avx2", "fp32", 32), ("AMD", 25, "16-31", "avx512f", "fp32", 64),
             ("AMD", 25, "1;17", "avx", "fp32", 16)]  # fmt: skip
    columns = ["vendor", "family", "models", "vector_extension", "precision", "flop_per_cycle"]
    pd.DataFrame(known, columns=columns).to_csv(folder / "flop_per_cycle.csv", index=False)
    environment = pd.concat(
        [
            ENVIRONMENT,
            pd.Series({"cpu_vendor": "AMD", "cpu_family": 25, "cpu_model": 17, "vector_extension": "avx2 avx"}),
        ]
    )
    here = Machine(environment, **{name: table(name, ROOFS if name == "roofs" else []) for name in COLUMNS})
    assert cache.Cache(folder).datasheet_peak(here) == pytest.approx(2 * 32 * 4e9)  # no AVX-512 here


def counted_at(folder, *shapes, model="net", measured=()):
    """A cache of one model counted at these shapes, and measured in cells of a batch size each at those."""
    rows = pd.DataFrame([WORKLOAD | {"model": model, "input_shape": shape} for shape in shapes])
    rows.to_csv(folder / "workload" / "models.csv", index=False)
    found = cache.Cache(folder)
    cells = [rounds("eager", [[1.0]], model=model, batch=at, shape=shape) for at, shape in enumerate(measured)]
    found.__dict__["_measured"] = [of_cells(*cells)] if cells else []
    return found


def test_of_several_shapes_the_measured_one_counts(folder):
    found = counted_at(folder, "3x8x8", "3x9x9", measured=["3x9x9"])
    assert found.workloads.input_shape.tolist() == ["3x9x9"]
    with pytest.raises(ValueError, match="net: counted at several shapes"):
        counted_at(folder, "3x8x8", "3x9x9").workloads  # noqa: B018
    with pytest.raises(ValueError, match="net: counted at several shapes"):
        counted_at(folder, "3x8x8", "3x9x9", measured=["3x8x8", "3x9x9"]).workloads  # noqa: B018


@pytest.mark.parametrize(
    ("measured", "shown"),
    [([], "160000"), (["16000"], "16000"), (["16000", "160000"], "160000")],
    ids=["not measured", "at another shape", "both"],
)
def test_audio_is_of_ten_seconds_where_that_was_measured(folder, measured, shown):
    found = counted_at(folder, "16000", "160000", model="wav2vec2_base", measured=measured)
    assert found.workloads.input_shape.tolist() == [shown]
    left = [found._as_shown(machine).cells.batch.tolist() for machine in found._measured]
    assert left == ([[measured.index(shown)]] if measured else [])  # cells at another shape are left out
