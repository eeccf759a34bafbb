import shutil
from dataclasses import replace

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.world import CPU, REFERENCES, WORLD, committed_chips, mutated, world

from measure.cache.project import MACHINES
from measure.published.records import FlopPerCycle
from report.options import choose, load_paper
from report.paper import REFERENCE, _machine_name, load


def test_a_cell_at_another_shape_than_its_models_is_left_out(tmp_path):
    def larger(row):
        is_last = (row["model"], row["batch"], row["precision"]) == ("lean", "1", "fp32")
        return row | ({"input_shape": "3x448x448", "recorded_at": "2099"} if is_last else {"input_shape": "3x224x224"})

    data = mutated(tmp_path / "world", {f"machines/{CPU}/{table}.csv": larger for table in ("runs", "profiles")})
    cpu = world(data, (CPU,)).machine("cpu")
    # Four times the 100 MFLOP
    assert cpu.cells[cpu.cells.model == "lean"].set_index("batch").forward_flop.to_dict() == {1: 400e6}
    assert cpu.profiles[cpu.profiles.model == "lean"].batch.tolist() == [1]


@pytest.mark.parametrize(
    ("ran", "lower"), [(["fp32"], "bf16"), (["fp32", "fp16"], "fp16"), (["fp32", "fp16", "bf16"], "bf16"), ([], "bf16")]
)
def test_the_lower_precision_is_the_one_that_the_machine_ran(ran, lower):
    cpu = world().machine("cpu")
    measured, failed = (cpu.cells[cpu.cells.status == status].iloc[:1] for status in ("ok", "oom"))
    cells = pd.concat([*(measured.assign(precision=each) for each in ran), failed.assign(precision="bf16")])
    assert replace(cpu, cells=cells).lower_precision == lower


def test_machines_are_in_their_newest_environments_as_chosen():
    cpu, gpu = world().machines
    assert (cpu.folder, gpu.folder) == ("example-cpu", "example-gpu")
    assert {cpu.environment.environment_id, *cpu.cells.environment_id} == {"cpu-new"}
    chosen = load(WORLD, REFERENCES, chosen=["example-gpu", "example-cpu"])
    assert [machine.folder for machine in chosen.machines] == ["example-gpu", "example-cpu"]
    assert chosen.at_hand is chosen.machines[0]
    alone = load(WORLD, REFERENCES, chosen=["example-gpu"])
    assert ([machine.folder for machine in alone.machines], alone.machine("cpu")) == (["example-gpu"], None)
    assert len(load(WORLD, REFERENCES).machines) == 2


def test_the_machine_at_hand_is_the_one_measured_last():
    cpu, gpu = world().machines
    later = replace(cpu, measured_at="2099-01-01T00:00:00+00:00")
    assert replace(world(), machines=(gpu, later)).at_hand.chip_kind == "cpu"
    assert replace(world(), machines=()).at_hand is None


def test_the_authors_machines_give_way_to_a_readers():
    authors = [
        replace(machine, folder=folder)
        for machine, folder in zip(world().machines, ("amd-epyc-2c-0ad4", "nvidia-h200-03df"), strict=True)
    ]
    assert replace(world(), machines=(authors[1], authors[0])).at_hand is authors[0]
    readers = replace(authors[0], folder="laptop")
    assert replace(world(), machines=(*authors, readers)).at_hand is readers


def test_a_machines_name_is_its_processor_and_microarchitecture():
    cpu = world().machine("cpu")
    row = FlopPerCycle("AuthenticAMD", 25, "17", "", "Zen 4", "avx512f", "fp32", 64, None, "so_flops", "")
    environment = replace(
        cpu.environment, name="AMD EPYC", cpu_vendor="AuthenticAMD", cpu_family=25, cpu_model=17,
        vector_extension="avx512f avx2", physical_cores=2,
    )  # fmt: skip
    chips = committed_chips()
    assert _machine_name(environment, [row], chips) == "AMD EPYC, Zen 4, 2 cores"
    assert _machine_name(environment, [], chips) == "AMD EPYC, 2 cores"
    for driver, name in (("NVIDIA H100 80GB HBM3", "H100 SXM"), ("NVIDIA Something", "Something")):
        assert _machine_name(replace(world().machine("gpu").environment, name=driver), [], chips) == name


def test_models_are_chosen_by_names_and_globs(monkeypatch):
    whole = world()
    monkeypatch.setenv("ROOFWRIGHT_MODELS", "lean,d*p")
    some = load(WORLD, REFERENCES, choose=choose)
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
    found, project = load_paper(), load(ROOT / "data", REFERENCES)
    assert found.machines == ()
    assert found.chips.equals(project.chips)
    assert found.flop_per_cycle == project.flop_per_cycle
    assert found.published.counting_suites.equals(project.published.counting_suites)
    assert found.published.timings.equals(project.published.timings)
    assert found.counting_programs.equals(project.counting_programs)
    shutil.copy(WORLD / "chips.csv", tmp_path)
    names = {"Abacus 1", "Bead 2", *project.chips.chip}
    assert names <= set(load_paper().chips.chip)  # both


def test_a_readers_paper_marks_the_names_of_our_machines(tmp_path):
    shutil.copytree(WORLD, tmp_path / "data")
    machines = tmp_path / "data" / "machines"
    (machines / "example-gpu").rename(machines / MACHINES[1])
    paper = load(tmp_path / "data", REFERENCES)
    assert paper.is_readers
    assert [machine.name for machine in paper.machines] == ["Example CPU, Example core, 2 cores", "Bead 2 (reference)"]
    (machines / "example-cpu").rename(machines / REFERENCE)
    paper = load(tmp_path / "data", REFERENCES)
    assert not paper.is_readers
    assert not [machine.name for machine in paper.machines if "reference" in machine.name]
