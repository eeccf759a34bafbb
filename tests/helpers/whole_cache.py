"""The tiny cache with every section on both of its machines, and models enough for intervals.

Six models more than the others of the tiny cache: 2 ** k GFLOP is what the model k from 0 on asks for; the CPU takes
10 ms a GFLOP, every third model twice that, the GPU 1 ms times the root of the GFLOP, four times that at batch size 8.
"""

import shutil
from dataclasses import replace

from helpers import profiled_papers, training_papers
from helpers.counted_papers import LEAN, counter_rows, kernel_times
from helpers.elsewhere_papers import put_elsewhere, timing
from helpers.places import ROOT, TESTS
from helpers.predicted_papers import put_predictions
from helpers.rows import cell_columns, operator, run, workload
from measure.cache.folders import MachineFolder
from measure.cache.hand_kept import PublishedTiming
from measure.cache.records import OperatorTime, Profile, Sample
from measure.cache.schema import file_of
from measure.cache.table import append
from measure.cache.workload_records import Operator, Workload
from measure.domain.words import EAGER, INFERENCE

MACHINES = {"example-cpu": "cpu-new", "example-gpu": "gpu-1"}
"""The folders of the machines, with their newest environments."""

MORE, BATCHES = ("ash", "birch", "cedar", "elm", "fir", "oak"), (1, 2, 8)


def write_whole(data):
    """Writes the cache into a folder that is not there yet."""
    shutil.copytree(TESTS / "data", data)
    with (data / "chips.csv").open("a", encoding="utf-8") as chips:
        chips.write((ROOT / "data" / "chips.csv").read_text(encoding="utf-8").partition("\n")[2])
    shutil.copytree(ROOT / "data" / "published", data / "published", ignore=shutil.ignore_patterns("measurements"))
    put_elsewhere(data)
    put_predictions(data)
    append(file_of(PublishedTiming, data), PublishedTiming, _sweeps())
    operators = [*profiled_papers.operators(), *training_papers.operators()]
    counted = []
    for k, model in enumerate(MORE):
        for batch in BATCHES:
            flop, parameters = 2**k * batch * 10**9, (8, 1, 7, 2, 6, 3)[k] * 10**6
            asked = workload(
                model, batch, flop, parameter_count=parameters, parameter_byte=4 * parameters,
                input_byte=batch * 10**6, output_byte=batch * 10**3, activation_byte=batch * (k + 1) * 10**6,
                traffic_byte=batch * (k + 2) * 10**7, forward_other_flop=0,
            )  # fmt: skip
            counted.append(asked)
            operators.append(operator(model, batch, "conv", flop, layer_kind="convolution", other_flop=0, byte=10**6))
    append(data / "workload" / "models.csv", Workload, counted)
    append(data / "workload" / "operators.csv", Operator, operators)
    for name, environment in MACHINES.items():
        folder = MachineFolder(data, name)
        training_papers.put_steps(folder, environment)
        profiled_papers.put_profiles(MachineFolder(data, name), environment)
        _put_more(MachineFolder(data, name), environment)
    _put_kernels(MachineFolder(data, "example-gpu"))


def _sweeps():
    """Of a model whose step a study printed on the T4: four times the batch takes twice the time, at fp16 half that."""
    return [
        timing("resnet50", batch**0.5 / 100 / (2 if cast else 1), batch=batch, device="NVIDIA T4", autocast=cast)
        for cast in (None, "fp16")
        for batch in (1, 4, 16, 64, 256)
    ]


def _put_more(folder, environment):
    for k, model in enumerate(MORE):
        for batch in BATCHES:
            if environment == "gpu-1":
                latency_s = 0.001 * 2 ** (k / 2) * (4 if batch > 1 else 1)
            else:
                latency_s = 0.01 * 2**k * batch * (2 if k % 3 == 2 else 1)
            cell = cell_columns(model, batch, INFERENCE, EAGER, environment)
            taken = [Sample(**cell, sample=index, block=1, latency_s=latency_s, round=0) for index in range(6)]
            eager = replace(run(model, batch), environment_id=environment)
            folder.put_run(eager, taken)
            if environment == "cpu-new" and batch > 1:
                kept = [replace(each, variant="kept_memory", latency_s=latency_s / 1.5) for each in taken]
                folder.put_run(replace(eager, variant="kept_memory"), kept)


def _put_kernels(gpu):
    """The kernels of lean at batch size 1, and their hardware counters."""
    cell = cell_columns("lean", 1, INFERENCE, EAGER, "gpu-1")
    profile = next(row for row in gpu.rows(Profile) if (row.model, row.phase) == ("lean", INFERENCE))
    times = [row for row in gpu.rows(OperatorTime) if (row.model, row.phase) == ("lean", INFERENCE)]
    gpu.put_profile(replace(profile, busy_s=0.1e-3), times, kernel_times(cell))
    gpu.put_hardware_counters(*counter_rows(cell, LEAN, None))
