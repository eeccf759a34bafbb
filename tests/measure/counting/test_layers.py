import pytest
from helpers.counting import Own, linear, meta, nn, recorder, torch

from measure.counting.layers import MODEL_ITSELF, call_rows, kind_of, layer_rows
from measure.domain.words import BACKWARD, FORWARD, INFERENCE, LAYER_KINDS

ops = pytest.importorskip("torchvision.ops", reason="some kinds are torchvision's")


def recorded(network, *inputs):
    """A recorded inference, and the recorded passes by stage."""
    network.to("meta")
    inference, _ = recorder.record_inference(network, inputs)
    training = recorder.record_training(network, inputs)
    return inference, {INFERENCE: inference.forward, FORWARD: training.forward, BACKWARD: training.backward}


def rows_of(network, *inputs):
    """The layers by path."""
    inference, passes = recorded(network, *inputs)
    rows = layer_rows(network, passes, inference.users)
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return {row["path"]: row for row in rows}


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
        ("other", [nn.Identity(), nn.Dropout(), nn.Flatten(), nn.Upsample(2)]),
        ("other", [called("Conv3dStem"), called("Embedded")]),
    ],
)
def test_kinds(kind, modules):
    assert kind in LAYER_KINDS
    assert [kind_of(module) for module in modules] == [kind] * len(modules)


def test_a_row_for_each_leaf_and_each_module_with_something_of_its_own():
    class Block(Own):
        pass

    block = Block(
        lambda self, rows: rows + self.inner(rows) * self.scale,
        unused=nn.Linear(3, 9),
        inner=nn.Sequential(nn.Linear(3, 3), nn.Identity()),
        scale=nn.Parameter(torch.ones(3)),
    )
    rows = rows_of(nn.Sequential(nn.ReLU(), block), meta(4, 3))
    # No row for the two Sequentials. In the order of running; what never runs last.
    assert list(rows) == ["0", "1", "1.inner.0", "1.inner.1", "1.unused"]
    assert [row["calls"] for row in rows.values()] == [1, 1, 1, 1, 0]
    assert [row["parameter_count"] for row in rows.values()] == [0, 3, 12, 0, 36]
    assert rows["1"]["forward_other_flop"] == 12 + 12
    assert rows["1"]["backward_other_flop"] == 12 + 12 + 9  # both factors' gradients, one summed over 4 rows
    assert rows["1"]["type"] == "Block"
    assert rows["1.unused"]["traffic_byte"] == rows["1.unused"]["backward_traffic_byte"] == 0


def test_a_tied_parameter_counts_once_where_it_is_first_used():
    table, head = nn.Embedding(7, 3, device="meta"), linear(3, 7, device="meta")
    head.weight = table.weight
    rows = rows_of(Own(lambda self, words: self.head(self.table(words)), head=head, table=table), meta(4).long())
    assert {path: row["parameter_count"] for path, row in rows.items()} == {"table": 21, "head": 0}
    assert rows["table"]["parameter_byte"] == 4 * 21
    # The table's gradient: 4 rows of 3 added; both gradients of the weight added (21), the table's since it has it.
    assert rows["table"]["backward_other_flop"] + rows["head"]["backward_other_flop"] == 12 + 21
    # Both gradients of the product
    assert rows["head"]["backward_flop"] == 2 * (2 * 4 * 3 * 7)


def test_operators_of_the_model_itself_have_a_row():
    token, layer = nn.Parameter(torch.zeros(1, 3)), nn.Linear(3, 5)
    model = Own(lambda self, rows: self.linear(torch.cat([self.token, rows])), token=token, linear=layer)
    row = rows_of(model, meta(4, 3))[MODEL_ITSELF]
    assert (row["parameter_count"], row["traffic_byte"]) == (3, 4 * (3 + 12 + 15))


# 4 rows of 3 through two layers of 3 to 3 with a bias, and a ReLU between. In fp32, rows and outputs are 48 bytes, the
# weight 36, the bias 12. A product of 4 x 3 x 3 is 72 FLOP, and adding the bias 12.
TWO_LAYERS = {("linear", "addmm"): (72, 12, 0, 48 + 36 + 12 + 48, 2), ("activation", "relu"): (0, 12, 0, 48 + 48, 1)}
TWO_LAYERS_BACKWARD = {
    # Two gradients of weights (output's gradient and input read, weight's written), and of the inner layer's input.
    ("linear", "mm"): (72, 0, 0, 48 + 48 + 36, 3),
    # The biases' gradients: sums of 4 rows of 3, 3 additions each.
    ("linear", "sum"): (0, 9, 0, 48 + 12, 2),
    ("activation", "threshold_backward"): (0, 12, 0, 3 * 48, 1),
}


@pytest.mark.parametrize(
    ("network", "inputs", "stage", "calls"),
    [
        (nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), [meta(4, 3)], stage, calls)
        for stage, calls in ((INFERENCE, TWO_LAYERS), (FORWARD, TWO_LAYERS), (BACKWARD, TWO_LAYERS_BACKWARD))
    ]
    + [
        # 25 pixels of 4 channels: 2 inputs each, or 1; the addition is the block's own, a module of no kind.
        (
            Own(
                lambda self, image: self.depthwise(hidden := self.wide(image)) + hidden,
                wide=nn.Conv2d(2, 4, 1, bias=False),
                depthwise=nn.Conv2d(4, 4, 1, groups=4, bias=False),
            ),
            [meta(1, 2, 5, 5)],
            INFERENCE,
            {
                ("convolution", "convolution"): (2 * 25 * 4 * 2, 0, 0, 4 * (50 + 8 + 100), 1),
                ("depthwise convolution", "convolution"): (2 * 25 * 4, 0, 0, 4 * (100 + 4 + 100), 1),
                ("other", "add"): (0, 100, 0, 4 * 300, 1),
            },
        ),
        # An operator without a formula reads and writes 4 rows of 4.
        (Own(lambda _self, rows: torch.linalg.matrix_exp(rows)), [meta(4, 4)], INFERENCE,
         {("other", "linalg_matrix_exp"): (0, 0, 0, 64 + 64, 1)}),
    ],
)  # fmt: skip
def test_calls_of_one_operator_kind_and_size_are_one_row(network, inputs, stage, calls):
    _, passes = recorded(network, *inputs)
    assert {
        (row["layer_kind"], row["operator"]): (*(row[f"{part}flop"] for part in ("", "other_", "recompute_")),
                                               row["byte"], row["calls"])
        for row in call_rows(passes) if row["stage"] == stage
    } == calls  # fmt: skip


def test_an_operator_of_a_composite_module_has_its_kind():
    _, passes = recorded(nn.MultiheadAttention(4, 2, batch_first=True), *[meta(1, 3, 4)] * 3)
    assert {row["layer_kind"] for row in call_rows(passes)} == {"attention"}  # its projections are no modules that run
