import pytest
from helpers.counting import Own, linear, meta, nn, recording, torch
from torchvision import ops

from measure.counting.layers import MODEL_ITSELF, call_rows, kind_of, layer_rows
from measure.domain.words import BACKWARD, FORWARD, INFERENCE


def recorded(network, *inputs):
    """A recorded inference, and the recorded passes by stage."""
    network.to("meta")
    inference, _ = recording.record_inference(network, inputs)
    training = recording.record_training(network, inputs)
    return inference, {INFERENCE: inference.forward, FORWARD: training.forward, BACKWARD: training.backward}


def rows_of(network, *inputs):
    """The layers by path."""
    inference, passes = recorded(network, *inputs)
    rows = layer_rows(network, passes, inference.users)
    assert [row["position"] for row in rows] == list(range(len(rows)))
    return {row["path"]: row for row in rows}


def called(name):
    """A module with a class of another library."""
    return type(name, (nn.Module,), {})()


@pytest.mark.parametrize(
    ("kind", "modules"),
    [
        ("convolution", [nn.Conv1d(2, 4, 3), nn.Conv2d(4, 4, 3, groups=2), nn.ConvTranspose3d(2, 4, 3)]),
        ("convolution", [nn.Conv2d(1, 4, 3)]),  # one input channel, and one group that is all of it
        ("depthwise convolution", [nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(2, 6, 3, groups=2)]),
        ("linear", [nn.Linear(2, 3), nn.Bilinear(2, 3, 4)]),
        ("attention", [nn.MultiheadAttention(4, 2), called("WindowAttention"), called("WindowAttentionV2")]),
        ("experts", [called("MixtralExperts"), called("Llama4TextExperts"), called("VitPoseNaiveMoe")]),
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
    assert [kind_of(module) for module in modules] == [kind] * len(modules)


def test_a_row_for_each_leaf_and_each_module_with_own_work():
    inner, scale = nn.Sequential(nn.Linear(3, 3), nn.Identity()), nn.Parameter(torch.ones(3))
    scaled = {"unused": nn.Linear(3, 9), "inner": inner, "scale": scale}
    block = type("Block", (Own,), {})(lambda self, rows: rows + self.inner(rows) * self.scale, **scaled)
    # The model itself multiplies 4 rows of 3 by a row: read 12 and 3, written 12, in fp32.
    model = Own(lambda self, rows: self.block(rows * self.token), token=nn.Parameter(torch.zeros(1, 3)), block=block)
    rows = rows_of(model, meta(4, 3))
    # No row for the Sequential. In the order of running; idle ones last.
    assert list(rows) == [MODEL_ITSELF, "block", "block.inner.0", "block.inner.1", "block.unused"]
    assert [row["calls"] for row in rows.values()] == [1, 1, 1, 1, 0]
    assert [row["parameter_count"] for row in rows.values()] == [3, 3, 12, 0, 36]
    assert rows[MODEL_ITSELF]["traffic_byte"] == 4 * (12 + 3 + 12)
    assert (rows["block"]["type"], rows["block"]["forward_other_flop"]) == ("Block", 12 + 12)
    assert rows["block"]["backward_other_flop"] == 12 + 12 + 9  # both factors' gradients, one summed over 4 rows
    assert rows["block.unused"]["traffic_byte"] == rows["block.unused"]["backward_traffic_byte"] == 0


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


# 4 rows of 3 through two layers of 3 to 3 with a bias, and a ReLU between. In fp32, rows and outputs are 48 bytes, the
# weight 36, the bias 12. A product of 4 x 3 x 3 is 72 FLOP, and adding the bias 12.
TWO_LAYERS = {("linear", "addmm"): (72, 12, 0, 48 + 36 + 12 + 48, 2), ("activation", "relu"): (0, 12, 0, 48 + 48, 1)}
CALLS = {
    INFERENCE: TWO_LAYERS,
    FORWARD: TWO_LAYERS,
    BACKWARD: {
        # Two gradients of weights (output's gradient and input read, weight's written), and of the inner layer's input.
        ("linear", "mm"): (72, 0, 0, 48 + 48 + 36, 3),
        # The biases' gradients: sums of 4 rows of 3, 3 additions each.
        ("linear", "sum"): (0, 9, 0, 48 + 12, 2),
        ("activation", "threshold_backward"): (0, 12, 0, 3 * 48, 1),
    },
}


def test_calls_of_one_operator_kind_and_size_are_one_row():
    _, passes = recorded(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), meta(4, 3))
    found = {stage: {} for stage in CALLS}
    for row in call_rows(passes):
        work = (row[name] for name in ("flop", "other_flop", "recompute_flop", "byte", "calls"))
        found[row["stage"]][row["layer_kind"], row["operator"]] = tuple(work)
    assert found == CALLS
