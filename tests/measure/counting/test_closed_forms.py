import pytest
from helpers import closed_forms
from helpers.closed_forms import forward_and_backward_flop

torch, nn = closed_forms.torch, closed_forms.nn


def meta(*shape, requires_grad=False):
    return torch.empty(shape, device="meta", requires_grad=requires_grad)


def on_meta(make, *args, **kwargs):
    with torch.device("meta"):
        return make(*args, **kwargs)


@pytest.mark.parametrize(
    ("make", "args", "settings", "shape", "multiply_adds"),
    [
        # 8 - 3 + 1 = 6 outputs of 5 channels, each a sum over 2 channels of 3
        (nn.Conv1d, (2, 5, 3), {}, (1, 2, 8), 6 * 5 * 2 * 3),
        # (5 + 2 - 3) / 2 + 1 = 3 by 3 outputs of 6 channels, each a sum over 4 / 2 channels of 3 by 3
        (nn.Conv2d, (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (1, 4, 5, 5), 9 * 6 * 2 * 9),
        # depthwise, two images: 5 by 5 outputs of 4 channels, each a sum over 1 channel of 3 by 3
        (nn.Conv2d, (4, 4, 3), {"padding": 1, "groups": 4}, (2, 4, 5, 5), 2 * 25 * 4 * 9),
        # 3 by 3 by 3 outputs of 2 channels, each a sum over 3 channels of 2 by 2 by 2
        (nn.Conv3d, (3, 2, 2), {}, (1, 3, 4, 4, 4), 27 * 2 * 3 * 8),
        # 3 by 3 inputs of 4 channels, each spread over 6 / 2 channels of 2 by 2
        (nn.ConvTranspose2d, (4, 6, 2), {"stride": 2, "groups": 2}, (1, 4, 3, 3), 9 * 4 * 3 * 4),
        # 2 by 7 rows of 3, each times a matrix of 3 by 5
        (nn.Linear, (3, 5), {}, (2, 7, 3), 14 * 3 * 5),
    ],
)
def test_a_layers_gradients_cost_its_forward_each(make, args, settings, shape, multiply_adds):
    layer = on_meta(make, *args, **settings)
    flop = 2 * multiply_adds
    assert forward_and_backward_flop(layer, meta(*shape)) == (flop, flop)
    assert forward_and_backward_flop(layer, meta(*shape, requires_grad=True)) == (flop, 2 * flop)
    layer.requires_grad_(False)
    assert forward_and_backward_flop(layer, meta(*shape, requires_grad=True)) == (flop, flop)
    assert forward_and_backward_flop(layer, meta(*shape)) == (flop, 0)


def test_only_the_gradients_on_the_way_to_a_trained_parameter_are_computed():
    # Forward 2 * (2 * 3 + 3 * 5 + 5 * 7) = 12 + 30 + 70 FLOP. The first layer is frozen: no gradient; the second has
    # a weight gradient, the third both.
    network = on_meta(lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5), nn.Linear(5, 7)))
    network[0].requires_grad_(False)
    assert forward_and_backward_flop(network, meta(1, 2)) == (12 + 30 + 70, 0 + 30 + 2 * 70)
    # With the second frozen and the first trained, the second hands a gradient through.
    network.requires_grad_(True)
    network[1].requires_grad_(False)
    assert forward_and_backward_flop(network, meta(1, 2)) == (12 + 30 + 70, 12 + 30 + 2 * 70)


def test_a_module_counts_each_time_it_runs_and_keeps_no_hooks():
    layer = on_meta(nn.Linear, 4, 4)
    network = nn.Sequential(layer, nn.ReLU(), layer)
    for _ in range(2):
        assert forward_and_backward_flop(network, meta(1, 4)) == (2 * 32, 32 + 2 * 32)
    assert not any(module._forward_hooks for module in network.modules())


