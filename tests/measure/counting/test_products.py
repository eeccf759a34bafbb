import pytest
from helpers.counting import case, meta, named, nn, recorder, torch, total, trained
from torch.nn import functional

from measure.counting.formulas import Work
from measure.counting.products import ATTENTION

aten = torch.ops.aten
FP8 = [meta(16, 32, dtype=torch.float8_e4m3fn), meta(32, 48, dtype=torch.float8_e4m3fn)]

# Inputs, weights and how they are applied: (stride, padding, dilation, transposed, output padding, groups); multiply-
# adds of one pass, and the output's shape.
CONVOLUTIONS = {
    # (8 - 4) + 1 = 5 places, 2 images, 5 channels, each a sum over 3 channels of 4
    "line": ((2, 3, 8), (5, 3, 4), ([1], [0], [1], False, [0], 1), 2 * 5 * 5 * (3 * 4), (2, 5, 5)),
    # (7 + 2 - 3) / 2 + 1 = 4 by (9 - 2 * 1 - 1) + 1 = 7 places, 6 channels, a sum over 2 of 4 channels of 3 by 2
    "grouped, strided, padded, dilated": (
        (2, 4, 7, 9),
        (6, 2, 3, 2),
        ([2, 1], [1, 0], [1, 2], False, [0, 0], 2),
        2 * (4 * 7) * 6 * (2 * 3 * 2),
        (2, 6, 4, 7),
    ),
    # depthwise: 3 by 4 places, 4 channels, each a sum over its own 3 by 3
    "depthwise": ((1, 4, 5, 6), (4, 1, 3, 3), ([1] * 2, [0] * 2, [1] * 2, False, [0] * 2, 4), 12 * 4 * 9, (1, 4, 3, 4)),
    # 2 by 3 by 4 places, 5 channels, each a sum over 3 channels of 2 by 2 by 2
    "volume": (
        (1, 3, 3, 4, 5),
        (5, 3, 2, 2, 2),
        ([1] * 3, [0] * 3, [1] * 3, False, [0] * 3, 1),
        24 * 5 * 3 * 8,
        (1, 5, 2, 3, 4),
    ),
    # each of 2 * 4 * 3 * 5 inputs is spread over 3 of 6 channels of 2 by 3
    "transposed, grouped": (
        (2, 4, 3, 5),
        (4, 3, 2, 3),
        ([2, 2], [0, 0], [1, 1], True, [0, 0], 2),
        2 * 4 * 15 * (3 * 2 * 3),
        (2, 6, 6, 11),
    ),
}


def convolutions():
    for inputs, weight, how, multiply_adds, outputs in CONVOLUTIONS.values():
        images, filters, out = meta(*inputs), meta(*weight), meta(*outputs)
        assert aten.convolution(images, filters, None, *how).shape == out.shape
        bias = out.numel()  # an addition for each output
        yield case("convolution", images, filters, None, *how, flop=2 * multiply_adds)
        yield case("convolution", images, filters, meta(outputs[1]), *how, flop=2 * multiply_adds, other=bias)
        tuning = (False, False, True, True)
        yield case("_convolution", images, filters, None, *how, *tuning, flop=2 * multiply_adds, out=out)
        for mask in [(True, True, True), (False, True, True), (True, False, False), (False, True, False)]:
            # the bias's gradient is a sum over all places and images: an addition less for each channel
            sums = (bias - outputs[1]) * mask[2]
            once = 2 * multiply_adds
            call = ("convolution_backward", out, images, filters, [outputs[1]], *how, mask)
            yield case(*call, flop=once * (mask[0] + mask[1]), other=sums)


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


