"""What other counters add and miss, as the paper's chapter on counting says, on the smallest module that shows it."""

import peers
import pytest

torch = pytest.importorskip("torch", reason="counting needs torch")
nn = torch.nn

# Attention: four projections of 5 tokens of width 8, 4 * 5 * 8 * 8 = 1280, and two products of 5 * 5 * 8, 400 together.
PROJECTIONS, PRODUCTS, BIASES = 1280, 400, 4 * 5 * 8


class Call(nn.Module):
    """A function of the input and of a matrix, or of a module, that a counter of modules does not see."""

    def __init__(self, function, *shape, module=None):
        super().__init__()
        self.function, self.module = function, module
        self.matrix = nn.Parameter(torch.zeros(shape)) if shape else None

    def forward(self, tokens):
        return self.function(tokens, self.module if self.matrix is None else self.matrix)


def attention():
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    return Call(lambda tokens, attention: attention(tokens, tokens, tokens, need_weights=False)[0], module=module)


MODULES = {
    "attention": (attention, (5, 8)),
    "linear": (lambda: nn.Linear(8, 16), (5, 8)),
    "convolution": (lambda: nn.Conv2d(4, 2, 1), (4, 6, 6)),
    "batch norm": (lambda: nn.BatchNorm2d(4), (4, 6, 6)),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(8)), (5, 8)),
    "adaptive pool": (lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1)), (4, 6, 6)),
    "max pool": (lambda: nn.MaxPool2d(2), (4, 6, 6)),
    "relu": (nn.ReLU, (4, 6, 6)),
    "@": (lambda: Call(lambda a, b: a @ b, 8, 3), (5, 8)),
    "einsum": (lambda: Call(lambda a, b: torch.einsum("btc,cd->btd", a, b), 8, 3), (5, 8)),
}
LINEAR, CONVOLUTION, NORMALISED = 5 * 8 * 16, 36 * 4 * 2, 4 * 36
SAID = {
    # Products only
    "roofwright": {"attention": PROJECTIONS + PRODUCTS, "linear": LINEAR, "layer norm": 0, "relu": 0, "@": 120},
    "torch": {"attention": PROJECTIONS + PRODUCTS, "linear": LINEAR, "@": 120},  # on the meta device
    # 2 an element of batch, 5 of layer normalisation, 1 an element that is pooled
    "fvcore": {"batch norm": 2 * NORMALISED, "layer norm": 5 * 40, "adaptive pool": 144, "attention": PROJECTIONS},
    "ptflops-aten": {"linear": LINEAR + 80, "convolution": CONVOLUTION + 72, "attention": PROJECTIONS + BIASES},
    # Activations and pooling by the module, and again by the function that it calls; biases, normalisation
    "ptflops-pytorch": {
        "relu": 2 * 144, "max pool": 2 * 144, "adaptive pool": 2 * 144, "batch norm": 2 * NORMALISED, "layer norm": 40,
        "linear": LINEAR + 80, "@": 0, "einsum": 0,
    },
    # 4 an element of either normalisation; an output of adaptive pooling costs what it pools, and 1
    "thop": {"batch norm": 4 * NORMALISED, "layer norm": 4 * 40, "adaptive pool": 4 * (36 + 1), "attention": 0, "@": 0},
    # A linear layer once for all tokens, with its biases; the parameters of normalisation
    "torchinfo": {"linear": 8 * 16 + 16, "convolution": 36 * (8 + 2), "batch norm": 2 * 4, "attention": 0, "@": 0},
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_multiply_adds_by_hand(name):
    counter = peers.COUNTERS[name]
    if not counter.installed:
        pytest.skip(f"{counter.package} is not installed: pip install -e '.[benchmark]'")
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # of attention, whose projections would be fused with it
    try:
        for module, said in SAID[name].items():
            make, shape = MODULES[module]
            images = torch.zeros(1, *shape, device=counter.device)
            with torch.set_grad_enabled(counter.package is None):
                assert counter.count(make().to(counter.device).eval(), images)[0] == said, module
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def test_torch_does_not_divide_a_grouped_weight_gradient_by_its_groups():
    from torch.utils.flop_counter import FlopCounterMode

    depthwise = nn.Conv2d(4, 4, 3, padding=1, groups=4, bias=False, device="meta")
    output = depthwise(torch.zeros(1, 4, 6, 6, device="meta", requires_grad=True))
    with FlopCounterMode(display=False) as counter:
        output.sum().backward()
    # Each gradient costs what the output does, 4 * 36 * 9; that of the weight is counted once a group.
    assert counter.get_total_flops() / 2 == (1 + 4) * 4 * 36 * 9
