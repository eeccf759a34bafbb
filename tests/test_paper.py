import pytest
from papers import REFERENCES, TESTS, empty, tiny

from measure.cache import MachineFolder
from measure.records import Ceiling
from report.paper import Roof, frame, load, measured_clock


def cell(machine, model, batch, precision="fp32"):
    cells = machine.cells
    found = cells[(cells.model == model) & (cells.batch == batch) & (cells.precision == precision)]
    assert len(found) == 1
    return found.iloc[0]


def test_a_cell_has_the_workload_of_its_own_precision():
    cells = tiny().machine("cpu").cells
    lean = cells[(cells.model == "lean") & (cells.batch == 1)].set_index("precision")
    # 10 MB at fp32, and half of it at bf16; not the 26 MB of the other shape, nor those of autocast
    assert lean.footprint_byte.to_dict() == {"fp32": 10e6, "bf16": 5e6}
    assert set(lean.input_shape) == {"3x224x224"}


def test_roof():
    roof = Roof(100e9, 10e9)
    assert roof.ridge_flop_per_byte == 10
    assert [roof.attainable(value) for value in (5, 10, 50)] == [50e9, 100e9, 100e9]


def test_measured_roofs():
    machine = tiny().machine("cpu")
    # The best product: 2 GFLOP in 20 ms [16, 25]; the triad: 12 MB in 1.2 ms [1.0, 1.5]. The failed one is left out.
    (row,) = machine.roofs.itertuples()
    assert (row.peak_flop_per_s, row.peak_low_flop_per_s, row.peak_high_flop_per_s) == pytest.approx(
        (100e9, 80e9, 125e9)
    )
    assert (
        row.bandwidth_byte_per_s,
        row.bandwidth_low_byte_per_s,
        row.bandwidth_high_byte_per_s,
    ) == pytest.approx((10e9, 8e9, 12e9))
    assert machine.roof("fp32").ridge_flop_per_byte == pytest.approx(10)
    assert machine.roof("bf16") is None


def test_the_clock():
    clock = tiny().machine("cpu").clock
    # 10^9 additions of integers in 0.5 s at a cycle each; as many of floating-point numbers in 1.5 s
    assert clock.hertz == pytest.approx(2e9)
    assert clock.addition_cycle == pytest.approx(3)
    assert tiny().machine("gpu").clock is None


def test_a_clock_without_its_check_and_a_check_without_its_clock():
    ceilings = frame(MachineFolder(TESTS / "data", "example-cpu").ceilings(), Ceiling)
    assert measured_clock(ceilings[ceilings.precision != "fp64"]).addition_cycle is None
    assert measured_clock(ceilings[ceilings.precision != "int64"]) is None
    assert measured_clock(ceilings.assign(status="unsupported")) is None


def test_machines_are_in_their_newest_environments_and_the_last_measured_comes_first():
    paper = tiny()
    assert [machine.folder for machine in paper.machines] == ["example-cpu", "example-gpu"]
    assert paper.machine("cpu").environment.environment_id == "cpu-new"
    assert set(paper.machine("cpu").cells.environment_id) == {"cpu-new"}
    assert paper.machine("gpu").environment.name == "Example GPU"


def test_cells():
    machine = tiny().machine("cpu")
    # Sorted samples 3.8 3.9 4.0 4.0 4.1 5.0 ms: the extremes of six enclose the median with 96.9 %.
    lean = cell(machine, "lean", 1)
    assert (lean.latency_s, lean.latency_low_s, lean.latency_high_s) == pytest.approx(
        (0.0040, 0.0038, 0.0050)
    )
    assert lean.sample_count == 6
    # 100 MFLOP / 4 ms = 25 GFLOP/s, a quarter of the peak, which is attainable from 10 FLOP/B on
    assert lean.flop_per_s == pytest.approx(25e9)
    assert lean.attained == pytest.approx(0.25)
    assert cell(machine, "lean", 8).throughput_per_s == pytest.approx(500)  # 8 / 16 ms
    # 510 MFLOP over 102 MB: 5 FLOP/B, so 50 GFLOP/s attainable; achieved 510 MFLOP / 20 ms = 25.5
    broad = cell(machine, "broad", 1)
    assert broad.memory_bound
    assert broad.attained == pytest.approx(0.51)
    assert broad.peak_share == pytest.approx(0.255)
    assert broad[["latency_low_s", "latency_high_s"]].isna().all()  # three samples
    # No roof at bf16: a rate, and no share.
    assert cell(machine, "lean", 1, "bf16")[["attained", "peak_share"]].isna().all()


def test_a_failed_cell_has_no_latency():
    failed = cell(tiny().machine("cpu"), "tokens", 8)
    assert failed.status == "oom"
    assert failed[["latency_s", "sample_count", "attained"]].isna().all()


def test_an_empty_folder():
    paper = empty()
    assert paper.chips.empty
    assert paper.workloads.empty
    assert paper.layers.empty
    assert paper.not_counted.empty
    assert paper.machines == ()
    assert paper.machine("cpu") is None


def test_the_folder_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("RIDGEPOINT_DATA", str(TESTS / "data"))
    assert load(references=REFERENCES).chips.chip.nunique() == 4
