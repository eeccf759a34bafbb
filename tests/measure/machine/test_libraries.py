import pytest

from measure.machine import devices, libraries
from measure.machine.libraries import try_imports, unmet


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
    found = unmet({"torchvision": "0.29.2", "torch": installed}, {"torchvision": [requirement]})
    assert (found == ()) is met


def test_an_unmet_requirement_is_a_sentence():
    found = unmet({"torchvision": "0.29.2", "torch": "2.13.0"}, {"torchvision": ["torch (>=2.14.0)", "numpy (<1)"]})
    assert found == ("torchvision 0.29.2 asks for torch >=2.14.0, and 2.13.0 is installed",)


def test_what_is_observed_is_what_this_python_has(monkeypatch):
    monkeypatch.setattr(libraries, "NAMES", ("pytest",))
    monkeypatch.setattr(devices, "nvidia_handles", list)
    seen = libraries.observe()
    assert dict(seen.versions) == {"pytest": pytest.__version__}
    assert (dict(seen.failures), seen.unmet, seen.cuda) == ({}, (), None)


def test_where_there_is_a_gpu_what_its_kernels_need_is_tried_too(monkeypatch):
    monkeypatch.setattr(libraries, "NAMES", ())
    monkeypatch.setattr(libraries, "ON_GPU", ("pytest", "no-such-package"))
    monkeypatch.setattr(libraries, "CUPTI", ("no-such-package", "pytest"))
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["a GPU"])
    monkeypatch.setenv("CC", "my-compiler")
    seen = libraries.observe()
    assert dict(seen.versions) == {"pytest": pytest.__version__, "no-such-package": None}
    assert (seen.cupti, seen.c_compiler) == (pytest.__version__, "my-compiler")


def test_a_package_may_come_under_another_name_than_its_own(monkeypatch):
    brings = {"triton": ["pytest"]}  # as pytorch-triton-rocm does
    monkeypatch.setattr(libraries.importlib.metadata, "packages_distributions", lambda: brings)
    monkeypatch.setattr(libraries, "NAMES", ())
    monkeypatch.setattr(libraries, "installed_version", {"pytest": pytest.__version__}.get)
    monkeypatch.setattr(libraries, "try_imports", lambda names: ({}, None))
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["a GPU"])
    assert dict(libraries.observe().versions) == {"triton": pytest.__version__}


def test_a_compiler_is_found_as_triton_finds_it(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert libraries.c_compiler() is None
    for name in ("clang", "gcc"):  # gcc comes first
        program = tmp_path / name
        program.touch(mode=0o755)
        assert libraries.c_compiler() == str(program)
