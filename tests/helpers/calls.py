"""Made calls for arithmetic by hand, on a device of 1 TFLOP/s and 100 GB/s.

A call of ``f`` GFLOP of convolutions takes f ms at the peak; its convolutions move 100 MB, 1 ms at the bandwidth, and
its activations as much each ``moved``.
"""

from dataclasses import replace

import numpy as np

from measure.domain.words import INFERENCE, LAYER_KINDS, STEP
from measure.predicting.prediction_terms import PLACE, CallWork, LayerRoof
from measure.predicting.records import HERE, Setting
from measure.predicting.timings import TimedCall, network_of

ROOF = LayerRoof(1e12, 1e11, convolution_flop_per_s=1e12)
BEAD = Setting("Bead 2", "made", "2.4", "fp16", "eager", INFERENCE)
COSTS = {("host", HERE, "2.14.0", INFERENCE): 10.0, ("host", HERE, "2.14.0", STEP): 20.0}
"""100 operators take 1 ms to launch, and in a training step 2 ms."""


def work(gflop: float, moved: float = 1.0, batch: int = 8, calls: int = 100, **about: str) -> CallWork:
    flop, byte = np.zeros(len(LAYER_KINDS)), np.zeros(len(LAYER_KINDS))
    flop[PLACE["convolution"]] = gflop * 1e9
    byte[PLACE["convolution"]] = 1e8
    byte[PLACE["activation"]] = moved * 1e8
    return CallWork(batch, flop, byte, calls, input_byte=1e6, parameter_byte=4e6, footprint_byte=5e7, **about)  # type: ignore[arg-type]


def call(model: str, latency_s: float, work: CallWork, setting: Setting = BEAD, **changed: object) -> TimedCall:
    work = replace(work, network=network_of(model), family=model.rstrip("0123456789"))
    made = {"roof": ROOF, "chip_kind": "gpu", "die": setting.device}
    return TimedCall(setting=setting, model=model, latency_s=latency_s, work=work, **(made | changed))  # type: ignore[arg-type]


def additive(factor: float = 1.0, setting: Setting = BEAD, models: int = 40) -> list[TimedCall]:
    """Calls of 1 ms of launches, and of 2 ms a GFLOP and 1.5 ms each 100 MB of activations, times a factor."""
    made = []
    for k in range(models):
        gflop, moved = 1.0 + k, 1.0 + (7 * k) % 11
        seconds = np.hypot(factor * (2 * gflop + 1.5 * moved), 1.0) * 1e-3
        made.append(call(f"net{k}", float(seconds), work(gflop, moved), setting))
    return made
