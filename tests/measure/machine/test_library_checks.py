import pytest

from measure.machine.host import OK, PROBLEM, WARNING
from measure.machine.libraries import NAMES, Libraries, library_findings, tuning_findings

SOUND = dict.fromkeys(NAMES, "1.0") | {"torch": "2.14.1", "torchvision": "0.29.2", "torchaudio": "2.11.0"}


def findings(versions=(), failures=(), unmet=(), cuda=None, **others):
    return list(library_findings(Libraries(SOUND | dict(versions), dict(failures), unmet, cuda, **others)))


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


TRITON = {"triton": "3.8.0"}


@pytest.mark.parametrize(
    ("seen", "fact", "advice"),
    [
        ({"versions": {"triton": None}}, "triton is not installed: a GPU's multiply-adds", "pip install triton"),
        (
            {"versions": TRITON, "failures": {"triton": "ImportError: no driver"}, "c_compiler": "gcc"},
            "triton does not import (ImportError: no driver): a GPU's multiply-adds",
            "pip install --force-reinstall triton",
        ),
        (
            {"versions": TRITON},
            "Triton finds no C compiler: a GPU's multiply-adds are not measured",
            "install gcc, or name a compiler in the variable CC",
        ),
    ],
)
def test_what_a_gpus_streams_lack_is_a_warning(seen, fact, advice):
    _, finding = findings(**seen)
    assert finding.level == WARNING
    assert finding.fact.startswith(fact)
    assert finding.advice == advice


def test_a_gpu_with_all_that_its_kernels_need_is_well():
    (finding,) = findings(versions=TRITON, c_compiler="/usr/bin/gcc", cuda=True)
    assert finding.level == OK


@pytest.mark.parametrize(
    ("cupti", "loses"),
    [
        ("12.4.127", False),
        ("12.6.68", False),  # CUDA 12.6 Update 1
        ("12.6.80", True),  # Updates 2 and 3
        ("12.9.79", True),
        ("13.0.85", True),
        ("13.1.75", False),
        (None, False),
    ],
)
def test_versions_of_cupti_that_lose_kernels_are_named_on_a_gpu(cupti, loses):
    found = [finding for finding in findings(cuda=True, cupti=cupti) if finding.level == WARNING]
    assert [finding.fact.split()[:3] for finding in found] == ([["CUPTI", cupti, "loses"]] if loses else [])
    assert [finding.level for finding in findings(cuda=False, cupti=cupti)] == [OK]


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
