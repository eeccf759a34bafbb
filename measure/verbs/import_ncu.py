"""``python -m measure import-ncu FILE``: put hardware counters that Nsight Compute read elsewhere into the cache."""

import hashlib
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import Environment
from measure.domain.latency import Cell
from measure.domain.values import now
from measure.domain.words import CALL_LIMIT_S, EAGER, INFERENCE, PRECISIONS, STEP
from measure.errors import UserError
from measure.machine.environment import folder_name
from measure.models import catalog
from measure.profiling import ncu_csv
from measure.run.cell_tasks import HardwareCounterTask
from measure.run.run_cache import RunCache
from measure.run.worker import IsolatedCalls
from measure.verbs.flags import (
    CommandLine,
    check_folder,
    check_folder_name,
    parse_batch_sizes,
    parse_choices,
    parse_shape,
)

TOOL = "imported"
"""The tool in the table of a cell whose counters were imported."""


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure import-ncu",
        description="Put the hardware counters of a model, as NVIDIA Nsight Compute exported them with ncu --csv "
        "--page raw, into the cache of a machine: one that has measured, or a GPU of which only the name is known.",
    )
    flags.add_argument("file", metavar="FILE", type=Path, help="the output of ncu --csv --page raw")
    flags.add_argument("--model", required=True, metavar="NAME", help="the model, as in --models of measure")
    flags.add_argument("--batch", required=True, metavar="N", help="the inputs of a step")
    flags.add_argument(
        "--input-shape", metavar="S", help="the shape of an input, such as 3x224x224 (default: the shape measured here)"
    )
    flags.add_argument("--precision", default="fp32", metavar="P", help="the precision (default: %(default)s)")
    flags.add_argument(
        "--phase", default=STEP, metavar="PHASE", help="step (of training) or inference (default: %(default)s)"
    )
    flags.add_argument("--steps", default="1", metavar="N", help="the number of counted steps (default: 1)")
    flags.add_argument("--machine", metavar="NAME", help="the machine's folder (default: from --device-name)")
    flags.add_argument("--device-name", metavar="NAME", help="the GPU's name, for a machine that has measured nothing")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input."""
    asked = parser().parse_args(argv)
    with IsolatedCalls(CALL_LIMIT_S) as own:
        models = catalog.find([asked.model], describe=own.describe)
    if len(models) != 1:
        raise UserError(f"--model: {asked.model!r} selects {len(models)} models; name one")
    (model,) = models
    if asked.input_shape is not None:
        model = replace(model, input_shape=parse_shape("--input-shape", asked.input_shape))
    (batch,) = parse_batch_sizes("--batch", [asked.batch])
    (steps,) = parse_batch_sizes("--steps", [asked.steps])
    parse_choices("--precision", [asked.precision], PRECISIONS)
    parse_choices("--phase", [asked.phase], (STEP, INFERENCE))
    check_folder(asked.data, "--data")
    try:
        lines = asked.file.read_text(encoding="utf-8").splitlines()
    except OSError as problem:
        raise UserError(f"{asked.file}: cannot be read ({problem.strerror}); name a readable file") from None
    except UnicodeDecodeError:
        raise UserError(f"{asked.file}: not UTF-8 text; export it with ncu --csv --page raw") from None
    counted = ncu_csv.parse(lines, str(asked.file), steps, TOOL)
    folder, environment = _machine(asked.data, asked.machine, asked.device_name)
    task = HardwareCounterTask(model, Cell(model.name, batch, asked.precision, asked.phase, EAGER))
    with folder.locked():
        RunCache(Workloads(asked.data), folder, environment).put(task, counted)
    print(f"{len(counted.kernels)} kernels of {model.name} at batch size {batch} into {folder.folder}")
    print("Next: python -m report")
    return 0


def _machine(data: Path, name: str | None, device_name: str | None) -> tuple[MachineFolder, Environment]:
    """Return the machine's folder and its newest environment on a GPU, or a new one with only the GPU's name."""
    if name is not None:
        check_folder_name(name)
        folder = MachineFolder(data, name)
        environments = folder.environments()
        on_gpu = [row for row in environments if row.device == "cuda"]
        if on_gpu:
            newest = max(on_gpu, key=lambda row: row.recorded_at)
            if device_name not in (None, newest.name):
                raise UserError(f"--device-name: {folder.folder} belongs to {newest.name}; name another --machine")
            return folder, newest
        if environments:
            raise UserError(
                f"--machine: {folder.folder} belongs to {environments[0].name}, which is not an NVIDIA GPU; "
                "choose another name"
            )
    if device_name is None:
        raise UserError("--device-name: name the GPU that was counted, as 'NVIDIA T4', or a --machine that measured")
    environment = unknown_but(device_name)
    return MachineFolder(data, name or folder_name(environment)), environment


def unknown_but(device_name: str) -> Environment:
    """Return the environment of a GPU of which only the name is known."""
    identity = hashlib.sha256(device_name.encode()).hexdigest()[:12]
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(Environment))
    values |= {"environment_id": identity, "hardware_id": identity, "device": "cuda", "name": device_name}
    return Environment(**{**values, "recorded_at": now()})
