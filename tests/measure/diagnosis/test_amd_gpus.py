from dataclasses import replace

from helpers.rocm import MI300X, MIB, RX_7900_XTX, pretend, pretend_smi

from measure.diagnosis import amd_gpus
from measure.diagnosis.amd_gpus import Amd
from measure.diagnosis.gpus import Gpu
from measure.machine import rocm


def test_what_amd_smi_tells_is_taken_over(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, MI300X)
    degrees = {"CURRENT": 41, "CRITICAL": 100}
    pretend_smi(
        monkeypatch,
        MI300X,
        gpu_activity={"gfx_activity": 37},
        gpu_vram_usage={"vram_total": 196592, "vram_used": 283},
        temp_metric=lambda _sensor, metric: degrees[metric],
    )
    seen = amd_gpus.observe()
    assert (seen.gap, seen.unused) == (None, ())
    assert seen.gpus == (
        Gpu("cuda:0", "AMD Instinct MI300X", None, 283 * MIB, 0.37, None, None, None, 41.0, 100.0, None),
    )


def test_without_amd_smi_there_is_a_reason(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, RX_7900_XTX)
    seen = amd_gpus.observe()
    assert seen.gap.startswith("ModuleNotFoundError: ")
    assert seen.gpus == (Gpu("cuda:0", "AMD Radeon RX 7900 XTX", *[None] * 9),)


def test_gpus_that_torch_is_not_built_for_are_named(monkeypatch, tmp_path):
    pretend(monkeypatch, tmp_path, replace(RX_7900_XTX, memory_byte=0))
    monkeypatch.setattr(rocm, "hip_version", lambda: None)
    assert amd_gpus.observe() == Amd((), None, ("gfx1100",))


def test_a_machine_without_amds_driver_has_none(monkeypatch, tmp_path):
    monkeypatch.setattr(rocm, "SYSTEM", tmp_path / "none")
    assert amd_gpus.observe() == Amd((), None, ())
