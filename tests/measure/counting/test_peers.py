"""Why other counters disagree with what torchvision publishes: each reason on the smallest module that shows it."""

import peers
import pytest

torch = pytest.importorskip("torch", reason="counting needs torch")
models = pytest.importorskip("torchvision.models", reason="ResNet-18 is torchvision's")
nn = torch.nn
functional = nn.functional

RESNET18 = 1_814_073_344
"""Multiply-adds of ResNet-18's convolutions and its linear layer; torchvision publishes 1.814e9."""

# The elements that ResNet-18 normalises: stem, two blocks of two convolutions, and three times one more to widen; and
# their channels. ReLU sees the stem and, of each of the eight blocks, two outputs; the two poolings their inputs.
NORMALISED = 64 * 112**2 + 4 * 64 * 56**2 + 5 * (128 * 28**2 + 256 * 14**2 + 512 * 7**2)
CHANNELS = 64 + 4 * 64 + 5 * (128 + 256 + 512)
ACTIVATED = 64 * 112**2 + 4 * (64 * 56**2 + 128 * 28**2 + 256 * 14**2 + 512 * 7**2)
POOLED = 64 * 112**2 + 512 * 7**2

# Attention: four projections of 5 tokens of width 8, 4 * 5 * 8 * 8 = 1280, and two products of 5 * 5 * 8, 400 together.
PROJECTIONS, PRODUCTS, BIASES = 1280, 400, 4 * 5 * 8


class Attention(nn.Module):
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


class Normalisation(nn.LayerNorm):
    """As ConvNeXt has its own."""


MODULES = {
    "resnet18": (models.resnet18, (3, 224, 224)),
    "attention": (Attention, (5, 8)),
    "linear": (lambda: nn.Linear(8, 16), (5, 8)),
    "linear, one row": (lambda: nn.Linear(8, 16), (8,)),
    "convolution": (lambda: nn.Conv2d(4, 2, 1), (4, 6, 6)),
    "batch norm": (lambda: nn.BatchNorm2d(4), (4, 6, 6)),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(8)), (5, 8)),
    "own norm": (lambda: nn.Sequential(Normalisation(8)), (5, 8)),
    "adaptive pool": (lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1)), (4, 6, 6)),
    "max pool": (lambda: nn.MaxPool2d(2), (4, 6, 6)),
    "average pool": (lambda: nn.AvgPool2d(2), (4, 6, 6)),
    "relu": (nn.ReLU, (4, 6, 6)),
    "gelu": (nn.GELU, (4, 6, 6)),
    "silu": (nn.SiLU, (4, 6, 6)),
    "functional.linear": (lambda: Call(functional.linear, 16, 8), (5, 8)),
    "torch.matmul": (lambda: Call(lambda a, b: torch.matmul(a, b), 8, 3), (5, 8)),
    "@": (lambda: Call(lambda a, b: a @ b, 8, 3), (5, 8)),
    "einsum": (lambda: Call(lambda a, b: torch.einsum("btc,cd->btd", a, b), 8, 3), (5, 8)),
}
SAID = {
    # Products only
    "roofwright": {"resnet18": RESNET18, "attention": PROJECTIONS + PRODUCTS, "layer norm": 0},
    "torch": {"resnet18": RESNET18, "attention": PROJECTIONS + PRODUCTS},  # on the meta device
    # 2 an element of batch, 5 of layer normalisation, 1 an element that is pooled; misses fused attention; follows
    # functions
    "fvcore": {
        "batch norm": 2 * 4 * 36, "layer norm": 5 * 40, "adaptive pool": 4 * 36, "attention": PROJECTIONS,
        "resnet18": RESNET18 + 2 * NORMALISED + 512 * 7**2,
        "functional.linear": 5 * 16 * 8, "torch.matmul": 5 * 8 * 3,
    },
    # Counts biases; misses fused attention
    "ptflops-aten": {
        "linear": 5 * 8 * 16 + 5 * 16, "convolution": 36 * 4 * 2 + 36 * 2, "attention": PROJECTIONS + BIASES,
        "resnet18": RESNET18 + 1000,  # its one layer with a bias
    },
    # Counts activations and pooling by the module, and again by the function that it calls; SiLU by the function alone;
    # normalisation and biases. It misses functions that it does not replace.
    "ptflops-pytorch": {
        "relu": 2 * 4 * 36, "gelu": 2 * 4 * 36, "silu": 4 * 36,
        "max pool": 2 * 4 * 36, "average pool": 2 * 4 * 36, "adaptive pool": 2 * 4 * 36,
        "batch norm": 2 * 4 * 36, "layer norm": 40, "linear": 5 * 8 * 16 + 5 * 16,
        "resnet18": RESNET18 + 1000 + 2 * NORMALISED + 2 * (ACTIVATED + POOLED),
        "torch.matmul": 5 * 8 * 3, "@": 0, "functional.linear": 0, "einsum": 0,
    },
    # 4 an element of either normalisation; an output of adaptive pooling costs what it pools, and 1. It misses what is
    # not one of its modules.
    "thop": {
        "batch norm": 4 * 4 * 36, "layer norm": 4 * 40, "adaptive pool": 4 * (36 + 1),
        "resnet18": RESNET18 + 4 * NORMALISED + 512 * (7**2 + 1),
        "own norm": 0, "attention": 0, "functional.linear": 0, "torch.matmul": 0,
    },
    # Counts a linear layer once for all tokens, biases, and the parameters of normalisation; misses what is no module
    # without children
    "torchinfo": {
        "linear": 8 * 16 + 16, "linear, one row": 8 * 16 + 16, "convolution": 36 * (4 * 2 + 2),
        "batch norm": 2 * 4, "resnet18": RESNET18 + 1000 + 2 * CHANNELS, "attention": 0, "torch.matmul": 0,
    },
}  # fmt: skip


