import sys
from itertools import pairwise
from types import SimpleNamespace

import pytest

from measure.domain import words
from measure.domain.roofs import CacheLevel
from measure.domain.words import BURST, STREAM_ARRAYS, SUSTAINED
from measure.machine import devices, processor
from measure.machine.sensors import Reading
from measure.roofs import roofs
from measure.roofs.roofs import flop_and_byte
from measure.run.worker import classify
from measure.timing.sampling import Sampling

KINDS = ("cpu", "cuda", "mps")


@pytest.fixture
def quick(monkeypatch):
    """Samples that take no time to speak of."""
    short = Sampling(warm_up_s=0.01, least_s=0.0, block_s=0.001, trend_s=0.0, most=8, fewest=6)
    monkeypatch.setattr(roofs, "SAMPLINGS", {SUSTAINED: short, BURST: short})
    monkeypatch.setattr(words, "HEAT_S", 0.02)
    monkeypatch.setattr(words, "REST_S", 0.001)
    monkeypatch.setattr(roofs, "CALL_S", 0.0001)
    monkeypatch.setattr(roofs, "CALL_S_PER_THREAD", 0.0)


@pytest.mark.parametrize(
    ("kernel", "work"),
    [
        # 100^3 multiply-adds on three matrices of 100 * 100 * 2 bytes
        (("matmul", "bf16", 100), (2_000_000, 60_000)),
        (("numpy_matmul", "fp32", 100), (2_000_000, 120_000)),
        (("matmul", "tf32", 100), (2_000_000, 120_000)),  # stored as fp32
        # Two matrices of 100 * 100 bytes; the product's numbers take two bytes (bf16) or four (sums of integers)
        (("matmul", "fp8", 100), (2_000_000, 40_000)),
        (("matmul", "int8", 100), (2_000_000, 60_000)),
        (("fma", "fp64", 1000), (2000, 0)),  # 2 FLOP each, in registers
        (("chain", "fp64", 1000), (1000, 0)),  # an addition each
        (("chain", "int64", 1000), (0, 0)),  # integers are no FLOP
        (("idle", "fp32", 1000), (0, 0)),
        # The whole working set, once. Only a triad computes: 100 elements of three arrays of 8 bytes, a product and a
        # sum each
        *(((kernel, "fp64", 2400), (0, 2400)) for kernel in STREAM_ARRAYS if kernel != "stream_triad"),
        (("stream_triad", "fp64", 2400), (200, 2400)),
        (("stream_triad", "fp32", 2400), (400, 2400)),
    ],
)
def test_the_work_of_a_kernel(kernel, work):
    assert flop_and_byte(*kernel) == work


@pytest.mark.parametrize("kind", KINDS)
def test_every_kernel_has_each_pace_once(kind):
    kernels = roofs.roof_kernels(kind, ["fp32", "bf16"])
    assert len(set(kernels)) == len(kernels)
    burst, sustained = ({kernel[:3] for kernel in kernels if kernel[3] == pace} for pace in (BURST, SUSTAINED))
    assert burst < sustained
    both = {"matmul", *STREAM_ARRAYS} | ({"fma"} if kind != "mps" else set())
    assert {kernel for kernel, *_ in burst} == both
    # A clock and NumPy are a processor's alone, NumPy has no bf16. An Apple GPU has no counter of energy.
    others = {"cpu": {"chain", "numpy_matmul", "idle"}, "cuda": {"idle"}, "mps": set()}[kind]
    assert {kernel for kernel, *_ in kernels} == both | others
    assert ("numpy_matmul", "bf16") not in {kernel[:2] for kernel in kernels}


def sizes(kind):
    """The working sets of a stream, in the order of their first measurement."""
    streams = [each for each in roofs.roof_kernels(kind, []) if (each[0], each[3]) == ("stream_copy", SUSTAINED)]
    return list(dict.fromkeys(size for _, _, size, *_ in streams))


