import pytest
from helpers.counting import Own, case, inferred, linear, meta, named, nn, own, recorder, torch, total, trained
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.attention.varlen import varlen_attn

from measure.counting.attention import ATTENTION, whole_attention

FUSED = "_scaled_dot_product_flash_attention_for_cpu"

# 2 sequences, 3 heads, 5 queries, 7 keys of width 4 and values of the same: 2 * 3 * 5 = 30 rows of 7, 210 scores.
QUERY, KEY, VALUE = meta(2, 3, 5, 4), meta(2, 3, 7, 4), meta(2, 3, 7, 4)
SCORES = 2 * 210 * 4
MIXED = 2 * 210 * 4
# Scaling 210; softmax: maximum 210 - 30, difference 210, exponential 210, sum 210 - 30, division 210.
SOFTMAX = 210 + 180 + 210 + 210 + 180 + 210
# Softmax's backward: products 2 * 210, sum 210 - 30, difference 210; scaling 210.
SOFTMAX_BACKWARD = 420 + 180 + 210 + 210


def attentions():
    for name in ATTENTION:
        yield case(name, QUERY, KEY, VALUE, flop=SCORES + MIXED, other=SOFTMAX, out=(meta(2, 3, 5, 4),))
    for name in ATTENTION[:-1]:
        yield case(
            f"{name}_backward",
            *(meta(2, 3, 5, 4), QUERY, KEY, VALUE),
            flop=2 * (SCORES + MIXED),
            other=SOFTMAX_BACKWARD,
            recompute=SCORES + SOFTMAX,
            out=(),
        )
    # Values of another width, 6: the second product differs.
    name, wide = ATTENTION[2], meta(2, 3, 7, 6)
    yield case(name, QUERY, KEY, wide, flop=2 * 210 * (4 + 6), other=SOFTMAX, out=())
    # 8 heads of queries on 2 of keys, 5 tokens: 200 scores in 40 rows.
    shared = meta(1, 2, 5, 4)
    yield case(FUSED, meta(1, 8, 5, 4), shared, shared, flop=2 * 2 * 200 * 4, other=6 * 200 - 2 * 40)


# The same in the layout (batch, tokens, heads, width), or sequences of 2 and 3 queries and of 3 and 4 keys behind one
# another, 3 heads: 3 * (2 * 3 + 3 * 4) = 54 scores in 15 rows. Without values each query meets the longest keys: 60.
BY_TOKENS = meta(2, 5, 3, 4), meta(2, 7, 3, 4), meta(2, 7, 3, 4)
JOINED = meta(5, 3, 4), meta(7, 3, 4), meta(7, 3, 4)
STARTS = torch.tensor([0, 2, 5]), torch.tensor([0, 3, 7])
UNKNOWN = meta(3, dtype=torch.int32), meta(3, dtype=torch.int32)


def attentions_by_tokens():
    whole = {"flop": SCORES + MIXED, "other": SOFTMAX}
    back = {"flop": 2 * (SCORES + MIXED), "other": SOFTMAX_BACKWARD, "recompute": SCORES + SOFTMAX}
    for operator in ("_flash_attention", "_efficient_attention"):
        bias = [None] if operator.startswith("_eff") else []
        yield case(f"{operator}_forward", *BY_TOKENS, *bias, None, None, 5, 7, 0.0, 0, **whole, out=())
        out = [*bias, meta(2, 5, 3, 4), *([] if bias else [meta(2, 3, 5)])]
        yield case(f"{operator}_backward", meta(2, 5, 3, 4), *BY_TOKENS, *out, None, None, 5, 7, **back, out=())
        for starts, scores in ((STARTS, 54), (UNKNOWN, 60)):
            joined = {"flop": 2 * 2 * scores * 4, "other": 6 * scores - 2 * 15}
            yield case(f"{operator}_forward", *JOINED, *bias, *starts, 3, 4, 0.0, 0, **joined, out=())
    for starts, scores in ((STARTS, 54), (UNKNOWN, 60)):
        once, softmax = 2 * scores * 4, 6 * scores - 2 * 15
        yield case("torch_attn::_varlen_attn", *JOINED, *starts, 3, 4, flop=2 * once, other=softmax, out=())
        gradients = {"flop": 4 * once, "other": 5 * scores - 15, "recompute": once + softmax}
        rest = [meta(5, 3, 4), meta(3, 5), *starts, 3, 4]
        yield case("torch_attn::_varlen_attn_backward", meta(5, 3, 4), *JOINED, *rest, **gradients, out=())


