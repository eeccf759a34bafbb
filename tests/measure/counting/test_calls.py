import pytest
from helpers.counting import meta, nn, recorder

calls = pytest.importorskip("measure.counting.calls", reason="counting needs torch")

WORK = ("flop", "other_flop", "recompute_flop", "byte", "calls")


def rows_of(network, *inputs):
    """What is counted of inference, and of training."""
    network.to("meta")
    inference, _ = recorder.record_inference(network, inputs)
    return calls.call_rows(inference, recorder.record_training(network, inputs))


def in_stage(rows, stage):
    return {
        (row["layer_kind"], row["operator"]): tuple(row[name] for name in WORK) for row in rows if row["stage"] == stage
    }


# 4 rows of 3 through two layers of 3 to 3 with a bias, and a ReLU between. In fp32, rows and outputs are 48 bytes, the
# weight 36, the bias 12. A product of 4 x 3 x 3 is 72 FLOP, and adding the bias 12.


def test_calls_that_ask_for_the_same_are_one_row():
    rows = rows_of(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)), meta(4, 3))
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

    rows = in_stage(rows_of(Block(), meta(1, 2, 5, 5)), "inference")
    # 25 pixels of 4 channels: 2 inputs each, or 1; the addition is the block's own, a module of no kind.
    assert rows == {
        ("convolution", "convolution"): (2 * 25 * 4 * 2, 0, 0, 4 * (50 + 8 + 100), 1),
        ("depthwise convolution", "convolution"): (2 * 25 * 4, 0, 0, 4 * (100 + 4 + 100), 1),
        ("other", "add"): (0, 100, 0, 4 * 300, 1),
    }


def test_an_operator_of_a_composite_module_has_its_kind():
    rows = rows_of(nn.MultiheadAttention(4, 2, batch_first=True), *[meta(1, 3, 4)] * 3)
    kinds = {row["layer_kind"] for row in rows}
    assert kinds == {"attention"}  # its projections too: they are no modules that run
    assert sum(row["flop"] * row["calls"] for row in rows if row["stage"] == "inference") > 0


def test_an_operator_without_formula_is_there_with_its_bytes():
    class Strange(nn.Module):
        def forward(self, rows):
            return rows.kthvalue(2).values

    rows = in_stage(rows_of(Strange(), meta(4, 3)), "inference")
    # Reads 4 rows of 3, writes 4 values and as many indices of 8 bytes.
    assert rows["other", "kthvalue"] == (0, 0, 0, 48 + 16 + 32, 1)


def test_without_training_there_is_inference_alone():
    inference, _ = recorder.record_inference(nn.Linear(3, 3).to("meta"), [meta(4, 3)])
    assert {row["stage"] for row in calls.call_rows(inference, None)} == {"inference"}
