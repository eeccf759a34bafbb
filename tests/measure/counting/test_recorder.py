import pytest
from helpers.counting import Own, linear, meta, nn, recorder, torch, total, trained
from torch.nn import functional
from torch.nn.modules import module as hooks
from torch.utils.checkpoint import checkpoint

from measure.models.call import casting

swin = pytest.importorskip("torchvision.models.swin_transformer", reason="some attention is torchvision's")

# 4 rows of 3 through a Linear of 3 to 5: 2 * 4 * 3 * 5 = 120 FLOP of product, 20 additions of the bias; backward 120
# for each gradient that is asked for, and the bias's (4 - 1) * 5 = 15 additions.
ROWS = meta(4, 3)


def column(parts, name):
    return {path: getattr(part, name) for path, part in parts.items()}


def three_layers(middle, **parts):
    """Linear 3 to 5 (no gradient of its input), ``middle`` on the hidden 5, Linear 7 to 2."""
    layers = {"a": nn.Linear(3, 5), "b": nn.Linear(5, 7), "c": nn.Linear(7, 2)} | parts
    return Own(lambda self, rows: self.c(middle(self, self.a(rows))), **layers)


def plain(network, hidden):
    return torch.relu(network.b(hidden))


def test_an_operator_and_its_backward_belong_to_the_innermost_module_that_ran():
    forward, backward = trained(three_layers(plain), ROWS)
    once = {"": 0, "a": 2 * 4 * 3 * 5, "b": 2 * 4 * 5 * 7, "c": 2 * 4 * 7 * 2}
    assert column(forward, "flop") == once
    # Of a, the weight's gradient alone: nobody asks for the input's.
    assert column(backward, "flop") == {path: flop * (1 if path == "a" else 2) for path, flop in once.items()}
    # Biases forward; backward their sums over 4 rows; ReLU, which no module ran, is the network's own.
    assert column(forward, "other_flop") == {"": 28, "a": 20, "b": 28, "c": 8}
    assert column(backward, "other_flop") == {"": 28, "a": 15, "b": 21, "c": 6}
    assert {part.calls for part in forward.values()} == {1}


def test_a_module_that_is_called_twice_has_the_work_of_both_calls():
    layer = nn.Linear(3, 3)
    forward, backward = trained(nn.Sequential(layer, nn.ReLU(), layer), ROWS)
    assert (forward["0"].calls, forward["0"].flop) == (2, 2 * (2 * 4 * 3 * 3))
    assert backward["0"].flop == 3 * (2 * 4 * 3 * 3)  # no input gradient the first time
    # The bias's sums twice, (4 - 1) * 3, and the two gradients of weight and bias added, 9 + 3.
    assert backward["0"].other_flop == 2 * 9 + 12


def test_gradients_that_meet_at_a_fork_are_added_once():
    def fork(self, rows):
        hidden = self.stem(rows)
        return self.left(hidden) + self.right(hidden)

    network = Own(fork, stem=nn.Linear(3, 5), left=nn.Linear(5, 5), right=nn.Linear(5, 5))
    forward, backward = trained(network, ROWS)
    assert forward[""].other_flop == 20
    # Three biases' sums of 15, and one addition of the two gradients of the hidden 20, which belongs to the branch
    # that arrived last.
    assert total(backward, "other_flop") == 3 * 15 + 20
    assert {backward["left"].other_flop, backward["right"].other_flop} == {15, 35}


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_told_apart(reentrant):
    def middle(network, hidden):
        return checkpoint(lambda x: plain(network, x), hidden, use_reentrant=reentrant)

    forward, backward = trained(three_layers(middle), ROWS)
    for parts, without in zip((forward, backward), trained(three_layers(plain), ROWS), strict=True):
        for name in ("flop", "other_flop"):
            assert column(parts, name) == column(without, name)
    # Run again: product and bias of b, and ReLU.
    assert column(backward, "recompute_flop") == {"a": 0, "b": 2 * 4 * 5 * 7 + 28, "": 28, "c": 0}
    # Kept: the input of the part that is run again (4 * 5), and what c needs; the product's output is not.
    assert column(forward, "saved_byte") == {"": 4 * 20, "a": 0, "b": 0, "c": 4 * 28}


def test_a_checkpoint_that_stops_early_in_a_module_leaves_it():
    inner = nn.Sequential(nn.Linear(5, 7), nn.Sigmoid(), nn.Linear(7, 6))
    outer = three_layers(
        lambda self, hidden: self.b(checkpoint(self.inner, hidden, use_reentrant=False)), inner=inner, b=nn.Linear(6, 7)
    )
    _, backward = trained(outer, ROWS)
    products = {"a": 60, "inner.0": 140, "inner.2": 168, "b": 168, "c": 56}
    for path, multiply_adds in products.items():
        assert backward[path].flop == 2 * multiply_adds * (1 if path == "a" else 2), path
    # All of the first layer and the sigmoid (4 * 28); the last layer's inputs are known before it is computed.
    assert total(backward, "recompute_flop") == 2 * 140 + 28 + 4 * 28