def attentions_of_libraries():
    whole = {"flop": SCORES + MIXED, "other": SOFTMAX, "out": ()}
    back = {"flop": 2 * (SCORES + MIXED), "other": SOFTMAX_BACKWARD, "recompute": SCORES + SOFTMAX, "out": ()}
    # cuDNN's takes heads before tokens, or sequences behind one another.
    yield case("_cudnn_attention_forward", QUERY, KEY, VALUE, None, None, None, 5, 7, True, **whole)
    kept = [QUERY, meta(2, 3, 5), meta(), meta(), None]
    yield case("_cudnn_attention_backward", QUERY, QUERY, KEY, VALUE, *kept, None, None, 5, 7, 0.0, False, **back)
    tokens, rows = meta(2, 5, 3, 4), meta(2, 3, 5)
    for starts, scores in ((STARTS, 54), (UNKNOWN, 60)):
        once, softmax = 2 * scores * 4, 6 * scores - 2 * 15
        joined = {"flop": 2 * once, "other": softmax, "out": ()}
        joined_back = {"flop": 4 * once, "other": 5 * scores - 15, "recompute": once + softmax, "out": ()}
        yield case("_cudnn_attention_forward", *JOINED, None, *starts, 3, 4, True, **joined)
        call = JOINED[0], *JOINED, *kept, *starts, 3, 4, 0.0, False
        yield case("_cudnn_attention_backward", *call, **joined_back)
        # flash-attn's, with the gradients as arguments
        yield case("flash_attn::_flash_attn_varlen_forward", *JOINED, *starts, 3, 4, 0.0, 0.5, False, **joined)
        call = JOINED[0], *JOINED, JOINED[0], meta(3, 5), *JOINED, *starts, 3, 4
        yield case("flash_attn::_flash_attn_varlen_backward", *call, **joined_back)
    yield case("flash_attn::_flash_attn_forward", *BY_TOKENS, 0.0, 0.5, False, **whole)
    yield case("flash_attn::_flash_attn_backward", tokens, *BY_TOKENS, tokens, rows, *BY_TOKENS, 0.0, **back)
    into = meta(2, 5, 3, 4)
    name = "_flash_attention_forward_no_dropout_inplace"
    yield case(name, into, *BY_TOKENS, None, None, 5, 7, 0.0, False, False, **whole)
    # 10 tokens of 3 * 12 channels: a bias each, and a factor for the queries
    yield case("_transform_bias_rescale_qkv", meta(2, 5, 36), meta(36), 3, other=360 + 120, out=())


CASES = [*attentions(), *attentions_by_tokens(), *attentions_of_libraries()]


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


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


def on_cpu(tensor):
    return torch.ones(tensor.shape, dtype=tensor.dtype, requires_grad=tensor.requires_grad)


@pytest.mark.parametrize(
    ("tensors", "settings", "is_fused"),
    [
        *(
            ((QUERY, KEY, VALUE), settings, True)
            for settings in (
                {},
                {"is_causal": True},
                {"scale": 0.3},
                {"attn_mask": meta(5, 7)},
                {"attn_mask": meta(1, 7)},
                {"attn_mask": meta(2, 1, 5, 7)},
                {"attn_mask": meta(5, 7, dtype=torch.bool)},
            )
        ),
        # Heads may share keys, or have no batch.
        ((meta(1, 8, 5, 4), meta(1, 2, 7, 4), meta(1, 2, 7, 4)), {"enable_gqa": True}, True),
        ((meta(1, 8, 5, 4), meta(1, 2, 5, 4), meta(1, 2, 5, 4)), {"enable_gqa": True, "is_causal": True}, True),
        ((QUERY, meta(2, 1, 7, 4), meta(2, 1, 7, 4)), {}, True),
        ((meta(3, 5, 4), meta(3, 7, 4), meta(3, 7, 4)), {}, True),
        ((meta(3, 5, 4), meta(3, 7, 4), meta(3, 7, 4)), {"attn_mask": meta(3, 5, 7)}, True),
        # What the fused operator cannot do
        ((QUERY, KEY, meta(2, 3, 7, 6)), {}, False),  # values of another width
        ((meta(1, 3, 5, 4), KEY, VALUE), {}, False),  # a batch of queries for each of the keys
        ((meta(1, 2, 3, 5, 4), meta(1, 2, 3, 7, 4), meta(1, 2, 3, 7, 4)), {}, False),
        ((meta(5, 4), meta(7, 4), meta(7, 4)), {}, False),
        ((meta(2, 3, 4, 5).mT, KEY, VALUE), {}, False),  # the width is not contiguous
        ((meta(1, 3, 5, 4), meta(1, 3, 7, 4), meta(1, 3, 7, 4)), {"attn_mask": meta(2, 3, 5, 7)}, False),
        ((QUERY, KEY, VALUE), {"attn_mask": meta(3, 5, 7)}, False),
        ((QUERY, KEY, VALUE), {"dropout_p": 0.1}, False),
        ((QUERY, KEY, VALUE), {"attn_mask": meta(5, 7, requires_grad=True)}, False),
    ],
)
def test_attention_on_the_meta_device_is_one_operator_where_it_is_on_the_processor(tensors, settings, is_fused):
    real = [on_cpu(each).mT.contiguous().mT if each.stride(-1) != 1 else on_cpu(each) for each in tensors]
    masks = {name: on_cpu(value) for name, value in settings.items() if name == "attn_mask"}
    runs = {"meta": attend(*tensors, **settings), "cpu": attend(*real, **settings | masks)}
    assert runs["meta"][0].shape == runs["cpu"][0].shape
    for _, names in runs.values():
        assert (FUSED in names, bool({"bmm", "mm"} & set(names))) == (is_fused, not is_fused)


