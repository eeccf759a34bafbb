"""Predict the tokens of a served language model on chips: ``measure predict`` with a flag of its group."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from measure.cache.project import curated_file, read_both
from measure.domain.chips import fold_name, rows_by_name
from measure.domain.values import latency, plain, si
from measure.errors import UserError, chosen, matching
from measure.predicting import serving
from measure.predicting.kernels import ServedChip, served_chips
from measure.predicting.links import no_link
from measure.predicting.served_prediction import Likely, ServedPrediction, ServedPredictor, with_requests
from measure.predicting.served_records import KernelCoefficient
from measure.predicting.serving import Load
from measure.published.records import Chip
from measure.serving import configuration
from measure.serving.decoder import Decoder
from measure.serving.plan import Plan, as_flag, check_context, check_plan, check_precisions, most_requests
from measure.verbs.flags import parse_count, parse_positive
from measure.verbs.run_flags import resolve_request_of_one, with_defaults
from measure.verbs.stored import STORED, add_stored, stored_formats, stored_text
from measure.verbs.terminal import aligned, markdown

ENGINES = "vllm", "sglang", "trtllm"
PLAN = {"tp": "tensor", "ep": "expert", "dp": "data", "pp": "pipeline"}
ASKED = "gpus", *PLAN, "context", "output", *STORED, "engine", "price"
CONTEXT, OUTPUT = 4096, 1024  # tokens of a prompt and of an answer


def add_flags(flags: argparse.ArgumentParser) -> None:
    group = flags.add_argument_group("tokens of a served language model, with any of")
    add = group.add_argument
    add("--gpus", type=parse_count, metavar="N", help="GPUs of the server (default: as many as its plan has)")
    for name, part in PLAN.items():
        text = "the GPUs that --dp and --pp leave" if name == "tp" else "1"
        add(f"--{name}", type=parse_count, metavar="N", help=f"{part} parallelism (default: {text})")
    add("--context", type=parse_count, metavar="N", help=f"tokens of a prompt (default: {CONTEXT})")
    add("--output", type=parse_count, metavar="N", help=f"tokens of an answer (default: {OUTPUT})")
    add_stored(add)
    add("--engine", choices=ENGINES, metavar="ENGINE", help=f"{', '.join(ENGINES)} (default: {ENGINES[0]})")
    add("--price", type=_parse_price, metavar="PRICE", help="of an hour of a GPU, in any currency")


def is_asked(flags: argparse.Namespace) -> bool:
    return any(getattr(flags, name) is not None for name in ASKED)


def _parse_price(text: str) -> float:
    return parse_positive(text, 1e9, "is not a price above 0; write a number such as 2.5")


def main(flags: argparse.Namespace) -> int:
    """Predict the tokens of a served language model."""
    decoder = configuration.stored(_decoder(flags), flags.weights, flags.cache)
    plan = _plan(flags)
    context, output = flags.context or CONTEXT, flags.output or OUTPUT
    check_plan(decoder, plan, as_flag, partial(_flags_of, flags, plan))
    check_context(decoder, context + output, output)
    predictor = ServedPredictor.read(curated_file(KernelCoefficient, flags.data).parents[1])
    engine = flags.engine or ENGINES[0]
    rows: list[ServedPrediction] = []
    refused: list[str] = []
    chips, others = _chips(flags.data, flags.chip)
    for chip in chips:
        try:
            _check(decoder, plan, chip, context + output)
        except UserError as problem:
            reason = str(problem).removeprefix(f"{decoder.name}: ")
            refused.append(reason if chip.name in reason else f"{chip.name}: {reason}")
            continue
        load = Load(decoder, plan, chip, engine, 1, context, output)
        for requests in sorted(set(flags.batch_sizes)):
            rows.append(predictor.predict(with_requests(load, requests), requests, flags.price))
    refused += [
        f"{name} is not predicted: tokens need a chip of kind gpu with a 16-bit rate; name one" for name in others
    ]
    if not rows:
        raise UserError(f"{decoder.name}: {refused[0]}")
    if flags.chip and refused:
        print("\n".join(f"Left out: {reason}" for reason in refused), file=sys.stderr)
    rows.sort(key=lambda row: (row.requests, row.rank))
    if flags.json:
        heading = {"model": decoder.name, "engine": engine, "gpus": plan.gpus, "plan": vars(plan)}
        heading |= {"context_tokens": context, "output_tokens": output, "parameter_byte": decoder.weight_byte}
        heading |= stored_formats(decoder)
        print(json.dumps(heading | {"predictions": [*map(asdict, rows)]}, indent=2, allow_nan=False))
        return 0
    columns = dict(COLUMNS)
    if flags.price:
        columns[PRICE] = lambda row: plain(row.cost_per_million_tokens or 0.0)
    cells = [tuple(columns), *(tuple(cell(row) for cell in columns.values()) for row in rows)]
    lines = (markdown if flags.markdown else aligned)(cells, [head for head in columns if head not in TEXTS])
    sizes = ", ".join(f"{name}={size}" for name, size in vars(plan).items() if size > 1) or "one copy"
    texts = [decoder.name, stored_text(decoder), f"{plan.gpus} GPUs ({sizes})"]
    texts += [f"prompts of {context:,} tokens", f"answers of {output:,}", engine]
    print("\n".join([", ".join(texts), "", *lines, "", *_notes(rows)]))
    return 0


def is_served(name: str) -> bool:
    """Return whether a name is one of a committed configuration or the path of one."""
    return name.endswith(".json") or configuration.committed(name.removeprefix("hf:")) is not None


def _decoder(flags: argparse.Namespace) -> Decoder:
    try:
        return configuration.find(flags.model.removeprefix("hf:"))
    except UserError as problem:
        if is_served(flags.model):
            raise
        unknown_name = problem
    try:
        resolve_request_of_one("MODEL", with_defaults(models=[flags.model], data=flags.data))
    except UserError:
        raise unknown_name from None
    given = " and ".join(f"--{name}" for name in ASKED if getattr(flags, name) is not None)
    raise UserError(
        f"{given}: for the tokens of a served language model, and {flags.model} is no configuration of one; "
        "leave out such flags, or name a configuration"
    )


def _flags_of(flags: argparse.Namespace, plan: Plan, part: str, size: int) -> str:
    """Return the flags that change the plan's size of a part and, if they are given too, the number of GPUs."""
    gpus = replace(plan, **{part: size}).gpus
    if flags.gpus is None or gpus == plan.gpus:
        return as_flag(part, size)
    return f"--gpus {gpus}" if part == "tensor" and flags.tp is None else f"--gpus {gpus} {as_flag(part, size)}"


