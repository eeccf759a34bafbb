"""Machines' folders for the tests of comparisons."""

import dataclasses

from measure.cache.folders import MachineFolder
from measure.cache.records import Environment, Run, Sample
from measure.domain.latency import Cell

ENVIRONMENT = Environment(
    environment_id="aaaa00000000",
    hardware_id="h",
    device="cpu",
    name="Chip",
    cores=2,
    threads=2,
    memory_byte=8,
    vector_extension=None,
    driver=None,
    system="Linux",
    python="3.11",
    torch="2.14.1",
    torchvision=None,
    torchaudio=None,
    recorded_at="2026-01-01T00:00:00+00:00",
)
NEWER = dataclasses.replace(ENVIRONMENT, environment_id="aabb00000000", recorded_at="2026-02-01T00:00:00+00:00")
CELL = Cell("alexnet", 1, "fp32", "inference", "eager")


def machine(data, name="box", *environments):
    folder = MachineFolder(data, name)
    for environment in environments or (ENVIRONMENT,):
        folder.put_environment(environment)
    return folder


def put(folder, round, latencies, status="ok", reason=None, environment=ENVIRONMENT, flags=None):
    cell = {"environment_id": environment.environment_id} | CELL._asdict()
    recorded_at = "2026-01-01T00:00:00+00:00"
    run = Run(
        **cell, status=status, reason=reason, recorded_at=recorded_at, input_shape="3x224x224", round=round, flags=flags
    )
    samples = [
        Sample(**cell, sample=index, block=1, latency_s=latency, round=round) for index, latency in enumerate(latencies)
    ]
    folder.put_run(run, samples)
