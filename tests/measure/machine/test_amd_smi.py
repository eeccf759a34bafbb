import sys

import pytest
from helpers.rocm import MI300X, RX_7900_XTX, pretend_smi

from measure.machine.amd_smi import RESIDENCIES, AmdSmi
from measure.timing.sampling import POWER_CAP


def asked(monkeypatch, **answers):
    pretend_smi(monkeypatch, RX_7900_XTX, MI300X, **answers)
    return AmdSmi(MI300X.bus)


def test_a_gpu_is_found_by_its_address(monkeypatch):
    assert asked(monkeypatch).gap is None
    assert AmdSmi("0000:ff:00.0").gap == "it shows no GPU at 0000:ff:00.0"


def test_without_the_package_or_its_library_there_is_a_reason_and_no_answer(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    silent = AmdSmi(MI300X.bus)
    assert silent.gap.startswith("ModuleNotFoundError: ")
    assert (silent.market_name(), silent.clock_hz(), silent.temperature_c(), silent.power_w()) == (None,) * 4
    assert (silent.energy_j(), silent.busy(), silent.used_byte(), silent.residencies()) == (None, None, None, {})
    smi = pretend_smi(monkeypatch, MI300X)

    def refuse():
        raise OSError("AMD SMI shared library could not be loaded.\nSearched the following paths")

    monkeypatch.setattr(smi, "amdsmi_init", refuse)
    assert AmdSmi(MI300X.bus).gap == "OSError: AMD SMI shared library could not be loaded."


def test_the_library_is_loaded_with_the_first_question(monkeypatch):
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    smi = AmdSmi(MI300X.bus)
    pretend_smi(monkeypatch, MI300X, gpu_activity={"gfx_activity": 37})
    assert smi.busy() == pytest.approx(0.37)


def test_a_market_name_may_be_missing(monkeypatch):
    assert asked(monkeypatch, gpu_asic_info={"market_name": "AMD Instinct MI300X"}).market_name() == (
        "AMD Instinct MI300X"
    )
    assert asked(monkeypatch, gpu_asic_info={"market_name": "N/A"}).market_name() is None
    assert asked(monkeypatch).market_name() is None


@pytest.mark.parametrize(
    ("answer", "clock_hz"),
    [
        ({"clk": 2100, "min_clk": 132, "max_clk": 2100}, 2.1e9),
        ({"cur_clk": 1700, "max_clk": 1700}, 1.7e9),  # before ROCm 6.2
        ({"clk": "N/A"}, None),
        (None, None),
    ],
)
def test_the_clock_is_that_of_the_compute_units(monkeypatch, answer, clock_hz):
    assert asked(monkeypatch, clock_info=lambda kind: answer if kind == "GFX" else {"clk": 1}).clock_hz() == clock_hz


@pytest.mark.parametrize(
    ("answer", "power_w"),
    [
        # github.com/ROCm/pytorch/pull/1457: an MI300, an MI200
        ({"current_socket_power": 717, "average_socket_power": "N/A"}, 717),
        ({"current_socket_power": "N/A", "average_socket_power": 94}, 94),
        ({"current_socket_power": 2**32 - 1, "average_socket_power": 94}, 94),  # "UINT32_MAX" is not supported
        ({"current_socket_power": 2**16 - 1, "average_socket_power": 2**16 - 1}, None),
    ],
)
def test_a_gpu_tells_its_current_or_an_average_power(monkeypatch, answer, power_w):
    assert asked(monkeypatch, power_info=answer).power_w() == power_w


def test_the_temperature_is_that_of_the_hottest_spot(monkeypatch):
    degrees = {("JUNCTION", "CURRENT"): 61, ("EDGE", "CURRENT"): 45, ("JUNCTION", "CRITICAL"): 100}
    smi = asked(monkeypatch, temp_metric=lambda *details: degrees.get(details))
    assert (smi.temperature_c(), smi.temperature_c("CRITICAL")) == (61, 100)
    degrees.pop(("JUNCTION", "CURRENT"))
    assert smi.temperature_c() == 45
    degrees.clear()
    assert smi.temperature_c() is None


def test_energy_is_a_count_of_units(monkeypatch):
    # 2,000,000 of the 15.3 µJ that AMD SMI's guide names are 30.6 J.
    newer = {"energy_accumulator": 2_000_000, "counter_resolution": 15.3, "timestamp": 1}
    assert asked(monkeypatch, energy_count=newer).energy_j() == pytest.approx(30.6)
    older = {"power": 2_000_000, "counter_resolution": 15.3, "timestamp": 1}
    assert asked(monkeypatch, energy_count=older).energy_j() == pytest.approx(30.6)
    assert asked(monkeypatch, energy_count={"energy_accumulator": 2_000_000}).energy_j() is None
    assert asked(monkeypatch).energy_j() is None


def test_reasons_for_a_lower_clock_are_those_that_are_told(monkeypatch):
    metrics = {"ppt_residency_acc": 7, "socket_thm_residency_acc": "N/A", "throttle_status": True}
    assert asked(monkeypatch, gpu_metrics_info=metrics).residencies() == {"power cap": 7}


def test_a_power_cap_is_called_as_on_nvidias_gpus():
    assert RESIDENCIES["ppt_residency_acc"] == POWER_CAP


def test_memory_in_use_is_told_in_mebibytes(monkeypatch):
    assert asked(monkeypatch, gpu_vram_usage={"vram_total": 196592, "vram_used": 283}).used_byte() == 283 * 2**20


def test_a_question_that_a_version_does_not_know_has_no_answer(monkeypatch):
    smi = asked(monkeypatch, gpu_activity={"gfx_activity": 5})
    monkeypatch.delattr("amdsmi.amdsmi_get_gpu_activity")
    assert smi.busy() is None
