"""The calls of language models whose tokens a second others published: one token decoded, or a prompt read."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from measure.cache import table
from measure.cache.hand_kept import PublishedTokens
from measure.cache.predictions import LANGUAGE, Setting
from measure.cache.schema import file_of
from measure.domain.chips import fold_name
from measure.domain.models import DECODE, PREFILL, Size
from measure.domain.words import INFERENCE, LAYER_KINDS
from measure.predicting.demand import PLACE, TOKENS, Demand, of_chips
from measure.predicting.timings import TimedCall

PHASES = PREFILL, DECODE
SIZES = {  # A. Grattafiori et al., The Llama 3 herd of models, 2024, arXiv:2407.21783, table 3
    "LLaMA 3 8B": Size(PHASES, 4096, 32, 32, 8, 14336, 128256, 8192),
    "LLaMA 3 70B": Size(PHASES, 8192, 80, 64, 8, 28672, 128256, 8192),
}
# Rows that no fit takes: these prompts take ten times as long as on the A100 PCIe, which has the same die
FAULTY = ("NVIDIA A100 SXM 80GB", PREFILL)
HALF_BYTE = 2  # of an element at 16 bits
SCORE_BYTE = 4  # of a score of attention
LAYER_CALLS = 40  # operators of a layer, as ``language:llama_1b`` calls them
# Passes over the layer's width: two normalisations, rotations of queries, two additions; over its inner width: one gate
WIDTH_PASSES, INNER_PASSES = 10, 3


def demand_of(size: Size, phase: str, tokens: int) -> Demand:
    """Return the demand of a prompt of ``tokens`` at 16 bits, or of one token while as many are generated.

    A generated token attends to half of them in the mean. A prompt's last token alone is scored.
    """
    read, reached = (tokens, tokens) if phase == PREFILL else (1, tokens // 2)
    keys = size.width * size.key_heads // size.heads
    of_layers = size.depth * size.width * (2 * size.width + 2 * keys + 3 * size.inner)
    head = size.width * size.vocabulary
    flop, byte = np.zeros(len(LAYER_KINDS)), np.zeros(len(LAYER_KINDS))
    flop[PLACE["linear"]] = 2.0 * (read * of_layers + head)
    flop[PLACE["attention"]] = 4.0 * read * reached * size.width * size.depth
    layer_widths = 2 * size.width + 2 * keys + 3 * size.inner  # what the products of a layer make
    byte[PLACE["linear"]] = HALF_BYTE * (of_layers + head + read * size.depth * (layer_widths + 6 * size.width))
    cache_byte = HALF_BYTE * 2 * keys * reached * size.depth
    byte[PLACE["attention"]] = cache_byte + HALF_BYTE * 2 * read * size.width * size.depth
    byte[PLACE["normalisation"]] = HALF_BYTE * WIDTH_PASSES * read * size.width * size.depth
    byte[PLACE["activation"]] = HALF_BYTE * INNER_PASSES * read * size.inner * size.depth
    if phase == PREFILL:  # the program writes the scores of attention and reads them
        byte[PLACE["other"]] = SCORE_BYTE * 2 * size.heads * read * reached * size.depth
    parameter_byte = float(HALF_BYTE * (of_layers + head))
    footprint_byte = parameter_byte + cache_byte
    calls = LAYER_CALLS * size.depth
    return Demand(1, flop, byte, calls, 0.0, parameter_byte, footprint_byte, network=str(tokens), family=LANGUAGE)


def served(data: Path) -> Iterator[TimedCall]:
    """Yield the published calls at 16 bits on one chip with a known roof."""
    chips = of_chips(data)
    for row in table.read(file_of(PublishedTokens, data), PublishedTokens):
        chip = chips.get(fold_name(row.device))
        roof = chip.layer_roof("fp16", serves=True) if chip else None
        if chip is None or roof is None or row.gpus > 1 or row.weights != "F16":
            continue
        if (chip.name, row.phase) == FAULTY:
            continue
        setting = Setting(chip.name, row.source, "", "fp16", row.phase, INFERENCE)
        seconds = (row.tokens if row.phase == PREFILL else 1) / row.tokens_per_s
        demand = demand_of(SIZES[row.model], row.phase, row.tokens)
        yield TimedCall(setting, row.model, seconds, demand, roof, TOKENS)
