import pytest
from helpers.counting import meta, nn, recorder, torch, total, trained
from torch.nn import functional
from torch.nn.modules import module as hooks
from torch.utils.checkpoint import checkpoint

from measure.models.call import casting

# 4 rows of 3 through a Linear of 3 to 5: 2 * 4 * 3 * 5 = 120 FLOP of product, 20 additions of the bias; backward 120
# for each gradient that is asked for, and the bias's (4 - 1) * 5 = 15 additions.


def three_layers(middle):
    """Linear 3 to 5 (no gradient of its input), ``middle`` on the hidden 5, Linear 7 to 2."""

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = nn.Linear(3, 5), nn.Linear(5, 7), nn.Linear(7, 2)

        def forward(self, rows):
            return self.c(middle(self, self.a(rows)))

    return Network()


def test_an_operator_and_its_backward_belong_to_the_innermost_module_that_ran():
    forward, backward = trained(three_layers(lambda network, hidden: torch.relu(network.b(hidden))), meta(4, 3))
    assert {path: part.flop for path, part in forward.items()} == {
        "": 0,
        "a": 2 * 4 * 3 * 5,
        "b": 2 * 4 * 5 * 7,
        "c": 2 * 4 * 7 * 2,
    }
    assert {path: part.flop for path, part in backward.items()} == {
        "": 0,
        "a": 2 * 4 * 3 * 5,  # the weight's gradient alone: nobody asks for the input's
        "b": 2 * 2 * 4 * 5 * 7,
        "c": 2 * 2 * 4 * 7 * 2,
    }
    # Biases forward; backward their sums over 4 rows; ReLU, which no module ran, is the network's own.
    assert {path: part.other_flop for path, part in forward.items()} == {"": 28, "a": 20, "b": 28, "c": 8}
    assert {path: part.other_flop for path, part in backward.items()} == {"": 28, "a": 15, "b": 21, "c": 6}
    assert {part.calls for part in forward.values()} == {1}


def test_a_module_that_is_called_twice_has_the_work_of_both_calls():
    layer = nn.Linear(3, 3)
    network = nn.Sequential(layer, nn.ReLU(), layer)
    forward, backward = trained(network, meta(4, 3))
    assert forward["0"].calls == 2
    assert forward["0"].flop == 2 * (2 * 4 * 3 * 3)
    assert backward["0"].flop == 3 * (2 * 4 * 3 * 3)  # no input gradient the first time
    # The bias's sums twice, (4 - 1) * 3, and the two gradients of weight and bias added, 9 + 3.
    assert backward["0"].other_flop == 2 * 9 + 12


def test_nested_modules_keep_their_own_operators():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, rows):
            return torch.sigmoid(self.inner(rows) * 2)

    network = nn.Sequential(Block(), nn.Tanh(), Block())
    forward, backward = trained(network, meta(4, 3))
    for path in ("0", "2"):
        assert forward[path].other_flop == 12 + 4 * 12  # the product; sigmoid 4
        assert backward[path].other_flop == 3 * 12 + 12  # sigmoid's 3; the product
    assert (forward["1"].other_flop, backward["1"].other_flop) == (12, 3 * 12)
    assert [backward[path].flop for path in ("0.inner", "2.inner")] == [72, 2 * 72]