@pytest.mark.parametrize("shared", [((1, 8, 5, 4), (1, 2, 7, 4)), ((3, 5, 4), (3, 7, 4))])
def test_its_gradients_have_the_shapes_of_the_inputs(shared):
    query, key = (meta(*shape, requires_grad=True) for shape in shared)
    attend(query, key, key, enable_gqa=True)[0].sum().backward()
    assert (query.grad.shape, key.grad.shape) == shared


def test_traffic_of_heads_that_share_keys():
    def shared(query, key):
        return functional.scaled_dot_product_attention(query, key, key.clone(), enable_gqa=True)

    # Q 8 * 5 * 4, k and v 2 * 5 * 4 each, the output as q, and 8 * 5 sums of exponentials: 440 numbers of 4 bytes. And
    # the copy of the keys.
    assert inferred(shared, meta(1, 8, 5, 4), meta(1, 2, 5, 4)).total("traffic_byte") == 1760 + 2 * 160


def test_real_tensors_are_left_to_torch():
    tensors = [torch.randn(tensor.shape) for tensor in (QUERY, KEY, VALUE)]
    assert torch.equal(attend(*tensors)[0], functional.scaled_dot_product_attention(*tensors))


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


def test_an_encoder_layer_is_counted_whole():
    # The layer's own fast path would be one operator without a formula. Feed-forward: 12 to 20 and back.
    layer = nn.TransformerEncoderLayer(12, 3, 20, dropout=0.0, batch_first=True)
    once = 2 * (PROJECTIONS + MIXING + 2 * 10 * 12 * 20)
    record = inferred(layer, meta(2, 5, 12))
    assert (record.total("flop"), len(record.uncounted)) == (once, 0)
    # Twice, but for the gradient of the tokens, for which nobody asks. The fused kernel computes 150 scores in 30 rows
    # again, and their softmax.
    _, backward = trained(layer, meta(2, 5, 12))
    assert total(backward, "flop") == 2 * once - 2 * 10 * 12 * 36
    assert total(backward, "recompute_flop") == MIXING + 6 * 150 - 2 * 30


def whole(query, key, value):
    return functional.scaled_dot_product_attention(query, key, value)


def taken_apart(query, key, value):
    return torch.softmax((query @ key.mT) * 0.5, -1) @ value


@pytest.mark.parametrize("device", ["meta", "cpu"])
@pytest.mark.parametrize("attention", [whole, taken_apart])
def test_attention_is_its_products_and_softmax_on_any_path(attention, device):
    tensors = [torch.zeros(t.shape, device=device, requires_grad=True) for t in (QUERY, KEY, VALUE)]
    record = recorder.record_training(own(attention), tensors)
    assert not record.forward.uncounted | record.backward.uncounted
    for part, flop, other in ((record.forward, 1, SOFTMAX), (record.backward, 2, SOFTMAX_BACKWARD)):
        assert (part.total("flop"), part.total("other_flop")) == (flop * (SCORES + MIXED), other)
    assert record.backward.total("recompute_flop") == (SCORES + SOFTMAX) * (attention is whole)


def flex(query, key, value):
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device=query.device)
    return flex_attention(*(each.transpose(1, 2) for each in (query, key, value)), block_mask=mask)


def flex_shared(query, key, value):
    query, key, value = (each.transpose(1, 2) for each in (query, key, value))
    return flex_attention(query, key[:, :1], value[:, :1], enable_gqa=True)


def joined(query, key, value):
    starts = torch.zeros(3, dtype=torch.int32, device=query.device)
    query, key, value = (each.flatten(0, 1) for each in (query, key, value))
    return varlen_attn(query, key, value, starts, starts, 16, 16)


@pytest.mark.parametrize("attention", [flex, flex_shared, joined])
def test_flexible_and_joined_attention_are_fused(attention):
    # Two heads of 4 from 8 channels by one linear layer. 2 sequences of 16 tokens: 32 * 8 * 24 multiply-adds, then
    # 2 * 2 * 16 * 16 scores of 4, twice. The tokens want no gradient.
    layer, mixing = 2 * 32 * 8 * 24, 2 * 2 * (2 * 2 * 16 * 16 * 4)
    network = Own(lambda self, x: attention(*self.a(x).unflatten(-1, (3, 2, 4)).unbind(-3)), a=linear(8, 24)).bfloat16()
    forward, backward = trained(network, meta(2, 16, 8, dtype=torch.bfloat16))
    assert (total(forward, "flop"), total(backward, "flop")) == (layer + mixing, layer + 2 * mixing)
