"""The conditions of a round on an asynchronous GPU whose sensors tell of the present, with a clock moved by hand."""

from dataclasses import replace

import pytest
from helpers.gpu.stream import Meter
from helpers.watching import Hands

from measure.machine.sensors import NVIDIA_STEP_S, Reading, Sensors
from measure.timing.sampling import ENERGY_S, Sampling, sample
from measure.timing.stopwatch import StagedStopwatch, Stopwatch

IDLE_W, WORK_W = 100.0, 500.0  # always, and more at work
ROUND = Sampling(has_energy=True)


class Gpu(Sensors):
    """A call takes ``host_s`` to launch and ``device_s`` to run; a reading takes 1 ms.

    The energy counter takes up every 100 ms what was used until 30 ms before. The clock falls as the work ends.
    """

    is_asynchronous = True

    def __init__(self, host_s, device_s, begins_s=0.0, step_s=0.1, change=lambda _at_s, energy_j: energy_j):
        self.hands, self.host_s, self.device_s, self.step_s, self.change = Hands([]), host_s, device_s, step_s, change
        self.hands.now = round(1e9 * begins_s)
        self.busy_until = 0
        self.work_j = Meter()

    def call(self):
        start = max(self.hands.now, self.busy_until)
        self.busy_until = start + round(1e9 * self.device_s)
        self.work_j.add(start, self.busy_until, WORK_W * self.device_s)
        self.hands.now += round(1e9 * self.host_s)

    def synchronize(self):
        self.hands.now = max(self.hands.now, self.busy_until)

    def read(self):
        self.hands.now += 1_000_000
        now_s = self.hands.now / 1e9
        step = (now_s - 0.03) // self.step_s * self.step_s
        energy_j = self.change(now_s, IDLE_W * step + self.work_j.until(round(1e9 * step)))
        clock_hz = 1.8e9 if self.hands.now <= self.busy_until else 0.3e9
        return Reading(now_s, energy_j=energy_j, energy_step_s=NVIDIA_STEP_S, clock_hz=clock_hz, power_w=9.0)

    def time(self, sampling=ROUND):
        return sample(Stopwatch(self.call, self.synchronize, self.hands.clock), sampling, self).conditions


@pytest.mark.parametrize("begins_s", [1.0, 1.037, 1.071])  # whatever the counter's phase
@pytest.mark.parametrize(
    ("host_s", "device_s", "call_j"),
    [
        (0.001, 0.0002, 0.2),  # the host's: 100 W for 1 ms and 500 W for 0.2 ms
        (0.0005, 0.001, 0.6),  # the device's: 600 W for 1 ms
        (0.001, 0.013, 7.8),
        (0.001, 0.17, 102.0),
        (0.001, 1.1, 660.0),
    ],
)
def test_energy_is_right_within_two_percent(host_s, device_s, call_j, begins_s):
    found = Gpu(host_s, device_s, begins_s).time()
    assert found.energy_j == pytest.approx(call_j, rel=0.02)
    assert found.power_w == pytest.approx(call_j / max(host_s, device_s), rel=0.02)


def test_a_step_is_run_as_a_whole_and_in_stages():
    gpu = Gpu(0.001, 0.01)
    parts = gpu.hands.clock, lambda: None, None, None
    watch = StagedStopwatch(gpu.call, gpu.synchronize, *parts, stages={"all": gpu.call}, is_asynchronous=True)
    assert sample(watch, ROUND, gpu).conditions.energy_j == pytest.approx(6.0, rel=0.02)


def test_the_clock_is_read_at_work():
    assert Gpu(0.001, 0.03).time().clock_hz == 1.8e9
    assert Gpu(0.001, 0.03).time(Sampling()).clock_hz == 1.8e9


@pytest.mark.parametrize(("has_energy", "least_s"), [(True, ENERGY_S), (False, ROUND.least_s)])
def test_a_round_with_energy_is_longer(has_energy, least_s):
    gpu, sampling = Gpu(0.001, 0.02), replace(ROUND, has_energy=has_energy)
    timing = sample(Stopwatch(gpu.call, gpu.synchronize, gpu.hands.clock), sampling, gpu)
    assert sum(timing.latencies_s) == pytest.approx(least_s, rel=0.1)  # blocks of one call


@pytest.mark.parametrize(
    ("gpu", "sampling"),
    [
        (Gpu(0.001, 0.02), Sampling()),
        (Gpu(0.001, 0.02), replace(ROUND, limit_s=1.5)),  # fewer than 20 steps
        (Gpu(0.001, 0.02, step_s=1.0), ROUND),  # a step that does not come while it is awaited
        (Gpu(0.001, 0.02, change=lambda _at_s, _energy_j: None), ROUND),
        # It stops or is reset while the samples are taken, which begins before 1.5 s
        (Gpu(0.001, 0.02, change=lambda at_s, energy_j: energy_j if at_s < 2.0 else None), ROUND),
        (Gpu(0.001, 0.02, change=lambda at_s, energy_j: energy_j + 1e6 * (at_s < 2.0)), ROUND),
    ],
)
def test_energy_is_unknown_without_steps_of_the_counter(gpu, sampling):
    found = gpu.time(sampling)
    assert (found.energy_j, found.power_w) == (None, 9.0)