def _plan(flags: argparse.Namespace) -> Plan:
    sizes = {part: getattr(flags, name) for name, part in PLAN.items()}
    others = (sizes["data"] or 1) * (sizes["pipeline"] or 1)
    gpus = flags.gpus or others * (sizes["tensor"] or 1)
    if sizes["tensor"] is None and gpus % others == 0:
        sizes["tensor"] = gpus // others
    plan = Plan(**{part: size or 1 for part, size in sizes.items()})
    if plan.gpus != gpus:
        raise UserError(
            f"--gpus: the plan has {plan.gpus} GPUs (tp {plan.tensor} x dp {plan.data} x pp {plan.pipeline}), "
            f"not {gpus}; use --gpus {plan.gpus} or change another of them"
        )
    return plan


def _chips(data: Path, names: Sequence[str] | None) -> tuple[list[ServedChip], list[str]]:
    """Return the chips of these names and globs (default: all) that serve, and the named ones that do not.

    Globs alone that match none that serves name those that they match.
    """
    chips, rows = served_chips(data), rows_by_name(read_both(Chip, data))
    devices = {chip.name: chip for chip in chips.values()}
    if names is None:
        return [devices[name] for name in sorted(devices)], []
    every = {of[0].chip for of in rows.values()}
    globs = [rows[fold_name(name)][0].chip if fold_name(name) in rows else name for name in names]
    wanted = sorted(chosen("--chip", globs, every))
    served, others = [name for name in wanted if name in devices], [name for name in wanted if name not in devices]
    named = {name for glob in globs if not {*glob} & {*"*?["} for name in matching(every, glob)}
    return [devices[name] for name in served], [name for name in others if name in named or not served]


def _check(decoder: Decoder, plan: Plan, chip: ServedChip, tokens: int) -> None:
    """Raise UserError if the weights and a request do not fit, or the chip lacks a precision or a link."""
    if chip.memory_byte is not None:
        most_requests(decoder, plan, tokens, chip.memory_byte)
    check_precisions(decoder, chip.name, chip.flop_per_s)
    if plan.gpus > 1 and chip.link is None:
        raise no_link(chip.name)


def _interval(of: Likely) -> str:
    return "extrapolated" if of.low_s is None or of.high_s is None else f"{latency(of.low_s)} to {latency(of.high_s)}"


def _fits(row: ServedPrediction) -> str:
    if row.memory_byte is None or row.most_requests is None:
        return "not known"
    return f"{row.most_requests:,}" if row.fits else f"{row.most_requests:,}: too few"


PRICE = "cost of 1M tokens"
COLUMNS: dict[str, Callable[[ServedPrediction], str]] = {
    "chip": lambda row: row.chip,
    "requests": lambda row: f"{row.requests:,}",
    "first token": lambda row: latency(row.first.likely_s),
    "its 90 % interval": lambda row: _interval(row.first),
    "each further": lambda row: latency(row.further.likely_s),
    "90 % interval": lambda row: _interval(row.further),
    "tokens/s": lambda row: plain(row.tokens_per_s),
    "a user's": lambda row: plain(row.tokens_per_s_per_user),
    "costliest": lambda row: f"{row.further.costliest} ({row.further.costliest_share:.0%})",
    "weights a GPU": lambda row: si(row.weight_byte, "B"),
    "requests that fit": _fits,
    "tokens/J": lambda row: "" if row.tokens_per_j is None else plain(row.tokens_per_j),
}
TEXTS = "chip", "costliest"  # the columns that are aligned to the left; all others are numbers


def _notes(rows: Sequence[ServedPrediction]) -> Iterator[str]:
    if len({row.chip for row in rows}) > 1:
        yield "Each number of requests is sorted by the time of a token; chips with too little memory come last."
    yield "Memory is that of weights and cache; an engine keeps some for itself."
    yield "Tokens/J is of the GPUs alone, at the limit of their power."
    if any(row.gpus > serving.MOST_GPUS for row in rows):
        yield f"Nobody timed collectives of more than {serving.MOST_GPUS} GPUs, so there is no interval."
