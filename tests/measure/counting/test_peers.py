"""Why other counters disagree with what torchvision publishes: each reason on the smallest module that shows it."""

import peers
import pytest

torch = pytest.importorskip("torch", reason="counting needs torch")
nn = torch.nn
functional = nn.functional

RESNET18 = 1_814_073_344
"""Multiply-adds of ResNet-18's convolutions and its linear layer; torchvision publishes 1.814e9."""

RESNET18_NORMALISED = 64 * 112**2 + 4 * 64 * 56**2 + 5 * (128 * 28**2 + 256 * 14**2 + 512 * 7**2)
"""The elements that ResNet-18 normalises: stem, two blocks of two convolutions, and three times one more to widen."""


@pytest.fixture
def macs():
    """What a counter says of a network and one input's shape; skips where the counter is not installed."""

    def said(name, network, *shape):
        counter = peers.COUNTERS[name]
        if not counter.installed:
            pytest.skip(f"{counter.package} is not installed: pip install -e '.[benchmark]'")
        images = torch.zeros(1, *shape, device=counter.device)
        with torch.set_grad_enabled(counter.package is None):
            return counter.count(network.to(counter.device).eval(), images)[0]

    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield said
    torch.backends.mha.set_fastpath_enabled(fast_path)


class Attention(nn.Module):
    """Four projections of 5 tokens of width 8, 4 * 5 * 8 * 8 = 1280, and two products of 5 * 5 * 8, 400 together."""

    PROJECTIONS, PRODUCTS, BIASES = 1280, 400, 4 * 5 * 8

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, tokens):
        return self.attention(tokens, tokens, tokens, need_weights=False)[0]


class Call(nn.Module):
    """A function of the input and of a matrix that has no module of its own."""

    def __init__(self, function, *shape):
        super().__init__()
        self.function = function
        self.matrix = nn.Parameter(torch.zeros(shape))

    def forward(self, tokens):
        return self.function(tokens, self.matrix)


def resnet18():
    return pytest.importorskip("torchvision").models.resnet18()


def test_roofwright_counts_products_only(macs):
    assert macs("roofwright", resnet18(), 3, 224, 224) == RESNET18
    assert macs("roofwright", Attention(), 5, 8) == Attention.PROJECTIONS + Attention.PRODUCTS
    assert macs("roofwright", nn.LayerNorm(8), 5, 8) == 0


def test_torch_counts_products_only_on_the_meta_device(macs):
    assert macs("torch", resnet18(), 3, 224, 224) == RESNET18
    assert macs("torch", Attention(), 5, 8) == Attention.PROJECTIONS + Attention.PRODUCTS


def test_torch_misses_fused_attention_on_the_cpu(macs):
    attention, tokens = Attention().eval(), torch.zeros(1, 5, 8)
    with torch.no_grad():
        assert peers.torch_counter(attention, tokens)[0] == Attention.PROJECTIONS
        torch.backends.mha.set_fastpath_enabled(True)  # then the projections are fused with it
        assert peers.torch_counter(attention, tokens)[0] == 0


def test_torch_does_not_divide_a_grouped_weight_gradient_by_its_groups():
    from torch.utils.flop_counter import FlopCounterMode

    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False, device="meta")
    output = depthwise(torch.zeros(1, 4, 6, 6, device="meta", requires_grad=True))
    with FlopCounterMode(display=False) as counter:
        output.sum().backward()
    # Each gradient costs what the output does, 4 * 36 * 9; that of the weight is counted once a group.
    assert counter.get_total_flops() / 2 == (1 + 4) * 4 * 36 * 9


def test_fvcore_counts_normalisation_and_adaptive_pooling(macs):
    # 2 an element of batch, 5 of layer normalisation, 1 an element that is pooled
    assert macs("fvcore", nn.BatchNorm2d(4), 4, 6, 6) == 2 * 4 * 36
    assert macs("fvcore", nn.LayerNorm(8), 5, 8) == 5 * 40
    assert macs("fvcore", nn.AdaptiveAvgPool2d(1), 4, 6, 6) == 4 * 36
    said = macs("fvcore", resnet18(), 3, 224, 224)
    assert said == RESNET18 + 2 * RESNET18_NORMALISED + 512 * 7**2


def test_fvcore_misses_fused_attention(macs):
    assert macs("fvcore", Attention(), 5, 8) == Attention.PROJECTIONS
    torch.backends.mha.set_fastpath_enabled(True)
    assert macs("fvcore", Attention(), 5, 8) == 0


def test_fvcore_follows_functions(macs):
    assert macs("fvcore", Call(functional.linear, 16, 8), 5, 8) == 5 * 16 * 8
    assert macs("fvcore", Call(torch.matmul, 8, 3), 5, 8) == 5 * 8 * 3


def test_ptflops_aten_counts_biases(macs):
    assert macs("ptflops-aten", nn.Linear(8, 16), 5, 8) == 5 * 8 * 16 + 5 * 16
    assert macs("ptflops-aten", nn.Conv2d(4, 2, 1), 4, 6, 6) == 36 * 4 * 2 + 36 * 2
    assert macs("ptflops-aten", resnet18(), 3, 224, 224) == RESNET18 + 1000  # its one layer with a bias


