"""A machine's folder and its cells for tests of comparisons and answers."""

from dataclasses import replace

from helpers import rows
from measure.cache.folders import MachineFolder
from measure.cache.records import Run, Sample
from measure.domain.latency import Cell, TimedCell

RECORDED_AT = "2026-01-01T00:00:00+00:00"
ENVIRONMENT = replace(
    rows.ENVIRONMENT, environment_id="aaaa00000000", hardware_id="h", name="Chip", memory_byte=8, torch="2.14.1",
    recorded_at=RECORDED_AT,
)  # fmt: skip
NEWER = replace(ENVIRONMENT, environment_id="aabb00000000", recorded_at="2026-02-01T00:00:00+00:00")
CELL = Cell("alexnet", 1, "fp32", "inference", "eager")


def machine(data, name="box", *environments):
    folder = MachineFolder(data, name)
    for environment in environments or (ENVIRONMENT,):
        folder.put_environment(environment)
    return folder


def put(folder, round, latencies, status="ok", reason=None, environment=ENVIRONMENT, flags=None, at=RECORDED_AT):
    cell = {"environment_id": environment.environment_id, **CELL._asdict(), "round": round}
    about = {"status": status, "reason": reason, "flags": flags, "input_shape": "3x224x224"}
    samples = [Sample(**cell, sample=index, block=1, latency_s=latency) for index, latency in enumerate(latencies)]
    folder.put_run(Run(**cell, **about, recorded_at=at), samples)


def timed(batch=1, latency_s=2.0, variant="eager"):
    """A cell of one model, as answers about it hold it."""
    columns = CELL._asdict() | {"batch": batch, "variant": variant}
    return TimedCell(
        **columns, status="ok", reason=None, latency_s=latency_s, latency_low_s=0.9 * latency_s,
        latency_high_s=1.1 * latency_s, latency_least_s=0.9 * latency_s, latency_most_s=1.1 * latency_s,
        inputs_per_s=batch / latency_s, tokens_per_s=None, rounds=3, flags=(),
        input_shape="3x2x2",
    )  # fmt: skip