L1, L2, L3 = CacheLevel(1, 4 * 2**15, 4), CacheLevel(2, 2**23, 1), CacheLevel(3, 128 * 2**20, 2)


@pytest.mark.parametrize("cores", [3, 4])
@pytest.mark.parametrize(
    ("caches", "least"),
    [
        ((L1, L2), 512 * 2**20),  # eight caches are 64 MiB
        ((L1, L2, L3), 1024 * 2**20),  # 8 * 128 MiB
        ((), 512 * 2**20),  # the system reports none
    ],
)
def test_the_working_sets_of_a_processor(monkeypatch, caches, least, cores):
    monkeypatch.setattr(processor, "physical_cores", lambda: cores)
    monkeypatch.setattr(processor, "caches", lambda: caches)
    swept = sizes("cpu")
    assert least <= swept[0] < least * 2**0.5  # a smaller one is no roof
    assert swept == sorted(swept, reverse=True)  # memory before any cache
    assert swept[-1] == pytest.approx(cores * 8 * 1024, rel=0.1)
    steps = [large / small for large, small in pairwise(swept)]
    assert all(1.2 < step < 1.7 for step in steps)  # about the square root of 2, in whole pieces for each core
    assert steps[0] == pytest.approx(2**0.5, rel=1e-3)
    assert all(size % (cores * 6 * 256) == 0 for size in swept)


@pytest.mark.parametrize("kind", KINDS)
def test_only_streams_of_the_largest_set_have_three_rounds(kind):
    kernels = roofs.roof_kernels(kind, ["fp32", "bf16"])
    largest = sizes(kind)[0]
    # At rest before any work; a round of each stream before the next of any, and these before whatever else works
    at_rest = [each for each in kernels if each[0] == "idle"]
    assert kernels[: len(at_rest)] == at_rest
    expected = [(kernel, largest, SUSTAINED, number) for number in (0, 1, 2) for kernel in STREAM_ARRAYS]
    rounds = [(kernel, size, pace, number) for kernel, _, size, pace, number in kernels if number is not None]
    assert rounds == expected
    assert all(number is not None for *_, number in kernels[len(at_rest) :][: len(expected)])
    assert {size for kernel, _, size, pace, _ in kernels if kernel in STREAM_ARRAYS and pace == BURST} == {largest}


MIB = 2**20
READ_AND_TRIAD = {"stream_read", "stream_triad"}


def test_a_gpus_first_roofs_have_its_memory_its_l2_and_its_idle_power():
    """Three sizes make a level: 1.4 to 2.8 MiB in the 4 MiB of a T4, 16 to 32 MiB in the 40 MiB of an A100."""
    first = roofs.first_kernels("cuda", ("fp32", "bf16"))
    second = roofs.second_kernels("cuda")
    assert {(kernel, round(size / MIB)) for kernel, _, size, *_ in first if kernel != "matmul"} == {
        ("stream_read", 1024), ("stream_triad", 1024)
    }  # fmt: skip
    assert {(precision, size) for kernel, precision, size, *_ in first if kernel == "matmul"} == {
        ("fp32", 4096), ("bf16", 4096)
    }  # fmt: skip
    in_l2 = {(kernel, round(size / MIB, 1)) for kernel, _, size, *_ in second if kernel != "idle"}
    assert in_l2 == {(kernel, size) for kernel in READ_AND_TRIAD for size in (1.4, 2.0, 2.8, 16.0, 22.6, 32.0)}
    assert ("idle", "fp32", 10, SUSTAINED, None) in second
    assert {*first, *second} <= set(roofs.roof_kernels("cuda", ["fp32", "bf16"]))
    # A processor's time is dearer: its triad alone, and its caches later
    assert [kernel for kernel, *_ in roofs.first_kernels("cpu", ("fp32",))] == ["stream_triad", "matmul"]
    assert roofs.second_kernels("cpu") == []


