"""Predict the latency of a model on chips: ``measure predict``."""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from math import inf
from operator import attrgetter
from pathlib import Path

from measure.cache.folders import Workloads
from measure.cache.project import curated_file
from measure.counting.count import VERSION
from measure.domain.chips import fold_name
from measure.domain.models import DECODE, ENCODE, OWN, Model
from measure.domain.values import latency, plain, si
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, PRECISIONS, STEP, shape_name, stored_as
from measure.domain.workload_records import Workload
from measure.errors import UserError, chosen, matching
from measure.models import catalog
from measure.predicting import timings
from measure.predicting.prediction import SERVED, OwnTime, Prediction, Predictor, origin, usual_setting
from measure.predicting.prediction_terms import CallWork, PredictedDevice, of_chips, of_machines
from measure.predicting.records import (
    ALL_OPTIONS,
    AUTOCAST,
    COMPILED,
    COUNTED,
    LANGUAGE,
    LAUNCHES,
    TF32_CONVOLUTIONS,
    Coefficient,
    options_among,
)
from measure.predicting.timings import Key
from measure.run import runner
from measure.run.storing import store_counts
from measure.run.tasks import WorkloadTask
from measure.run.worker import Worker
from measure.timing.sampling import Sampling
from measure.verbs import predict_tokens
from measure.verbs.flags import Verbs, add_formats, add_verb, check_writable, parse_batch_size, parse_count
from measure.verbs.run_flags import resolve_request_of_one, with_defaults
from measure.verbs.terminal import aligned, make_console, markdown, name_first

MEASURED, COPIED = "measured", " + copy"
RATE = "inputs/s"  # the head of its column, unless tokens or prompts are predicted
COLUMNS: dict[str, Callable[[Prediction], str]] = {
    "chip": lambda row: row.chip,
    "batch": lambda row: str(row.batch),
    "least": lambda row: latency(row.least_s),
    "likely": lambda row: latency(row.likely_s),
    "90 % interval": lambda row: " to ".join(map(latency, filter(None, (row.low_s, row.high_s)))) or "extrapolated",
    MEASURED: lambda row: f"{latency(row.measured_s)}{COPIED * row.is_copy_measured}" if row.measured_s else "",
    RATE: lambda row: plain(row.inputs_per_s),
    "bound by": lambda row: row.bound,
    "costliest": lambda row: f"{row.costliest} ({row.costliest_share:.0%})",
    "memory": lambda row: "" if row.memory_needed_byte is None else si(row.memory_needed_byte, "B"),
    "fits": lambda row: {True: "yes", False: "no", None: "not known"}[row.fits],
    "from": lambda row: origin(row.basis, row.timed_models),
}
NUMBERS = ("batch", "least", "likely", "90 % interval", MEASURED, RATE, "tokens/s", "prompts/s", "memory")
NO_OPTION = "none"
MOST = 0.5  # a larger share of launches than this means that the host decides
MUCH = 0.1  # the least share of the memory for a note on the scores of all tokens
PASSES = {INFERENCE: "forward pass", STEP: "training step"}
Calls = dict[Key, CallWork]


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "predict", main)
    add = flags.add_argument
    add("model", metavar="MODEL", help="a built-in model, LIBRARY:NAME or package.module:function")
    text = (
        "chips of data/chips.csv, machines of the cache, or globs such as 'NVIDIA*' (default: all with the precision)"
    )
    add("--chip", nargs="+", metavar="NAME", help=text)
    text = "inputs in one call (default: 64)"
    add("--batch-sizes", nargs="+", type=parse_batch_size, default=[64], metavar="N", help=text)
    text = "fp32, tf32, fp16, bf16 (default: %(default)s)"
    add("--precision", choices=PRECISIONS, default="fp16", metavar="P", help=text)
    add("--training", action="store_true", help="a training step instead of a forward pass")
    text = (
        f"what the model runs with: {', '.join(ALL_OPTIONS)}, or none (default: as most published timings, "
        "autocast and benchmark at 16 bits, benchmark and tf32 at fp32)"
    )
    add("--setting", nargs="*", choices=(*ALL_OPTIONS, NO_OPTION), metavar="OPTION", help=text)
    text = (
        "fit the predictions to latencies that you know of the one chip, each as model, batch size and time, such as "
        "resnet50 64 31ms vit_b_16 8 40ms (docs/prediction.md says which five tell most)"
    )
    add("--known", nargs="+", metavar="CALL", help=text)
    text = (
        "the computer that launches a GPU's work: a measured machine with a GPU, or a time an operator, such as 8us "
        "(default: the quickest one measured with the newest torch)"
    )
    add("--host", metavar="MACHINE|TIME", help=text)
    predict_tokens.add_flags(flags)
    add_formats(flags, {"--json": "print JSON (docs/json.md)", "--markdown": "print Markdown"})


