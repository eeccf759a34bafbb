import pytest

from measure import processor

psutil = pytest.importorskip("psutil", reason="cores and memory need psutil")


def test_threads_are_physical_cores_within_those_that_this_process_may_use():
    assert 1 <= processor.physical_cores() <= processor.visible_cores()


def test_no_more_memory_is_available_than_there_is():
    assert 0 < processor.available_memory_byte() <= psutil.virtual_memory().total


def test_a_processor_says_its_vendor_family_and_model(monkeypatch):
    amd = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "17", "model name": "AMD EPYC"}
    monkeypatch.setattr(processor, "described", lambda: amd)
    assert processor.numbers() == ("AuthenticAMD", 25, 17)
    arm = {"CPU implementer": "0x41", "CPU architecture": "8", "CPU part": "0xd4f"}
    monkeypatch.setattr(processor, "described", lambda: arm)
    assert processor.numbers() == ("0x41", 8, 3407)  # 0xd4f = 13 * 256 + 4 * 16 + 15
    monkeypatch.setattr(
        processor, "described", lambda: {"model": "IBM pSeries", "CPU architecture": "AArch64"}
    )
    assert processor.numbers() == (None, None, None)