def test_kernels_that_give_the_energy_of_a_kind_of_work_are_sampled_for_it():
    kernels = roofs.roof_kernels("cuda", ["fp32", "bf16"])
    long = {
        (kernel, precision, round(size / MIB, 1) if "stream" in kernel else size)
        for kernel, precision, size, pace, _ in kernels
        if roofs.sampling_of("cuda", kernel, size, pace).has_energy
    }
    streams = {(kernel, "fp32", size) for kernel in READ_AND_TRIAD for size in (2.8, 32.0, 1024.0)}
    products = {("matmul", precision, 4096) for precision in ("fp32", "bf16")}
    multiply_adds = {("fma", precision, 2**36) for precision in ("fp32", "fp64")}
    assert long == {("idle", "fp32", 10), *streams, *products, *multiply_adds}
    assert not roofs.sampling_of("cuda", "fma", 2**36, BURST).has_energy


def test_the_working_sets_of_a_gpu():
    swept = sizes("cuda")
    assert swept == sizes("mps")
    assert (swept[-1], swept[0]) == pytest.approx((2**20, 2**30), rel=0.01)
    assert len(swept) == 21  # ten doublings, two working sets each


@pytest.mark.parametrize(
    "kernel",
    [
        ("matmul", "fp32", 64, BURST), ("matmul", "int8", 64, SUSTAINED), ("fma", "fp32", 12 * 2**12, SUSTAINED),
        ("stream_triad", "fp64", 6 * 2**12, BURST), ("chain", "int64", 2**14, SUSTAINED),
    ],
    ids=lambda kernel: "-".join(map(str, kernel)),
)  # fmt: skip
def test_a_roof_has_a_time_with_its_interval(quick, kernel):
    beats = []
    timing = roofs.measure(devices.find("cpu"), *kernel, lambda: beats.append(1))
    assert timing.latency_low_s <= timing.latency_s <= timing.latency_high_s
    assert 6 <= timing.sample_count <= 8
    assert len(beats) >= timing.sample_count


