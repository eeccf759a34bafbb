"""Rows of every table, and a machine's folder as another person hands it in."""

import zipfile

from measure.cache.folders import MachineFolder
from measure.counting import count
from measure.domain import records
from measure.domain.cell import Cell
from measure.domain.records import Environment, OperatorTime, Profile, RoofMeasurement, Run, Sample
from measure.domain.workload_records import Layer, Operator, Workload

ENVIRONMENT = Environment(
    environment_id="e1", hardware_id="h1", device="cpu", name="Chip, of 2 cores", cores=2, threads=2, memory_byte=1024,
    vector_extension=None, driver=None, system="Linux", python="3.11", torch="2.9", torchvision=None, torchaudio=None,
    recorded_at="2026-01-01",
)  # fmt: skip
RECORDED_AT = "2026-01-01T00:00:00+00:00"
VERSION = "1.0"  # of the program that measured these rows
RECORD = {"recorded_at": RECORDED_AT, "version": VERSION}


def cell_columns(model, batch, phase, variant="eager", environment="e1", precision="fp32"):
    """The columns of a row's cell and environment."""
    return {"environment_id": environment} | Cell(model, batch, precision, phase, variant)._asdict()


def workload(model="net", batch=1, flop=10, **columns):
    return Workload(
        model=model, source="torchvision", family="plain", input_shape="3x2x2", batch=batch, precision="fp32",
        autocast=None, status="ok", reason=None, forward_flop=flop, **{"counting": count.VERSION} | columns,
    )  # fmt: skip


def layer(model="net", batch=1, position=0, flop=10):
    unknown = ("saved_byte", "backward_traffic_byte", "backward_flop", "backward_other_flop", "recompute_flop")
    return Layer(
        model=model, input_shape="3x2x2", batch=batch, precision="fp32", autocast=None, position=position,
        path="head", type="Linear", layer_kind="linear", calls=1, parameter_count=5, parameter_byte=20,
        activation_byte=8, traffic_byte=96, forward_flop=flop, forward_other_flop=2, **dict.fromkeys(unknown),
    )  # fmt: skip


def operator(model="net", batch=1, name="mm", flop=10, calls=1, **changed):
    columns = {"input_shape": "3x2x2", "precision": "fp32", "autocast": None, "stage": "inference"}
    columns |= {"layer_kind": "linear", "other_flop": 2, "recompute_flop": 0, "byte": 96}
    return Operator(model=model, batch=batch, operator=name, flop=flop, calls=calls, **columns | changed)


def roof_measurement(size=8, latency_s=0.5):
    return RoofMeasurement(
        environment_id="e1", roof_kernel="matmul", precision="fp32", size=size, flop=1024, byte=768, status="ok",
        reason=None, latency_s=latency_s, latency_low_s=0.4, latency_high_s=0.6, sample_count=6, pace="sustained",
    )  # fmt: skip


def run(model="net", batch=1, status="ok", reason=None, round_=0, phase="inference"):
    return Run(**cell_columns(model, batch, phase), **RECORD, status=status, reason=reason, round=round_)


def samples(count, model="net", batch=1, round_=0, phase="inference"):
    return [
        Sample(**cell_columns(model, batch, phase), sample=index, block=4, latency_s=0.1 + index, round=round_)
        for index in range(count)
    ]


def profile(model="net", batch=1, status="ok", reason=None, phase="inference"):
    times = {"steps": 5, "plain_s": 0.5, "profiled_s": 0.625} if status == "ok" else {}
    return Profile(**cell_columns(model, batch, phase), **RECORD, status=status, reason=reason, **times)


def operator_time(model="net", batch=1, path="head", name="linear", time_s=0.25, phase="inference"):
    return OperatorTime(
        **cell_columns(model, batch, phase), stage="inference", path=path, operator=name, calls=1, time_s=time_s
    )


def kernel_time(model="net", batch=1, kernel="sgemm", time_s=0.25):
    at = {"stage": "inference", "path": "head", "operator": "linear", "kernel": kernel}
    return records.KernelTime(**cell_columns(model, batch, "inference"), **at, calls=1, time_s=time_s)


def counter_profile(model="net", batch=1, status="ok", reason=None):
    about = {"tool": "ncu 1.2", "capability": "8.0", "steps": 2} if status == "ok" else {}
    return records.HardwareCounterProfile(
        **cell_columns(model, batch, "step"), **RECORD, status=status, reason=reason, **about
    )


def kernel_counters(model="net", batch=1, kernel="sgemm", time_s=0.25):
    counted = {"calls": 3, "time_s": time_s, "dram_read_byte": 8e6, "dram_write_byte": 4e6}
    return records.KernelCounters(**cell_columns(model, batch, "step"), kernel=kernel, **counted)


def collective(message_byte=4096, round_=0, status="ok", reason=None, latency_s=0.5, **changes):
    times = {"latency_low_s": 0.8 * latency_s, "latency_high_s": 1.2 * latency_s, "sample_count": 6, "block": 1}
    columns = {"collective": "all_reduce", "precision": "fp32", "processes": 2, "backend": "gloo"} | changes
    timed = {"latency_s": latency_s, **times, "threads": 1} if status == "ok" else {}
    columns |= {"environment_id": "e1", "message_byte": message_byte, "round": round_}
    return records.CollectiveMeasurement(status=status, reason=reason, **RECORD, **timed | columns)


def data_parallel_step(model="net", communication="overlapped", round_=0, latency_s=0.5, batch=1, **changes):
    times = {"latency_low_s": 0.8 * latency_s, "latency_high_s": 1.2 * latency_s, "sample_count": 6, "block": 1}
    columns = {"status": "ok", "reason": None, "processes": 2, "backend": "gloo", "threads": 1} | changes
    columns |= {"communication": communication, "round": round_, "latency_s": latency_s}
    return records.DataParallelStep(**cell_columns(model, batch, "step"), **RECORD, **times, **columns)


def machine_in(folder, environment=ENVIRONMENT):
    """Fill the folder of a machine and return it."""
    machine = MachineFolder(folder.parent, folder.name, folder)
    machine.put_environment(environment)
    machine.put_roof_measurements([roof_measurement()])
    machine.put_run(run(), samples(3))
    machine.put_run(run(batch=64, status="oom", reason="needs 9 GB"), [])
    machine.put_profile(profile(), [operator_time()], [kernel_time()])
    machine.put_hardware_counters(counter_profile(), [kernel_counters()])
    machine.put_collectives([collective()])
    machine.put_data_parallel_steps([data_parallel_step()])
    return machine


def zipped(path, folder, inside=""):
    """A zip of a folder's files, below the folder ``inside``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{inside}{file.name}")
    return path
