import pytest

from measure.counting.count import count
from measure.domain.models import SIZES, parse_task
from measure.models import catalog
from measure.models.libraries import LENGTHS, Language

torch = pytest.importorskip("torch", reason="building models needs torch")
rotate = pytest.importorskip("measure.models.language_models", reason="it imports torch").rotate


def only(name):
    (model,) = catalog.find([f"language:{name}"])
    return model


def test_globs_select_the_usual_lengths_that_a_model_takes():
    assert Language().match("gpt2_*") == [
        f"gpt2_{phase}_{length}" for phase in ("prefill", "decode") for length in (128, 512)
    ]
    assert Language().match("llama*_decode_*") == [f"llama_1b_decode_{length}" for length in LENGTHS]
    assert Language().match("bert*") == ["bert_base_encode_128", "bert_base_encode_512"]
    assert Language().match("gpt2_prefill_77") == ["gpt2_prefill_77"]
    assert Language().match("gpt4*") == []


def test_a_model_is_a_row_of_its_own_for_each_task_and_length():
    prefill, decode = only("gpt2_prefill_77"), only("gpt2_decode_77")
    assert (prefill.name, prefill.source, prefill.family, prefill.input_shape) == (
        "gpt2_prefill_77", "language", "language", (77,),
    )  # fmt: skip
    assert decode.input_shape == (1,)
    assert decode.selector == "language:gpt2_decode_77"


@pytest.mark.parametrize(
    ("name", "published"),
    # of the weights published as openai-community/gpt2, google-bert/bert-base-uncased and meta-llama/Llama-3.2-1B
    [
        ("gpt2_prefill_8", 124_439_808), ("gpt2_decode_8", 124_439_808), ("bert_base_encode_8", 109_482_240),
        ("llama_1b_prefill_8", 1_235_814_400),
    ],
)  # fmt: skip
def test_parameters_are_those_of_the_published_weights(name, published):
    network = catalog.build_on_meta(only(name))
    assert sum(parameter.numel() for parameter in network.parameters()) == published


def flop(name, batch=1):
    return count(only(name), batch).workload


@pytest.mark.parametrize("name", ["gpt2", "llama_1b"])
def test_prefill_is_twice_the_weights_a_token_and_attention(name):
    """Kaplan et al. 2020, arXiv:2001.08361, table 1: 2 FLOP a weight and token, and attention's two products."""
    size, length, batch = SIZES[name], 16, 3
    width = size.width // size.heads
    shared = size.key_heads * width
    perceptron = (3 if name == "llama_1b" else 2) * size.width * size.inner
    weights = size.depth * (2 * size.width * size.width + 2 * size.width * shared + perceptron)
    attention = size.depth * 2 * 2 * length * length * size.width
    head = 2 * size.width * size.vocabulary  # of the last token alone
    assert flop(f"{name}_prefill_{length}", batch).forward_flop == batch * (2 * weights * length + attention + head)


