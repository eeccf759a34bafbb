import pytest

from measure.models import call

torch = pytest.importorskip("torch", reason="meta tensors are torch's")


def test_what_is_allocated_has_no_memory_and_what_is_computed_can_be_read():
    with call.meta_allocation():
        layer = torch.nn.Linear(10**6, 10**6)  # 4 TB
        rates = [rate.item() for rate in torch.linspace(0, 1, 3)]
        count = torch.arange(3).sum().item()
        chosen = torch.zeros(2, device="cpu")
    assert layer.weight.is_meta
    assert rates == [0.0, 0.5, 1.0]
    assert count == 3
    assert not chosen.is_meta
    assert not torch.zeros(2).is_meta


def test_what_meets_a_tensor_on_meta_goes_there_too():
    with call.meta_allocation():
        product = torch.ones(3) * torch.arange(3)
        stored = torch.nn.Module()
        stored.register_buffer("index", torch.arange(3))
    assert product.is_meta
    assert product.shape == (3,)
    assert stored.index.tolist() == [0, 1, 2]
