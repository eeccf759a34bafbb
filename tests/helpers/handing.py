"""A machine's folder as another person hands it in, with a row or more in every table."""

import zipfile

from helpers.rows import (
    ENVIRONMENT,
    ceiling,
    counter_profile,
    kernel_counters,
    kernel_time,
    operator_time,
    profile,
    run,
    samples,
    workload,
)
from measure.cache.folders import MachineFolder

COUNTED = [workload(flop=10)]
"""10 FLOP in 0.1 s at least are 100 FLOP/s; the fastest kernel of ``ceiling`` does 1024 FLOP in 0.5 s: 2048 FLOP/s."""


def machine_in(folder, environment=ENVIRONMENT):
    """Fills the folder, and is its tables."""
    machine = MachineFolder(folder.parent, folder.name, folder)
    machine.put_environment(environment)
    machine.put_ceilings([ceiling()])
    machine.put_run(run(), samples(3))
    machine.put_run(run(batch=64, status="oom", reason="needs 9 GB"), [])
    machine.put_profile(profile(), [operator_time()], [kernel_time()])
    machine.put_counters(counter_profile(), [kernel_counters()])
    return machine


def zipped(path, folder, inside=""):
    """A zip of a folder's files, below the folder ``inside``."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.iterdir()):
            archive.write(file, f"{inside}{file.name}")
    return path