def test_ptflops_aten_misses_fused_attention(macs):
    assert macs("ptflops-aten", Attention(), 5, 8) == Attention.PROJECTIONS + Attention.BIASES


def test_ptflops_pytorch_counts_activations_and_pooling_twice(macs):
    # by the module, and again by the function that the module calls
    for module in (nn.ReLU(), nn.GELU(), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1)):
        assert macs("ptflops-pytorch", module, 4, 6, 6) == 2 * 4 * 36, module
    assert macs("ptflops-pytorch", nn.SiLU(), 4, 6, 6) == 4 * 36  # by the function only


def test_ptflops_pytorch_counts_normalisation_and_biases(macs):
    assert macs("ptflops-pytorch", nn.BatchNorm2d(4), 4, 6, 6) == 2 * 4 * 36
    assert macs("ptflops-pytorch", nn.LayerNorm(8), 5, 8) == 40
    assert macs("ptflops-pytorch", nn.Linear(8, 16), 5, 8) == 5 * 8 * 16 + 5 * 16
    # Of ResNet-18 ReLU sees the stem and, of each of the eight blocks, two outputs.
    activated = 64 * 112**2 + 4 * (64 * 56**2 + 128 * 28**2 + 256 * 14**2 + 512 * 7**2)
    twice = activated + 64 * 112**2 + 512 * 7**2  # and the two poolings their inputs
    said = macs("ptflops-pytorch", resnet18(), 3, 224, 224)
    assert said == RESNET18 + 1000 + 2 * RESNET18_NORMALISED + 2 * twice


def test_ptflops_pytorch_misses_functions_that_it_does_not_replace(macs):
    assert macs("ptflops-pytorch", Call(lambda a, b: torch.matmul(a, b), 8, 3), 5, 8) == 5 * 8 * 3
    assert macs("ptflops-pytorch", Call(lambda a, b: a @ b, 8, 3), 5, 8) == 0
    assert macs("ptflops-pytorch", Call(functional.linear, 16, 8), 5, 8) == 0
    einsum = Call(lambda a, b: torch.einsum("btc,cd->btd", a, b), 8, 3)
    assert macs("ptflops-pytorch", einsum, 5, 8) == 0


def test_thop_counts_normalisation_and_adaptive_pooling(macs):
    # 4 an element of either normalisation; an output of adaptive pooling costs what it pools, and 1
    assert macs("thop", nn.BatchNorm2d(4), 4, 6, 6) == 4 * 4 * 36
    assert macs("thop", nn.Sequential(nn.LayerNorm(8)), 5, 8) == 4 * 40
    assert macs("thop", nn.Sequential(nn.AdaptiveAvgPool2d(1)), 4, 6, 6) == 4 * (36 + 1)
    said = macs("thop", resnet18(), 3, 224, 224)
    assert said == RESNET18 + 4 * RESNET18_NORMALISED + 512 * (7**2 + 1)


def test_thop_misses_what_is_not_one_of_its_modules(macs):
    class Normalisation(nn.LayerNorm):
        """As ConvNeXt has its own."""

    assert macs("thop", nn.Sequential(Normalisation(8)), 5, 8) == 0
    assert macs("thop", Attention(), 5, 8) == 0
    assert macs("thop", Call(functional.linear, 16, 8), 5, 8) == 0
    assert macs("thop", Call(torch.matmul, 8, 3), 5, 8) == 0


def test_thop_misses_parameters_of_what_is_not_one_of_its_modules():
    if not peers.COUNTERS["thop"].installed:
        pytest.skip("thop is not installed: pip install -e '.[benchmark]'")
    network = nn.Sequential(nn.Linear(8, 8), Attention())
    assert peers.thop(network, torch.zeros(1, 5, 8))[1] == 8 * 8 + 8


def test_torchinfo_counts_a_linear_layer_once_for_all_tokens(macs):
    assert macs("torchinfo", nn.Linear(8, 16), 5, 8) == 8 * 16 + 16
    assert macs("torchinfo", nn.Linear(8, 16), 8) == 8 * 16 + 16


def test_torchinfo_counts_biases_and_the_parameters_of_normalisation(macs):
    assert macs("torchinfo", nn.Conv2d(4, 2, 1), 4, 6, 6) == 36 * (4 * 2 + 2)
    assert macs("torchinfo", nn.BatchNorm2d(4), 4, 6, 6) == 2 * 4
    normalised = 64 + 4 * 64 + 5 * (128 + 256 + 512)  # channels
    assert macs("torchinfo", resnet18(), 3, 224, 224) == RESNET18 + 1000 + 2 * normalised


def test_torchinfo_misses_what_is_no_module_without_children(macs):
    assert macs("torchinfo", Attention(), 5, 8) == 0
    assert macs("torchinfo", Call(torch.matmul, 8, 3), 5, 8) == 0
