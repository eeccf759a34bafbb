"""A decoder from a Hugging Face configuration: a ``config.json``, its settings, or a name of the committed ones.

The layers of each type are those of its modelling file in ``transformers``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from measure.cache.project import project_folder
from measure.errors import UserError, quote, unknown
from measure.serving.decoder import (
    Decoder,
    DecoderLayer,
    Experts,
    GatedDelta,
    GroupedAttention,
    Indexer,
    LatentAttention,
    Perceptron,
    StateSpace,
)
from measure.serving.formats import DTYPES, FORMATS, Format, Quantisation, format_named, read_quantisation

FOLDER = "published/configurations"  # of the committed ones, within data
ENDING = "_config.json"
QUANTISED = "hf_quant_config.json"  # next to a config.json, where NVIDIA's older checkpoints say how they are stored
REQUIRED = object()


class Settings:
    """The settings of a configuration; a missing one is an error that names the file."""

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        self.values, self.source = values, source

    def __call__(self, *names: str, default: Any = REQUIRED) -> Any:
        """Return the first of these settings that is there and not null."""
        for name in names:
            if (value := self.values.get(name)) is not None:
                return value
        if default is REQUIRED:
            raise UserError(f"{self.source}: lacks {names[0]}; give the config.json as the model's authors publish it")
        return default

    def count(self, *names: str, default: Any = REQUIRED) -> int:
        """Return a whole number above 0."""
        value = self(*names, default=default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UserError(f"{self.source}: {names[0]} is {value!r}, not a whole number above 0; correct it")
        return value


def names() -> list[str]:
    """Return the committed configurations, as their authors name them: owner/name."""
    files = (project_folder() / "data" / FOLDER).glob(f"*{ENDING}")
    return sorted(path.name.removesuffix(ENDING).replace("--", "/") for path in files if not is_format(path))


def find(name: str) -> Decoder:
    """Return the decoder of a committed name, with or without its owner, or of the path of a ``config.json``.

    Raises UserError for an unknown name and a wrong file.
    """
    if name.endswith(".json"):
        return read_file(Path(name))
    found = committed(name)
    if found is None:
        raise unknown("MODEL", name, names())
    return _read_committed(found)


def committed(name: str) -> str | None:
    """Return the committed name that this is, with or without its owner; None if there is none."""
    return next((each for each in names() if name.lower() in (each.lower(), each.lower().partition("/")[2])), None)


@cache
def _read_committed(name: str) -> Decoder:
    path = project_folder() / "data" / FOLDER / f"{name.replace('/', '--')}{ENDING}"
    return replace(read_file(path), name=name)


def is_format(path: Path) -> bool:
    return path.name.endswith(QUANTISED)


def read_file(path: Path) -> Decoder:
    """Return the decoder of a ``config.json``."""
    values = read_json(path, f"{path}:")
    _check_schemes(values, str(path))
    return read({**values, "quantization_config": scheme_of(values, path)}, str(path))


def _check_schemes(values: Mapping[str, Any], source: str) -> None:
    inner = values.get("text_config")
    for part in (values, inner if isinstance(inner, Mapping) else {}):
        scheme = part.get("quantization_config")
        if scheme is not None and not isinstance(scheme, Mapping):
            raise UserError(
                f"{source}: quantization_config is {quote(str(scheme))}, not an object; give the config.json as the "
                "checkpoint has it"
            )


def scheme_of(values: Mapping[str, Any], path: Path | None) -> Mapping[str, Any] | None:
    """Return the ``quantization_config`` of a configuration, or of its text part, or of the file next to its own."""
    inner = values.get("text_config")
    for part in (values, inner if isinstance(inner, Mapping) else {}):
        if isinstance(scheme := part.get("quantization_config"), Mapping) and scheme:
            return scheme
    if path is None or is_format(path):
        return None
    beside = path.with_name(path.name.replace("config.json", QUANTISED))
    if beside == path or not beside.exists():
        return None
    return read_json(beside, f"{beside}:").get("quantization")


def read_json(path: Path, named: str) -> dict[str, Any]:
    """Read a configuration, ``named`` so in errors. transformers writes infinity as ``{"__float__": "Infinity"}``."""

    def decode(part: dict[str, Any]) -> Any:
        return float(part["__float__"]) if part.keys() == {"__float__"} else part

    try:
        values = json.loads(path.read_text("utf-8-sig", "replace"), object_hook=decode)
    except OSError as problem:
        raise UserError(f"{named} cannot be read ({problem.strerror}); give the path of a config.json") from None
    except ValueError as problem:
        raise UserError(f"{named} is not valid JSON ({problem}); correct it or save it again") from None
    if not isinstance(values, dict):
        raise UserError(f"{named} holds no JSON object; give a config.json as transformers saves it")
    return values


def read(values: Mapping[str, Any], source: str = "configuration") -> Decoder:
    """Return the decoder of a configuration's settings; ``source`` names it in errors.

    Of a network that also sees pictures, the language model. Raises UserError for an unknown type.
    """
    kind = str(Settings(values, source)("model_type")).removesuffix("_text")
    inner = values.get("text_config")
    settings = Settings({**values, **inner} if isinstance(inner, Mapping) else values, source)
    if kind not in KINDS:
        raise unknown(f"{source}: model_type", kind, KINDS)
    dtype = str(settings("torch_dtype", "dtype", default="bfloat16")).removeprefix("torch.")
    if dtype not in DTYPES:
        raise unknown(f"{source}: torch_dtype", dtype, DTYPES)
    base = FORMATS[DTYPES[dtype]]
    quantisation = None
    _check_schemes(values, source)
    if scheme := scheme_of(values, None):
        quantisation = read_quantisation(scheme, base, source)
    layers = KINDS[kind](settings)
    hidden = settings.count("hidden_size", "n_embd")
    if quantisation is not None:
        layers = [_stored(layer, number, hidden, quantisation) for number, layer in enumerate(layers)]
    is_gpt2 = kind == "gpt2"
    positions = settings.count("max_position_embeddings", "n_positions", default=UNLIMITED)
    vocabulary = settings.count("vocab_size")
    vectors = (positions + 2) * hidden if is_gpt2 else hidden  # learned positions; the last norm, with a bias in GPT-2
    is_tied = bool(settings("tie_word_embeddings", default=is_gpt2))
    held = (quantisation.cache if quantisation else None) or base
    return Decoder(source, kind, hidden, vocabulary, positions, is_tied, tuple(layers), base, held, vectors)


UNLIMITED = 2**31  # tokens of a network whose only memory is its state


def _stored(layer: DecoderLayer, number: int, hidden: int, quantisation: Quantisation) -> DecoderLayer:
    """Return a layer with the formats of its weights, by the modules that the quantisation leaves out."""
    formats: dict[str, Format] = {}
    for part in layer.parts:
        for weight in part.weights(hidden):
            if not weight.is_plain and not quantisation.leaves_out(f"model.layers.{number}.{weight.module}"):
                formats[weight.name] = quantisation.weights
    return replace(layer, formats=formats)


def stored(decoder: Decoder, weights: str | None = None, cache: str | None = None) -> Decoder:
    """Return a decoder with its weights or cache in the formats of these names, as a user writes them."""
    found = None if weights is None else format_named("--weights", weights)
    return decoder.stored(found, None if cache is None else format_named("--cache", cache))


def _attention(settings: Settings, **more: Any) -> GroupedAttention:
    hidden, heads = settings.count("hidden_size", "n_embd"), settings.count("num_attention_heads", "n_head")
    kv_heads = settings.count("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise UserError(f"{settings.source}: {heads} heads cannot share {kv_heads} heads of keys; correct one of them")
    return GroupedAttention(heads, kv_heads, settings.count("head_dim", default=hidden // heads), **more)


def _depth(settings: Settings) -> range:
    return range(settings.count("num_hidden_layers", "n_layer"))


def _norms(settings: Settings) -> int:
    return 2 * settings.count("hidden_size")


def _llama(settings: Settings) -> list[DecoderLayer]:
    """Llama, Mistral, Qwen2 and Qwen3: Qwen2 has biases of queries, keys and values, Qwen3 norms of queries and keys.

    A ``sliding_window`` holds for all layers of Mistral; Qwen has one in the layers from ``max_window_layers`` on.
    """
    kind = settings("model_type")
    has_bias = bool(settings("attention_bias", default=kind == "qwen2"))
    more = {"has_bias": has_bias, "has_output_bias": has_bias and kind != "qwen2"}
    window = settings("sliding_window", default=None)
    first = 0
    if kind.startswith("qwen"):
        first = settings("max_window_layers", default=0)
        window = window if settings("use_sliding_window", default=False) else None
    perceptron = Perceptron(settings.count("intermediate_size"), has_bias=bool(settings("mlp_bias", default=False)))
    vectors = _norms(settings)
    layers = []
    for number in _depth(settings):
        attention = _attention(settings, window=window if number >= first else None, has_norms=kind == "qwen3", **more)
        norms = vectors + (2 * attention.head_size if kind == "qwen3" else 0)
        layers.append(DecoderLayer((attention,), perceptron, norms))
    return layers


def _gpt2(settings: Settings) -> list[DecoderLayer]:
    hidden = settings.count("n_embd")
    perceptron = Perceptron(settings.count("n_inner", default=4 * hidden), is_gated=False, has_bias=True)
    attention = _attention(settings, has_bias=True, has_output_bias=True)
    return [DecoderLayer((attention,), perceptron, 4 * hidden) for _ in _depth(settings)]


def _mixtral(settings: Settings) -> list[DecoderLayer]:
    counts = settings.count("num_local_experts"), settings.count("num_experts_per_tok")
    experts = Experts(*counts, settings.count("intermediate_size"))
    attention = _attention(settings, window=settings("sliding_window", default=None))
    return [DecoderLayer((attention,), experts, _norms(settings)) for _ in _depth(settings)]


def _minimax_m2(settings: Settings) -> list[DecoderLayer]:
    """Queries and keys have norms over all heads together."""
    layers = _mixtral(settings)
    if not settings("use_qk_norm", default=True):
        return layers
    attention = _attention(settings, has_norms=True, window=settings("sliding_window", default=None))
    vectors = _norms(settings) + (attention.heads + attention.kv_heads) * attention.head_size
    return [replace(layer, mixers=(attention,), vectors=vectors) for layer in layers]


def _qwen3_moe(settings: Settings) -> list[DecoderLayer]:
    attention = _attention(settings, has_bias=bool(settings("attention_bias", default=False)), has_norms=True)
    vectors = _norms(settings) + 2 * attention.head_size
    dense, every = settings("mlp_only_layers", default=()), settings.count("decoder_sparse_step", default=1)
    layers = []
    for number in _depth(settings):
        is_sparse = number not in dense and (number + 1) % every == 0
        layers.append(DecoderLayer((attention,), _experts(settings) if is_sparse else _perceptron(settings), vectors))
    return layers


def _perceptron(settings: Settings) -> Perceptron:
    return Perceptron(settings.count("intermediate_size"))


def _experts(settings: Settings, **more: Any) -> Experts:
    count = settings.count("num_experts", "n_routed_experts", "num_local_experts")
    inner = settings.count("moe_intermediate_size", "intermediate_size")
    return Experts(count, settings.count("num_experts_per_tok"), inner, **more)


def _qwen3_next(settings: Settings) -> list[DecoderLayer]:
    """Qwen3-Next and Qwen3.5: three gated delta networks, then gated attention; experts with a gated shared one."""
    has_bias = bool(settings("attention_bias", default=False))
    attention = _attention(settings, is_gated=True, has_bias=has_bias, has_norms=True)
    heads = settings.count("linear_num_key_heads"), settings.count("linear_num_value_heads")
    sizes = settings.count("linear_key_head_dim"), settings.count("linear_value_head_dim")
    is_single = settings("mamba_ssm_dtype", default="float32") == "float32"
    delta = GatedDelta(*heads, *sizes, settings.count("linear_conv_kernel_dim", default=4), 32 if is_single else 16)
    every = settings.count("full_attention_interval", default=4)
    kinds = ["linear_attention" if (number + 1) % every else "full_attention" for number in _depth(settings)]
    if settings("num_experts", default=0):
        shared = settings.count("shared_expert_intermediate_size")
        feed_forward: Perceptron | Experts = _experts(settings, shared=shared, has_gate=True)
    else:
        feed_forward = _perceptron(settings)
    norms = _norms(settings)
    # The convolution; two numbers a head of values for its decay; the norm of a head
    own = delta.channels * delta.kernel + 2 * delta.value_heads + delta.value_size
    layers = {
        "linear_attention": DecoderLayer((delta,), feed_forward, norms + own),
        "full_attention": DecoderLayer((attention,), feed_forward, norms + 2 * attention.head_size),
    }
    return [layers[kind] for kind in _kinds(settings, kinds, layers)]


def _kinds(settings: Settings, default: list[str], known: Mapping[str, Any]) -> list[str]:
    """Return ``layer_types``: the kind of each layer."""
    kinds = settings("layer_types", default=default)
    for kind in kinds:
        if kind not in known:
            raise unknown(f"{settings.source}: layer_types", str(kind), known)
    if len(kinds) != len(default):
        layers = f"{len(kinds)} layers, and num_hidden_layers is {len(default)}"
        raise UserError(f"{settings.source}: layer_types has {layers}; correct one of them")
    return list(kinds)


def _gpt_oss(settings: Settings) -> list[DecoderLayer]:
    """Every other layer sees a window; each head has a sink, and all products have biases."""
    window = settings.count("sliding_window", default=128)
    kinds = ["full_attention" if number % 2 else "sliding_attention" for number in _depth(settings)]
    windows = {"sliding_attention": window, "full_attention": None}
    experts = _experts(settings, has_bias=True)
    layers = []
    for kind in _kinds(settings, kinds, windows):
        attention = _attention(settings, window=windows[kind], has_bias=True, has_output_bias=True)
        layers.append(DecoderLayer((attention,), experts, _norms(settings) + attention.heads))
    return layers


def _glm4_moe(settings: Settings) -> list[DecoderLayer]:
    has_norms = bool(settings("use_qk_norm", default=False))
    attention = _attention(settings, has_bias=bool(settings("attention_bias", default=False)), has_norms=has_norms)
    norms = _norms(settings) + (2 * attention.head_size if has_norms else 0)
    return [DecoderLayer((attention,), each, norms) for each in _first_dense(settings)]


def _deepseek(settings: Settings) -> list[DecoderLayer]:
    """DeepSeek-V2 and V3, Kimi-K2, and with an indexer DeepSeek-V3.2 and GLM-5."""
    sizes = [settings.count(name) for name in ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")]
    query_rank = settings("q_lora_rank", default=None)
    indexer, norms = None, _norms(settings) + (query_rank or 0) + sizes[0]
    if settings("model_type") in INDEXED:
        most = settings.count("index_topk", default=2048)
        size = settings.count("index_head_dim", default=128)
        indexer = Indexer(settings.count("index_n_heads", default=INDEXED[settings("model_type")]), size, most)
        norms += 2 * size
    rank, rotary, plain, value = sizes
    attention = LatentAttention(settings.count("num_attention_heads"), query_rank, rank, rotary, plain, value, indexer)
    return [DecoderLayer((attention,), each, norms) for each in _first_dense(settings)]


INDEXED = {"deepseek_v32": 64, "glm_moe_dsa": 32}  # heads of the indexer, if the configuration leaves them out


def _first_dense(settings: Settings) -> list[Perceptron | Experts]:
    """Return a perceptron in the first layers, and experts in the others, some of which every token meets."""
    dense = settings("first_k_dense_replace", default=0)
    shared = settings("n_shared_experts", default=0) * settings.count("moe_intermediate_size")
    experts = _experts(settings, shared=shared)
    return [_perceptron(settings) if number < dense else experts for number in _depth(settings)]


def _mamba2(settings: Settings) -> list[DecoderLayer]:
    heads, size = settings.count("num_heads"), settings.count("head_dim")
    space = StateSpace(heads, size, settings.count("n_groups"), settings.count("state_size"), *_kernel(settings))
    own = _vectors(space, bool(settings("use_conv_bias", default=True))) + space.inner  # with the norm of the output
    return [DecoderLayer((space,), None, settings.count("hidden_size") + own) for _ in _depth(settings)]


def _falcon_h1(settings: Settings) -> list[DecoderLayer]:
    """Attention and a state space on the same input in each layer."""
    hidden = settings.count("hidden_size")
    inner = settings("mamba_d_ssm", default=settings("mamba_expand", default=2) * hidden)
    heads = settings.count("mamba_n_heads")
    sizes = settings.count("mamba_n_groups"), settings.count("mamba_d_state")
    space = StateSpace(heads, inner // heads, *sizes, *_kernel(settings))
    own = _vectors(space, bool(settings("mamba_conv_bias", default=True)))
    own += space.inner if settings("mamba_rms_norm", default=False) else 0
    attention = _attention(settings, has_bias=bool(settings("attention_bias", default=False)))
    return [DecoderLayer((attention, space), _perceptron(settings), 2 * hidden + own) for _ in _depth(settings)]


def _kernel(settings: Settings) -> tuple[int, int]:
    """Return the widths of a state space's convolution and of its chunks."""
    return (
        settings.count("conv_kernel", "mamba_d_conv", default=4),
        settings.count("chunk_size", "mamba_chunk_size", default=256),
    )


def _vectors(space: StateSpace, has_bias: bool) -> int:
    """Return the numbers of a convolution, and three a head for decay, step and skip."""
    return space.channels * (space.kernel + has_bias) + 3 * space.heads


KINDS: dict[str, Callable[[Settings], list[DecoderLayer]]] = {
    "llama": _llama,
    "mistral": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "gpt2": _gpt2,
    "mixtral": _mixtral,
    "minimax_m2": _minimax_m2,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe": _qwen3_moe,
    "qwen3_next": _qwen3_next,
    "qwen3_5": _qwen3_next,
    "qwen3_5_moe": _qwen3_next,
    "gpt_oss": _gpt_oss,
    "glm4_moe": _glm4_moe,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "deepseek_v32": _deepseek,
    "glm_moe_dsa": _deepseek,
    "kimi_k2": _deepseek,
    "kimi_k25": _deepseek,
    "mamba2": _mamba2,
    "falcon_h1": _falcon_h1,
}
