from dataclasses import replace

import pytest
import torch

from measure.counting.count import count
from measure.domain.models import SIZES, LanguageTask
from measure.models import catalog, language_models

DECODERS = pytest.mark.parametrize("name", ["gpt2", "llama_1b"])


def only(name):
    (model,) = catalog.find([f"language:{name}"])
    return model


@DECODERS
def test_work_is_twice_the_weights_a_token_and_attention(name, monkeypatch):
    """Kaplan et al. 2020, arXiv:2001.08361, table 1: 2 FLOP a weight and token, and attention's two products.

    Decoding takes as much for one token, reads every weight, and the cache.
    """
    monkeypatch.setitem(SIZES, name, replace(SIZES[name], depth=2))  # for speed
    size, length, batch = SIZES[name], 16, 3
    shared = size.key_heads * (size.width // size.heads)
    perceptron = (3 if name == "llama_1b" else 2) * size.width * size.inner
    weights = size.depth * (2 * size.width * size.width + 2 * size.width * shared + perceptron)
    attention = size.depth * 2 * 2 * size.width  # a query and a key
    head = 2 * size.width * size.vocabulary  # of the last token alone
    prefill = count(only(f"{name}_prefill_{length}"), batch).workload
    assert prefill.forward_flop == batch * (2 * weights * length + attention * length * length + head)
    decode = count(only(f"{name}_decode_{length}"), 1).workload
    assert decode.forward_flop == 2 * weights + attention * (length + 1) + head
    cache = 4 * 2 * size.depth * shared * (length + 1)  # keys and values, with the new token's
    assert decode.input_byte == cache + 8  # a token's number is an int64
    # every parameter but the embeddings that are not looked up, and the cache
    assert decode.traffic_byte > cache + 4 * (weights + size.width * size.vocabulary)
    # Decoding is not trained.
    assert (decode.backward_flop, prefill.backward_flop) == (None, 2 * prefill.forward_flop)


SMALL = {
    "gpt2": {"width": 8, "depth": 2, "heads": 2, "key_heads": 2, "inner": 16, "vocabulary": 11, "positions": 32},
    "llama_1b": {"width": 16, "depth": 2, "heads": 4, "key_heads": 2, "inner": 24, "vocabulary": 11, "positions": 32},
}


def small(name, phase, length, like=None):
    """A network of little width and depth, with random weights, or the weights of another one."""
    torch.manual_seed(0)
    task = LanguageTask(replace(SIZES[name], **SMALL[name]), phase, length)
    network = language_models.NETWORKS[name](task).double().eval()
    if like is not None:
        network.load_state_dict(like.state_dict())
    return network


@DECODERS
def test_decoding_a_token_equals_reading_the_whole_text(name):
    """The cache holds the keys and values that prefill computes, the last place empty."""
    length = 9
    whole = small(name, "prefill", length + 1)
    one = small(name, "decode", length, like=whole)
    text = torch.randint(11, (3, length + 1))
    states = []

    def note(module, inputs):
        tokens, rotation, _ = inputs
        heads = [layer(tokens).unflatten(-1, (-1, module._width)) for layer in (module.key, module.value)]
        key, value = (each.transpose(1, 2) for each in heads)
        states.append(torch.stack([key if rotation is None else language_models.rotate(key, rotation), value]))

    for block in whole.blocks:
        block.attention.register_forward_pre_hook(note)
    with torch.no_grad():
        whole(torch.cat([text[:, :-1], (text[:, -1:] + 1) % 11], 1))  # no token sees those after it
        other, expected = torch.stack(states), whole(text)
        cache = torch.stack(states[len(other) :])
        assert torch.allclose(cache[..., :-1, :], other[..., :-1, :])
        cache[..., -1, :] = torch.nan  # the new token's place
        for _ in range(2):  # the second time the same place is written again
            assert torch.allclose(one(text[:, -1:], cache), expected)
