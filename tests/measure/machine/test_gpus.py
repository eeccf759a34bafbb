from types import SimpleNamespace

import pytest

from measure.machine import devices, gpus

pynvml = pytest.importorskip("pynvml", reason="GPUs are asked through nvidia-ml-py")


@pytest.mark.parametrize(("text", "only"), [("1", True), ("0", False)])
def test_the_drivers_parameter_says_who_may_read_counters(tmp_path, text, only):
    assert gpus.counters_admin_only(tmp_path) is None
    (tmp_path / "params").write_text(f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {text}\n")
    assert gpus.counters_admin_only(tmp_path) is only


def test_an_administrator_has_the_capability_that_containers_lack(tmp_path):
    status = tmp_path / "status"
    status.write_text("CapPrm:\t000001ffffffffff\nCapEff:\t00000000a80425fb\n")  # Docker's default
    assert not gpus.is_admin(status)
    status.write_text("CapEff:\t000001ffffffffff\n")
    assert gpus.is_admin(status)


def refuse(*_):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


@pytest.fixture
def driver(monkeypatch):
    """A driver with one GPU, of which it tells nothing unless a test says what."""
    questions = (
        "Name MemoryInfo UtilizationRates ComputeRunningProcesses PersistenceMode EccMode TotalEccErrors "
        "TemperatureThreshold Temperature ClockInfo PowerUsage TotalEnergyConsumption CurrentClocksEventReasons "
        "CurrentClocksThrottleReasons"
    )
    for question in questions.split():
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{question}", refuse)
    monkeypatch.setattr(pynvml, "nvmlDeviceIsMigDeviceHandle", refuse)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: ["handle"])

    def tells(**answers):
        for question, answer in answers.items():
            monkeypatch.setattr(pynvml, f"nvmlDeviceGet{question}", lambda *_, answer=answer: answer)

    return tells


def test_what_a_driver_does_not_tell_is_unknown(driver):
    (gpu,) = gpus.observe().gpus
    assert gpu == gpus.Gpu("cuda:0", "NVIDIA GPU", *[None] * 9)


def test_what_a_driver_tells_is_taken_over(driver):
    driver(
        Name=b"NVIDIA H200",
        MemoryInfo=SimpleNamespace(used=5 * 10**9),
        UtilizationRates=SimpleNamespace(gpu=37),
        ComputeRunningProcesses=[SimpleNamespace(pid=2**31 - 1)],
        PersistenceMode=0,
        EccMode=[1, 0],
        TotalEccErrors=3,
        TemperatureThreshold=87,
        Temperature=41,
        CurrentClocksEventReasons=0x04,
    )
    (gpu,) = gpus.observe().gpus
    assert gpu == gpus.Gpu(
        torch_name="cuda:0",
        name="NVIDIA H200",
        others=(f"process {2**31 - 1}",),
        used_byte=5 * 10**9,
        busy=0.37,
        persistence=False,
        ecc=True,
        uncorrected=3,
        temperature_c=41.0,
        limit_c=87,
        throttle="power cap",
    )


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "nvidia_handles", lambda: [])
    monkeypatch.setattr(gpus, "DRIVER", tmp_path / "none")
    seen = gpus.observe()
    assert (seen.has_driver, seen.gpus) == (False, ())