def test_gradients_that_meet_at_a_fork_are_added_once():
    class Fork(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.left, self.right = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(5, 5)

        def forward(self, rows):
            hidden = self.stem(rows)
            return self.left(hidden) + self.right(hidden)

    forward, backward = trained(Fork(), meta(4, 3))
    assert forward[""].other_flop == 20
    # Three biases' sums of 15, and one addition of the two gradients of the hidden 20.
    assert total(backward, "other_flop") == 3 * 15 + 20
    # A gradient that is added between two operators belongs to the branch that arrived last.
    assert {backward["left"].other_flop, backward["right"].other_flop} == {15, 35}


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_a_checkpoint_runs_again_is_told_apart(reentrant):
    def middle(network, hidden):
        return checkpoint(lambda x: torch.relu(network.b(x)), hidden, use_reentrant=reentrant)

    rows = meta(4, 3)
    forward, backward = trained(three_layers(middle), rows)
    plain_forward, plain_backward = trained(three_layers(lambda network, x: torch.relu(network.b(x))), rows)
    for path in ("", "a", "b", "c"):
        for parts, plain in ((forward, plain_forward), (backward, plain_backward)):
            assert parts[path].flop == plain[path].flop
            assert parts[path].other_flop == plain[path].other_flop
    # Run again: product and bias of b, and ReLU.
    assert {path: part.recompute_flop for path, part in backward.items()} == {
        "a": 0,
        "b": 2 * 4 * 5 * 7 + 28,
        "": 28,
        "c": 0,
    }
    # Kept: the input of the part that is run again (4 * 5), and what c needs; the product's output is not.
    assert forward[""].saved_byte == 4 * 20
    assert forward["b"].saved_byte == 0
    assert forward["c"].saved_byte == 4 * 28


def test_a_checkpoint_that_stops_early_in_a_module_leaves_it():
    network = nn.Sequential(nn.Linear(5, 7), nn.Sigmoid(), nn.Linear(7, 6))
    outer = three_layers(lambda outer, hidden: outer.b(checkpoint(network, hidden, use_reentrant=False)))
    outer.network, outer.b = network, nn.Linear(6, 7)
    _, backward = trained(outer, meta(4, 3))
    products = {"a": 60, "network.0": 140, "network.2": 168, "b": 168, "c": 56}
    for path, multiply_adds in products.items():
        assert backward[path].flop == 2 * multiply_adds * (1 if path == "a" else 2), path
    # All of the first layer and the sigmoid (4 * 28); the last layer's inputs are known before it is computed.
    assert total(backward, "recompute_flop") == 2 * 140 + 28 + 4 * 28


def test_a_module_made_on_the_fly_is_part_of_the_one_around_it():
    class OnTheFly(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 5)

        def forward(self, rows):
            return nn.Sigmoid()(self.linear(rows))

    forward, backward = trained(OnTheFly(), meta(4, 3))
    assert (forward[""].calls, forward[""].other_flop, forward[""].saved_byte) == (1, 4 * 20, 4 * 20)
    assert backward[""].other_flop == 3 * 20


def test_leaf_modules_outputs_are_activations_each_storage_once():
    network = nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Identity(), nn.Linear(5, 2))
    record, output = recorder.record_inference(network.to("meta"), [meta(4, 3)])
    sizes = [record.forward.modules[module].activation_byte for module in network]
    assert sizes == [4 * 20, 0, 0, 4 * 8]  # ReLU wrote into the first layer's output, Identity gave it back
    assert record.forward.modules[network].activation_byte == 0
    assert output.shape == (4, 2)


def test_saved_bytes_by_hand():
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)

        def forward(self, rows):
            hidden = self.norm(self.a(rows)).relu()
            return self.b(hidden) * hidden[:, :2]

    forward, _ = trained(Network(), meta(4, 3))
    assert forward["a"].saved_byte == 0  # its input is the network's, its weight a parameter
    # The normalisation's input (20), mean and deviation (5 each); its running statistics are buffers.
    assert forward["norm"].saved_byte == 4 * (20 + 5 + 5)
    # ReLU's output (20), which the last layer and the product (as a view) keep too.
    assert forward[""].saved_byte == 4 * 20 + 4 * 8  # and the other factor, the output of b
    assert forward["b"].saved_byte == 0


def test_a_gradient_is_computed_only_on_the_way_to_a_parameter_that_asks():
    network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Conv2d(3, 5, 3), nn.Conv2d(5, 7, 3))
    once = [2 * 36 * 3 * 18, 2 * 16 * 5 * 27, 2 * 4 * 7 * 45]  # outputs of 6, 4 and 2 squared
    _, backward = trained(network, meta(1, 2, 8, 8))
    assert [backward[path].flop for path in "012"] == [once[0], 2 * once[1], 2 * once[2]]
    network[0].requires_grad_(False)
    _, backward = trained(network, meta(1, 2, 8, 8))
    assert [backward[path].flop for path in "12"] == [once[1], 2 * once[2]]
    assert "0" not in backward
    network[1].requires_grad_(False)
    network[0].requires_grad_(True)
    _, backward = trained(network, meta(1, 2, 8, 8))
    assert [backward[path].flop for path in "012"] == [once[0], once[1], 2 * once[2]]
    network.requires_grad_(False)
    _, backward = trained(network, meta(1, 2, 8, 8))
    assert total(backward, "traffic_byte") == 0


