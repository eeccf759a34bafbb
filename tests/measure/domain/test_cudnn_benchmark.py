import pytest

from measure.domain import variants

torch = pytest.importorskip("torch", reason="cuDNN is set through torch")


def begin(device_kind):
    (variant,) = variants.joined_in("cudnn_benchmark")
    variant.begin(device_kind, "fp32")


def test_cudnn_times_its_algorithms_in_this_variant(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)  # as it is by default; put back at the end
    begin("cuda")
    assert torch.backends.cudnn.benchmark


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_a_device_without_cudnn_has_no_such_variant(kind):
    with pytest.raises(NotImplementedError, match=f"on NVIDIA's GPUs, not on {kind}"):
        begin(kind)
    assert not torch.backends.cudnn.benchmark
