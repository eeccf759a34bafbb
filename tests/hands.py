"""A clock for tests of timing."""


class Hands:
    """A clock that a call moves by hand."""

    def __init__(self, durations_s):
        self.now = 0
        self.calls = 0
        self.synchronized = 0
        self._durations = iter(durations_s)
        self._last = 0.0

    def clock(self):
        return self.now

    def call(self):
        self._last = next(self._durations, self._last)
        self.now += round(self._last * 1e9)
        self.calls += 1

    def synchronize(self):
        self.synchronized += 1