def main(flags: argparse.Namespace) -> int:
    """Predict the latency of a model on chips: the least time that their roofs allow, and the likely time with its 90 %
    interval. Needs no such chip, no GPU and no weights. The model is counted once. One fit of all timings predicts
    every chip, by its datasheet and by the timings of its die (docs/prediction.md). Chips are sorted by likely time;
    those without an interval, or with too little memory, come last. With --gpus or another flag of its group, predict
    the tokens of a served language model instead: MODEL is a committed configuration or hf:PATH/config.json.
    """
    if predict_tokens.is_asked(flags):
        return predict_tokens.main(flags)
    batches = sorted(set(flags.batch_sizes))
    setting = _setting(flags.setting, flags.precision)
    devices, named = _devices(flags.data, flags.chip, flags.precision)
    if flags.known and len(devices) > 1:
        raise UserError(f"--known: is a latency of one chip, and --chip names {len(devices)}; name one")
    fitted = curated_file(Coefficient, flags.data).parents[1]  # the project's, whole, where this cache has no fit
    predictor, phase = Predictor.read(fitted), STEP if flags.training else INFERENCE
    host_us = None if flags.host is None else _host_us(flags.host, predictor.hosts, phase)
    counted = _counted(flags.data)
    references = _reference_calls(flags, counted)
    keys = _count("MODEL", flags.model, batches, flags, counted)
    conditions = flags.precision, setting, phase
    works = {key: counted[key] for key in keys}
    times, rows, untimed = timings.least_times(fitted, flags.data, works), [], set()
    for (key, work), device in product(works.items(), devices):
        if basis := predictor.basis(device, *conditions, work.sort, references, host_us):
            ran = device.name, flags.precision, device.usable(setting), phase
            is_copied, measured_s = times.get((*ran, work.network, key.input_shape, key.batch), (False, None))
            rows.append(replace(basis.predict(work), measured_s=measured_s, is_copy_measured=is_copied))
        else:
            untimed.add(f"{device.name} ({device.chip_kind})")
    lack = f"nobody timed a {PASSES[phase]} at {flags.precision} on a chip of such a kind"
    if not rows:
        raise UserError(f"--chip: {lack}: {name_first(sorted(untimed))}; name another chip or --precision")
    if lacking := [text for text in sorted(untimed) if text.rpartition(" (")[0] in named]:
        print(f"Left out, since {lack}: {name_first(lacking)}", file=sys.stderr)
    rows.sort(key=lambda row: (row.batch, row.rank))
    if flags.json:
        heading = {"model": keys[0].model, "input_shape": keys[0].input_shape, "precision": flags.precision}
        heading |= {"phase": phase, "setting": setting}
        print(json.dumps(heading | {"predictions": [*map(asdict, rows)]}, indent=2, allow_nan=False))
    else:
        inputs = _inputs(keys[0], counted[keys[0]])
        is_measured = any(row.measured_s for row in rows)
        columns = {name: cell for name, cell in COLUMNS.items() if is_measured or name != MEASURED}
        cells = [tuple(cell(row) for cell in columns.values()) for row in rows]
        head = tuple(timings.rate_of(keys[0].model) if name == RATE else name for name in columns)
        lines = (markdown if flags.markdown else aligned)([head, *cells], NUMBERS)
        ways = dict.fromkeys("run by a server" if row.variant == SERVED else _way(setting) for row in rows)
        sizes = f"{'batch' if len(batches) == 1 else 'batches'} {', '.join(map(str, batches))}"
        heading_parts = [keys[0].model, inputs, sizes, flags.precision, PASSES[phase], " or ".join(ways)]
        if host_us := max(row.host_us for row in rows):
            heading_parts.append(f"host {host_us:.3g} µs an operator")
        notes = [*_notes(rows, keys, counted)]
        print("\n".join([", ".join(heading_parts), "", *lines, *([""] if notes else []), *notes]))
    return 0


