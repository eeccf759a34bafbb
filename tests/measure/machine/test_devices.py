import pytest

from measure.domain.roofs import CacheLevel
from measure.errors import UserError
from measure.machine import devices
from measure.machine.device import MpsEvents
from measure.machine.environment import current


def test_cpu_is_always_there():
    assert devices.available_names()[-1] == "cpu"
    assert devices.find("cpu").torch_name == "cpu"


def test_the_processor_is_found_and_described_without_a_look_at_gpus(monkeypatch, untuned):
    pytest.importorskip("torch", reason="an environment names torch's version")
    for name in ("nvidia_handles", "hip_version", "rocm_gpu_count"):
        monkeypatch.setattr(devices, name, lambda name=name: pytest.fail(f"{name} touches a GPU"))
    cpu = devices.find("cpu")
    assert current(cpu, 2).device == "cpu"
    cpu.sensors().read()


def test_auto_takes_the_first_device():
    assert devices.find("auto").torch_name == devices.available_names()[0]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "", "CPU "])
def test_a_word_that_is_no_device_is_answered_with_those_that_are(name):
    with pytest.raises(UserError, match="use cpu, cuda, cuda:N, mps or auto"):
        devices.find(name)


def test_a_device_that_is_not_there_is_answered_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    with pytest.raises(UserError, match="there is no cuda:1 on this machine; use cuda:0 or cpu"):
        devices.find("cuda:1")


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert not [name for name in devices.available_names() if name.startswith("cuda")]


def test_an_apple_gpu_has_the_memory_that_metal_lets_it_use(monkeypatch):
    torch = pytest.importorskip("torch", reason="the GPU is asked through torch")
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 12 * 2**30)
    assert devices.Mps().memory_byte() == 12 * 2**30


SAID = """+-o AGXAcceleratorG16G  <class AGXAcceleratorG16G, id 0x10000039c, registered, matched, active>
    {
      "IOMatchedAtBoot" = Yes
      "PerformanceStatistics" = {"In use system memory (driver)"=0,"Device Utilization %"=30}
      "model" = "Apple M4"
      "gpu-core-count" = 10
    }
"""
"""What ioreg prints on an M4."""


@pytest.mark.parametrize(
    ("said", "name"),
    [(SAID, "Apple M4 GPU (10 cores)"), ('"model" = "Apple M4"', "Apple M4 GPU"), ("", "Apple M4 GPU")],
)
def test_an_apple_gpu_is_known_by_its_chip_and_the_number_of_its_cores(monkeypatch, said, name):
    monkeypatch.setattr(devices.processor, "read_cpuinfo", lambda: {"model name": "Apple M4"})
    monkeypatch.setattr(devices.processor, "output_of", lambda program, *_: said if program == "ioreg" else "")
    identity = devices.Mps().identity()
    assert (identity["name"], identity["gpu"]) == (name, "mps")
    assert devices.Cpu().identity()["name"] == "Apple M4"


@pytest.mark.parametrize(
    ("caches", "byte"),
    [
        # four times its last level, all of its caches together
        ((CacheLevel(1, 2**16, 2), CacheLevel(3, 2**26, 2)), 4 * 2**26),
        ((), 4 * 2**25),
    ],
)
def test_a_processors_caches_are_cleared_by_reading_and_writing_more_than_they_hold(monkeypatch, caches, byte):
    pytest.importorskip("torch", reason="caches are cleared with torch")
    monkeypatch.setattr(devices.processor, "caches", lambda: caches)
    clear = devices.find("cpu").cache_clearer()
    buffer = clear()
    assert buffer.untyped_storage().nbytes() == byte
    assert float(buffer[-1]) == 1.0
    assert float(clear()[-1]) == 2.0


def test_a_processor_has_no_tf32():
    cpu = devices.find("cpu")
    cpu.allow_tf32(False)
    with pytest.raises(NotImplementedError, match="this device has none"):
        cpu.allow_tf32(True)


def test_a_processor_has_no_stopwatch_but_the_hosts():
    assert devices.find("cpu").events() is None


class Metal:
    """Metal's queue, which a test puts forward: marks keep the time (s) at which they are set."""

    def __init__(self):
        self.now_s = 1.0
        self.marks = 0

    def event(self, enable_timing):
        assert enable_timing
        self.marks += 1
        return Mark(self, self.marks)


class Mark:
    def __init__(self, metal, number):
        self.metal, self.number = metal, number

    def record(self):
        self.at_s = self.metal.now_s

    def elapsed_time(self, end):
        if end.at_s <= self.at_s:
            raise RuntimeError(f"End event {end.number} was not recorded after start event {self.number}")
        return (end.at_s - self.at_s) * 1e3  # milliseconds


@pytest.fixture
def metal(monkeypatch):
    torch = pytest.importorskip("torch", reason="marks are torch's")
    metal = Metal()
    monkeypatch.setattr(torch.mps.event, "Event", metal.event)
    return metal


def test_the_time_between_two_marks_is_in_seconds(metal):
    events = MpsEvents()
    events.start()
    metal.now_s += 0.25
    events.stop()
    assert events.elapsed_s() == pytest.approx(0.25)


def test_each_block_has_marks_of_its_own(metal):
    events = MpsEvents()
    for block_s in (0.5, 0.125):
        events.start()
        metal.now_s += block_s
        events.stop()
        assert events.elapsed_s() == pytest.approx(block_s)
    assert metal.marks == 4


def test_marks_in_reverse_have_no_time_between_them(metal):
    events = MpsEvents()
    events.start()
    events.stop()
    assert events.elapsed_s() is None


def test_another_failure_of_the_device_is_raised(metal, monkeypatch):
    def fail(_first, _last):
        raise RuntimeError("Invalid Event ID: 7")

    monkeypatch.setattr(Mark, "elapsed_time", fail)
    events = MpsEvents()
    events.start()
    events.stop()
    with pytest.raises(RuntimeError, match="Invalid Event ID"):
        events.elapsed_s()
