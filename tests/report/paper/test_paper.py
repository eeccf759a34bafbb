import shutil
from contextlib import chdir
from dataclasses import replace

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT, operator_time, profile, run, samples, workload
from helpers.world import REFERENCES, WORLD, world

from measure.cache.folders import MachineFolder, Workloads
from report.paper import REFERENCE, _machine_name, load
from report.paper.printed import FlopPerCycle


def cell(machine, model, batch, precision="fp32"):
    cells = machine.cells
    found = cells[(cells.model == model) & (cells.batch == batch) & (cells.precision == precision)]
    assert len(found) == 1
    return found.iloc[0]


def spoken(data, *measured):
    """The paper of a machine with these runs of a model, which asks for ten times as much of a longer input."""
    counted = [
        replace(workload("wav2vec2_base", batch, flop * batch), input_shape=shape)
        for batch in (1, 64)
        for shape, flop in (("16000", 10), ("160000", 100))
    ]
    Workloads(data).put([(row, [], []) for row in counted])
    folder = MachineFolder(data, "box")
    folder.put_environment(ENVIRONMENT)
    for batch, shape in measured:
        whole = replace(run("wav2vec2_base", batch), input_shape=shape)
        folder.put_run(whole, samples(3, "wav2vec2_base", batch))
        folder.put_profile(
            replace(profile("wav2vec2_base", batch), input_shape=shape), [operator_time("wav2vec2_base", batch)]
        )
    return load(data, REFERENCES)


def test_where_a_model_was_measured_at_its_usual_input_shape_too_the_other_is_left_out(tmp_path):
    paper = spoken(tmp_path / "measured", (1, "16000"), (64, "160000"))
    assert set(paper.workloads.input_shape) == {"160000"}
    (box,) = paper.machines
    assert box.cells[["batch", "forward_flop", "sample_count"]].to_numpy().tolist() == [[64, 6400, 3]]
    assert box.profiles.batch.tolist() == box.operators.batch.tolist() == [64]
    # One that was not measured is shown at today's input shape
    assert set(spoken(tmp_path / "unmeasured").workloads.input_shape) == {"160000"}


@pytest.mark.parametrize(
    ("ran", "lower"), [(["fp32"], "bf16"), (["fp32", "fp16"], "fp16"), (["fp32", "fp16", "bf16"], "bf16"), ([], "bf16")]
)
def test_the_lower_precision_is_the_one_that_the_machine_ran(ran, lower):
    cpu = world().machine("cpu")
    measured, failed = (cpu.cells[cpu.cells.status == status].iloc[:1] for status in ("ok", "oom"))
    cells = pd.concat([*(measured.assign(precision=each) for each in ran), failed.assign(precision="bf16")])
    assert replace(cpu, cells=cells).lower_precision == lower


def test_cells():
    machine = world().machine("cpu")
    # Sorted samples 3.8 3.9 4.0 4.0 4.1 5.0 ms: the extremes of six enclose the median with 96.9 %.
    lean = cell(machine, "lean", 1)
    assert (lean.latency_s, lean.latency_low_s, lean.latency_high_s) == pytest.approx((0.0040, 0.0038, 0.0050))
    assert lean.sample_count == 6
    # 100 MFLOP / 4 ms = 25 GFLOP/s, a quarter of the peak, which is attainable from 10 FLOP/B on
    assert lean.flop_per_s == pytest.approx(25e9)
    assert lean.attained == pytest.approx(0.25)
    assert cell(machine, "lean", 8).throughput_per_s == pytest.approx(500)  # 8 / 16 ms
    # 510 MFLOP over 102 MB: 5 FLOP/B, so 50 GFLOP/s attainable; achieved 510 MFLOP / 20 ms = 25.5
    broad = cell(machine, "broad", 1)
    assert broad.attained == pytest.approx(0.51)
    assert broad[["latency_low_s", "latency_high_s"]].isna().all()  # three samples
    # No roof at bf16: a rate, and no share. 5 MB, half of those at fp32; not those of the other shape or of autocast
    halved = cell(machine, "lean", 1, "bf16")
    assert halved[["attained", "model_bound_s"]].isna().all()
    assert (lean.footprint_byte, halved.footprint_byte, lean.input_shape) == (10e6, 5e6, "3x224x224")
    failed = cell(machine, "tokens", 8)
    assert (failed.status, failed[["latency_s", "sample_count", "attained"]].isna().all()) == ("oom", True)


