from helpers.tasks import inference_task, profile_task, training_task

from measure.cache.workload_records import Workload
from measure.models import catalog
from measure.run.estimate import MemoryFit
from measure.run.task import Failure

ALEXNET = catalog.find(["alexnet"])[0]


def counted(batch, precision, peak_byte, autocast=None):
    return Workload(
        "alexnet", "torchvision", "plain", "3x224x224", batch, precision, autocast, "ok", None,
        inference_peak_byte=peak_byte,
    )  # fmt: skip


def test_what_needs_more_than_the_device_has_is_refused_with_both_numbers():
    rows = [counted(1, "fp32", 2_000_000_000), counted(64, "fp32", 16_000_000_001), counted(64, "bf16", None)]
    memory = MemoryFit(16_000_000_000, lambda: rows)

    def refusal(batch, precision):
        return memory.refusal(inference_task(ALEXNET, batch, precision, "eager", 0))

    assert refusal(1, "fp32") is None
    assert refusal(64, "fp32") == Failure("oom", "not tried: its tensors need 16.0 GB, the device has 16.0 GB")
    assert refusal(64, "tf32") == refusal(64, "fp32")  # what is stored is the same
    assert refusal(64, "bf16") is None  # not counted, so it is tried
    assert refusal(256, "fp32") is None


def test_a_training_step_needs_its_own_peak_and_with_adam_a_larger_state():
    row = Workload(
        "alexnet", "torchvision", "plain", "3x224x224", 32, "fp32", None, "ok", None,
        inference_peak_byte=1_000, training_peak_byte=5_000, momentum_byte=600, adam_byte=1_204,
    )  # fmt: skip

    def refusal(device_byte, variant="eager"):
        return MemoryFit(device_byte, lambda: [row]).refusal(training_task(ALEXNET, 32, "fp32", variant, 0))

    assert refusal(5_000) is None
    assert refusal(4_999) is not None
    assert refusal(5_604, "channels_last+adam") is None  # 5000 - 600 + 1204
    assert refusal(5_603, "channels_last+adam") is not None
    assert MemoryFit(1_000, lambda: [row]).refusal(inference_task(ALEXNET, 32, "fp32", "eager", 0)) is None


def test_a_profile_needs_what_its_phase_does():
    row = Workload(
        "alexnet", "torchvision", "plain", "3x224x224", 32, "fp32", None, "ok", None,
        inference_peak_byte=1_000, training_peak_byte=5_000,
    )  # fmt: skip
    memory = MemoryFit(1_000, lambda: [row])
    assert memory.refusal(profile_task(ALEXNET, 32, "fp32", "eager", "inference")) is None
    assert memory.refusal(profile_task(ALEXNET, 32, "fp32", "eager", "step")).status == "oom"


def test_a_step_whose_memory_was_not_counted_is_tried():
    task = training_task(ALEXNET, 1, "fp32", "adam", 0)
    assert MemoryFit(1, lambda: [counted(1, "fp32", 2)]).refusal(task) is None