def test_an_operator_without_a_formula_is_listed_with_its_calls_and_bytes():
    class Distances(nn.Module):
        def forward(self, a, b, places):
            power = torch.linalg.matrix_exp(torch.cdist(a, b))
            return torch.linalg.matrix_exp(power), places.sort().values + places

    network = Distances()
    record, _ = recorder.record_inference(network, [meta(5, 3), meta(5, 3), meta(6, dtype=torch.int64)])
    listed = {name: (calls, record.forward.uncounted_byte[name]) for name, calls in record.forward.uncounted.items()}
    # An exponential reads 25 and writes 25. Integers are sorted and added without a floating-point operation.
    assert listed == {"linalg_matrix_exp": (2, 2 * 4 * 50)}
    assert record.forward.total("other_flop") == 25 * 9  # the distances: 3 differences, 3 squares, 2 additions, a root


def test_nothing_is_left_behind_also_when_the_network_raises():
    class Failing(nn.Module):
        def forward(self, rows):
            raise RuntimeError("no way")

    def traces():
        return (
            [len(registry) for registry in (hooks._global_forward_hooks, hooks._global_forward_pre_hooks)],
            torch._C._autograd._top_saved_tensors_default_hooks(True),
            torch.utils._python_dispatch._get_current_dispatch_mode(),
            functional.scaled_dot_product_attention,
            torch.backends.mha.get_fastpath_enabled(),
        )

    before = traces()
    network = nn.Sequential(nn.Linear(3, 5), Failing()).to("meta")
    for record in (recorder.record_training, recorder.record_inference):
        record(network[0], [meta(4, 3)])
        with pytest.raises(RuntimeError, match="no way"):
            record(network, [meta(4, 3)])
    assert traces() == before


def small_network():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, groups=2),
        nn.BatchNorm2d(4),
        nn.GELU(),
        nn.MaxPool2d(2),
        nn.Flatten(2),
        nn.Linear(9, 6),
        nn.TransformerEncoderLayer(6, 2, 10, dropout=0.0, batch_first=True),
        nn.LayerNorm(6),
    )


def test_real_tensors_give_the_same_counts_as_the_meta_device():
    counts = []
    for device in ("cpu", "meta"):
        network, image = small_network().to(device), torch.zeros(3, 2, 6, 6, device=device)
        inference, _ = recorder.record_inference(network, [image])
        training = recorder.record_training(network, [image])
        assert not inference.forward.uncounted | training.forward.uncounted | training.backward.uncounted
        passes = [[vars(part) for part in p.modules.values()] for p in (training.forward, training.backward)]
        # In inference the traffic differs by the statistics that a batch normalisation allocates on the meta device.
        columns = ("flop", "other_flop", "activation_byte")
        forward = [inference.forward.total(column) for column in columns]
        counts.append((*passes, training.memory.peak_byte, forward))
    assert counts[0] == counts[1]


def test_each_pass_under_autocast_casts_the_weights_anew():
    with torch.device("meta"):
        network = nn.Linear(3, 5)
    seen = []
    with casting(network, "bf16", "cpu") as (device, dtype):
        for _ in range(2):
            record, _ = recorder.record_inference(network, [torch.empty(4, 3, device=device, dtype=dtype)])
            seen.append(record.forward.total("traffic_byte"))
    # Casts of weight, bias and input read 4 bytes an element and write 2; the layer reads and writes 2.
    assert seen == [6 * (15 + 5 + 12) + 2 * (15 + 5 + 12 + 20)] * 2


def test_backward_operators_keep_the_precision_of_their_forward_ones_under_autocast():
    class FullPrecision(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(3, 5))

        def forward(self, rows):
            with torch.autocast("cpu", enabled=False):
                return rows @ self.weight

    with torch.device("meta"):
        network = FullPrecision()
    with casting(network, "bf16", "cpu") as (device, dtype):
        record = recorder.record_training(network, [torch.empty(4, 3, device=device, dtype=dtype)])
    # One product in fp32: reads the rows and the output's gradient, writes the weight's gradient; nothing is cast.
    assert record.backward.total("traffic_byte") == 4 * (12 + 20 + 15)
