"""Plan a training step, or a served decoder, on several GPUs: ``measure plan``."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure.domain.chips import fold_name
from measure.domain.words import PRECISION_BYTE, PRECISIONS, stored_as
from measure.errors import UserError, in_short, unknown
from measure.planning.counted import CountedNetwork, of_memory
from measure.planning.decoders import TrainedDecoder
from measure.planning.fabric import Fabric
from measure.planning.inference import SIZES, serving_plans
from measure.planning.layout import FLAGS, PART, TrainedNetwork
from measure.planning.likely import likely_calls
from measure.planning.limits import limits
from measure.planning.search import best_plans
from measure.planning.states import ADAM, OPTIMIZERS, STAGES, state_bytes
from measure.planning.training import RECOMPUTATIONS, Accelerator, TrainingSetup
from measure.predicting.collectives import CollectivePredictor
from measure.predicting.kernels import ServedChip, served_chips
from measure.serving import configuration
from measure.serving.decoder import Decoder
from measure.serving.plan import check_precisions
from measure.verbs.flags import Verbs, add_formats, add_verb, parse_count, parse_positive
from measure.verbs.plan_tables import Heading, serving_lines, training_lines
from measure.verbs.run_flags import resolve_request_of_one, with_defaults
from measure.verbs.stored import STORED, add_stored, stored_formats
from measure.verbs.terminal import aligned, markdown

CONTEXT = 4096  # tokens of a sequence
COUNTED_BATCH = 4  # inputs of the step that is counted; batch normalisation refuses one
OF_TRAINING = "zero", "cp", "precision", "optimizer", "recompute", "micro_batch"
USUAL_NODE = 8  # GPUs of a node if nobody says how many a chip's link joins


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "plan", main)
    add = flags.add_argument
    add("model", metavar="NAME", help="a committed configuration, hf:PATH/config.json, or any model that measure takes")
    add("--chip", required=True, metavar="NAME", help="a GPU of data/chips.csv")
    add("--gpus", required=True, type=parse_count, metavar="N", help="how many of them")
    text = "sequences or images of a step on all GPUs together; with --inference, requests at once"
    add("--batch", required=True, type=parse_count, metavar="N", help=text)
    add("--context", type=parse_count, metavar="N", help=f"tokens of a sequence or prompt (default: {CONTEXT})")
    add("--inference", action="store_true", help="serve the model instead of training it")
    text = "of arithmetic in training; bf16 and fp16 keep a weight at fp32 besides (default: bf16)"
    add("--precision", choices=PRECISIONS, metavar="P", help=text)
    add("--optimizer", choices=OPTIMIZERS, metavar="O", help=f"adam, or sgd with momentum (default: {ADAM})")
    text = "none keeps activations, full computes each block again in the backward pass (default: the better one)"
    add("--recompute", choices=RECOMPUTATIONS, metavar="HOW", help=text)
    text = "inputs that a data group runs at once (default: the best divisor of its share)"
    add("--micro-batch", type=parse_count, metavar="N", help=text)
    texts = {
        "dp": "data groups",
        "zero": "stage of ZeRO: 0 is DDP, 3 is FSDP",
        "tp": "GPUs that share each matrix",
        "cp": "GPUs that split each sequence",
        "pp": "pipeline stages",
        "ep": "data groups with different experts",
    }
    for name, text in texts.items():
        parse = _parse_stage if name == "zero" else parse_count
        tried = f"those that leave each {PART:,} tokens" if name == "cp" else "all"
        add(f"--{name}", type=parse, metavar="N", help=f"{text} (default: tries {tried})")
    add_stored(flags.add_argument_group("with --inference").add_argument)
    text = "rate between nodes, each way and for each GPU, such as 50 for 400 Gb/s InfiniBand"
    add("--network", type=_parse_rate, metavar="GB/s", help=text)
    add_formats(flags, {"--json": "print all plans as JSON (docs/json.md)", "--markdown": "print Markdown"})


def _parse_stage(text: str) -> int:
    if text not in map(str, STAGES):
        raise argparse.ArgumentTypeError(f"{text!r} is not a stage of ZeRO; use 0 (DDP), 1, 2 or 3 (FSDP)")
    return int(text)


def _parse_rate(text: str) -> float:
    return 1e9 * parse_positive(text, 1e6, "is not a rate in GB/s; write a number such as 50")


def main(flags: argparse.Namespace) -> int:
    """Plan a training step on several GPUs: all products of data, ZeRO, tensor, context, pipeline and expert
    parallelism that they allow, the best first. Of each plan the memory of a GPU, its FLOP, the bytes of each
    collective, and the least step time by the datasheet, with and without overlap; then how many GPUs communication
    leaves busy, in closed form (docs/plans.md). With --inference, plan a server. Needs no GPU, no weights and no
    network.
    """
    chip = _chip(flags.data, flags.chip)
    link = chip.known_link
    fabric = Fabric(link.byte_per_s, link.node_gpus or USUAL_NODE, flags.network)
    heading = Heading(flags.gpus, chip.name, link, flags.network, fabric.node_gpus, link.node_gpus is None)
    decoder = _decoder(flags.model)
    if flags.inference:
        return _serve(flags, decoder, chip, fabric, heading)
    if given := [name for name in STORED if getattr(flags, name)]:
        raise UserError(f"--{given[0]}: belongs to a server; add --inference, or leave it out")
    return _train(flags, decoder, chip, fabric, heading)


def _train(
    flags: argparse.Namespace, decoder: Decoder | None, chip: ServedChip, fabric: Fabric, heading: Heading
) -> int:
    precision = flags.precision or "bf16"
    if precision not in chip.flop_per_s:
        able = ", ".join(each for each in PRECISIONS if each in chip.flop_per_s)
        raise UserError(f"--precision: {chip.name} has no units for {precision}; use {able}")
    byte = PRECISION_BYTE[stored_as(precision)]
    network: TrainedNetwork
    if decoder is not None:
        network = TrainedDecoder(decoder, flags.context or CONTEXT, byte)
    elif flags.context:
        raise UserError(
            f"--context: {flags.model} has its own inputs; leave --context out, or name an hf: configuration"
        )
    else:
        network = _counted(flags, precision, byte)
    accelerator = Accelerator(chip.name, chip.flop_per_s[precision], chip.byte_per_s, chip.memory_byte)
    states = state_bytes(precision, flags.optimizer or ADAM)
    setup = TrainingSetup(network, accelerator, fabric, states, flags.batch)
    fixed = _fixed(flags, FLAGS)
    plans = best_plans(setup, flags.gpus, fixed, flags.micro_batch, flags.recompute)
    most = limits(setup)
    likely = likely_calls(CollectivePredictor.read(flags.data), chip.name, plans[0].collectives)
    if flags.json:
        head = _head(flags, network.name, heading)
        head |= {"parameters": network.parameters, "context_tokens": network.tokens, "precision": precision}
        head |= {"optimizer": flags.optimizer or ADAM, "parameter_byte": asdict(states) | {"total": states.total}}
        rows = [asdict(plan) | {"fits": plan.fits, "sent_byte": plan.sent_byte} for plan in plans]
        head |= {"plans": rows, "likely": [*map(asdict, likely)], "limits": [*map(asdict, most)]}
        print(json.dumps(head, indent=2, allow_nan=False))
        return 0
    print("\n".join(training_lines(heading, setup, plans, likely, most, markdown if flags.markdown else aligned)))
    return 0


def _serve(
    flags: argparse.Namespace, decoder: Decoder | None, chip: ServedChip, fabric: Fabric, heading: Heading
) -> int:
    if given := [name for name in OF_TRAINING if getattr(flags, name)]:
        raise UserError(f"--{given[0].replace('_', '-')}: belongs to training; leave it out, or leave out --inference")
    if decoder is None:
        raise UserError(
            f"--inference: {flags.model} is no hf: configuration; each GPU serves its own copy of such a network, "
            "whose time measure predict tells"
        )
    decoder = configuration.stored(decoder, flags.weights, flags.cache)
    check_precisions(decoder, chip.name, chip.flop_per_s)
    context = flags.context or CONTEXT
    plans = serving_plans(decoder, chip, fabric, flags.gpus, flags.batch, context, _fixed(flags, SIZES))
    likely = likely_calls(CollectivePredictor.read(flags.data), chip.name, plans[0].collectives)
    if flags.json:
        head = _head(flags, decoder.name, heading)
        head |= {"context_tokens": context} | stored_formats(decoder)
        rows = [asdict(plan) | {"fits": plan.fits} for plan in plans]
        print(json.dumps(head | {"plans": rows, "likely": [*map(asdict, likely)]}, indent=2, allow_nan=False))
        return 0
    print("\n".join(serving_lines(heading, decoder, context, plans, likely, markdown if flags.markdown else aligned)))
    return 0


def _head(flags: argparse.Namespace, name: str, heading: Heading) -> dict[str, Any]:
    link = heading.link
    return {
        "model": name, "phase": "inference" if flags.inference else "training", "chip": heading.chip,
        "gpus": flags.gpus, "batch": flags.batch, "link": link.name, "link_byte_per_s": link.byte_per_s,
        "node_gpus": heading.node_gpus, "network_byte_per_s": heading.network,
    }  # fmt: skip


def _fixed(flags: argparse.Namespace, names: Sequence[str] | dict[str, str]) -> dict[str, int]:
    return {name: getattr(flags, name) for name in names if getattr(flags, name) is not None}


def _chip(data: Path, name: str) -> ServedChip:
    chips = served_chips(data)
    found = chips.get(fold_name(name)) or next(
        (chip for folded, chip in chips.items() if folded.endswith(f" {fold_name(name)}")), None
    )
    if found is None:
        raise unknown("--chip", name, sorted({chip.name for chip in chips.values()}))
    return found


def _decoder(name: str) -> Decoder | None:
    """Return the decoder of a configuration; None for the name of another network."""
    is_configuration = name.startswith("hf:") or name.endswith(".json") or configuration.committed(name)
    return configuration.find(name.removeprefix("hf:")) if is_configuration else None


def _counted(flags: argparse.Namespace, precision: str, byte: int) -> CountedNetwork:
    """Count a step of any network block by block."""
    from measure.counting.step_memory import step_memory

    model = resolve_request_of_one("NAME", with_defaults(models=[flags.model], data=flags.data)).models[0]
    try:
        return of_memory(step_memory(model, COUNTED_BATCH, stored_as(precision)), byte)
    except UserError:
        raise
    except Exception as problem:  # the network's own
        raise UserError(f"NAME: {model.name} could not be counted: {in_short(problem)}; plan another network") from None
