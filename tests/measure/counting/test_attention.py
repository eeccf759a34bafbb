import pytest
from helpers.counting import Own, by_hand, case, linear, meta, recording, torch, total, trained
from torch.nn import functional
from torch.nn.attention.varlen import varlen_attn

from measure.counting import formulas
from measure.counting.attention import ATTENTION, Sizes, _both_passes

FUSED = "_scaled_dot_product_flash_attention_for_cpu"

# 2 sequences, 3 heads, 5 queries, 7 keys of width 4 and values of the same: 2 * 3 * 5 = 30 rows of 7, 210 scores. By
# tokens, the layout is (batch, tokens, heads, width).
QUERY, KEY, VALUE = meta(2, 3, 5, 4), meta(2, 3, 7, 4), meta(2, 3, 7, 4)
BY_TOKENS = meta(2, 5, 3, 4), meta(2, 7, 3, 4), meta(2, 7, 3, 4)
# Sequences of 2 and 3 queries and of 3 and 4 keys behind one another, 3 heads: 3 * (2 * 3 + 3 * 4) = 54 scores in 15
# rows. Where the starts have no values each query meets the longest keys: 60.
JOINED = meta(5, 3, 4), meta(7, 3, 4), meta(7, 3, 4)
STARTS = torch.tensor([0, 2, 5]), torch.tensor([0, 3, 7])
UNKNOWN = meta(3, dtype=torch.int32), meta(3, dtype=torch.int32)
JOINS = (([*STARTS, 3, 4], 54), ([*UNKNOWN, 3, 4], 60))


def works(scores, rows):
    """The work forward and backward of so many scores of width 4.

    Scaling n; softmax: maximum n - r, difference n, exponential n, sum n - r, division n. Backward of softmax: products
    2n, sum n - r, difference n; scaling n.
    """
    product, softmax = 2 * scores * 4, scores + 5 * scores - 2 * rows
    backward = {"flop": 4 * product, "other": 4 * scores - rows + scores, "recompute": product + softmax, "out": ()}
    return {"flop": 2 * product, "other": softmax, "out": ()}, backward


def cases():
    whole, back = works(210, 30)
    for name in ATTENTION:
        yield case(name, QUERY, KEY, VALUE, **whole)
    for name in ATTENTION[:-1]:
        yield case(f"{name}_backward", QUERY, QUERY, KEY, VALUE, **back)
    # Values of another width, 6: the second product differs.
    yield case(FUSED, QUERY, KEY, meta(2, 3, 7, 6), flop=2 * 210 * (4 + 6), other=whole["other"], out=())
    # 8 heads of queries on 2 of keys, 5 tokens: 200 scores in 40 rows.
    yield case(FUSED, meta(1, 8, 5, 4), *[meta(1, 2, 5, 4)] * 2, **works(200, 40)[0])
    tokens, rows, lengths = BY_TOKENS[0], meta(2, 3, 5), [None, None, 5, 7]
    saved = [QUERY, rows, meta(), meta(), None]
    for name, *call in (
        ("_flash_attention_forward", *BY_TOKENS, *lengths, 0.0, 0),
        ("_flash_attention_forward_no_dropout_inplace", tokens, *BY_TOKENS, *lengths, 0.0, False, False),
        ("_efficient_attention_forward", *BY_TOKENS, None, *lengths, 0.0, 0),
        ("flash_attn::_flash_attn_forward", *BY_TOKENS, 0.0, 0.5, False),
        ("_cudnn_attention_forward", QUERY, KEY, VALUE, None, *lengths, True),
    ):
        yield case(name, *call, **whole)
    for name, *call in (
        ("_flash_attention_backward", tokens, *BY_TOKENS, tokens, rows, *lengths),
        ("_efficient_attention_backward", tokens, *BY_TOKENS, None, tokens, *lengths),
        ("flash_attn::_flash_attn_backward", tokens, *BY_TOKENS, tokens, rows, *BY_TOKENS, 0.0),
        ("_cudnn_attention_backward", QUERY, QUERY, KEY, VALUE, *saved, *lengths, 0.0, False),
    ):
        yield case(name, *call, **back)
    for starts, scores in JOINS:
        joined, joined_back = works(scores, 15)
        for name, bias in (
            ("_flash_attention_forward", []),
            ("_efficient_attention_forward", [None]),
            ("_cudnn_attention_forward", [None]),
            ("torch_attn::_varlen_attn", []),
            ("flash_attn::_flash_attn_varlen_forward", []),
        ):
            yield case(name, *JOINED, *bias, *starts, 0.0, 0.5, False, **joined)
        for name, between in (
            ("torch_attn::_varlen_attn_backward", [JOINED[0], rows]),
            ("_cudnn_attention_backward", saved),
            ("flash_attn::_flash_attn_varlen_backward", [JOINED[0], rows, *JOINED]),  # the gradients as arguments
        ):
            yield case(name, JOINED[0], *JOINED, *between, *starts, **joined_back)
    # 10 tokens of 3 * 12 channels: a bias for all, and a factor for the queries
    yield case("_transform_bias_rescale_qkv", meta(2, 5, 36), meta(36), 3, other=360 + 120, out=())