def _setting(options: Sequence[str] | None, precision: str) -> tuple[str, ...]:
    """Return the options that a model runs with, in the order of ALL_OPTIONS."""
    if options is None:
        return usual_setting(precision)
    if NO_OPTION in options and len(options) > 1:
        raise UserError(f"--setting: '{NO_OPTION}' stands alone; leave out the others")
    is_full = stored_as(precision) == FULL_PRECISION
    if AUTOCAST in options and is_full:
        raise UserError(f"--setting: {AUTOCAST} computes at 16 bits; add --precision fp16 or bf16")
    if TF32_CONVOLUTIONS in options and precision != FULL_PRECISION:
        raise UserError(f"--setting: {TF32_CONVOLUTIONS} changes fp32 alone; add --precision fp32 or leave it out")
    return options_among(options)


def _way(setting: Sequence[str]) -> str:
    variant, options = COMPILED if COMPILED in setting else EAGER, [each for each in setting if each != COMPILED]
    return f"{variant} with {' and '.join(options)}" if options else variant


def _counted(data: Path) -> Calls:
    return dict(timings.counted(Workloads(data, COUNTED), Workloads(data)))


def _inputs(key: Key, demand: CallWork) -> str:
    if found := re.search(rf"_{DECODE}_([0-9]+)$", key.model):
        return f"1 token after {int(found[1]):,}"
    if demand.family == LANGUAGE and key.input_shape.isdigit():
        return f"{int(key.input_shape):,} tokens"
    return f"inputs of {key.input_shape}"


def _notes(rows: Sequence[Prediction], keys: Sequence[Key], counted: Calls) -> Iterator[str]:
    if len({row.chip for row in rows}) > 1:
        yield "Each batch is sorted by likely time; chips without an interval, or with too little memory, come last."
    timed = [row for row in rows if row.measured_s]
    if timed:
        copy = ", with the input's copy where marked" * any(row.is_copy_measured for row in timed)
        yield f"Measured is the least published or own time in this setting{copy}."
    if outside := sum(not (row.low_s or 0) <= (row.measured_s or 0) <= (row.high_s or inf) for row in timed):
        yield f"Measured times outside their intervals: {outside} of {len(timed)}. Trust what was measured."
    hosted = [row.batch for row in rows if row.costliest == LAUNCHES and row.costliest_share > MOST]
    batches = Counter(row.batch for row in rows)
    if decided := [str(batch) for batch, count in batches.items() if 2 * hosted.count(batch) > count]:
        yield (
            f"Batch {', '.join(decided)}: launches take most of the time on most lines. The host decides there: "
            "do not rank chips by these times, and name your host with --host."
        )
    if on_roof := sum(row.is_on_roof for row in rows):
        yield f"On {on_roof} of {len(rows)} lines the likely time is the least time, because the fit gives less."
    for key in keys:
        demand = counted[key]
        if experts := demand.experts:
            least, expected, most, whole = (
                si(byte, "B") for byte in (experts.least, experts.expected, experts.most, experts.parameter)
            )
            yield (
                f"Batch {demand.batch} reads {least} to {most} of the experts' {whole}, as the tokens are routed. "
                f"Least assumes {least}; likely assumes random routing, {expected}."
            )
        if demand.family == LANGUAGE and demand.output_byte > MUCH * (demand.peak_byte or 0):
            scores = si(demand.output_byte, "B")
            yield f"Batch {demand.batch}: the memory holds {scores} of scores, because this network scores every token."
        if timings.rate_of(key.model) == "prompts/s" and not key.trains and timings.after(key) not in counted:
            yield f"Batch {key.batch}: the memory leaves out the cache, because the decode after it cannot be counted."


def _devices(data: Path, names: Sequence[str] | None, precision: str) -> tuple[list[PredictedDevice], set[str]]:
    """Return the devices of these names and globs (default: all) that have the precision, and the names among these.

    Print the named ones that lack it.
    """
    chips = of_chips(data)
    devices = {each.name: each for each in (*chips.values(), *(machine for _, _, machine in of_machines(data)))}
    globs = [chips[fold_name(name)].name if fold_name(name) in chips else name for name in names or ("*",)]
    wanted = sorted(chosen("--chip", globs, devices))
    able = [devices[name] for name in wanted if devices[name].layer_roof(precision) is not None]
    if not able:
        rates = devices[wanted[0]].roof.flop_per_s
        others = ", ".join(sorted(set(rates) & set(PRECISIONS)))
        remedy = f"choose {others}" if others else "name another --chip"
        raise UserError(f"--precision: no rate of {wanted[0]} at {precision} is known; {remedy}")
    named = {name for glob in globs if not {*glob} & {*"*?["} for name in matching(devices, glob)}
    if lacking := sorted(named - {device.name for device in able}):
        print(f"Left out, since no rate at {precision} is known: {name_first(lacking)}", file=sys.stderr)
    return able, named


