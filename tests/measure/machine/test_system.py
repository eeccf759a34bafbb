import platform

import pytest

from measure.machine import environment


@pytest.mark.parametrize(("told", "expected"), [(("glibc", "2.36"), "glibc 2.36"), (("", ""), None)])
def test_the_c_library_has_a_name_and_a_version(monkeypatch, told, expected):
    monkeypatch.setattr(platform, "libc_ver", lambda: told)
    assert environment.c_library() == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[always] madvise never\n", "always"),
        ("always [madvise] never\n", "madvise"),
        ("always madvise [never]\n", "never"),
        ("", None),
    ],
)
def test_the_setting_of_huge_pages_is_the_word_in_brackets(monkeypatch, tmp_path, line, expected):
    monkeypatch.setattr(environment, "HUGE_PAGES", tmp_path / "enabled")
    assert environment.huge_pages() is None  # without the file, as on other systems
    (tmp_path / "enabled").write_text(line)
    assert environment.huge_pages() == expected


@pytest.fixture
def lscpu(monkeypatch, tmp_path):
    """Put lines of a script in the place of lscpu, which is not there before."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def write(*lines):
        file = tmp_path / "lscpu"
        file.write_text("\n".join(("#!/bin/sh", *lines, "")))
        file.chmod(0o755)

    return write


@pytest.fixture
def flags(monkeypatch):
    """Say what a processor has for flags."""
    return lambda text: monkeypatch.setattr(environment, "read_cpuinfo", lambda: {"model name": "Chip", "flags": text})


KVM = "echo 'Hypervisor vendor:                    KVM'"


def test_a_virtual_machine_runs_on_what_lscpu_names(flags, lscpu):
    flags("fpu hypervisor avx2")
    lscpu("echo 'Vendor ID:    AuthenticAMD'", KVM, "echo 'Virtualization type:  full'")
    assert environment.hypervisor() == "KVM"


def test_lscpu_is_asked_in_english(monkeypatch, flags, lscpu):
    flags("fpu hypervisor avx2")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    lscpu(f'[ "$LC_ALL" = C ] && {KVM}')
    assert environment.hypervisor() == "KVM"


def test_a_hypervisor_that_nobody_names_is_unknown(flags, lscpu):
    flags("fpu hypervisor avx2")
    assert environment.hypervisor() == "unknown"  # lscpu is missing
    lscpu("echo 'Vendor ID:    AuthenticAMD'")
    assert environment.hypervisor() == "unknown"
    lscpu(KVM, "exit 1")
    assert environment.hypervisor() == "unknown"


@pytest.mark.parametrize("text", ["fpu avx2", "", "fpu hypervisor_of_another_name"])
def test_a_processor_without_the_flag_is_a_real_one(flags, lscpu, text):
    flags(text)
    lscpu(KVM)
    assert environment.hypervisor() == "none"


def test_a_processor_that_tells_no_flags_may_be_either(monkeypatch, lscpu):
    lscpu(KVM)
    monkeypatch.setattr(environment, "read_cpuinfo", lambda: {"Features": "fp asimd"})  # Arm
    assert environment.hypervisor() is None
