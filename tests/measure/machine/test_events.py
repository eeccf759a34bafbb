import pytest

from measure.machine.device import MpsEvents

torch = pytest.importorskip("torch", reason="marks are torch's")


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