MATRICES = [
    case("mm", meta(2, 3), meta(3, 5), flop=2 * 2 * 3 * 5),
    case("mm", *[meta(2, 2, dtype=torch.complex64)] * 2, flop=8 * 2 * 2 * 2),  # 4 products, 2 + 2 additions
    case("mm", *[meta(2, 2, dtype=torch.int64)] * 2),  # no floating-point operation
    case("bmm", meta(7, 2, 3), meta(7, 3, 5), flop=2 * 7 * 2 * 3 * 5),
    case("_scaled_mm", *FP8, meta(), meta(), flop=2 * 16 * 32 * 48, out=meta(16, 48)),  # with a scale for each
    case("addmm", meta(5), meta(2, 3), meta(3, 5), flop=2 * 2 * 3 * 5, other=10),
    case("addmm", meta(5), meta(2, 3), meta(3, 5), beta=0, flop=60),
    case("addmm", meta(5), meta(2, 3), meta(3, 5), beta=2, alpha=0.5, flop=60, other=10 + 10 + 10),
    case("baddbmm", meta(7, 2, 5), meta(7, 2, 3), meta(7, 3, 5), flop=2 * 7 * 30, other=70),
    case("mv", meta(2, 3), meta(3), flop=2 * 2 * 3),
    case("addmv", meta(2), meta(2, 3), meta(3), flop=2 * 2 * 3, other=2),
    case("dot", meta(7), meta(7), flop=2 * 7),
    case("vdot", meta(7), meta(7), flop=2 * 7),
]

CASES = [*MATRICES, *convolutions(), *attentions()]


@pytest.mark.parametrize(**named(CASES))
def test_by_hand(case):
    assert case.counted() == case.work


@pytest.mark.parametrize(
    ("layer", "shape", "multiply_adds", "bias"),
    [
        # 3 by 3 places of 6 channels, each a sum over 4 / 2 channels of 3 by 3
        (nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (1, 4, 5, 5), 9 * 6 * 2 * 9, 9 * 6),
        # 4 inputs of 2 channels, each spread over 3 channels of 2
        (nn.ConvTranspose1d(2, 3, 2, stride=2), (5, 2, 4), 5 * 4 * 2 * 3 * 2, 5 * 3 * 8),
        (nn.Linear(3, 5), (2, 7, 3), 14 * 3 * 5, 14 * 5),
    ],
)
def test_each_gradient_of_a_layer_costs_its_forward(layer, shape, multiply_adds, bias):
    layer.to("meta")
    channels = layer.bias.numel()
    for input_asks, weight_asks, bias_asks in [(1, 1, 1), (0, 1, 1), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0)]:
        layer.weight.requires_grad_(bool(weight_asks))
        layer.bias.requires_grad_(bool(bias_asks))
        forward, backward = trained(layer, meta(*shape, requires_grad=bool(input_asks)))
        assert (forward[""].flop, forward[""].other_flop) == (2 * multiply_adds, bias)
        assert total(backward, "flop") == 2 * multiply_adds * (input_asks + weight_asks)
        assert total(backward, "other_flop") == (bias - channels) * bias_asks


def test_a_convolution_is_the_product_of_its_windows():
    images, filters = meta(2, 3, 6, 7), meta(5, 3, 3, 2)

    class Windows(nn.Module):
        def forward(self, images):
            return filters.view(5, 18) @ functional.unfold(images, (3, 2), padding=1, stride=2)

    record, _ = recorder.record_inference(Windows(), [images])
    direct = case("convolution", images, filters, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1)
    assert direct.counted() == Work(record.forward.total("flop"))


class Attention(nn.Module):
    """Attention by torch's function, or taken apart."""

    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, query, key, value):
        if self.whole:
            return functional.scaled_dot_product_attention(query, key, value)
        return torch.softmax((query @ key.mT) * 0.5, -1) @ value


@pytest.mark.parametrize(("whole", "device"), [(True, "meta"), (True, "cpu"), (False, "meta")])
def test_attention_is_its_products_and_softmax_on_any_path(whole, device):
    tensors = [torch.zeros(t.shape, device=device, requires_grad=True) for t in (QUERY, KEY, VALUE)]
    record = recorder.record_training(Attention(whole), tensors)
    parts = [*record.forward.modules.values()][-1], [*record.backward.modules.values()][-1]
    assert not record.forward.uncounted | record.backward.uncounted
    assert [part.flop for part in parts] == [SCORES + MIXED, 2 * (SCORES + MIXED)]
    assert [part.other_flop for part in parts] == [SOFTMAX, SOFTMAX_BACKWARD]
    assert parts[1].recompute_flop == (SCORES + SOFTMAX if whole else 0)
