"""Made measurements of others on two chips of the tiny cache, for arithmetic by hand.

Bead 2 (2021: 10 TFLOP/s at fp32, 100 at 16 bits, 1 TB/s) and Cog 3 (2022: 200 TFLOP/s at 16 bits, 20 TB/s) ran 24
models, ``oak0`` to ``oak11`` and ``elm12`` to ``elm23``; the model k asks for k + 1 GFLOP an input. All are above the
ridge points: 8 (k + 1) GFLOP of 8 inputs at 16 bits move (4 + 8 (1 + (k + 1) / 2)) / 2 MB, 1,000 FLOP/B and more.
Bead 2 reaches (40 + k) % of its peak with the oaks, (k - 2) % with the elms: 10 to 21.
"""

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

from helpers.papers import REFERENCES, wide
from measure.cache import table
from measure.cache.hand_kept import PublishedBandwidth, PublishedProduct, PublishedTiming
from measure.cache.schema import file_of
from measure.cache.workload_records import PublishedCount, PublishedKind
from measure.domain.words import INFERENCE, STEP
from report.paper import Paper, elsewhere, hand_tables

OAKS, MODELS, BATCH = 12, 24, 8
PEAK = 1e14

COMPILED = {22: 0.5, 23: 0.8}
"""By how much compiling speeds up the last elms; 2 times the oaks, 1.5 times the other elms."""

OURS = {"lean": 1, "tokens": 2, "broad": 3, "deep": 4}
"""Milliseconds an input on Bead 2 of the models that the tiny cache's processor ran, too."""


def name(k: int) -> str:
    return f"timm:{'oak' if k < OAKS else 'elm'}{k}"


def latency_s(k: int) -> float:
    """A batch on Bead 2 in eager mode at 16 bits."""
    share = (40 + k if k < OAKS else k - 2) / 100
    return BATCH * (k + 1) * 1e9 / (share * PEAK)


def timing(model: str, latency_s: float, **changed: object) -> PublishedTiming:
    row = {
        "source": "epoch_hw", "file": "made.csv", "device": "Bead 2", "phase": INFERENCE, "batch": BATCH,
        "input_size": 224, "precision": "fp32", "autocast": "fp16", "layout": "contiguous", "compiler": None,
        "torch": "2.4", "cuda": None, "latency_min_s": None, "latency_max_s": None, "samples": 40,
        "throughput_per_s": None, "input_copied": "no", "tuned": "yes", "printed": "mean",
    }  # fmt: skip
    return PublishedTiming(model=model, latency_s=latency_s, **{**row, **changed})


def timings() -> list[PublishedTiming]:
    rows = []
    for k in range(MODELS):
        model, eager = name(k), latency_s(k)
        oak = k < OAKS
        rows += [
            timing(model, eager),
            timing(model, eager / COMPILED.get(k, 2.0 if oak else 1.5), compiler="torch.compile"),
            timing(model, eager / 1.1, layout="channels_last"),
            # Without autocast: fp16 is five times as fast as fp32, and slower than with it
            timing(model, 2 * eager, autocast=None, precision="fp16"),
            timing(model, 10 * eager, autocast=None),
            timing(model, eager / (3 if oak else 1), device="Cog 3"),
            # Four times as long an input as inference
            timing(model, 2 * eager, phase=STEP, batch=BATCH // 2),
        ]
    rows += [timing(model, BATCH * milliseconds / 1e3) for model, milliseconds in OURS.items()]
    # 8 inputs in 1 s are not 16 a second
    rows.append(timing("timm:torn", 1.0, throughput_per_s=16.0))
    return rows


def count(model: str, flop: float, activation_byte: float, family: str) -> PublishedCount:
    return PublishedCount(
        model=model, input_size=224, status="ok", reason=None, family=family, input_shape="3x224x224",
        parameter_count=1_000_000, parameter_byte=4_000_000, input_byte=1_000_000, output_byte=4000,
        activation_byte=round(activation_byte), traffic_byte=3 * round(activation_byte), forward_flop=round(flop),
        forward_other_flop=0, backward_flop=round(2 * flop), backward_other_flop=0, backward_traffic_byte=10**7,
    )  # fmt: skip


def counts() -> list[PublishedCount]:
    made = [count(name(k), (k + 1) * 1e9, (k + 1) * 5e5, name(k)[5:8]) for k in range(MODELS)]
    gone = PublishedCount(model="timm:torn", input_size=224, status="unsupported", reason="timm has no model 'torn'")
    return [*made, *(count(model, 1e10, 1e6, "residual") for model in OURS), gone]


def kinds() -> list[PublishedKind]:
    """Of the elm that is farthest from its roof 9 of 10 bytes are moved by activations, of the others k of 100 + k."""
    rows = []
    for k in range(MODELS):
        asked = {"model": name(k), "input_size": 224, "stage": INFERENCE, "other_flop": 0}
        dense, others = (10**6, 9 * 10**6) if k == OAKS else (10**7, k * 10**5)
        rows += [
            PublishedKind(
                **asked, layer_kind="convolution", calls=30, flop=(k + 1) * 10**9, byte=dense, further_byte=dense // 10
            ),
            PublishedKind(**asked, layer_kind="activation", calls=70, flop=0, byte=others, further_byte=others),
        ]
    return rows


def bandwidths() -> list[PublishedBandwidth]:
    def row(device: str, benchmark: str, stream: str, rate: float, working_set: int | None = None, threads=None):
        return PublishedBandwidth(
            source="epoch_hw", file="made.txt", device=device, benchmark=benchmark, stream=stream,
            working_set_byte=working_set, threads=threads, byte_per_s=rate, spread_percent=None,
        )  # fmt: skip

    return [
        row("Bead 2", "gpu-stream", "read", 0.5e12, threads=1024),
        row("Bead 2", "gpu-stream", "read", 0.9e12, threads=4096),
        row("Bead 2", "gpu-stream", "triad", 0.8e12, threads=4096),
        row("Bead 2", "gpu-stream", "5pt", 1.2e12, threads=4096),
        row("Cog 3", "gpu-stream", "init", 1.5e13, threads=4096),
        row("Bead 2", "gpu-cache", "read", 1e13, 10_000), row("Bead 2", "gpu-cache", "read", 0.9e12, 10**9),
        row("Cog 3", "gpu-l2-cache", "read", 4e13, 10**6), row("Cog 3", "gpu-l2-cache", "read", 1.6e13, 10**9),
    ]  # fmt: skip


def products() -> list[PublishedProduct]:
    return [
        PublishedProduct(
            source="epoch_hw", device=device, precision="bf16", m=1024, n=1024, k=1024, flop_per_s=rate, torch="2.6",
            note=None,
        )
        for device, rate in (("Bead 2", 9e13), ("Cog 3", 1e14))
    ]  # fmt: skip


TABLES = {
    PublishedTiming: timings, PublishedCount: counts, PublishedKind: kinds, PublishedBandwidth: bandwidths,
    PublishedProduct: products,
}  # fmt: skip


def put_elsewhere(data: Path) -> None:
    """Write the tables into a data folder, in place of those that are there."""
    for record, rows in TABLES.items():
        path = file_of(record, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        table.write(path, record, rows())


@cache
def timed_elsewhere() -> Paper:
    """The wide paper with these measurements."""
    with tempfile.TemporaryDirectory() as folder:
        put_elsewhere(Path(folder))
        found = elsewhere.read(Path(folder), wide().chips, hand_tables.read_keys(REFERENCES))
    return replace(wide(), elsewhere=found)
