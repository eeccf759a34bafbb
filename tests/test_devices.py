import pytest

from measure import devices
from measure.errors import UserError


def test_cpu_is_always_there():
    assert devices.available_names()[-1] == "cpu"
    assert devices.find("cpu").torch_name == "cpu"


def test_auto_takes_the_first_device():
    assert devices.find("auto").torch_name == devices.available_names()[0]


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "", "CPU "])
def test_a_word_that_is_no_device_is_answered_with_those_that_are(name):
    with pytest.raises(UserError, match="say cpu, cuda, cuda:N, mps or auto"):
        devices.find(name)


def test_a_device_that_is_not_there_is_answered_with_what_is(monkeypatch):
    monkeypatch.setattr(devices, "available_names", lambda: ["cuda:0", "cpu"])
    with pytest.raises(UserError, match="there is no cuda:1 on this machine; there is cuda:0, cpu"):
        devices.find("cuda:1")


def test_without_a_driver_there_is_no_gpu(monkeypatch):
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is part of the measure extra")

    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    assert not [name for name in devices.available_names() if name.startswith("cuda")]


def test_a_processor_clears_several_times_its_last_level_of_cache(monkeypatch):
    pytest.importorskip("torch", reason="caches are cleared with torch")
    monkeypatch.setattr(devices, "_last_level_cache_byte", lambda: 2**26)
    clear = devices.find("cpu").cache_clearer()
    buffer = clear()
    assert buffer.untyped_storage().nbytes() == 4 * 2**26
    assert float(buffer[-1]) == 1.0  # read and written
    assert float(clear()[-1]) == 2.0


def test_the_last_level_of_cache_is_all_of_its_caches_together(tmp_path):
    # Four cores, each with an L1 and an L2 of its own, and on each of two dies an L3 of 32 MiB.
    for core in range(4):
        caches = {
            0: ("1", "32K", f"{core}"),
            1: ("1", "32K", f"{core}"),
            2: ("2", "1024K", f"{core}"),
            3: ("3", "32768K", "0-1" if core < 2 else "2-3"),
        }
        for index, (level, size, sharing) in caches.items():
            folder = tmp_path / f"cpu{core}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", level), ("size", size), ("shared_cpu_list", sharing)):
                (folder / name).write_text(f"{text}\n")
    assert devices._last_level_cache_byte(tmp_path) == 2 * 32 * 2**20


def test_a_system_that_shows_no_caches_has_none(tmp_path):
    assert devices._last_level_cache_byte(tmp_path) == 0


def test_only_nvidias_gpus_have_tf32():
    cpu = devices.find("cpu")
    cpu.allow_tf32(False)
    with pytest.raises(NotImplementedError, match="this device has none"):
        cpu.allow_tf32(True)


def test_a_processor_has_no_stopwatch_but_the_hosts():
    assert devices.find("cpu").events() is None


@pytest.mark.gpu
def test_a_gpu_times_itself_and_clears_its_cache():
    torch = pytest.importorskip("torch", reason="GPUs are used through torch")
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    gpu.prepare(1)
    clear = gpu.cache_clearer()
    cache_byte = torch.cuda.get_device_properties(0).L2_cache_size
    assert clear().untyped_storage().nbytes() >= 4 * cache_byte
    events = gpu.events()
    events.start()
    clear()
    events.stop()
    gpu.synchronize()
    assert events.elapsed_s() > 0


@pytest.mark.gpu
def test_a_gpu_says_how_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    reading = devices.find("cuda").sensors().read()
    assert reading.core_s > 0
    assert reading.temperature_c is None or 0 < reading.temperature_c < 120
    assert reading.clock_hz is None or 1e8 < reading.clock_hz < 1e10


@pytest.mark.gpu
def test_a_gpu_says_who_it_is():
    if "cuda:0" not in devices.available_names():
        pytest.skip("no NVIDIA GPU on this machine")
    gpu = devices.find("cuda")
    assert "NVIDIA" in gpu.identity()["name"]
    assert gpu.memory_byte() > 2**30
    assert gpu.driver()
