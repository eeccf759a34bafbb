import pytest
import torch

from measure.domain.roofs import CacheLevel
from measure.errors import UserError
from measure.machine import devices
from measure.machine.device import MpsEvents
from measure.machine.environment import current


def test_the_processor_is_found_without_a_look_at_gpus(monkeypatch, untuned):
    for name in ("nvidia_handles", "hip_version", "rocm_gpu_count"):
        monkeypatch.setattr(devices, name, lambda name=name: pytest.fail(f"{name} touches a GPU"))
    cpu = devices.find("cpu")
    assert (cpu.torch_name, current(cpu, 2).device) == ("cpu", "cpu")
    cpu.sensors().read()
    assert cpu.events() is None
    cpu.allow_tf32(False)
    with pytest.raises(NotImplementedError, match="this device has none"):
        cpu.allow_tf32(True)


def test_a_missing_device_is_answered_with_the_present_ones(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    for name, answer in (("cuda:x", "use cpu, cuda, cuda:N, mps or auto"), ("cuda:1", "use cuda:0 or cpu")):
        with pytest.raises(UserError, match=answer):
            devices.find(name)


@pytest.mark.parametrize(
    ("system", "machine", "gpus", "names"),
    [
        ("Linux", "x86_64", 2, ["cuda:0", "cuda:1", "cpu"]), ("Linux", "arm64", 0, ["cpu"]),
        ("Darwin", "arm64", 0, ["mps", "cpu"]), ("Darwin", "x86_64", 0, ["cpu"]),  # Intel's have no such GPU
    ],
)  # fmt: skip
def test_gpus_go_before_the_processor(monkeypatch, system, machine, gpus, names):
    monkeypatch.setattr(devices, "hip_version", lambda: None)
    monkeypatch.setattr(devices, "nvidia_handles", lambda: [object()] * gpus)
    monkeypatch.setattr(devices.platform, "system", lambda: system)
    monkeypatch.setattr(devices.platform, "machine", lambda: machine)
    assert devices.available_names() == names
    assert devices.find("cpu").torch_name == "cpu"


# A line of ioreg on an M4
CORES = '      "gpu-core-count" = 10'


@pytest.mark.parametrize(
    ("printed", "name"), [(CORES, "Apple M4 GPU (10 cores)"), ('"model" = "Apple M4"', "Apple M4 GPU")]
)
def test_an_apple_gpu_is_identified_by_its_chip_and_its_cores(monkeypatch, printed, name):
    monkeypatch.setattr(devices.processor, "read_cpuinfo", lambda: {"model name": "Apple M4"})
    monkeypatch.setattr(devices.processor, "output_of", lambda program, *_: printed if program == "ioreg" else "")
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12 * 2**30)
    identity = devices.Mps().identity()
    assert devices.Mps().memory_byte() == 12 * 2**30  # Metal's limit
    assert (identity["name"], identity["gpu"]) == (name, "mps")
    assert devices.Cpu().identity()["name"] == "Apple M4"


# Four times its last level, all of its caches together
@pytest.mark.parametrize(
    ("caches", "byte"), [((CacheLevel(1, 2**16, 2), CacheLevel(3, 2**26, 2)), 4 * 2**26), ((), 4 * 2**25)]
)
def test_caches_are_cleared_by_touching_more_than_they_hold(monkeypatch, caches, byte):
    monkeypatch.setattr(devices.processor, "caches", lambda: caches)
    clear = devices.find("cpu").cache_clearer()
    buffer = clear()
    assert buffer.untyped_storage().nbytes() == byte
    assert float(buffer[-1]) == 1.0
    assert float(clear()[-1]) == 2.0


class Mark:
    """A mark in Metal's queue; it keeps the time of its setting."""

    now_s, made = 1.0, 0

    def __init__(self, enable_timing):
        assert enable_timing
        Mark.made += 1

    def record(self):
        self.at_s = Mark.now_s

    def elapsed_time(self, end):
        if end.at_s <= self.at_s:
            raise RuntimeError("End event 2 was not recorded after start event 1")
        return (end.at_s - self.at_s) * 1e3  # milliseconds


def test_each_block_on_an_apple_gpu_has_marks_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.mps.event, "Event", Mark)
    events = MpsEvents()
    for block_s in (0.5, 0.125, 0.0):
        events.start()
        Mark.now_s += block_s
        events.stop()
        assert events.elapsed_s() == (block_s or None)  # marks in reverse have no time between them
    assert Mark.made == 6
