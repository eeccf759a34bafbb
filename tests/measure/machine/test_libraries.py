import pytest

from measure.machine import devices, libraries
from measure.machine.host import OK, PROBLEM, WARNING
from measure.machine.libraries import (
    Libraries,
    check_libraries,
    check_tuning,
    find_conflicts,
    find_libraries,
    try_imports,
)


def library(folder, monkeypatch, name, text):
    (folder / f"{name}.py").write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def test_a_library_that_does_not_import_says_why_and_others_are_still_tried(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch, "broken", "raise RuntimeError('operator torchvision::nms does not exist\\nmore')")
    library(tmp_path, monkeypatch, "sound", "print('greetings')")
    failures, cuda = try_imports(["sound", "broken", "json"])
    assert failures == {"broken": "RuntimeError: operator torchvision::nms does not exist"}
    assert cuda is None


def test_a_library_that_ends_its_process_is_the_one_to_blame(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch, "crashes", "import os; os._exit(3)")
    failures, _ = try_imports(["json", "crashes", "csv"])
    assert failures == {"crashes": "importing it ended the process with exit code 3"}


def test_a_library_that_hangs_is_the_one_to_blame(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch, "hangs", "import time; time.sleep(60)")
    failures, _ = try_imports(["hangs"], limit_s=2.0)
    assert failures == {"hangs": "importing it took longer than 2 s"}


def test_torch_says_whether_it_can_use_a_gpu(tmp_path, monkeypatch):
    text = "from types import SimpleNamespace\ncuda = SimpleNamespace(is_available=lambda: False)"
    library(tmp_path, monkeypatch, "torch", text)
    assert try_imports(["torch"]) == ({}, False)


@pytest.mark.parametrize(
    ("requirement", "installed", "met"),
    [
        ("torch (==2.14.1)", "2.14.1", True),
        ("torch==2.14.1", "2.14.1+cu130", True),
        ("torch==2.14.1", "2.14.0", False),
        ("torch (>=2.14.0)", "2.13.0", False),
        ("torch (>=2.14.0)", "2.14", True),
        ("torch>=2.14,<2.15", "2.15.0", False),
        ("torch>=2.14,<2.15", "2.14.9", True),
        ("torch!=2.14.0", "2.14.0", False),
        ("torch==2.14.*", "2.14.3", True),
        ("torch", "2.1", True),
        ("torch==1.0 ; extra == 'old'", "2.14.1", True),
    ],
)
def test_a_requirement_is_held_against_the_version_that_is_there(requirement, installed, met):
    found = find_conflicts({"torchvision": "0.29.2", "torch": installed}, {"torchvision": [requirement]})
    assert (found == ()) is met


def test_an_unmet_requirement_is_a_sentence():
    found = find_conflicts(
        {"torchvision": "0.29.2", "torch": "2.13.0"}, {"torchvision": ["torch (>=2.14.0)", "numpy (<1)"]}
    )
    assert found == ("torchvision 0.29.2 requires torch >=2.14.0, but 2.13.0 is installed",)


def test_what_is_observed_is_what_this_python_has(monkeypatch):
    monkeypatch.setattr(libraries, "LOSSES", {"pytest": None})
    monkeypatch.setattr(devices, "nvidia_handles", list)
    seen = find_libraries()
    assert dict(seen.versions) == {"pytest": pytest.__version__}
    assert (dict(seen.failures), seen.conflicts, seen.cuda) == ({}, (), None)


def test_where_there_is_a_gpu_what_its_kernels_need_is_tried_too(monkeypatch):
    monkeypatch.setattr(libraries, "ON_GPU", ("pytest", "no-such-package"))
    monkeypatch.setattr(libraries, "LOSSES", dict.fromkeys(libraries.ON_GPU))
    monkeypatch.setattr(libraries, "CUPTI", ("no-such-package", "pytest"))
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["a GPU"])
    monkeypatch.setenv("CC", "my-compiler")
    seen = find_libraries()
    assert dict(seen.versions) == {"pytest": pytest.__version__, "no-such-package": None}
    assert (seen.cupti, seen.c_compiler) == (pytest.__version__, "my-compiler")


def test_a_package_may_come_under_another_name_than_its_own(monkeypatch):
    brings = {"triton": ["pytest"]}  # as pytorch-triton-rocm does
    monkeypatch.setattr(libraries.importlib.metadata, "packages_distributions", lambda: brings)
    monkeypatch.setattr(libraries, "LOSSES", {"triton": None})
    monkeypatch.setattr(libraries, "installed_version", {"pytest": pytest.__version__}.get)
    monkeypatch.setattr(libraries, "try_imports", lambda names: ({}, None))
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["a GPU"])
    assert dict(find_libraries().versions) == {"triton": pytest.__version__}


def test_a_compiler_is_found_as_triton_finds_it(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libraries.find_c_compiler() is None
    for name in ("clang", "gcc"):  # gcc comes first
        program = tmp_path / name
        program.touch(mode=0o755)
        assert libraries.find_c_compiler() == str(program)


SOUND = dict.fromkeys(libraries.LOSSES, "1.0") | {"torch": "2.14.1", "torchvision": "0.29.2", "torchaudio": "2.11.0"}
del SOUND["triton"]  # this machine has no GPU


def findings(versions=(), failures=(), conflicts=(), cuda=None, **others):
    return list(check_libraries(Libraries(SOUND | dict(versions), dict(failures), conflicts, cuda, **others)))


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
    (finding,) = findings(conflicts=("torchvision 0.29.2 requires torch >=2.14.0, but 2.13.0 is installed",))
    assert finding.level == PROBLEM
    assert finding.fact.startswith("torchvision 0.29.2 requires torch")


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
            "install gcc, or set the variable CC to a compiler",
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
    (finding,) = check_tuning({"PATH": "/bin"})
    assert (finding.level, finding.subject) == (OK, "tuning")


def test_what_is_set_is_a_warning_that_names_it():
    (finding,) = check_tuning({"OMP_PROC_BIND": "close", "ATEN_CPU_CAPABILITY": "avx2"})
    assert finding.level == WARNING
    assert finding.fact.endswith("ATEN_CPU_CAPABILITY=avx2, OMP_PROC_BIND=close")


def test_what_decides_over_precisions_is_a_problem_beside_the_rest():
    problem, rest = check_tuning({"NVIDIA_TF32_OVERRIDE": "0"})
    assert problem.level == PROBLEM
    assert problem.advice == "unset it"
    assert rest.level == OK


@pytest.mark.parametrize(("cuda", "level"), [(False, PROBLEM), (True, OK), (None, OK)])
def test_a_gpu_that_torch_cannot_use_is_a_problem(cuda, level):
    assert findings(cuda=cuda, has_gpu=True)[-1].level == level