def test_an_operator_of_no_module_or_of_one_made_on_the_fly_is_the_networks():
    network = Own(lambda self, rows: nn.Sigmoid()(self.linear(rows)), linear=nn.Linear(3, 5))
    forward, backward = trained(network, ROWS)
    assert (forward[""].calls, forward[""].other_flop, forward[""].saved_byte) == (1, 4 * 20, 4 * 20)
    assert backward[""].other_flop == 3 * 20
    with recorder.Recorder(network, []) as record:
        meta(3, 5) + 1
    assert record.forward.modules[network].other_flop == 15


def test_saved_bytes_by_hand():
    def forward(self, rows):
        hidden = self.norm(self.a(rows)).relu()
        return self.b(hidden) * hidden[:, :2]

    parts = {"a": nn.Linear(3, 5), "norm": nn.BatchNorm1d(5), "b": nn.Linear(5, 2)}
    forward, _ = trained(Own(forward, **parts), ROWS)
    assert column(forward, "saved_byte") == {
        "a": 0,  # its input is the network's, its weight a parameter
        "norm": 4 * (20 + 5 + 5),  # its input, mean and deviation; the running statistics are buffers
        # ReLU's output (20), which the last layer and the product (as a view) keep too; and the output of b
        "": 4 * 20 + 4 * 8,
        "b": 0,
    }


def test_nothing_is_left_behind_also_when_the_network_raises():
    def traces():
        return (
            [len(registry) for registry in (hooks._global_forward_hooks, hooks._global_forward_pre_hooks)],
            torch._C._autograd._top_saved_tensors_default_hooks(True),
            torch.utils._python_dispatch._get_current_dispatch_mode(),
            functional.scaled_dot_product_attention,
            torch.backends.mha.get_fastpath_enabled(),
        )

    def fail(_self, _rows):
        raise RuntimeError("no way")

    before = traces()
    network = nn.Sequential(nn.Linear(3, 5), Own(fail)).to("meta")
    for record in (recorder.record_training, recorder.record_inference):
        record(network[0], [ROWS])
        with pytest.raises(RuntimeError, match="no way"):
            record(network, [ROWS])
    assert traces() == before


def test_real_tensors_give_the_same_counts_as_the_meta_device():
    counts = []
    for device in ("cpu", "meta"):
        network = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, groups=2),
            nn.BatchNorm2d(4),
            nn.GELU(),
            nn.MaxPool2d(2),
            nn.Flatten(2),
            nn.Linear(9, 6),
            nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True),
            nn.LayerNorm(6),
        ).to(device)
        image = torch.zeros(3, 2, 6, 6, device=device)
        inference = recorder.record_inference(network, [image])[0].forward
        training = recorder.record_training(network, [image])
        assert not inference.uncounted | training.forward.uncounted | training.backward.uncounted
        passes = [[vars(part) for part in p.modules.values()] for p in (training.forward, training.backward)]
        # In inference the traffic differs by the statistics that a batch normalisation allocates on the meta device.
        forward = [inference.total(name) for name in ("flop", "other_flop", "activation_byte")]
        counts.append((*passes, training.memory.peak_byte, forward))
    assert counts[0] == counts[1]


def test_each_pass_under_autocast_casts_the_weights_anew():
    with casting(nn.Linear(3, 5, device="meta"), "bf16", "cpu") as (device, dtype):
        network = nn.Linear(3, 5, device=device)
        records = [recorder.record_inference(network, [torch.empty(4, 3, dtype=dtype)])[0] for _ in range(2)]
    # Casts of weight, bias and input read 4 bytes an element and write 2; the layer reads and writes 2.
    byte = 6 * (15 + 5 + 12) + 2 * (15 + 5 + 12 + 20)
    assert [record.forward.total("traffic_byte") for record in records] == [byte, byte]


def test_backward_operators_keep_the_precision_of_their_forward_ones_under_autocast():
    def full_precision(self, rows):
        with torch.autocast("cpu", enabled=False):
            return rows @ self.linear.weight.T

    network = Own(full_precision, linear=linear(3, 5, device="meta"))
    with casting(network, "bf16", "cpu") as (device, dtype):
        record = recorder.record_training(network, [torch.empty(4, 3, device=device, dtype=dtype)])
    # One product in fp32: reads the rows and the output's gradient, writes the weight's gradient; nothing is cast.
    assert record.backward.total("traffic_byte") == 4 * (12 + 20 + 15)


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

    # Equation 2: 4 h w C^2 + 2 M^2 h w C multiply-adds, for M = 4 and C = 8. An image of 6 by 5 is padded to 8 * 8.
    windows = 2 * (4 * 64 * 8 * 8 + 2 * 16 * 64 * 8)
    first = 2 * 3 * 64 * 8 * 8  # to queries, keys and values

    def shifted():
        return swin.ShiftedWindowAttention(8, [4, 4], [2, 2], 2)

    yield "shifted windows", shifted, [(1, 6, 5, 8)], windows, {(1, 1): 2 * windows, (0, 1): 2 * windows - first}


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