def test_machines_are_in_their_newest_environments_those_chosen_in_the_order_of_the_choice(monkeypatch):
    cpu, gpu = world().machines
    assert (cpu.folder, gpu.folder) == ("example-cpu", "example-gpu")
    assert {cpu.environment.environment_id, *cpu.cells.environment_id} == {"cpu-new"}
    chosen = load(WORLD, REFERENCES, ["example-gpu", "example-cpu"])
    assert [machine.folder for machine in chosen.machines] == ["example-gpu", "example-cpu"]
    assert chosen.at_hand is chosen.machines[0]
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "example-gpu")
    alone = load(WORLD, REFERENCES)
    assert ([machine.folder for machine in alone.machines], alone.machine("cpu")) == (["example-gpu"], None)
    assert len(load(WORLD, REFERENCES, ()).machines) == 2


def test_the_machine_at_hand_is_the_one_measured_last():
    cpu, gpu = world().machines
    later = replace(cpu.environment, recorded_at="2099-01-01T00:00:00+00:00")
    assert replace(world(), machines=(gpu, replace(cpu, environment=later))).at_hand.chip_kind == "cpu"
    assert replace(world(), machines=()).at_hand is None


@pytest.mark.slow
def test_the_reference_is_the_project_s_own_machine_whatever_was_read():
    with chdir(ROOT):
        assert [machine.folder for machine in replace(world()).reference.machines] == [REFERENCE]


def test_a_machine_is_named_by_its_processor_and_microarchitecture():
    cpu = world().machine("cpu")
    row = FlopPerCycle("AuthenticAMD", 25, "17", "Zen 4", "avx512f", "fp32", 64, "so_flops", "")
    environment = replace(
        cpu.environment, name="AMD EPYC", cpu_vendor="AuthenticAMD", cpu_family=25, cpu_model=17,
        vector_extension="avx512f avx2", physical_cores=2,
    )  # fmt: skip
    assert _machine_name(environment, [row]) == "AMD EPYC, Zen 4, 2 cores"
    assert _machine_name(environment, []) == "AMD EPYC, 2 cores"


def test_models_are_chosen_by_names_and_globs(monkeypatch):
    whole = load(WORLD, REFERENCES)
    monkeypatch.setenv("ROOFWRIGHT_MODELS", "lean,d*p")
    some = load(WORLD, REFERENCES)
    assert set(some.workloads.model) == set(some.layers.model) == {"lean", "deep"}
    for machine, all_of_it in zip(some.machines, whole.machines, strict=True):
        for name in ("cells", "variants", "steps", "profiles", "operators", "hardware_counters"):
            rows, all_rows = getattr(machine, name), getattr(all_of_it, name)
            assert len(rows) == all_rows.model.isin(["lean", "deep"]).sum(), name
    assert some.chips.equals(whole.chips)


@pytest.mark.slow
def test_tables_kept_by_hand_come_from_the_project(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(tmp_path))
    found, project = load(references=REFERENCES), load(ROOT / "data", REFERENCES)
    assert found.machines == ()
    assert found.chips.equals(project.chips)
    assert found.flop_per_cycle == project.flop_per_cycle
    assert found.published.claims.equals(project.published.claims)
    assert found.elsewhere.timings.equals(project.elsewhere.timings)
    assert found.counting_programs.equals(project.counting_programs)
    shutil.copy(WORLD / "chips.csv", tmp_path)
    assert load(references=REFERENCES).chips.chip.nunique() == 41  # its own
