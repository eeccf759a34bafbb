import pytest
from helpers.counting import meta, nn, recorder, torch, total, trained
from torch.nn import functional

from measure.counting.products import whole_attention

FUSED = "_scaled_dot_product_flash_attention_for_cpu"
Q, K, V = meta(2, 3, 5, 4), meta(2, 3, 7, 4), meta(2, 3, 7, 4)


class Operators(torch.utils._python_dispatch.TorchDispatchMode):
    """Notes the operators that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func._schema.name.removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


def attend(*tensors, **settings):
    with whole_attention(), Operators() as seen:
        output = functional.scaled_dot_product_attention(*tensors, **settings)
    return output, seen.names


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": meta(5, 7)},
        {"attn_mask": meta(2, 1, 5, 7)},
        {"attn_mask": meta(5, 7, dtype=torch.bool)},
    ],
    ids=lambda settings: "-".join(settings) or "plain",
)
def test_attention_is_one_operator_on_the_meta_device(settings):
    output, names = attend(Q, K, V, **settings)
    assert output.shape == (2, 3, 5, 4)
    assert FUSED in names
    assert not {"bmm", "_softmax", "_safe_softmax"} & set(names)


@pytest.mark.parametrize(
    ("tensors", "settings"),
    [
        ((Q, K, meta(2, 3, 7, 6)), {}),  # values of another width
        ((meta(2, 6, 5, 4), K, V), {"enable_gqa": True}),  # two queries' heads for each of the keys'
        ((meta(3, 5, 4), meta(3, 7, 4), meta(3, 7, 4)), {}),  # no heads
        ((Q, K, V), {"dropout_p": 0.1}),
        ((Q, K, V), {"attn_mask": meta(5, 7, requires_grad=True)}),
    ],
)
def test_what_the_fused_operator_cannot_do_is_left_to_torch(tensors, settings):
    output, names = attend(*tensors, **settings)
    assert output.shape == (*tensors[0].shape[:-1], tensors[2].shape[-1])
    assert FUSED not in names
    assert "bmm" in names


def test_real_tensors_are_left_to_torch():
    tensors = [torch.randn(tensor.shape) for tensor in (Q, K, V)]
    expected = functional.scaled_dot_product_attention(*tensors)
    assert torch.equal(attend(*tensors)[0], expected)


@pytest.mark.parametrize("fast_path", [True, False])
def test_it_lasts_as_long_as_the_context_also_when_that_fails(fast_path):
    plain, before = functional.scaled_dot_product_attention, torch.backends.mha.get_fastpath_enabled()

    def fail():
        with whole_attention():
            assert functional.scaled_dot_product_attention is not plain
            assert not torch.backends.mha.get_fastpath_enabled()
            raise KeyError

    torch.backends.mha.set_fastpath_enabled(fast_path)
    try:
        with pytest.raises(KeyError):
            fail()
        assert functional.scaled_dot_product_attention is plain
        assert torch.backends.mha.get_fastpath_enabled() == fast_path
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


# 2 sequences of 5 tokens of width 12, in 3 heads of 4: projections to queries, keys and values, and of the output, are
# 10 * 12 * 36 and 10 * 12 * 12 multiply-adds; scores and their mixture 2 * 3 * 5 * 5 * 4 each.
PROJECTIONS, MIXING = 10 * 12 * 36 + 10 * 12 * 12, 2 * (2 * 3 * 25 * 4)


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention_by_hand(need_weights):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(12, 3, batch_first=True)

        def forward(self, tokens):
            return self.attention(tokens, tokens, tokens, need_weights=need_weights)[0]

    tokens = meta(2, 5, 12)
    inference, _ = recorder.record_inference(Layer().to("meta"), [tokens])
    assert inference.forward.total("flop") == 2 * (PROJECTIONS + MIXING)
    forward, backward = trained(Layer(), tokens)
    assert total(forward, "flop") == 2 * (PROJECTIONS + MIXING)
    # Twice, but for the gradient of the tokens, for which nobody asks; only the fused kernel computes scores again.
    assert total(backward, "flop") == 2 * (2 * (PROJECTIONS + MIXING) - 10 * 12 * 36)
    assert (total(backward, "recompute_flop") > 0) == (not need_weights)


def test_an_encoder_layer_is_counted_whole_in_inference():
    # The layer's own fast path would be one operator without a formula. Feed-forward: 12 to 20 and back.
    layer = nn.TransformerEncoderLayer(12, 3, 20, batch_first=True, device="meta")
    record, _ = recorder.record_inference(layer, [meta(2, 5, 12)])
    assert not record.forward.uncounted
    assert record.forward.total("flop") == 2 * (PROJECTIONS + MIXING + 2 * 10 * 12 * 20)
