import pytest
from helpers.counting import meta, nn, recorder, torch
from torch.utils.checkpoint import checkpoint

from measure.counting.layers import MODEL_ITSELF, call_rows, kind_of, layer_rows
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, LAYER_KINDS

ops = pytest.importorskip("torchvision.ops", reason="some kinds are torchvision's")


def passes_of(inference, training):
    return {INFERENCE: inference.forward, FORWARD: training.forward, BACKWARD: training.backward}


def rows_of(network, *inputs):
    """The layers by path, and the two recordings that they are made from."""
    network.to("meta")
    inference, _ = recorder.record_inference(network, inputs)
    training = recorder.record_training(network, inputs)
    rows = layer_rows(network, passes_of(inference, training), inference.users)
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return {row["path"]: row for row in rows}, inference, training


def called(name):
    """A module whose class is not torch's own."""
    return type(name, (nn.Module,), {})()


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("convolution", [nn.Conv1d(2, 4, 3), nn.Conv2d(4, 4, 3, groups=2), nn.ConvTranspose3d(2, 4, 3)]),
        ("convolution", [nn.Conv2d(1, 4, 3)]),  # one input channel, and one group that is all of it
        ("depthwise convolution", [nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(2, 6, 3, groups=2)]),
        ("linear", [nn.Linear(2, 3), nn.Bilinear(2, 3, 4)]),
        ("attention", [nn.MultiheadAttention(4, 2), called("WindowAttention"), called("WindowAttentionV2")]),
        ("normalisation", [nn.BatchNorm2d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.InstanceNorm1d(3)]),
        ("normalisation", [nn.RMSNorm(3), nn.LocalResponseNorm(2), ops.FrozenBatchNorm2d(3), called("LayerNorm2d")]),
        ("activation", [nn.ReLU(), nn.ReLU6(), nn.Hardswish(), nn.GELU(), nn.PReLU(), nn.Softmax(1)]),
        ("pooling", [nn.MaxPool1d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool3d(1), nn.LPPool2d(2, 2)]),
        ("recurrent", [nn.LSTM(2, 3), nn.GRUCell(2, 3)]),
        ("embedding", [nn.Embedding(2, 3), nn.EmbeddingBag(2, 3), called("PatchEmbed")]),
        (
            "other",
            [nn.Identity(), nn.Dropout(), nn.Flatten(), nn.Upsample(2), called("Conv3dStem"), called("Embedded")],
        ),
    ],
)
def test_kinds(kind, modules):
    assert kind in LAYER_KINDS
    assert [kind_of(module) for module in modules] == [kind] * len(modules)


def test_a_row_for_each_leaf_and_each_module_with_something_of_its_own():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(3, 9)
            self.inner = nn.Sequential(nn.Linear(3, 3), nn.Identity())
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, rows):
            return rows + self.inner(rows) * self.scale

    rows, _, _ = rows_of(nn.Sequential(nn.ReLU(), Block()), meta(4, 3))
    # No row for the two Sequentials. In the order of running; what never runs last.
    assert list(rows) == ["0", "1", "1.inner.0", "1.inner.1", "1.unused"]
    assert [row["calls"] for row in rows.values()] == [1, 1, 1, 1, 0]
    assert [row["parameter_count"] for row in rows.values()] == [0, 3, 12, 0, 36]
    assert rows["1"]["forward_other_flop"] == 12 + 12
    assert rows["1"]["backward_other_flop"] == 12 + 12 + 9  # both factors' gradients, one summed over 4 rows
    assert rows["1"]["type"] == "Block"
    assert rows["1.unused"]["traffic_byte"] == rows["1.unused"]["backward_traffic_byte"] == 0


def test_a_tied_parameter_counts_once_where_it_is_first_used():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 7, bias=False)
            self.table = nn.Embedding(7, 3)
            self.head.weight = self.table.weight

        def forward(self, words):
            return self.head(self.table(words))

    with torch.device("meta"):
        network = Tied()
    rows, _, training = rows_of(network, meta(4, dtype=torch.int64))
    assert {path: row["parameter_count"] for path, row in rows.items()} == {"table": 21, "head": 0}
    assert rows["table"]["parameter_byte"] == 4 * 21
    # The table's gradient: 4 rows of 3 added; both gradients of the weight added (21), the table's since it has it.
    assert rows["table"]["backward_other_flop"] + rows["head"]["backward_other_flop"] == 12 + 21
    # Both gradients of the product; the weight has one gradient.
    assert rows["head"]["backward_flop"] == 2 * (2 * 4 * 3 * 7)
    assert training.memory.byte == 4 * 21


def test_operators_of_the_model_itself_have_a_row():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 3))
            self.linear = nn.Linear(3, 5)

        def forward(self, rows):
            return self.linear(torch.cat([self.token, rows]))

    rows, _, _ = rows_of(Model(), meta(4, 3))
    assert rows[MODEL_ITSELF]["parameter_count"] == 3
    assert rows[MODEL_ITSELF]["traffic_byte"] == 4 * (3 + 12 + 15)


