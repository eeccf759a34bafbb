"""Products of layers, and of their gradients where these are asked for, worked out by hand."""

import pytest
from helpers.counting import Own, meta, nn, recorder, torch

swin = pytest.importorskip("torchvision.models.swin_transformer", reason="some attention is torchvision's")


def partly_frozen(*asking):
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5), nn.Linear(5, 7))
    for layer, asks in zip(network, asking, strict=True):
        layer.requires_grad_(asks)
    return network


def layers():
    """The FLOP forward, and backward by what asks for a gradient: the input, the network (None: as it was made)."""
    for name, make, shape, multiply_adds in [
        # (5 + 2 - 3) / 2 + 1 = 3 by 3 outputs of 6 channels, each a sum over 4 / 2 channels of 3 by 3
        ("grouped", lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2), (1, 4, 5, 5), 9 * 6 * 2 * 9),
        # 4 inputs of 2 channels, each spread over 3 channels of 2
        ("transposed line", lambda: nn.ConvTranspose1d(2, 3, 2, stride=2), (5, 2, 4), 5 * 4 * 2 * 3 * 2),
        # 2 by 7 rows of 3, each times a matrix of 3 by 5
        ("linear", lambda: nn.Linear(3, 5), (2, 7, 3), 14 * 3 * 5),
    ]:
        once = 2 * multiply_adds  # forward, and each gradient that is asked for: the weight's, the input's
        yield name, make, [shape], once, {(0, 1): once, (1, 1): 2 * once, (1, 0): once, (0, 0): 0}

    # Forward 2 * (2 * 3 + 3 * 5 + 5 * 7) = 12 + 30 + 70 FLOP. The first layer is frozen: no gradient; the second has
    # a weight gradient, the third both. With the second frozen and the first trained, it hands a gradient through.
    yield "first frozen", lambda: partly_frozen(False, True, True), [(1, 2)], 112, {(0, None): 0 + 30 + 2 * 70}
    yield "second frozen", lambda: partly_frozen(True, False, True), [(1, 2)], 112, {(0, None): 12 + 30 + 2 * 70}


def attentions():
    # Liu et al. 2021, equation 1: 4 h w C^2 + 2 (h w)^2 C multiply-adds, here for h w = 9, C = 8 and 2 sequences.
    projection, product = 2 * 9 * 8 * 8, 2 * 9 * 9 * 8
    forward = 2 * (4 * projection + 2 * product)
    backward = {
        (1, 1): 2 * forward,
        (0, 1): 2 * forward - 2 * 3 * projection,  # the projections of tokens have no input gradient
        # Frozen, the four projections have an input gradient only; the products have both factors' as before.
        (1, 0): 2 * (4 * projection + 2 * 2 * product),
        (0, 0): 0,
    }

    def to_itself():
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        return Own(lambda self, tokens: self.attention(tokens, tokens, tokens), attention=attention)

    yield "attention", to_itself, [(2, 9, 8)], forward, backward

    def to_others():
        attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True, add_zero_attn=True)
        return Own(lambda self, queries, keys, values: self.a(queries, value=values, key=keys), a=attention)

    # 3 queries of 8; 5 keys of 6 and values of 4, and a learned and an empty one besides; 2 sequences of each.
    projections = 2 * (3 * 8 * 8 + 5 * 6 * 8 + 5 * 4 * 8)
    products, output = 2 * 2 * 3 * (5 + 2) * 8, 2 * 3 * 8 * 8
    once, backward = 2 * (projections + products + output), 2 * (projections + 2 * products + 2 * output)
    yield "attention to others", to_others, [(3, 2, 8), (5, 2, 6), (5, 2, 4)], once, {(0, 1): backward}

    # Equation 2: 4 h w C^2 + 2 M^2 h w C multiply-adds, for M = 4 and C = 8. An image of 6 by 5 is padded to 8 * 8.
    windows = 2 * (4 * 64 * 8 * 8 + 2 * 16 * 64 * 8)
    first = 2 * 3 * 64 * 8 * 8  # to queries, keys and values

    def shifted():
        return swin.ShiftedWindowAttention(8, [4, 4], [2, 2], 2)

    yield "shifted windows", shifted, [(1, 6, 5, 8)], windows, {(1, 1): 2 * windows, (0, 1): 2 * windows - first}
    # For each of (2 * 4 - 1)^2 = 49 offsets a network from 2 coordinates over 512 units to 2 heads; the coordinates
    # have no gradient.
    bias, heads = 2 * 49 * 2 * 512, 2 * 49 * 512 * 2

    def biased():
        return swin.ShiftedWindowAttentionV2(8, [4, 4], [0, 0], 2)

    yield "position bias", biased, [(1, 8, 8, 8)], windows + bias + heads, {(1, 1): 2 * windows + bias + 2 * heads}


@pytest.mark.parametrize(
    ("make", "shapes", "forward", "backward"),
    [pytest.param(*case, id=name) for name, *case in (*layers(), *attentions())],
)
def test_forward_and_backward_by_hand(make, shapes, forward, backward):
    for (inputs_ask, is_trained), flop in backward.items():
        with torch.device("meta"):
            network = make()
        if is_trained is not None:
            network.requires_grad_(bool(is_trained))
        inputs = [meta(*shape, requires_grad=bool(inputs_ask)) for shape in shapes]
        record = recorder.record_training(network, inputs)
        assert (record.forward.total("flop"), record.backward.total("flop")) == (forward, flop)
