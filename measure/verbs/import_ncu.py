"""Add hardware counters that Nsight Compute read elsewhere: ``measure import-ncu``."""

import argparse
import hashlib
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.cell import Cell
from measure.domain.records import Environment
from measure.domain.schema import SHAPE
from measure.domain.values import now
from measure.domain.words import CALL_LIMIT_S, EAGER, FULL_PRECISION, INFERENCE, PRECISIONS, STEP, shape_name
from measure.errors import UserError, as_called
from measure.machine.environment import folder_name
from measure.models import catalog
from measure.profiling import ncu_csv, ncu_rep
from measure.published.loose_csv import decode
from measure.run.sections import put
from measure.run.storing import RunCache
from measure.run.tasks import HardwareCounterTask
from measure.run.worker import IsolatedCalls
from measure.verbs.flags import Verbs, add_verb, parse_count, parse_folder_name
from roofwright.command_line import data_flag


def add_verbs(verbs: Verbs) -> None:
    add = add_verb(verbs, "import-ncu", main).add_argument
    add("file", metavar="FILE", help="a report of ncu, or the output of ncu --csv")
    add("--model", required=True, metavar="NAME", help="the model, as in --models of measure (required)")
    add("--batch", required=True, type=parse_count, metavar="N", help="the inputs of a step (required)")
    add("--input-shape", metavar="S", help="the shape of an input, such as 3x224x224 (default: as measured here)")
    add("--precision", choices=PRECISIONS, default=FULL_PRECISION, metavar="P", help="the precision (default: fp32)")
    text = "step (of training) or inference (required)"
    add("--phase", required=True, choices=(STEP, INFERENCE), metavar="PHASE", help=text)
    add("--steps", type=parse_count, default=1, metavar="N", help="the counted calls in the file (default: 1)")
    add("--machine", type=parse_folder_name, metavar="NAME", help="the machine's folder (default: from --device-name)")
    add("--device-name", metavar="NAME", help="the GPU's name, for a machine that has measured nothing")


def main(flags: argparse.Namespace) -> int:
    """Put the hardware counters of a model, which NVIDIA Nsight Compute wrote as a report (.ncu-rep) or with ncu --csv
    --page raw, into the cache of a machine: one that has measured, or a GPU that is only named. docs/gpu.md has the
    command of ncu with the metrics that are read.
    """
    with closing(IsolatedCalls(CALL_LIMIT_S)) as own:
        models = catalog.find([flags.model], describe=own.describe)
    if len(models) != 1:
        raise UserError(f"--model: {flags.model!r} selects {len(models)} models; name one")
    shape = flags.input_shape or shape_name(models[0].input_shape)
    if not SHAPE.fits(shape):
        raise UserError(f"--input-shape: {shape!r} is not a valid shape; use numbers joined by x, such as 3x224x224")
    model = replace(models[0], input_shape=tuple(map(int, shape.split("x"))))
    batch, steps, file = flags.batch, flags.steps, Path(flags.file)
    try:
        content = file.read_bytes()
    except OSError as problem:
        remedy = "name a report of ncu (.ncu-rep) or the output of ncu --csv --page raw"
        raise UserError(f"{file}: cannot be read ({problem.strerror}); {remedy}") from None
    if file.suffix in ncu_rep.SUFFIXES:
        counted = ncu_rep.read(file, steps, tool="imported")
    else:
        counted = ncu_csv.parse(decode(content, errors="replace").splitlines(), flags.file, steps, tool="imported")
    if counted.uneven is not None:
        kernel = counted.uneven[:80]
        raise UserError(f"--steps: {steps} does not divide the launches of {kernel}; give the number of calls counted")
    folder, environment = _machine(flags.data, flags.machine, flags.device_name)
    task = HardwareCounterTask(model, Cell(model.name, batch, flags.precision, flags.phase, EAGER))
    with folder.locked():
        put(RunCache(Workloads(flags.data), folder, environment), task, counted)
    print(f"{len(counted.kernels)} kernels of {model.name} at batch size {batch} into {folder.folder}")
    if counted.missing:
        print(f"not in the file, so unknown: {', '.join(counted.missing)}")
    if counted.tensor_gap:
        print(f"FLOP of tensor cores are unknown: {counted.tensor_gap}")
    where = data_flag(flags.data)
    counts = f"{as_called('measure')} --sections workload --models {model.name} --batch-sizes {batch}{where}"
    print(f"Next: {counts}, for the counts that the paper holds against them; then {as_called('report')}{where}")
    return 0


def _machine(data: Path, name: str | None, device_name: str | None) -> tuple[MachineFolder, Environment]:
    """Return the machine's folder and its newest environment on a GPU, or a new one with only the GPU's name."""
    if name is not None:
        folder = MachineFolder(data, name)
        owner = max(folder.rows(Environment), key=lambda row: (row.device == "cuda", row.recorded_at), default=None)
        if owner and (owner.device != "cuda" or device_name not in (None, owner.name)):
            raise UserError(f"--machine: {folder.folder} belongs to {owner.name}; name another --machine")
        if owner:
            return folder, owner
    if device_name is None:
        raise UserError("--device-name: name the GPU that was counted, as 'NVIDIA T4', or a --machine that measured")
    identity = hashlib.sha256(device_name.encode()).hexdigest()[:12]
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Environment)) | {"recorded_at": now()}
    values |= {"environment_id": identity, "hardware_id": identity, "device": "cuda", "name": device_name}
    environment = Environment(**values)
    return MachineFolder(data, name or folder_name(environment)), environment