CASES = list(cases())

test_by_hand = by_hand(CASES)


def attend(*tensors, **settings):
    """The output, and the names of the operators that run."""
    network = Own(lambda _self, *given: functional.scaled_dot_product_attention(*given, **settings))
    recorded, output = recording.record_inference(network, tensors)
    return output, {call.operator for _, call in recorded.forward.calls}


def on_cpu(tensor):
    return torch.ones(tensor.shape, dtype=tensor.dtype, requires_grad=tensor.requires_grad)


def forms():
    """Tensors and settings, and whether torch has a fused operator for them."""
    for mask in (None, meta(5, 7), meta(1, 7), meta(2, 1, 5, 7), meta(5, 7, dtype=torch.bool)):
        yield (QUERY, KEY, VALUE), {"attn_mask": mask, "scale": 0.3}, True
    # Heads may share keys, or have no batch.
    flat, shared = (meta(3, 5, 4), meta(3, 7, 4), meta(3, 7, 4)), meta(1, 2, 5, 4)
    yield (meta(1, 8, 5, 4), shared, shared), {"enable_gqa": True, "is_causal": True}, True
    yield (QUERY, meta(2, 1, 7, 4), meta(2, 1, 7, 4)), {}, True
    yield flat, {}, True
    yield (QUERY, KEY, meta(2, 3, 7, 6)), {}, False  # values of another width
    yield (meta(1, 3, 5, 4), KEY, VALUE), {}, False  # a batch of queries for each of the keys
    yield (meta(2, 3, 4, 5).mT, KEY, VALUE), {}, False  # the width is not contiguous
    yield (QUERY, KEY, VALUE), {"attn_mask": meta(3, 5, 7)}, False
    yield (QUERY, KEY, VALUE), {"dropout_p": 0.1}, False
    yield (QUERY, KEY, VALUE), {"attn_mask": meta(5, 7, requires_grad=True)}, False


@pytest.mark.parametrize(("tensors", "settings", "is_fused"), list(forms()))
def test_attention_is_one_operator_on_meta_as_on_the_processor(tensors, settings, is_fused):
    real = [on_cpu(each).mT.contiguous().mT if each.stride(-1) != 1 else on_cpu(each) for each in tensors]
    masks = {"attn_mask": on_cpu(settings["attn_mask"])} if settings.get("attn_mask") is not None else {}
    runs = {"meta": attend(*tensors, **settings), "cpu": attend(*real, **settings | masks)}
    assert runs["meta"][0].shape == runs["cpu"][0].shape
    for _, names in runs.values():
        assert (FUSED in names, bool({"bmm", "mm"} & names)) == (is_fused, not is_fused)


def flex(query, key, value):
    from torch.nn.attention import flex_attention as flexible  # a network may import it as late as here

    mask = flexible.create_block_mask(lambda b, h, q, k: q >= k, None, None, 16, 16, device=query.device)
    return flexible.flex_attention(*(each.transpose(1, 2) for each in (query, key, value)), block_mask=mask)


def joined(query, key, value):
    starts = torch.zeros(3, dtype=torch.int32, device=query.device)
    query, key, value = (each.flatten(0, 1) for each in (query, key, value))
    return varlen_attn(query, key, value, starts, starts, 16, 16)


@pytest.mark.parametrize("attention", [flex, joined])
def test_flexible_and_joined_attention_are_fused(attention):
    # Two heads of 4 from 8 channels by one linear layer. 2 sequences of 16 tokens: 32 * 8 * 24 multiply-adds, then
    # 2 * 2 * 16 * 16 scores of 4, twice. The tokens want no gradient.
    layer, mixing = 2 * 32 * 8 * 24, 2 * 2 * (2 * 2 * 16 * 16 * 4)
    network = Own(lambda self, x: attention(*self.a(x).unflatten(-1, (3, 2, 4)).unbind(-3)), a=linear(8, 24)).bfloat16()
    forward, backward = trained(network, meta(2, 16, 8, dtype=torch.bfloat16))
    assert (total(forward, "flop"), total(backward, "flop")) == (layer + mixing, layer + 2 * mixing)


def test_sizes_give_the_work_of_both_passes(monkeypatch):
    monkeypatch.setattr(formulas, "FORMULAS", found := {})

    def read(query, key=None):
        return Sizes(query, 30, 4, key)

    assert _both_passes(("one", "two"), ["back"])(read) is read
    assert set(found) == {"aten::one", "aten::two", "aten::back"}
    # 210 scores in 30 rows: products of 2 * 210 * 4 and 2 * 210 * 6; scaling 210, softmax 5 * 210 - 2 * 30. Backward
    # each product twice; 5 * 210 - 30; and the scores and softmax again
    forward, softmax = 1680 + 2520, 6 * 210 - 60
    for name in ("aten::one", "aten::two"):
        assert formulas.bind(found[name])((210, 6), {}, None) == (forward, softmax, 0)
    assert formulas.bind(found["aten::back"])((210, 6), {}, None) == (2 * forward, 1020, 1680 + softmax)
