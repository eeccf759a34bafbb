"""A machine with nothing to mend, as the doctor sees it."""

from measure.machine.gpus import Gpu, Nvidia
from measure.machine.host import Memory, Processor
from measure.machine.libraries import NAMES, Libraries

IDEAL = Processor(
    logical_cores=8,
    usable_cores=8,
    siblings=((0, 4), (1, 5), (2, 6), (3, 7)),
    threads=4,
    quota_cores=None,
    load_cores=0.01,
    busiest=(),
    stolen=0.0,
    is_virtual=False,
    governors=("performance",),
    has_turbo=False,
    heat=(40.0, 100.0),
    throttled=None,
    throttle_count=0,
    on_battery=False,
)


ROOMY = Memory(available_byte=32 * 10**9, shared_byte=10**9, swap_used_byte=0, swap_moved_byte=0)


IDLE = Gpu(
    torch_name="cuda:0",
    name="NVIDIA H200",
    others=(),
    used_byte=0,
    busy=0.0,
    persistence=True,
    ecc=True,
    uncorrected=0,
    temperature_c=35.0,
    limit_c=87.0,
    throttle=None,
)


HERE = Nvidia(has_driver=True, gpus=(IDLE,), counters_admin_only=False, is_admin=False)


SOUND = Libraries(dict.fromkeys(NAMES, "2.14.1"), {}, (), True)