def _reference_calls(flags: argparse.Namespace, counted: Calls) -> list[OwnTime]:
    words = flags.known or []
    if len(words) % 3:
        raise UserError(f"--known: takes MODEL BATCH TIME, once or more, not {len(words)} words")
    calls = []
    for name, size, time in zip(words[::3], words[1::3], words[2::3], strict=True):
        try:
            batch, seconds = parse_count(size), _seconds(time)
        except argparse.ArgumentTypeError as problem:
            raise UserError(f"--known: {problem}") from None
        if seconds is None:
            raise UserError(f"--known: {time!r} is not a time; write a number with a unit, such as 31ms")
        (key,) = _count("--known", name, [batch], flags, counted)
        calls.append((counted[key], seconds))
    return calls


def _seconds(text: str) -> float | None:
    """Return a time with its unit in seconds, or None unless it is a time above 0."""
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*(s|ms|us|µs)", text.strip())
    return (float(match[1]) * {"s": 1.0, "ms": 1e-3}.get(match[2], 1e-6) or None) if match else None


def _host_us(name: str, hosts: timings.Hosts, phase: str) -> float:
    """Return an operator's launch (microseconds) on the host of this name or time."""
    if seconds := _seconds(name):
        return 1e6 * seconds
    if not name or (name, phase) not in hosts:
        names = ", ".join(sorted({machine for machine, _ in hosts if machine})) or "none"
        raise UserError(f"--host: {name!r} is neither a time such as 8us nor a machine with a GPU ({names} measured)")
    return hosts[name, phase]


def _count(flag: str, name: str, batches: Sequence[int], flags: argparse.Namespace, counted: Calls) -> list[Key]:
    """Return the calls of the model of this name, given for ``flag``; add those to ``counted`` that it lacks."""
    try:
        model = resolve_request_of_one(flag, with_defaults(models=[name], data=flags.data)).models[0]
    except UserError:
        if flag == "MODEL" and predict_tokens.is_served(name):
            raise UserError(f"MODEL: {name} is a served language model; add --gpus 1 to predict its tokens") from None
        raise
    shape, stored = shape_name(model.input_shape), stored_as(flags.precision)
    keys = [Key(model.name, shape, batch, stored, flags.training) for batch in batches]
    home = Workloads(flags.data) if model.source == OWN else Workloads(flags.data, COUNTED)
    rows = [row for row in home.rows(Workload) if row.model == model.name]
    stale = {row.batch for row in rows if (row.code, row.counting) != (model.code, VERSION)}
    missing = [key for key in keys if key not in counted or key.batch in stale]
    tasks = [WorkloadTask(model, tuple(key.batch for key in missing), stored, None)] if missing else []
    if (after := _decode(model)) and not flags.training:
        # A failure is not tried again: it costs the cache alone
        call_of = attrgetter("model", "batch", "precision")
        there = {*map(call_of, home.rows(Workload)), *map(call_of, counted)}
        lacking = tuple(batch for batch in batches if (after.name, batch, stored) not in there)
        tasks += [WorkloadTask(after, lacking, stored, None)] if lacking else []
    if tasks:
        check_writable(flags.data)
        progress = runner.RunProgress(tasks, make_console(stderr=True))
        progress.say(f"Counting {' and '.join(task.model.name for task in tasks)}, once; this may take a minute")
        with closing(Worker("cpu", 1, Sampling())) as worker, progress:
            progress.begin_part("counts", tasks)
            runner.run(tasks, worker, partial(store_counts, home), progress)
        for key in missing:
            counted.pop(key, None)
        counted |= _counted(flags.data)
        for row in home.rows(Workload):
            key = Key(row.model, row.input_shape, row.batch, row.precision, flags.training)
            if row.autocast is None and key in missing and key not in counted:
                work = f"{model.name}: its training" if row.status == "ok" else f"{model.name}:"
                raise UserError(f"{work} cannot be counted ({row.reason})")
    return keys


def _decode(model: Model) -> Model | None:
    """Return the decode after a language model's prefill; None for other models."""
    if model.family == LANGUAGE and not re.search(rf"_({DECODE}|{ENCODE})_", model.name):
        with suppress(UserError):  # networks that only encode, and a prompt that fills all positions
            return catalog.find([timings.decode_after(model.name, shape_name(model.input_shape))])[0]
    return None
