import pytest
from helpers.counting import Own, meta, nn, recording, torch, total, trained
from torch.nn import functional
from torch.nn.modules import module as hooks
from torch.utils.checkpoint import checkpoint

from measure.models.call import casting

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


def test_an_operator_and_its_backward_have_the_innermost_module():
    forward, backward = trained(three_layers(plain), ROWS)
    once = {"": 0, "a": 2 * 4 * 3 * 5, "b": 2 * 4 * 5 * 7, "c": 2 * 4 * 7 * 2}
    assert column(forward, "flop") == once
    # Of a, the weight's gradient alone: nobody asks for the input's.
    assert column(backward, "flop") == {path: flop * (1 if path == "a" else 2) for path, flop in once.items()}
    # Biases forward; backward their sums over 4 rows; ReLU, which no module ran, is the network's own.
    assert column(forward, "other_flop") == {"": 28, "a": 20, "b": 28, "c": 8}
    assert column(backward, "other_flop") == {"": 28, "a": 15, "b": 21, "c": 6}
    assert {part.calls for part in forward.values()} == {1}


def test_a_module_called_twice_has_the_work_of_both_calls():
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
def test_a_checkpoints_recomputation_is_counted_apart(reentrant):
    def middle(network, hidden):
        return checkpoint(lambda x: plain(network, x), hidden, use_reentrant=reentrant)

    forward, backward = trained(three_layers(middle), ROWS)
    for parts, without in zip((forward, backward), trained(three_layers(plain), ROWS), strict=True):
        for name in ("flop", "other_flop"):
            assert column(parts, name) == column(without, name)
    # Run again: product and bias of b, and ReLU.
    assert column(backward, "recompute_flop") == {"a": 0, "b": 2 * 4 * 5 * 7 + 28, "": 28, "c": 0}
    # Saved: the input of the part that runs again (4 * 5), and c's input; the product's output is not.
    assert column(forward, "saved_byte") == {"": 4 * 20, "a": 0, "b": 0, "c": 4 * 28}


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
    for record in (recording.record_training, recording.record_inference):
        record(network[0], [ROWS])
        with pytest.raises(RuntimeError, match="no way"):
            record(network, [ROWS])
    assert traces() == before


def test_each_pass_under_autocast_casts_the_weights_anew():
    with casting(nn.Linear(3, 5, device="meta"), "bf16", "cpu") as (device, dtype):
        network = nn.Linear(3, 5, device=device)
        records = [recording.record_inference(network, [torch.empty(4, 3, dtype=dtype)])[0] for _ in range(2)]
    # Casts of weight, bias and input read 4 bytes an element and write 2; the layer reads and writes 2.
    byte = 6 * (15 + 5 + 12) + 2 * (15 + 5 + 12 + 20)
    assert [record.forward.total("traffic_byte") for record in records] == [byte, byte]


def test_attention_has_the_requested_gradients():
    # Liu et al. 2021, equation 1: 4 h w C^2 + 2 (h w)^2 C multiply-adds, here for h w = 9, C = 8 and 2 sequences.
    projection, product = 2 * 9 * 8 * 8, 2 * 9 * 9 * 8
    forward = 2 * (4 * projection + 2 * product)
    attention = nn.MultiheadAttention(8, 2, batch_first=True).to("meta")
    for inputs_ask, is_trained, backward in (
        (True, True, 2 * forward),
        (False, True, 2 * forward - 2 * 3 * projection),  # the projections of tokens have no input gradient
        # Frozen, the four projections have an input gradient only; the products have both factors' as before.
        (True, False, 2 * (4 * projection + 2 * 2 * product)),
        (False, False, 0),
    ):
        attention.requires_grad_(is_trained)
        tokens = meta(2, 9, 8, requires_grad=inputs_ask)
        record = recording.record_training(attention, [tokens] * 3)
        assert (record.forward.total("flop"), record.backward.total("flop")) == (forward, backward)
