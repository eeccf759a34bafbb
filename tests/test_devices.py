import dataclasses

import pytest

from measure import devices
from measure.errors import UserError

psutil = pytest.importorskip("psutil", reason="a machine's memory needs psutil")


@pytest.fixture
def environment():
    pytest.importorskip("torch", reason="an environment names torch's version")
    return devices.environment(devices.find("cpu"), 2)


def test_cpu_is_always_there():
    assert devices.available_names()[-1] == "cpu"
    assert devices.find("cpu").torch_name == "cpu"


def test_auto_takes_the_first_device():
    assert devices.find("auto").torch_name == devices.available_names()[0]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "", "CPU "])
def test_a_word_that_is_no_device_is_answered_with_those_that_are(name):
    with pytest.raises(UserError, match="say cpu, cuda, cuda:N, mps or auto"):
        devices.find(name)


def test_a_device_that_is_not_there_is_answered_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    with pytest.raises(UserError, match="there is no cuda:1 on this machine; there is cuda:0, cpu"):
        devices.find("cuda:1")


def test_threads_are_physical_cores_within_those_that_this_process_may_use():
    assert 1 <= devices.physical_cores() <= devices.visible_cores()


def test_an_environment_changes_with_what_can_change_a_measurement(environment):
    other = devices.environment(devices.find("cpu"), 1)
    assert other.hardware_id == environment.hardware_id
    assert other.environment_id != environment.environment_id
    again = devices.environment(devices.find("cpu"), 2)
    assert again.environment_id == environment.environment_id


def test_an_environment_has_no_more_memory_available_than_there_is(environment):
    assert 0 < devices.available_memory_byte() <= environment.memory_byte


def test_folder_names_are_readable_and_carry_the_hardware(environment):
    cpu = dataclasses.replace(environment, name="AMD EPYC", device="cpu", cores=2, hardware_id="3f9a00000000")
    assert devices.folder_name(cpu) == "amd-epyc-2c-3f9a"
    gpu = dataclasses.replace(cpu, name="NVIDIA H200", device="cuda", hardware_id="71c0ffffffff")
    assert devices.folder_name(gpu) == "nvidia-h200-71c0"
    intel = dataclasses.replace(cpu, name="Intel(R) Xeon(R) CPU @ 2.20GHz")
    assert devices.folder_name(intel) == "intel-xeon-cpu-2-20ghz-2c-3f9a"


def test_a_processor_says_its_vendor_family_and_model(monkeypatch):
    amd = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "model name": "AMD EPYC"}
    monkeypatch.setattr(devices, "_processor", lambda: amd)
    assert devices.processor_numbers() == ("AuthenticAMD", 25, 17)
    arm = {"CPU implementer": "0x41", "CPU architecture": "8", "CPU part": "0xd4f"}
    monkeypatch.setattr(devices, "_processor", lambda: arm)
    assert devices.processor_numbers() == ("0x41", 8, 3407)  # 0xd4f = 13 * 256 + 4 * 16 + 15
    monkeypatch.setattr(
        devices, "_processor", lambda: {"model": "IBM pSeries", "CPU architecture": "AArch64"}
    )
    assert devices.processor_numbers() == (None, None, None)


def test_what_a_processor_says_of_itself_leaves_its_identity_as_it_was(monkeypatch, environment):
    monkeypatch.setattr(devices, "processor_numbers", lambda: ("Other", 1, 2))
    again = devices.environment(devices.find("cpu"), 2)
    assert (again.cpu_vendor, again.cpu_family, again.cpu_model) == ("Other", 1, 2)
    assert (again.hardware_id, again.environment_id) == (environment.hardware_id, environment.environment_id)


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert not [name for name in devices.available_names() if name.startswith("cuda")]


@pytest.mark.gpu
def test_a_gpu_says_who_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    assert "NVIDIA" in gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
