import subprocess
from types import SimpleNamespace

import pytest

from measure.machine import devices

SAID = """+-o AGXAcceleratorG16G  <class AGXAcceleratorG16G, id 0x10000039c, registered, matched, active>
    {
      "IOMatchedAtBoot" = Yes
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Device Utilization %"=30}
      "model" = "Apple M4"
      "gpu-core-count" = 10
    }
"""
"""What ioreg prints on an M4."""


@pytest.mark.parametrize(("said", "cores"), [(SAID, 10), ("", None), ('"model" = "Apple M4"', None)])
def test_a_gpus_cores_are_those_that_macos_counts(monkeypatch, said, cores):
    monkeypatch.setattr(subprocess, "run", lambda asked, **_: SimpleNamespace(stdout=said if "ioreg" in asked else ""))
    assert devices.gpu_cores() == cores


def test_without_the_registrys_program_they_are_unknown(monkeypatch):
    def missing(*_, **__):
        raise FileNotFoundError("ioreg")

    monkeypatch.setattr(subprocess, "run", missing)
    assert devices.gpu_cores() is None
