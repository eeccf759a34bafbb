"""The command ``python -m measure predict MODEL``: its least and its likely latency on chips, measured or not."""

import argparse
import dataclasses
import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.folders import Counts, MachineFolder, Workloads, machine_names
from measure.cache.hand_kept import folded
from measure.cache.predictions import Coefficient, PredictionError
from measure.cache.schema import file_of
from measure.cache.table import in_turn
from measure.cache.workload_records import Workload
from measure.domain.models import OWN, Model
from measure.domain.quantities import latency, plain, si
from measure.domain.words import EAGER, INFERENCE, PRECISIONS, STEP, shape_name, stored_as
from measure.errors import UserError, chosen, unknown
from measure.predicting import demand as devices
from measure.predicting import timings
from measure.predicting.demand import Demand, How, PredictedDevice
from measure.predicting.prediction import DATASHEET, FITTED, KnownTime, Prediction, Predictor
from measure.predicting.timings import Key, counted_demands
from measure.run import request, runner
from measure.run.request import check_folder, check_writable, parse_batch_sizes
from measure.run.sections import WorkloadTask
from measure.run.task import Task
from measure.run.worker import Worker
from measure.timing.sampling import Sampling
from measure.verbs.flags import CommandLine, check_one_output, data_flag
from measure.verbs.terminal import aligned, markdown

HEAD = (
    "chip", "batch", "least", "likely", "90 % interval", "inputs/s", "bound by", "costliest", "memory", "fits", "from",
)  # fmt: skip
NUMBERS = ("batch", "least", "likely", "90 % interval", "inputs/s", "memory")

VARIANTS = (EAGER, "torch.compile")
TIME = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(s|ms|us|µs)")
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


@dataclasses.dataclass(frozen=True)
class Asked:
    """A call of a model: what it asks for, and the most memory (B) alive at once in it."""

    demand: Demand
    peak_byte: int | None


@dataclasses.dataclass(frozen=True)
class _Store:
    """Keeps counts, and needs no machine."""

    workloads: Workloads | Counts

    def put(self, task: Task, outcome: Any) -> None:
        waits = isinstance(self.workloads, Counts)  # workloads take their turn themselves
        with in_turn(self.workloads.folder) if waits else nullcontext():
            task.store(self, outcome)  # type: ignore[arg-type]


class _Silent:
    """Progress of what takes a moment."""

    def begin(self, task: Task) -> None: ...

    def end(self, task: Task, outcome: Any) -> None: ...

    def skip(self, task: Task) -> None: ...


