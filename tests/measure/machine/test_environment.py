from dataclasses import replace

import pytest

from measure.errors import UserError
from measure.machine import devices, processor
from measure.machine import environment as machine
from measure.machine.environment import current, folder_name, installed_version

pytestmark = pytest.mark.usefixtures("untuned")


def here(threads=2):
    return current(devices.find("cpu"), threads)


def test_an_environment_changes_with_what_affects_measurements(monkeypatch):
    environment, again, other = here(), here(), here(threads=1)
    monkeypatch.setenv("OMP_PROC_BIND", "close")
    tuned = here()
    assert again.environment_id == environment.environment_id
    assert len({environment.environment_id, other.environment_id, tuned.environment_id}) == 3
    assert environment.hardware_id == other.hardware_id == tuned.hardware_id
    assert (environment.tuning, tuned.tuning) == (None, "OMP_PROC_BIND=close")
    assert installed_version("no-such-package") is None
    monkeypatch.setattr(
        processor, "cpu_numbers", lambda: processor.CpuNumbers("Other", 1, 2, 3)
    )  # recorded, and no part of the identity
    monkeypatch.setattr(devices.Cpu, "power_limit_w", lambda _: 70.0)
    other = here()
    assert other.power_limit_w == 70.0
    assert (other.cpu_vendor, other.cpu_family, other.cpu_model, other.cpu_stepping) == ("Other", 1, 2, 3)
    assert (other.hardware_id, other.environment_id) == (tuned.hardware_id, tuned.environment_id)


@pytest.mark.parametrize(
    ("name", "device", "folder"),
    [
        ("NVIDIA H200", "cuda", "nvidia-h200-3f9a"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "cpu", "intel-xeon-cpu-2-20ghz-2c-3f9a"),
    ],
)
def test_folder_names_are_readable_and_carry_the_hardware(name, device, folder):
    assert folder_name(replace(here(), name=name, device=device, cores=2, hardware_id="3f9a00000000")) == folder


def test_a_variable_that_decides_over_precisions_is_refused(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    with pytest.raises(UserError, match=r"^NVIDIA_TF32_OVERRIDE=1 sets the precision"):
        here()


VIRTUAL = {"flags": "fpu hypervisor avx2"}
KVM = "echo 'Hypervisor vendor:                    KVM'"


@pytest.mark.parametrize(
    ("cpuinfo", "lscpu", "name"),
    [
        # It is asked in English.
        (VIRTUAL, ["echo 'Vendor ID:    AuthenticAMD'", f'[ "$LC_ALL" = C ] && {KVM}', "echo 'Type:  full'"], "KVM"),
        (VIRTUAL, [KVM, "exit 1"], "unknown"),
        ({"flags": "fpu avx2"}, [KVM], "none"),
        ({"Features": "fp asimd"}, [KVM], None),  # Arm: it may be either
    ],
)
def test_a_hypervisor_is_the_one_that_lscpu_names(monkeypatch, tmp_path, cpuinfo, lscpu, name):
    monkeypatch.setattr(machine, "read_cpuinfo", lambda: cpuinfo)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    (tmp_path / "lscpu").write_text("\n".join(("#!/bin/sh", *lscpu, "")))
    (tmp_path / "lscpu").chmod(0o755)
    assert machine.hypervisor() == name
