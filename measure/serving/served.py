"""The decoders of published servers: a committed configuration, in the formats that a server stored it in."""

from dataclasses import replace
from functools import cache

from measure.serving import configuration
from measure.serving.decoder import EXPERT_WEIGHTS, Decoder
from measure.serving.formats import FORMATS, Format

# Models that were served under another name than the one of their committed configuration
NAMES = {
    "meta-llama/Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Meta-Llama-3.1-8B",
    "nvidia/Qwen3-32B-NVFP4": "Qwen/Qwen3-32B",
    "nvidia/DeepSeek-R1-NVFP4": "deepseek-ai/DeepSeek-R1",
    "zhipuai/GLM-5": "zai-org/GLM-5",
}
CACHE = FORMATS["fp8"]


@cache
def served_decoder(model: str, weights: str | None, expert_weights: str | None = None) -> Decoder:
    """Return a model of ``data/published/servers.csv`` with its weights in these formats. Raises UserError for a name.

    A checkpoint that has such weights already knows which of them have more bits: a source's word fp8 stands for blocks
    if the configuration has these. No source says how the cache is stored. Engines store 8 bits for weights of 8 or
    fewer at their users' choice, and else what the configuration says; so it is taken here.
    """
    decoder = configuration.find(NAMES.get(model, model))
    if weights is None:
        return decoder
    form = FORMATS[weights]
    found = decoder.stored(cache=CACHE if form.number_bit <= CACHE.number_bit else None)
    own = {_sort_of(each) for layer in decoder.layers for each in layer.formats.values()}
    if _sort_of(form) in own:
        return found
    found = found.stored(weights=form)
    if expert_weights is None or expert_weights == weights:
        return found
    of_experts = dict.fromkeys(EXPERT_WEIGHTS, FORMATS[expert_weights])
    layers = [
        replace(layer, formats={name: of_experts.get(name, each) for name, each in layer.formats.items()})
        for layer in found.layers
    ]
    return replace(found, layers=tuple(layers))


def _sort_of(form: Format) -> tuple[int, str]:
    """Return what blocks of scales do not change: the bits of a number, and the arithmetic on it."""
    return form.number_bit, form.arithmetic
