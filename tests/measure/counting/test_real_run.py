"""Networks that decide by values are counted as they run once: by hand, and when a run takes too much."""

import pytest
from helpers.counting import Own, counted, linear, nn, on, rows, torch
from helpers.small_network import mixture

from measure.counting import count
from measure.domain.models import OWN, Model
from measure.domain.workload_records import ONE_RUN
from measure.models import catalog
from measure.models.call import Call, copy_to_meta

torchvision = pytest.importorskip("torchvision")


def test_a_mixture_of_experts_by_hand_whatever_the_route():
    row = counted(mixture, 8)
    gate, up = 2 * 8 * 16 * 4, 2 * 8 * 2 * 16 * 32  # 8 tokens; each goes to two experts, which have two layers
    assert row.forward_flop == gate + 2 * up == 33_792
    assert row.backward_flop == gate + 3 * up  # each weight, and the input of the second layers
    assert (row.path, row.reason, row.parameter_count) == (ONE_RUN, None, 64 + 4 * 2 * 512)
    assert counted(mixture, 8) == row


@pytest.mark.parametrize(
    ("decide", "is_trained"),
    [
        (lambda _self, x: x[torchvision.ops.nms(x[:, :4], x[:, 0], 0.5)], True),
        (lambda _self, x: x[x[:, 0] > 0], True),
        (lambda _self, x: x if x.sum().item() > 0 else -x, True),
        (lambda _self, x: x * x.tolist()[0][0], True),
        (lambda _self, x: x[x.detach().long().unique() * 0], True),
        (lambda _self, x: x.detach().numpy(), False),
        (lambda self, x: self.tupled(x)[0] if self.training and x.sum() > 0 else x, True),  # in training alone
    ],
    ids=["nms", "mask", "item", "list", "unique", "numpy", "training"],
)
def test_what_reads_values_runs_once(decide, is_trained):
    network = Own(lambda self, x: decide(self, self.linear(x)), linear=linear(8, 5))
    network.tupled = lambda x: (x,)
    row = counted(lambda batch: (network, rows(batch, 8)), 3)
    assert row.forward_flop == 2 * 3 * 8 * 5
    assert row.backward_flop == (row.forward_flop if is_trained else None)
    assert row.path == ONE_RUN
    assert not any(parameter.is_meta for parameter in network.parameters())  # the user's own is as it was


def test_a_run_counts_as_tensors_without_memory_do():
    layers = nn.Sequential(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), nn.GELU(), nn.LayerNorm(16))
    call = Call(layers, (torch.randn(2, 8, 16),))
    bare = copy_to_meta(call)
    run, expected = (count.count_network(each.network, each.inputs, is_real=each is call) for each in (call, bare))
    assert run == ({**expected[0], "path": ONE_RUN}, *expected[1:])


def test_a_run_that_takes_too_much_is_a_reason_with_numbers(monkeypatch):
    masked = on(lambda self, x: self.linear(x)[x[:, 0] > 0], 4, linear=linear(4, 3))
    globals()["network"] = masked
    model = Model(f"{__name__}:network", OWN, OWN, (4,))
    # 12 weights and gradients, 4 B each, are 96 B, and an input 16 B
    monkeypatch.setattr(count, "available_memory_byte", lambda: 130)
    one, *others = (each.workload for each in count.count_all(model, [1, 2, 4, 8], "fp32", None))
    assert (one.status, one.forward_flop) == ("ok", 24)
    assert [row.status for row in others] == ["ok", "unsupported", "unsupported"]
    assert "one real run takes 160 B for weights, gradients and inputs, and 130 B are free" in others[1].reason
    assert others[1].reason == others[2].reason
    monkeypatch.setattr(count, "LIMIT_S", -1)
    with pytest.raises(count.LimitError, match=r"^Own, operator .*; one real run takes longer than -1 s; name fewer"):
        counted(masked, 1)


@pytest.mark.slow
def test_a_detector_of_torchvision():
    (model,) = catalog.find(["torchvision:ssdlite320_mobilenet_v3_large"])
    row = count.count(model, 1).workload
    published = torchvision.models.get_model_weights(model.name).DEFAULT.meta["_ops"]  # in units of 1e9 MAC
    assert row.forward_flop / 2e9 == pytest.approx(published, abs=0.001)
    assert (row.path, row.backward_flop) == (ONE_RUN, None)
    assert "targets" in row.reason