@dataclasses.dataclass(frozen=True)
class Row:
    """A prediction, its conditions, and the memory (B) that it needs and that the chip has; None: not known."""

    chip: str
    batch: int
    prediction: Prediction
    memory_needed_byte: int | None
    memory_byte: float | None

    @property
    def fits(self) -> bool | None:
        """Whether the memory suffices."""
        if self.memory_needed_byte is None or self.memory_byte is None:
            return None
        return self.memory_needed_byte <= self.memory_byte


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure predict",
        description="Predict how long one model takes on chips: the least time that their roofs allow, and the likely "
        "time with its 90 % interval. Needs no such chip, no GPU and no weights. What the model asks for is counted "
        "once; the prediction rests on what was timed on the chip, else on its datasheet (docs/prediction.md).",
    )
    flags.add_argument("model", metavar="MODEL", help="a built-in model, LIBRARY:NAME or package.module:function")
    flags.add_argument(
        "--chip", nargs="+", metavar="NAME", help="chips of data/chips.csv, machines of the cache, or globs such as "
        "'NVIDIA*' (default: all that have the precision)",
    )  # fmt: skip
    flags.add_argument("--batch-sizes", nargs="+", metavar="N", default=["1"], help="(default: %(default)s)")
    flags.add_argument("--precision", metavar="P", default="fp16", help="fp32, tf32, fp16, bf16 (default: %(default)s)")
    flags.add_argument("--training", action="store_true", help="a training step instead of a forward pass")
    flags.add_argument("--variant", metavar="V", default=EAGER, help="eager or torch.compile (default: %(default)s)")
    flags.add_argument(
        "--known", nargs=3, metavar=("MODEL", "BATCH", "TIME"), help="a latency that you know of the one chip, such as "
        "resnet50 64 31ms: the predictions are scaled by what it is off by",
    )  # fmt: skip
    flags.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    flags.add_argument("--markdown", action="store_true", help="print Markdown")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, and where the model cannot be counted."""
    said = parser().parse_args(argv)
    check_one_output({"--json": said.json, "--markdown": said.markdown})
    check_folder(said.data, "--data")
    if said.precision not in PRECISIONS:
        raise unknown("--precision", said.precision, PRECISIONS)
    if said.variant not in VARIANTS:
        raise unknown("--variant", said.variant, VARIANTS)
    batches = parse_batch_sizes("--batch-sizes", said.batch_sizes)
    found = _devices(said.data, said.chip, said.precision)
    if said.known and len(found) > 1:
        raise UserError(f"--known: is a latency of one chip, and --chip names {len(found)}; name one")
    coefficients = table.read(file_of(Coefficient, said.data), Coefficient)
    errors = table.read(file_of(PredictionError, said.data), PredictionError)
    if not coefficients:
        raise UserError(f"--data: {said.data} holds no fit; make it with python -m measure fit{data_flag(said.data)}")
    model = find_model("MODEL", said.model, batches, said.precision, said.data)
    demands = ask(model, batches, said.precision, said.training, said.data)
    predictor = Predictor(coefficients, errors, timings.read(said.data))
    rows = _predicted(predictor, found, demands, said, _known(said) if said.known else None)
    if not rows:
        raise UserError(
            f"--precision: nothing was timed at {said.precision} that a prediction of such a device could rest on"
        )
    heading = {
        "model": model.name,
        "input_shape": shape_name(model.input_shape),
        "precision": said.precision,
        "phase": STEP if said.training else INFERENCE,
        "variant": said.variant,
    }
    if said.json:
        print(json.dumps(heading | {"predictions": [_as_json(row) for row in rows]}, indent=2, allow_nan=False))
        return 0
    print(f"{', '.join(heading.values())}\n")
    lines = [HEAD, *(_line(row) for row in rows)]
    print("\n".join(markdown(lines, NUMBERS) if said.markdown else aligned(lines, NUMBERS)))
    return 0


def _devices(data: Path, names: Sequence[str] | None, precision: str) -> list[PredictedDevice]:
    """Return the devices that names and globs mean; of all those that have the precision.

    Raises UserError for a name that is none, and for one without the precision.
    """
    chips = devices.of_chips(data)
    known = {chip.name: chip for chip in chips.values()}
    for name in machine_names(data):
        folder = MachineFolder(data, name)
        machine = devices.of_machine(folder, folder.newest_environment())
        if machine is not None:
            known[name] = machine
    meant = [chips[folded(name)].name if folded(name) in chips else name for name in names or ("*",)]
    wanted = sorted(chosen("--chip", meant, known))
    able = [known[name] for name in wanted if known[name].roof(precision) is not None]
    if not able:
        have = ", ".join(sorted(set(known[wanted[0]].peaks) & set(PRECISIONS))) or "none of the precisions"
        raise UserError(f"--precision: no rate of {wanted[0]} at {precision} is known, but at {have}")
    return able


def _known(said: argparse.Namespace) -> KnownTime:
    """Return the call whose latency a user knows, and that latency (s). Raises UserError for bad input."""
    name, size, time = said.known
    (batch,) = parse_batch_sizes("--known", [size])
    match = TIME.fullmatch(time.strip())
    seconds = float(match[1]) * SECONDS[match[2]] if match else 0.0
    if not seconds > 0:
        raise UserError(f"--known: {time!r} is no time; use a number with its unit, such as 31ms or 0.031s")
    model = find_model("--known", name, [batch], said.precision, said.data)
    return KnownTime(ask(model, [batch], said.precision, said.training, said.data)[batch].demand, seconds)


def _predicted(
    predictor: Predictor,
    found: Sequence[PredictedDevice],
    demands: dict[int, Asked],
    said: argparse.Namespace,
    known: KnownTime | None,
) -> list[Row]:
    """Return a row for each chip and batch size, at each batch size the fastest chip first."""
    how = How(compiled=said.variant != EAGER, trains=said.training)
    phase = STEP if said.training else INFERENCE
    rows = []
    for batch, each in demands.items():
        for device in found:
            told = predictor.predict(each.demand, device, said.precision, said.variant, phase, how, known)
            if told is not None:
                rows.append(Row(device.name, batch, told, each.peak_byte, device.memory_byte))
    return sorted(rows, key=lambda row: (row.batch, row.prediction.likely_s))


def _line(row: Row) -> tuple[str, ...]:
    told = row.prediction
    interval = (
        "not checked"
        if told.low_s is None or told.high_s is None
        else f"{latency(told.low_s)} to {latency(told.high_s)}"
    )
    basis = {FITTED: f"{told.timed_models} models timed there", DATASHEET: "its datasheet"}.get(
        told.basis, f"its datasheet, scaled by {told.timed_models} timed there"
    )
    return (
        row.chip,
        str(row.batch),
        latency(told.least_s),
        latency(told.likely_s),
        interval,
        plain(row.batch / told.likely_s),
        told.bound,
        f"{told.costliest} ({told.costliest_share:.0%})",
        "" if row.memory_needed_byte is None else si(row.memory_needed_byte, "B"),
        {True: "yes", False: "no", None: "not known"}[row.fits],
        basis,
    )


def _as_json(row: Row) -> dict[str, Any]:
    return {
        "chip": row.chip,
        "batch": row.batch,
        **dataclasses.asdict(row.prediction),
        "inputs_per_s": row.batch / row.prediction.likely_s,
        "memory_needed_byte": row.memory_needed_byte,
        "memory_byte": row.memory_byte,
        "fits": row.fits,
    }


def find_model(flag: str, name: str, batches: Sequence[int], precision: str, data: Path) -> Model:
    """Return the one model of this name. Raises UserError, naming ``flag``, for none and for several."""
    sizes = [str(batch) for batch in batches]
    words = ["--models", name, "--batch-sizes", *sizes, "--precisions", precision, "--data", str(data)]
    said = request.parser().parse_args([*words, "--sections", "workload", "--variants", EAGER])
    return request.make_request_of_one(flag, said).models[0]


def ask(model: Model, batches: Sequence[int], precision: str, trains: bool, data: Path) -> dict[int, Asked]:
    """Return what a model asks for at each batch size, counting what the cache lacks.

    Raises UserError where it cannot be counted, or not be trained.
    """
    # What a paper is about is what was measured or asked to be counted: a prediction adds no model to it
    asked = Counts(file_of(Coefficient, data).parent / "counted")
    homes, stored = (Workloads(data), asked), stored_as(precision)
    shape = shape_name(model.input_shape)
    wanted = [(model.name, shape, batch, stored) for batch in batches]

    def row_of() -> dict[tuple[str, str, int, str], Workload]:
        rows = [row for home in reversed(homes) for row in home.models() if row.autocast is None]
        return {(row.model, row.input_shape, row.batch, row.precision): row for row in rows}

    known = row_of()
    missing = tuple(key[2] for key in wanted if key not in known)
    if missing:
        check_writable(data)
        worker = Worker("cpu", 1, Sampling())
        store = _Store(homes[0] if model.source == OWN else asked)
        try:
            runner.run([WorkloadTask(model, missing, stored, None)], worker, store, _Silent())
        finally:
            worker.close()
        known = row_of()
    for key in wanted:
        if known[key].status != "ok":
            raise UserError(f"{model.name}: cannot be counted ({known[key].reason})")
        if trains and known[key].backward_flop is None:
            raise UserError(f"{model.name}: its training cannot be counted ({known[key].reason})")
    operators = [
        row for home in homes for row in home.operators() if (row.model, row.input_shape) == (model.name, shape)
    ]
    demands = counted_demands([known[key] for key in wanted], operators)
    return {
        key[2]: Asked(
            demands[Key(*key, trains)][1], known[key].training_peak_byte if trains else known[key].inference_peak_byte
        )
        for key in wanted
    }
