from measure import catalog
from measure.fit import Memory
from measure.plan import InferenceTask
from measure.records import Workload
from measure.worker import Failure

ALEXNET = catalog.find(["alexnet"])[0]


def counted(batch, precision, peak_byte, autocast=None):
    return Workload(
        "alexnet", "torchvision", "plain", "3x224x224", batch, precision, autocast, "ok", None,
        inference_peak_byte=peak_byte,
    )  # fmt: skip


def test_what_needs_more_than_the_device_has_is_refused_with_both_numbers():
    rows = [counted(1, "fp32", 2_000_000_000), counted(64, "fp32", 16_000_000_001), counted(64, "bf16", None)]
    memory = Memory(16_000_000_000, lambda: rows)

    def refusal(batch, precision):
        return memory.refusal(InferenceTask(ALEXNET, batch, precision, "eager", 0))

    assert refusal(1, "fp32") is None
    assert refusal(64, "fp32") == Failure(
        "oom", "not tried: its tensors need 16.0 GB, the device has 16.0 GB"
    )
    assert refusal(64, "tf32") == refusal(64, "fp32")  # what is stored is the same
    assert refusal(64, "bf16") is None  # not counted, so it is tried
    assert refusal(256, "fp32") is None