@pytest.mark.parametrize("name", ["gpt2", "llama_1b"])
def test_decoding_reads_the_cache_and_every_weight_for_one_token(name):
    size, length = SIZES[name], 16
    one, prefill = flop(f"{name}_decode_{length}"), flop(f"{name}_prefill_{length}")
    attention = size.depth * 2 * 2 * (length + 1) * size.width
    per_token = prefill.forward_flop - size.depth * 4 * length * length * size.width
    head = 2 * size.width * size.vocabulary
    assert one.forward_flop == (per_token - head) // length + head + attention
    keys_and_values = 2 * size.depth * size.key_heads * (size.width // size.heads)  # numbers a token, of 4 B
    with_new = 4 * keys_and_values * (length + 1)
    assert one.input_byte == with_new + 8  # a token's number is an int64
    # every parameter but the embeddings that are not looked up, and the cache
    assert one.traffic_byte > with_new + 4 * size.width * size.vocabulary


def test_a_longer_cache_costs_attention_alone():
    size = SIZES["gpt2"]
    short, long = flop("gpt2_decode_16"), flop("gpt2_decode_48")
    assert long.forward_flop - short.forward_flop == size.depth * 4 * 32 * size.width


@pytest.fixture
def small(monkeypatch):
    """The models with little width and depth, and random biases and scales."""
    sizes = {
        "gpt2": {"width": 8, "depth": 2, "heads": 2, "key_heads": 2, "inner": 16, "vocabulary": 11, "positions": 32},
        "llama_1b": {
            "width": 16,
            "depth": 2,
            "heads": 4,
            "key_heads": 2,
            "inner": 24,
            "vocabulary": 11,
            "positions": 32,
        },
    }
    for name, numbers in sizes.items():
        monkeypatch.setitem(SIZES, name, type(SIZES[name])(SIZES[name].phases, **numbers))

    def built(name, like=None):
        torch.manual_seed(0)
        network = catalog.build(only(name)).double()
        if like is not None:
            network.load_state_dict(like.state_dict())
        return network

    return built


@pytest.mark.parametrize("name", ["gpt2", "llama_1b"])
def test_decoding_a_token_gives_what_reading_the_whole_text_gives(name, small):
    """The cache holds the keys and values that prefill computes, the last place empty."""
    length = 9
    whole = small(f"{name}_prefill_{length + 1}")
    one = small(f"{name}_decode_{length}", like=whole)
    text = torch.randint(11, (3, length + 1))
    kept = []

    def keep(module, inputs):
        tokens, rotation, _ = inputs
        heads = [layer(tokens).unflatten(-1, (-1, module._width)) for layer in (module.key, module.value)]
        key, value = (each.transpose(1, 2) for each in heads)
        kept.append(torch.stack([key if rotation is None else rotate(key, rotation), value]))

    for block in whole.blocks:
        block.attention.register_forward_pre_hook(keep)
    with torch.no_grad():
        expected = whole(text)
        cache = torch.stack(kept)
        cache[..., -1, :] = torch.nan  # the new token's place
        for _ in range(2):  # the second time the same place is written again
            assert torch.allclose(one(text[:, -1:], cache), expected)


@pytest.mark.parametrize("name", ["gpt2", "llama_1b"])
def test_no_token_sees_those_after_it(name, small):
    network = small(f"{name}_prefill_6")
    text = torch.randint(11, (1, 6))
    other = text.clone()
    other[0, -1] = (text[0, -1] + 1) % 11
    seen = []
    network.blocks[-1].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with torch.no_grad():
        network(text), network(other)
    assert torch.allclose(seen[0][:, :-1], seen[1][:, :-1])
    assert not torch.allclose(seen[0][:, -1], seen[1][:, -1])


def test_turning_keeps_lengths_and_tells_distances_alone(small):
    """The product of two turned vectors hangs on the difference of their places (Su et al. 2021, equation 16)."""
    rotation = small("llama_1b_prefill_12").rotation
    query, key = torch.randn(1, 1, 1, 4).double(), torch.randn(1, 1, 1, 4).double()
    turned_queries, turned_keys = (rotate(each.expand(1, 1, 12, 4), rotation)[0, 0] for each in (query, key))
    assert torch.allclose(turned_queries.norm(dim=1), query.norm().expand(12))
    products = turned_queries @ turned_keys.T
    assert torch.allclose(products[5, 2], products[9, 6])
    assert not torch.allclose(products[5, 2], products[5, 3])


def test_decoding_is_not_trained():
    model = only("gpt2_decode_8")
    counted = count(model, 1).workload
    assert "a token is decoded in inference alone; train the prefill" in counted.reason
    assert counted.backward_flop is None


def test_the_cache_has_the_type_and_place_that_is_asked_for():
    tokens, cache = catalog.make_inputs(only("llama_1b_decode_7"), 2, "meta", torch.bfloat16)
    assert (tuple(tokens.shape), tokens.dtype) == ((2, 1), torch.int64)
    # 16 layers, keys and values, 2 texts, 8 heads of keys, 8 places, 64 numbers
    assert (tuple(cache.shape), cache.dtype, cache.is_meta) == ((16, 2, 2, 8, 8, 64), torch.bfloat16, True)


def test_every_task_has_a_network():
    for name, size in SIZES.items():
        for phase in size.phases:
            assert parse_task(f"{name}_{phase}_8")
            network = catalog.build_on_meta(only(f"{name}_{phase}_8"))
            assert all(tensor.is_meta for tensor in [*network.parameters(), *network.buffers()])