@pytest.fixture
def clock(monkeypatch):
    """The time of the roofs, which work moves by hand."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(roofs, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    return clock


def test_a_chip_is_heated_once_as_long_as_it_does_not_rest(clock):
    heat, calls = roofs.Heat(), []

    def work():
        clock.now += 0.5
        calls.append(1)

    for pause_s, heats in ((0.0, True), (roofs.PAUSE_S, False), (1.1 * roofs.PAUSE_S, True)):
        clock.now += pause_s
        calls.clear()
        heat.build(work, lambda: None)
        assert len(calls) == (words.HEAT_S / 0.5 if heats else 0)


POWER_W, PASS_S = 50.0, 0.001


@pytest.fixture
def powered(monkeypatch, clock):
    """A GPU whose kernels take a millisecond, at 50 W by a counter with steps of 0.1 s. Its power reads as 51 W."""

    def pass_time(seconds):
        clock.now += seconds

    def read():
        energy_j = None if clock.has_no_counter else POWER_W * (clock.now // 0.1) / 10
        return Reading(
            clock.now, energy_j=energy_j, energy_step_s=0.1, clock_hz=1e9, power_w=51.0, throttle="power cap"
        )

    clock.has_no_counter = False
    times = {"perf_counter": lambda: clock.now, "perf_counter_ns": lambda: round(clock.now * 1e9), "sleep": pass_time}
    monkeypatch.setattr(roofs, "time", SimpleNamespace(**times))
    monkeypatch.setattr(roofs, "HEAT", roofs.Heat())
    prepare = roofs.prepare
    work = lambda passes: pass_time(passes * PASS_S)  # noqa: E731
    monkeypatch.setattr(roofs, "prepare", lambda *given: prepare(*given) if given[1] == "idle" else work)
    sensors = SimpleNamespace(read=read, is_asynchronous=True)
    return SimpleNamespace(kind="cuda", sensors=lambda: sensors, synchronize=lambda: None)


def timed(device, kernel, size, pace=SUSTAINED):
    found = roofs.measure(device, kernel, "fp32", size, pace, lambda: None)
    assert found.throttle == (None if pace == BURST else "power cap")
    return found.latency_s, found.clock_hz, found.power_w, found.energy_j


def test_a_sustained_roof_has_its_clock_power_throttling_and_the_energy_of_one_pass(powered, clock):
    # 50 W for a millisecond. Over more than 2 s the power is the counter's, which is read within 24 ms of a step
    assert timed(powered, "fma", 2**36) == pytest.approx((0.001, 1e9, 50.0, 0.05), rel=0.024)
    # Of a size between the levels a quarter of a second is enough: no energy, and the power as read
    assert timed(powered, "stream_write", 3 * MIB) == pytest.approx((0.001, 1e9, 51.0, None))
    assert timed(powered, "fma", 2**36, BURST) == pytest.approx((0.001, None, None, None))
    clock.has_no_counter = True
    assert timed(powered, "fma", 2**36) == pytest.approx((0.001, 1e9, 51.0, None))


def test_the_idle_power_is_the_energy_of_waiting(powered, clock):
    assert timed(powered, "idle", 10) == pytest.approx((0.01, 1e9, 50.0, 0.5), rel=0.02)  # 50 W for 10 ms
    assert clock.now < words.HEAT_S + 1  # the chip is not warmed up
    assert roofs.HEAT.until < 0  # the next kernel has to
    clock.has_no_counter = True
    with pytest.raises(NotImplementedError, match="idle power needs a counter of energy") as caught:
        timed(powered, "idle", 10)
    assert classify(caught.value).status == "unsupported"


def passes(run, threads=1, longest_s=roofs.LONGEST_PRODUCT_S, beat=lambda: None):
    return roofs._count_passes(run, devices.find("cpu"), threads, 16384, longest_s, beat)


def test_calls_last_long_enough_and_a_slow_product_is_left_out(clock):
    pass_s, beats = 0.001, []

    def run(passes):
        clock.now += pass_s * passes

    # 1, 2, 4 and 8 passes take 1, 2, 4 and 8 ms
    assert passes(run, threads=2) == 8  # 5 ms
    assert passes(run, threads=64) == 64  # a millisecond for each thread
    pauses = iter([0.0, 0.0, 0.02])  # the host's, in the third call

    def run_with_a_pause(passes):
        clock.now += pass_s * passes + next(pauses, 0.0)

    assert passes(run_with_a_pause, threads=2) == 8
    pass_s, clock.now = 2.2, 0.0  # 16384 rows at fp32, 8.8 TFLOP, on a GPU of 4 TFLOP/s
    with pytest.raises(NotImplementedError, match=r"16384 x 16384 takes 2\.2 s \(limit 1\.5 s\); the roof uses"):
        passes(run, beat=lambda: beats.append(clock.now))
    assert clock.now == 2 * 2.2
    assert beats == [2.2]  # two in a row would look like a call that hangs


def test_the_smallest_product_is_measured_however_long_it_takes(quick, monkeypatch):
    monkeypatch.setattr(roofs, "MATMUL_ROWS", {"cpu": (32, 64)})
    monkeypatch.setattr(roofs, "LONGEST_PRODUCT_S", 0.0)
    assert roofs.measure(devices.find("cpu"), "matmul", "fp32", 32, SUSTAINED, lambda: None).latency_s > 0


SLOWER = r"int8 products are slower than fp32 here \(1 GOP/s against 18 GFLOP/s at 512 x 512\); larger ones"


@pytest.mark.parametrize(
    ("precision", "rows", "reason", "begun"),
    [
        # 2 * 512^3 operations take 0.27 s, 2 * 1024^3 take 2.1 s; at 4096 rows they would take 137 s
        ("fp16", 4096, r"1024 x 1024 takes 2\.1 s \(limit 1\.5 s\)", [512, 512, 512, 1024, 1024]),
        ("int8", 1024, SLOWER, [512] * 10),  # bytes that are slower than fp32 are not worth a larger product
    ],
)
def test_no_product_is_begun_that_would_take_minutes(monkeypatch, clock, precision, rows, reason, begun):
    """As on a processor without instructions for 8 and 16 bits: 10^9 operations a second, and 18 * 10^9 at fp32."""
    done = []

    def prepare(_device, _kernel, precision, rows):
        def work(passes):
            done.append(rows)
            clock.now += passes * 2 * rows**3 / (18e9 if precision == "fp32" else 1e9)

        return work

    monkeypatch.setattr(roofs, "prepare", prepare)
    with pytest.raises(NotImplementedError, match=reason) as caught:
        roofs.measure(devices.find("cpu"), "matmul", precision, rows, SUSTAINED, lambda: None)
    assert classify(caught.value).status == "unsupported"
    assert done == begun


@pytest.mark.parametrize(
    ("loads", "quietest"),
    [
        ((0.05,), 1),  # below a tenth: left alone
        ((0.5, 0.02), 2),
        ((0.5, 0.2, 0.3), 2),  # never left alone: the quietest of three
    ],
)
def test_a_kernel_is_timed_until_other_programs_leave_it_alone(loads, quietest):
    # Of four core seconds this process takes one, other programs their share
    busy = [Reading(core_s=4.0, idle_s=3.0 - 4 * load, process_s=1.0) for load in loads]
    readings = iter([each for reading in busy for each in (Reading(), reading)])
    device = SimpleNamespace(kind="cpu", sensors=lambda: SimpleNamespace(read=lambda: next(readings)))
    tries = iter(range(1, 9))
    found, timing = roofs._least_disturbed(lambda: next(tries), device)
    assert (timing, next(tries) - 1) == (quietest, len(loads))
    assert found == pytest.approx(loads[quietest - 1])
    device.kind = "cuda"  # of its kernels the load of the host says nothing
    assert roofs._least_disturbed(lambda: 7, device) == (None, 7)


def test_without_numba_a_processors_kernels_are_unsupported(monkeypatch):
    monkeypatch.setitem(sys.modules, "measure.roofs.processor_kernels", None)
    with pytest.raises(NotImplementedError, match="pip install numba, then measure with --force") as caught:
        roofs.prepare(devices.find("cpu"), "stream_read", "fp64", 6 * 2**12)
    assert classify(caught.value).status == "unsupported"


class Gpu(devices.Cpu):
    """A GPU that Triton may not run on; the processor, in truth."""

    kind = "cuda"


@pytest.mark.parametrize(
    ("triton_s", "torch_s", "size", "taken"),
    [
        (0.002, 0.001, 2**30, "torch"),
        (0.001, 0.002, 2**30, "triton"),
        (0.002, 0.001, 2**29, "triton"),  # where launches would hide the L2's rate
    ],
)
def test_through_a_gpus_memory_the_faster_of_two_streams_counts(monkeypatch, clock, triton_s, torch_s, size, taken):
    done = []

    def library(name, pass_s):
        def work(passes):
            clock.now += passes * pass_s
            done.append(name)

        return SimpleNamespace(prepare=lambda *_: work)

    monkeypatch.setitem(sys.modules, "measure.roofs.triton_kernels", library("triton", triton_s))
    monkeypatch.setitem(sys.modules, "measure.roofs.torch_kernels", library("torch", torch_s))
    work = roofs.prepare(Gpu(), "stream_copy", "fp32", size)
    done.clear()
    work(1)
    assert done == [taken]


def test_without_triton_the_streams_of_a_gpu_are_torchs(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "measure.roofs.triton_kernels", None)
    gpu = Gpu()
    for kernel in STREAM_ARRAYS:
        roofs.prepare(gpu, kernel, "fp32", 6 * 2**12)(2)
    with pytest.raises(NotImplementedError, match="fma is measured with Triton, which does not run here") as caught:
        roofs.prepare(gpu, "fma", "fp32", 2**20)
    assert classify(caught.value).status == "unsupported"
    assert len(caplog.messages) == 1  # once a process
