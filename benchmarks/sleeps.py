"""``python -m measure`` where nothing is measured but short sleeps, to be killed.

Plan, lock, runner, worker process and cache are the real ones. Without torch a round takes tenths of a second.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import __main__ as command
from measure.machine import devices
from measure.run.tasks import CellTask
from measure.timing import calls
from measure.timing.sampling import Sampling, sample
from measure.timing.stopwatch import Stopwatch

SAMPLING = Sampling(target=0.5, block_s=0.002, trend=1, trend_s=0.0, least_s=0.1, limit_s=0.3)


def measure(_device, _model, _cell, _sampling, beat):
    return sample(Stopwatch(lambda: time.sleep(0.001), lambda: None, beat=beat), SAMPLING)


# Also in the worker, which runs this file as well
devices.Cpu.prepare = lambda *_: None
calls.measure = measure
CellTask.libraries = ()

if __name__ == "__main__":
    sys.exit(command.main(sys.argv[1:]))