def test_layers_sum_to_the_two_passes():
    class Everything(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(2, 4, 3)
            self.checked = nn.Sequential(nn.Linear(6, 6), nn.Sigmoid())
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)
            self.unused = nn.Linear(2, 2)

        def forward(self, image):
            tokens = nn.ReLU()(self.stem(image)).flatten(2)
            tokens = checkpoint(self.checked, tokens, use_reentrant=False)
            return self.attention(tokens, tokens, tokens, need_weights=False)[0] + tokens

    rows, inference, training = rows_of(Everything(), meta(3, 2, 4, 5))
    for column, record, of in [
        ("calls", inference.forward, "calls"),
        ("forward_flop", inference.forward, "flop"),
        ("forward_other_flop", inference.forward, "other_flop"),
        ("traffic_byte", inference.forward, "traffic_byte"),
        ("activation_byte", inference.forward, "activation_byte"),
        ("saved_byte", training.forward, "saved_byte"),
        ("backward_flop", training.backward, "flop"),
        ("backward_other_flop", training.backward, "other_flop"),
        ("backward_traffic_byte", training.backward, "traffic_byte"),
        ("recompute_flop", training.backward, "recompute_flop"),
    ]:
        whole = record.total(of)
        assert whole > 0
        lost = 1 if column == "calls" else 0  # the Sequential ran, and has nothing of its own
        assert sum(row[column] for row in rows.values()) == whole - lost, column
    assert set(rows) == {MODEL_ITSELF, "stem", "checked.0", "checked.1", "attention", "attention.out_proj", "unused"}


def test_without_training_its_columns_are_unknown():
    network = nn.Linear(3, 5).to("meta")
    inference, _ = recorder.record_inference(network, [meta(4, 3)])
    (row,) = layer_rows(network, {INFERENCE: inference.forward}, inference.users)
    assert row["saved_byte"] is row["backward_flop"] is row["recompute_flop"] is None
    assert row["forward_flop"] == 2 * 4 * 3 * 5


WORK = ("flop", "other_flop", "recompute_flop", "byte", "calls")


def call_rows_of(network, *inputs):
    """What is counted of inference, and of training."""
    network.to("meta")
    inference, _ = recorder.record_inference(network, inputs)
    return call_rows(passes_of(inference, recorder.record_training(network, inputs)))


def in_stage(rows, stage):
    return {
        (row["layer_kind"], row["operator"]): tuple(row[name] for name in WORK) for row in rows if row["stage"] == stage
    }


# 4 rows of 3 through two layers of 3 to 3 with a bias, and a ReLU between. In fp32, rows and outputs are 48 bytes, the
# weight 36, the bias 12. A product of 4 x 3 x 3 is 72 FLOP, and adding the bias 12.


def test_calls_that_ask_for_the_same_are_one_row():
    rows = call_rows_of(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), meta(4, 3))
    both = {("linear", "addmm"): (72, 12, 0, 48 + 36 + 12 + 48, 2), ("activation", "relu"): (0, 12, 0, 48 + 48, 1)}
    assert in_stage(rows, "inference") == both
    assert in_stage(rows, "forward") == both
    back = in_stage(rows, "backward")
    # Two gradients of weights (output's gradient and input read, weight's written), and of the inner layer's input.
    products = [row for row in rows if (row["stage"], row["operator"]) == ("backward", "mm")]
    assert {(row["flop"], row["byte"], row["calls"]) for row in products} == {(72, 48 + 48 + 36, 3)}
    # The biases' gradients: sums of 4 rows of 3, 3 additions each.
    assert back["linear", "sum"] == (0, 9, 0, 48 + 12, 2)
    assert back["activation", "threshold_backward"] == (0, 12, 0, 3 * 48, 1)


def test_calls_of_another_size_or_another_kind_of_layer_are_another_row():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide = nn.Conv2d(2, 4, 1, bias=False)
            self.depthwise = nn.Conv2d(4, 4, 1, groups=4, bias=False)

        def forward(self, image):
            hidden = self.wide(image)
            return self.depthwise(hidden) + hidden

    rows = in_stage(call_rows_of(Block(), meta(1, 2, 5, 5)), "inference")
    # 25 pixels of 4 channels: 2 inputs each, or 1; the addition is the block's own, a module of no kind.
    assert rows == {
        ("convolution", "convolution"): (2 * 25 * 4 * 2, 0, 0, 4 * (50 + 8 + 100), 1),
        ("depthwise convolution", "convolution"): (2 * 25 * 4, 0, 0, 4 * (100 + 4 + 100), 1),
        ("other", "add"): (0, 100, 0, 4 * 300, 1),
    }


def test_an_overload_of_a_composite_module_has_its_kind():
    rows = call_rows_of(nn.MultiheadAttention(4, 2, batch_first=True), *[meta(1, 3, 4)] * 3)
    kinds = {row["layer_kind"] for row in rows}
    assert kinds == {"attention"}  # its projections too: they are no modules that run
    assert sum(row["flop"] * row["calls"] for row in rows if row["stage"] == "inference") > 0


def test_an_operator_without_formula_is_there_with_its_bytes():
    class Strange(nn.Module):
        def forward(self, rows):
            return torch.linalg.matrix_exp(rows)

    rows = in_stage(call_rows_of(Strange(), meta(4, 4)), "inference")
    # Reads and writes 4 rows of 4.
    assert rows["other", "linalg_matrix_exp"] == (0, 0, 0, 64 + 64, 1)
