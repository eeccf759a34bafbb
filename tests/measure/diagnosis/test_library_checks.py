import pytest

from measure.diagnosis.finding import OK, PROBLEM, WARNING
from measure.diagnosis.libraries import NAMES, Libraries
from measure.diagnosis.library_checks import library_findings, tuning_findings

SOUND = dict.fromkeys(NAMES, "1.0") | {"torch": "2.14.1", "torchvision": "0.29.2", "torchaudio": "2.11.0"}


def findings(versions=(), failures=(), unmet=()):
    return list(library_findings(Libraries(SOUND | dict(versions), dict(failures), unmet, None)))


def test_a_family_that_imports_is_named_with_its_versions():
    (finding,) = findings()
    assert finding.level == OK
    assert finding.fact == "torch 2.14.1, torchvision 0.29.2, torchaudio 2.11.0 import together"


def test_a_member_built_for_another_torch_is_a_problem():
    (finding,) = findings(failures={"torchvision": "RuntimeError: operator torchvision::nms does not exist"})
    assert finding.level == PROBLEM
    assert "torchvision 0.29.2 does not work: RuntimeError: operator torchvision::nms" in finding.fact
    assert "constraints.txt" in finding.advice


def test_versions_that_do_not_go_together_are_a_problem():
    (finding,) = findings(unmet=("torchvision 0.29.2 asks for torch >=2.14.0, and 2.13.0 is installed",))
    assert finding.level == PROBLEM
    assert finding.fact.startswith("torchvision 0.29.2 asks for torch")


@pytest.mark.parametrize(
    ("name", "level"),
    [("torch", PROBLEM), ("torchvision", PROBLEM), ("torchaudio", WARNING), ("numba", WARNING), ("rich", PROBLEM)],
)
def test_what_is_missing_costs_what_it_is_for(name, level):
    finding = findings(versions={name: None})[-1]
    assert finding.level == level
    assert finding.fact.startswith(f"{name} is not installed: ")
    assert finding.advice == f"pip install {name}"


def test_a_library_outside_the_family_that_does_not_import_is_said():
    finding = findings(failures={"numba": "ImportError: needs NumPy 2.3 or less"})[-1]
    assert finding.level == WARNING
    assert finding.fact.startswith("numba does not import (ImportError: needs NumPy 2.3 or less): ")


def test_an_untuned_machine_is_well():
    (finding,) = tuning_findings({"PATH": "/bin"})
    assert (finding.level, finding.subject) == (OK, "tuning")


def test_what_is_set_is_a_warning_that_names_it():
    (finding,) = tuning_findings({"OMP_PROC_BIND": "close", "ATEN_CPU_CAPABILITY": "avx2"})
    assert finding.level == WARNING
    assert finding.fact.endswith("ATEN_CPU_CAPABILITY=avx2, OMP_PROC_BIND=close")


def test_what_decides_over_precisions_is_a_problem_beside_the_rest():
    problem, rest = tuning_findings({"NVIDIA_TF32_OVERRIDE": "0"})
    assert problem.level == PROBLEM
    assert problem.advice == "unset it"
    assert rest.level == OK
