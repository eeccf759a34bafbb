import dataclasses
import platform

import pytest
from helpers.gpu import pretend
from helpers.gpu.catalogue import MACHINES

from measure.errors import UserError
from measure.machine import devices, processor
from measure.machine import environment as machine
from measure.machine.environment import current, folder_name, installed_version

psutil = pytest.importorskip("psutil", reason="a machine's memory needs psutil")


@pytest.fixture
def environment(untuned):
    pytest.importorskip("torch", reason="an environment names torch's version")
    return current(devices.find("cpu"), 2)


def test_what_is_not_installed_has_no_version():
    assert installed_version("no-such-package") is None
    assert installed_version("pytest") == pytest.__version__


def test_an_environment_changes_with_what_can_change_a_measurement(environment):
    other = current(devices.find("cpu"), 1)
    assert other.hardware_id == environment.hardware_id
    assert other.environment_id != environment.environment_id
    again = current(devices.find("cpu"), 2)
    assert again.environment_id == environment.environment_id


def test_folder_names_are_readable_and_carry_the_hardware(environment):
    cpu = dataclasses.replace(environment, name="AMD EPYC", device="cpu", cores=2, hardware_id="3f9a00000000")
    assert folder_name(cpu) == "amd-epyc-2c-3f9a"
    gpu = dataclasses.replace(cpu, name="NVIDIA H200", device="cuda", hardware_id="71c0ffffffff")
    assert folder_name(gpu) == "nvidia-h200-71c0"
    intel = dataclasses.replace(cpu, name="Intel(R) Xeon(R) CPU @ 2.20GHz")
    assert folder_name(intel) == "intel-xeon-cpu-2-20ghz-2c-3f9a"


def test_what_a_processor_says_of_itself_leaves_its_identity_as_it_was(monkeypatch, environment):
    monkeypatch.setattr(processor, "cpu_numbers", lambda: ("Other", 1, 2))
    again = current(devices.find("cpu"), 2)
    assert (again.cpu_vendor, again.cpu_family, again.cpu_model) == ("Other", 1, 2)
    assert (again.hardware_id, again.environment_id) == (environment.hardware_id, environment.environment_id)


def test_the_compute_capability_is_recorded_and_leaves_the_identity_as_it_was(monkeypatch, untuned):
    pytest.importorskip("torch", reason="an environment names torch's version")
    pretend(monkeypatch, MACHINES["t4"])
    gpu = devices.find("cuda")
    told = current(gpu, 2)
    monkeypatch.setattr(gpu, "capability", lambda: None)  # a driver that hides it
    untold = current(gpu, 2)
    assert (told.capability, untold.capability) == ("7.5", None)
    assert (told.hardware_id, told.environment_id) == (untold.hardware_id, untold.environment_id)


def test_a_variable_that_tunes_makes_another_environment_of_the_same_hardware(monkeypatch, environment):
    assert environment.tuning is None
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    other = current(devices.find("cpu"), 2)
    assert other.tuning == "OMP_PROC_BIND=close"
    assert other.hardware_id == environment.hardware_id
    assert other.environment_id != environment.environment_id


def test_a_variable_that_decides_over_precisions_is_refused(monkeypatch):
    pytest.importorskip("torch", reason="an environment names torch's version")
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    with pytest.raises(UserError, match=r"^NVIDIA_TF32_OVERRIDE=1 sets the precision"):
        current(devices.find("cpu"), 2)


@pytest.mark.parametrize(("told", "expected"), [(("glibc", "2.36"), "glibc 2.36"), (("", ""), None)])
def test_the_c_library_has_a_name_and_a_version(monkeypatch, environment, told, expected):
    monkeypatch.setattr(platform, "libc_ver", lambda: told)
    assert current(devices.find("cpu"), 2).c_library == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[always] madvise never\n", "always"),
        ("always [madvise] never\n", "madvise"),
        ("always madvise [never]\n", "never"),
        ("", None),
    ],
)
def test_the_setting_of_huge_pages_is_the_word_in_brackets(monkeypatch, environment, tmp_path, line, expected):
    monkeypatch.setattr(machine, "HUGE_PAGES", tmp_path / "enabled")
    assert current(devices.find("cpu"), 2).huge_pages is None  # without the file, as on other systems
    (tmp_path / "enabled").write_text(line)
    assert current(devices.find("cpu"), 2).huge_pages == expected


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
    return lambda text: monkeypatch.setattr(machine, "read_cpuinfo", lambda: {"model name": "Chip", "flags": text})


KVM = "echo 'Hypervisor vendor:                    KVM'"


def test_a_virtual_machine_runs_on_what_lscpu_names(flags, lscpu):
    flags("fpu hypervisor avx2")
    lscpu("echo 'Vendor ID:    AuthenticAMD'", KVM, "echo 'Virtualization type:  full'")
    assert machine.hypervisor() == "KVM"


def test_lscpu_is_asked_in_english(monkeypatch, flags, lscpu):
    flags("fpu hypervisor avx2")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    lscpu(f'[ "$LC_ALL" = C ] && {KVM}')
    assert machine.hypervisor() == "KVM"


def test_a_hypervisor_that_nobody_names_is_unknown(flags, lscpu):
    flags("fpu hypervisor avx2")
    assert machine.hypervisor() == "unknown"  # lscpu is missing
    lscpu("echo 'Vendor ID:    AuthenticAMD'")
    assert machine.hypervisor() == "unknown"
    lscpu(KVM, "exit 1")
    assert machine.hypervisor() == "unknown"


@pytest.mark.parametrize("text", ["fpu avx2", "", "fpu hypervisor_of_another_name"])
def test_a_processor_without_the_flag_is_a_real_one(flags, lscpu, text):
    flags(text)
    lscpu(KVM)
    assert machine.hypervisor() == "none"


def test_a_processor_that_tells_no_flags_may_be_either(monkeypatch, lscpu):
    lscpu(KVM)
    monkeypatch.setattr(machine, "read_cpuinfo", lambda: {"Features": "fp asimd"})  # Arm
    assert machine.hypervisor() is None
