"""Likely times of served language models on common GPUs, as ``measure predict`` gives them: a table, and a chooser."""

from functools import cache
from itertools import product
from typing import Any

from measure.domain.values import significant
from measure.errors import UserError
from measure.predicting.kernels import served_chips
from measure.predicting.served_prediction import Likely, ServedPrediction, ServedPredictor, with_requests
from measure.predicting.serving import Load
from measure.serving import configuration
from measure.serving.plan import Plan, check_precisions, memories
from report import display
from report.chapters.prediction.facts import ANSWER, AT_ONCE, FIT, PROMPT
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.paper import Paper
from report.paper.chips import short_name

MODELS = {
    "meta-llama/Meta-Llama-3.1-8B": "Llama-3.1-8B", "Qwen/Qwen3-32B": "Qwen3-32B",
    "meta-llama/Meta-Llama-3.1-70B": "Llama-3.1-70B", "Qwen/Qwen3-235B-A22B": "Qwen3-235B-A22B",
    "deepseek-ai/DeepSeek-R1": "DeepSeek-R1",
}  # fmt: skip
CHIPS = (
    "NVIDIA A100 SXM 80GB", "NVIDIA H100 SXM", "NVIDIA H200 SXM", "NVIDIA B200 SXM", "NVIDIA L40S",
    "AMD Instinct MI300X",
)  # fmt: skip
WEIGHTS, GPUS, REQUESTS = ("bf16", "fp8"), (1, 4, 8), (1, 8, 64)
ENGINE = "vllm"
SMALL = (("meta-llama/Meta-Llama-3.1-8B", 1), ("meta-llama/Meta-Llama-3.1-70B", 4), ("deepseek-ai/DeepSeek-R1", 8))

Call = tuple[str, str, int, int]  # the model, the format of weights and cache, GPUs that share each matrix, requests


@cache
def predicted(paper: Paper) -> dict[Call, list[ServedPrediction]]:
    """Return the predictions of each call on the chips that hold it and have the precision, the fastest first."""
    fits, data, *_ = paper.predictions.folders
    predictor, chips = ServedPredictor.read(fits), {chip.name: chip for chip in served_chips(data).values()}
    if not predictor.effects:
        raise display.Missing(FIT)
    named = [chips[name] for name in CHIPS if name in chips and name in {*paper.chips.chip}]
    found: dict[Call, list[ServedPrediction]] = {}
    for model, weights, gpus in product(MODELS, WEIGHTS, GPUS):
        decoder, plan = configuration.stored(configuration.find(model), weights, weights), Plan(tensor=gpus)
        (held,) = memories(decoder, plan, PROMPT + ANSWER)
        for chip in named:
            try:
                check_precisions(decoder, chip.name, chip.flop_per_s)
            except UserError:  # it has no such units
                continue
            if held.weight_byte + held.request_byte > (chip.memory_byte or 0.0):
                continue
            load = Load(decoder, plan, chip, ENGINE, 1, PROMPT, ANSWER)
            for requests in REQUESTS:
                row = predictor.predict(with_requests(load, requests), requests)
                found.setdefault((model, weights, gpus, requests), []).append(row)
    return {call: sorted(rows, key=lambda row: row.rank) for call, rows in found.items()}


def choices(paper: Paper) -> dict[str, Any]:
    """Return the predictions for JSON: ``rows`` of a call by its words, joined; times in seconds, lengths in tokens.

    A time is the likely one and both ends of its 90 % interval, null if it is extrapolated.
    """
    rows = {
        ",".join(map(str, call)): [
            [short_name(row.chip), _ends(row.first), _ends(row.further), row.tokens_per_s, row.most_requests, row.fits]
            for row in found
        ]
        for call, found in predicted(paper).items()
    }
    fields = [
        ["model", "Model", [[model, name] for model, name in MODELS.items()], "meta-llama/Meta-Llama-3.1-70B"],
        ["weights", "Weights and cache", [[name, name] for name in WEIGHTS], "fp8"],
        ["gpus", "GPUs", [[size, size] for size in GPUS], 8],
        ["requests", "Requests", [[size, size] for size in REQUESTS], AT_ONCE],
    ]
    return {"fields": fields, "rows": rows, "prompt": PROMPT, "answer": ANSWER}


def _ends(likely: Likely) -> list[float | None]:
    return [None if each is None else float(f"{each:.3g}") for each in (likely.likely_s, likely.low_s, likely.high_s)]


@display.table
def chooser(paper: Paper) -> str:
    """Write the predictions into the page, for ``served.js``."""
    data = f'<script type="application/gzip">{display.packed(choices(paper))}</script>'
    return f'```{{=html}}\n<div class="served" id="served">{data}</div>\n```\n'


@display.table
def table(paper: Paper) -> str:
    """List the likely times on chips with an interval, at fp8: of the first token, and of each more."""
    found = predicted(paper)
    columns = [{row.chip: row for row in found.get((model, "fp8", gpus, AT_ONCE), ())} for model, gpus in SMALL]
    lines = [
        [escape(short_name(chip)), *(cell for column in columns for cell in _cells(column.get(chip)))]
        for chip in CHIPS
        if any(chip in column and column[chip].further.low_s is not None for column in columns)
    ]
    heads = [f"{MODELS[model]}, {gpus} GPU{'s' if gpus > 1 else ''}: first > | further >" for model, gpus in SMALL]
    return markdown_table(f"Chip | {' | '.join(heads)}", display.required(lines, FIT))


def _cells(row: ServedPrediction | None) -> list[str]:
    return [NONE, NONE] if row is None else [_milliseconds(row.first), _milliseconds(row.further)]


def _milliseconds(time: Likely) -> str:
    likely = significant(1e3 * time.likely_s, 2)
    if time.low_s is None or time.high_s is None:
        return likely
    return f"{likely} ({significant(1e3 * time.low_s, 2)}–{significant(1e3 * time.high_s, 2)})"