@pytest.fixture(autouse=True)
def fast_path():
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    yield
    torch.backends.mha.set_fastpath_enabled(before)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAID)
def test_multiply_adds_by_hand(name):
    counter = peers.COUNTERS[name]
    if not counter.installed:
        pytest.skip(f"{counter.package} is not installed: pip install -e '.[benchmark]'")
    for module, said in SAID[name].items():
        make, shape = MODULES[module]
        images = torch.zeros(1, *shape, device=counter.device)
        with torch.set_grad_enabled(counter.package is None):
            assert counter.count(make().to(counter.device).eval(), images)[0] == said, module
    if name == "fvcore":
        torch.backends.mha.set_fastpath_enabled(True)  # then the projections are fused with it
        with torch.no_grad():
            assert counter.count(Attention().eval(), torch.zeros(1, 5, 8))[0] == 0
    if name == "thop":  # it misses the parameters too
        assert counter.count(nn.Sequential(nn.Linear(8, 8), Attention()), torch.zeros(1, 5, 8))[1] == 8 * 8 + 8


@pytest.mark.parametrize(("is_fast", "said"), [(False, PROJECTIONS), (True, 0)])
def test_torch_misses_fused_attention_on_the_cpu(is_fast, said):
    torch.backends.mha.set_fastpath_enabled(is_fast)
    with torch.no_grad():
        assert peers.torch_counter(Attention().eval(), torch.zeros(1, 5, 8))[0] == said


def test_torch_does_not_divide_a_grouped_weight_gradient_by_its_groups():
    from torch.utils.flop_counter import FlopCounterMode

    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False, device="meta")
    output = depthwise(torch.zeros(1, 4, 6, 6, device="meta", requires_grad=True))
    with FlopCounterMode(display=False) as counter:
        output.sum().backward()
    # Each gradient costs what the output does, 4 * 36 * 9; that of the weight is counted once a group.
    assert counter.get_total_flops() / 2 == (1 + 4) * 4 * 36 * 9
