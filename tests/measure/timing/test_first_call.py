import threading
from types import SimpleNamespace

import pytest
from helpers.tasks import cell

from measure.domain.models import Model
from measure.machine import devices
from measure.timing import stopwatch
from measure.timing.sampling import Sampling

torch = pytest.importorskip("torch", reason="networks are run with torch")
from measure.timing import forward, training  # noqa: E402

NET = Model("net", "torchvision", "plain", (1,))
HASTY = Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0)
PATIENCE_S = 5.0
"""How long a test waits for what must come; one that fails waits in vain."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Signs of life come each millisecond."""
    monkeypatch.setattr(stopwatch, "BEAT_EVERY_S", 0.001)


class Compiled(torch.nn.Module):
    """A network whose first call ends when two signs of life have come, or after a while without."""

    def __init__(self, network, beats):
        super().__init__()
        self.network = network
        self.beats = beats
        self.beats_of_first = None

    def forward(self, numbers):
        if self.beats_of_first is None:
            before, self.beats.awaited = self.beats.count, self.beats.count + 2
            self.beats.have_come.wait(PATIENCE_S)
            self.beats_of_first = self.beats.count - before
        return self.network(numbers)


class Beats:
    """Signs of life, which are counted; ``have_come`` is set from the awaited one on."""

    def __init__(self):
        self.count, self.awaited = 0, float("inf")
        self.have_come = threading.Event()

    def __call__(self):
        self.count += 1
        if self.count >= self.awaited:
            self.have_come.set()


def showing():
    """The threads that show signs of life."""
    return [each for each in threading.enumerate() if each.name == stopwatch.__name__]


@pytest.mark.parametrize(("module", "phase"), [(forward, "inference"), (training, "step")])
def test_a_first_call_that_compiles_shows_signs_of_life(monkeypatch, module, phase):
    beats, compiled = Beats(), []
    monkeypatch.setattr("measure.models.catalog.build", lambda model: torch.nn.Linear(1, 2).eval())
    monkeypatch.setattr("measure.models.catalog.make_inputs", lambda model, batch, *_: (torch.ones(batch, 1),))
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(Compiled(network, beats)) or compiled[-1])
    module.measure(devices.find("cpu"), NET, cell(NET, variant="compile", phase=phase), HASTY, beats)
    assert compiled[0].beats_of_first >= 2


class Cpu:
    @staticmethod
    def synchronize():
        pass


def first_call(call, beats, limit_s, monkeypatch):
    monkeypatch.setattr(stopwatch.variants, "first_call_s", lambda variant: limit_s)
    stopwatch.run_first_call(call, "compile", Cpu, beats)


def test_signs_of_life_end_at_the_limit(monkeypatch):
    beats = Beats()
    beats.awaited = 3

    def hang():
        assert beats.have_come.wait(PATIENCE_S)
        for signs in showing():
            signs.join(PATIENCE_S)
        assert beats.count == 3

    first_call(hang, beats, 3 * stopwatch.BEAT_EVERY_S, monkeypatch)


def test_signs_of_life_end_with_the_call_even_if_it_fails(monkeypatch):
    def fail():
        assert len(showing()) == 1
        raise RuntimeError("no way")

    first_call(lambda: None, Beats(), 1000.0, monkeypatch)
    assert showing() == []
    with pytest.raises(RuntimeError, match="no way"):
        first_call(fail, Beats(), 1000.0, monkeypatch)
    assert showing() == []


def test_a_variant_that_sets_nothing_up_has_no_call_of_its_own():
    device, calls = SimpleNamespace(synchronize=lambda: calls.append("synchronize")), []
    stopwatch.run_first_call(lambda: calls.append("call"), "channels_last+cold", device, lambda: None)
    assert calls == []
    stopwatch.run_first_call(lambda: calls.append("call"), "cudnn_benchmark", device, lambda: None)
    assert calls == ["call", "synchronize"]  # what was queued is done, too