def test_self_attention():
    # Liu et al. 2021, equation 1: 4 h w C^2 + 2 (h w)^2 C multiply-adds, here for h w = 9, C = 8 and 2 sequences.
    attention = on_meta(nn.MultiheadAttention, 8, 2, batch_first=True)
    projection, product = 2 * 9 * 8 * 8, 2 * 9 * 9 * 8
    forward = 2 * (4 * projection + 2 * product)
    tokens, learned_tokens = meta(2, 9, 8), meta(2, 9, 8, requires_grad=True)
    assert forward_and_backward_flop(attention, *[learned_tokens] * 3) == (forward, 2 * forward)
    # The projections of queries, keys and values have no input gradient.
    assert forward_and_backward_flop(attention, *[tokens] * 3) == (forward, 2 * forward - 2 * 3 * projection)
    # Frozen, the four projections have an input gradient only; the products have both factors' as before.
    attention.requires_grad_(False)
    frozen = 2 * (4 * projection + 2 * 2 * product)
    assert forward_and_backward_flop(attention, *[learned_tokens] * 3) == (forward, frozen)
    assert forward_and_backward_flop(attention, *[tokens] * 3) == (forward, 0)


def test_attention_to_another_sequence():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, kdim=6, vdim=4, add_bias_kv=True, add_zero_attn=True)

        def forward(self, queries, keys, values):
            return self.attention(queries, value=values, key=keys)

    # 3 queries of 8; 5 keys of 6 and values of 4, and a learned and an empty one beside them; 2 sequences of each.
    projections = 2 * (3 * 8 * 8 + 5 * 6 * 8 + 5 * 4 * 8)
    products = 2 * 2 * 3 * (5 + 2) * 8
    output = 2 * 3 * 8 * 8
    inputs = meta(3, 2, 8), meta(5, 2, 6), meta(5, 2, 4)
    assert forward_and_backward_flop(on_meta(Decoder), *inputs) == (
        2 * (projections + products + output),
        2 * (projections + 2 * products + 2 * output),
    )


@pytest.mark.parametrize("shift", [0, 2])
def test_attention_in_windows(shift):
    # Liu et al. 2021, equation 2: 4 h w C^2 + 2 M^2 h w C multiply-adds, for M = 4 and C = 8. An image of 6 by 5 is
    # padded to h w = 8 * 8.
    attention = on_meta(closed_forms.swin.ShiftedWindowAttention, 8, [4, 4], [shift, shift], 2)
    forward = 2 * (4 * 64 * 8 * 8 + 2 * 16 * 64 * 8)
    image = meta(1, 6, 5, 8, requires_grad=True)
    assert forward_and_backward_flop(attention, image) == (forward, 2 * forward)
    # Without an input gradient of the projection to queries, keys and values
    first = 2 * 3 * 64 * 8 * 8
    assert forward_and_backward_flop(attention, meta(1, 6, 5, 8)) == (forward, 2 * forward - first)


def test_attention_in_windows_of_version_2_makes_its_position_bias():
    # As above, and for each of (2 * 4 - 1)^2 = 49 offsets a network from 2 coordinates over 512 units to 2 heads; the
    # coordinates have no gradient.
    attention = on_meta(closed_forms.swin.ShiftedWindowAttentionV2, 8, [4, 4], [0, 0], 2)
    windows = 2 * (4 * 64 * 8 * 8 + 2 * 16 * 64 * 8)
    first, second = 2 * 49 * 2 * 512, 2 * 49 * 512 * 2
    image = meta(1, 8, 8, 8, requires_grad=True)
    assert forward_and_backward_flop(attention, image) == (windows + first + second, 2 * windows + first + 2 * second)


def test_attention_with_relative_positions():
    # 3 groups of 4 tokens of 16: four projections of each token, and two products of 4 by 4 by 16 in each group.
    attention = on_meta(closed_forms.maxvit.RelativePositionalMultiHeadAttention, 16, 8, 4)
    forward = 2 * (3 * 4 * 4 * 16 * 16 + 2 * 3 * 4 * 4 * 16)
    assert forward_and_backward_flop(attention, meta(1, 3, 4, 16, requires_grad=True)) == (forward, 2 * forward)


def test_elementwise_work_and_normalisation_are_no_products():
    network = on_meta(lambda: nn.Sequential(nn.BatchNorm2d(3), nn.ReLU(), nn.AvgPool2d(2), nn.Softmax(1)))
    assert forward_and_backward_flop(network, meta(2, 3, 4, 4)) == (0, 0)
