"""The command line of measuring: ``python -m measure``."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from measure import catalog, devices, plan, processor
from measure.cache import MachineFolder, Workloads
from measure.environment import current, folder_name
from measure.errors import UserError
from measure.records import PRECISION_BYTE, Environment, shape_name

BATCH_SIZES = (1, 64, 256)
QUICK_BATCH_SIZES = (1, 64)
INTERRUPTED = 130


def parser() -> argparse.ArgumentParser:
    """The flags. Their values are checked in ``main``, so that every complaint is one sentence."""
    flags = argparse.ArgumentParser(
        prog="python -m measure",
        description="Measure how deep networks run on this machine, and keep the results as CSV. "
        "What is measured already is not measured again: the same command resumes a run that was stopped.",
        epilog="Then render the paper: python -m report",
    )
    flags.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:N, mps or auto (default: %(default)s)"
    )
    flags.add_argument(
        "--models",
        nargs="+",
        metavar="NAME",
        help="names, globs such as 'vgg*', torchvision:GLOB, torchaudio:GLOB or timm:NAME (default: the built-in list)",
    )
    flags.add_argument(
        "--native-size",
        action="store_true",
        help="count each model at its own input size instead of 224 x 224 (--sections workload)",
    )
    flags.add_argument(
        "--batch-sizes", nargs="+", metavar="N", help="inputs in one forward pass (default: 1 64 256)"
    )
    flags.add_argument(
        "--precisions", nargs="+", metavar="P", default=["fp32"], help="fp32, fp16, bf16 (default: fp32)"
    )
    flags.add_argument(
        "--autocast",
        action="store_true",
        help="count fp16 and bf16 as torch's autocast on the device has them, not cast (--sections workload)",
    )
    flags.add_argument(
        "--sections",
        nargs="+",
        metavar="S",
        default=list(plan.SECTIONS),
        help="workload (count FLOP and bytes), ceilings (measure the roofs, and a processor's clock), inference "
        "(time the models); default: all",
    )
    flags.add_argument(
        "--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)"
    )
    flags.add_argument(
        "--machine", metavar="NAME", help="the machine's folder below it (default: from the hardware)"
    )
    flags.add_argument(
        "--quick", action="store_true", help="a small selection of models, at batch sizes 1 and 64"
    )
    flags.add_argument("--budget", metavar="TIME", help="stop after this time, such as 90s, 10m or 1h30m")
    flags.add_argument("--plan", action="store_true", help="show what would be measured, and measure nothing")
    flags.add_argument(
        "--list", action="store_true", help="show the models (or those of --models), and measure nothing"
    )
    flags.add_argument("--force", action="store_true", help="measure again what is measured already")
    return flags


def parse_budget(text: str) -> float:
    """Seconds of ``90s``, ``10m``, ``1h30m`` or a plain number of seconds."""
    match = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?", text.strip())
    seconds = (
        sum(int(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True))
        if match
        else 0
    )
    if seconds <= 0:
        raise UserError(f"--budget: {text!r} is no time; say 90s, 10m or 1h30m")
    return float(seconds)


def parse_batch_sizes(texts: Sequence[str]) -> list[int]:
    """Positive whole numbers, smallest first, each once."""
    for text in texts:
        if not re.fullmatch(r"\d{1,9}", text) or int(text) == 0:
            raise UserError(
                f"--batch-sizes: {text!r} is no batch size; say whole numbers from 1 on, such as 1 64 256"
            )
    return sorted({int(text) for text in texts})


def parse_choices(flag: str, texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """The chosen ones in the known order, each once."""
    for text in texts:
        if text not in known:
            raise UserError(f"{flag}: {text!r} is not one of {', '.join(known)}")
    return [choice for choice in known if choice in texts]


def make_request(arguments: argparse.Namespace) -> plan.Request:
    """What the flags ask for, checked."""
    names = arguments.models or (
        catalog.QUICK if arguments.quick else [model.name for model in catalog.BUILT_IN]
    )
    sizes = arguments.batch_sizes or [
        str(size) for size in (QUICK_BATCH_SIZES if arguments.quick else BATCH_SIZES)
    ]
    sections = parse_choices("--sections", arguments.sections, plan.SECTIONS)
    if arguments.autocast and sections != ["workload"]:
        raise UserError("--autocast: is counted, not measured; say --sections workload with it")
    if arguments.native_size and sections != ["workload"]:
        raise UserError("--native-size: is counted, not measured; say --sections workload with it")
    return plan.Request(
        models=catalog.find(names, arguments.native_size),
        batch_sizes=parse_batch_sizes(sizes),
        precisions=parse_choices("--precisions", arguments.precisions, tuple(PRECISION_BYTE)),
        sections=sections,
        force=arguments.force,
        autocast=arguments.autocast,
    )


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """This machine's folder. Raises UserError where another machine measured into a folder of that name."""
    if name is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(f"--machine: {name!r} is no folder name; use letters, digits, '.', '_' and '-'")
    folder = MachineFolder(data, name or folder_name(environment))
    others = {row.name for row in folder.environments() if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(
            f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name"
        )
    return folder


def check_writable(data: Path) -> None:
    """Raises UserError before anything is measured that could not be kept."""
    try:
        data.mkdir(parents=True, exist_ok=True)
        probe = data / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UserError(
            f"--data: {data} cannot be written ({problem.strerror}); name a folder that can be"
        ) from None


def show_models(data: Path, models: Sequence[catalog.Model]) -> None:
    """Prints models, with what the workload table knows of them."""
    counted = {
        (row.model, row.input_shape): f"{row.parameter_count / 1e6:>10.2f} M{row.forward_flop / 1e9:>8.2f}"
        for row in Workloads(data).models()
        if row.batch == 1 and row.parameter_count is not None and row.forward_flop is not None
    }
    width = max(18, *(len(model.name) for model in models)) + 2
    print(f"{'model':{width}}{'source':13}{'family':14}{'input':12}{'parameters':>12}{'GFLOP':>8}")
    for model in models:
        shape = shape_name(model.input_shape)
        numbers = counted.get((model.name, shape), "")
        print(f"{model.name:{width}}{model.source:13}{model.family:14}{shape:12}{numbers}".rstrip())


def measure(arguments: argparse.Namespace) -> int:
    """Plans, and measures what is missing."""
    request = make_request(arguments)
    budget_s = parse_budget(arguments.budget) if arguments.budget else None
    device = devices.find(arguments.device)
    threads = processor.physical_cores()
    environment = current(device, threads)
    folder = machine_folder(arguments.data, arguments.machine, environment)
    workloads = Workloads(arguments.data)
    tasks = plan.tasks_to_do(
        request, device.kind, environment.environment_id, workloads.models(), folder.ceilings(), folder.runs()
    )
    folder.samples()  # a damaged table is said now, not after an hour
    if arguments.plan:
        for task in tasks:
            print(task.label)
        print(f"{len(tasks)} to measure on {environment.name} ({device.torch_name}) into {folder.folder}")
        return 0
    if not tasks:
        print(f"Nothing left to measure on {environment.name} ({device.torch_name}): see {folder.folder}")
        return 0
    check_writable(arguments.data)

    from rich.console import Console

    from measure import runner
    from measure.progress import RunProgress, duration
    from measure.worker import Worker

    print(
        f"Measuring {environment.name} ({device.torch_name}, {threads} threads) into {folder.folder}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill leaves no worker behind either
    worker = Worker(device.torch_name, threads, environment.environment_id)
    store = runner.Store(workloads, folder, environment)
    alone = folder.locked() if any(task.section != "workload" for task in tasks) else nullcontext()
    try:
        with alone, RunProgress(tasks, Console()) as progress:
            summary = runner.run(tasks, worker, store, progress, budget_s)
    except KeyboardInterrupt:
        print("\nStopped. Everything measured so far is kept; the same command goes on from here.")
        return INTERRUPTED
    finally:
        worker.close()
    done = summary.statuses.total()
    print(
        f"{done} measured, {len(summary.failures)} of them without a result, {summary.left} left: {folder.folder}"
    )
    for task, failure in summary.failures:
        print(f"  {task.label}: {failure.status}, {failure.reason}")
    if summary.left and budget_s is not None:
        print(f"The budget of {duration(budget_s)} is spent; the same command goes on from here.")
    else:
        print("Next: python -m report")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0, 2 for bad input, 130 when stopped from the keyboard."""
    arguments = parser().parse_args(argv)
    try:
        if arguments.list:
            show_models(arguments.data, make_request(arguments).models)
            return 0
        return measure(arguments)
    except UserError as problem:
        print(f"python -m measure: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
