import subprocess
import sys

import numpy as np
import pytest
from helpers.places import ROOT

from measure.errors import UserError
from measure.predicting import kernels
from measure.predicting.collectives import CollectivePredictor, least_s, sent_byte
from measure.predicting.links import Link
from measure.predicting.records import POOL
from measure.predicting.served_records import KernelCoefficient, KernelError
from measure.published.aside import read_kernels

DATA = ROOT / "data"
SORTS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send")


def test_bytes_that_each_gpu_sends():
    # nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n of an all-reduce, (n - 1) / n of the others; a send is whole
    sent = {kind: sent_byte(kind, 1e6, 4) for kind in SORTS}
    assert sent == {
        "all_reduce": 1.5e6, "all_gather": 0.75e6, "reduce_scatter": 0.75e6, "all_to_all": 0.75e6, "send": 1e6,
    }  # fmt: skip
    # 1.5 MB at 450 GB/s
    assert least_s("all_reduce", 1e6, 4, Link(450e9, 8, "NVLink 4")) == pytest.approx(1.5e6 / 450e9)
    with pytest.raises(UserError, match="'broadcast' is not a collective; use one of all_reduce, all_gather"):
        sent_byte("broadcast", 1e6, 4)
    with pytest.raises(UserError, match="two GPUs or more, not 1"):
        sent_byte("send", 1e6, 1)


def predictor(within):
    """All collectives take 20 µs to start, and the bytes over half of the link; only NVLink was timed, within 1.5."""
    values = {"start": 2.0, "GPUs": 1e-9, "link": 2.0, "link ramp": 1e-9, "shared path": 1e-9}
    pool = [KernelCoefficient(kernels.COLLECTIVES, POOL, "", term, value) for term, value in values.items()]
    ones = [
        KernelCoefficient(kernels.COLLECTIVES, level, label, term, 1.0)
        for level, label in (
            (kernels.KERNEL, "nccl | NCCL | all_reduce"), (kernels.CLASS, "NVIDIA, NVLink | nccl | NCCL | all_reduce"),
        )
        for term in values
    ]  # fmt: skip
    errors = [KernelError(kernels.COLLECTIVES, "all, NVLink", 9, 0.1, 0.2, 0.9, 1.0, within)]
    return CollectivePredictor(kernels.served_chips(DATA), [*pool, *ones], errors)


def test_a_predicted_collective_by_hand():
    found = predictor(1.5).predict("all_reduce", 512e6, 8, "nvidia h100 sxm")
    # 512 MB x 2 x 7/8 = 896 MB; at 450 GB/s 1.991 ms; twice that and 20 µs, as the root of a sum of squares
    assert found.sent_byte == 896e6
    assert found.least_s == pytest.approx(896e6 / 450e9)
    assert found.likely_s == pytest.approx(np.hypot(20e-6, 2 * 896e6 / 450e9))
    assert found.high_s == pytest.approx(1.5 * found.likely_s)
    assert found.low_s == pytest.approx(found.likely_s / 1.5)
    wide = predictor(3.0).predict("all_reduce", 512e6, 8, "NVIDIA H100 SXM")
    assert wide.low_s == wide.least_s  # a third of the likely time is less than the link allows


@pytest.mark.parametrize(
    ("chip", "gpus"),
    [
        ("NVIDIA GB200 SXM", 16),  # more GPUs than anybody timed
        ("AMD Instinct MI300X", 8),  # a sort of link that nobody timed
        ("NVIDIA L40S", 4),  # here without an error of PCIe
    ],
)
def test_an_extrapolated_collective_has_no_interval(chip, gpus):
    found = predictor(1.5).predict("all_reduce", 1e9, gpus, chip)
    assert (found.low_s, found.high_s) == (None, None)
    assert found.likely_s >= found.least_s > 0


def test_a_chip_without_a_link_or_a_place_is_named():
    with pytest.raises(UserError, match="no link of 'AMD Instinct MI355X'"):
        predictor(1.5).predict("send", 1e6, 2, "AMD Instinct MI355X")
    with pytest.raises(UserError, match=r"'Abacus 1' is not a GPU of data/chips.csv with a rate for 16 bits"):
        predictor(1.5).predict("send", 1e6, 2, "Abacus 1")


@pytest.mark.parametrize("kind", SORTS)
def test_the_committed_fit_never_beats_the_link_nor_falls_with_the_message(kind):
    fitted = CollectivePredictor.read(DATA)
    times = [fitted.predict(kind, 2.0**power, 8, "NVIDIA H100 SXM") for power in range(10, 32, 3)]
    assert all(each.likely_s >= each.low_s >= each.least_s for each in times)
    assert [each.likely_s for each in times] == sorted(each.likely_s for each in times)


def test_links_and_collectives_do_without_torch():
    code = "import sys, measure.predicting.collectives; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.parametrize(("device", "gpus"), [("NVIDIA L40S", 2), ("NVIDIA L40S", 8), ("NVIDIA A100 SXM 80GB", 8)])
def test_the_committed_fit_has_the_times_of_gpus_that_it_saw(device, gpus):
    found = CollectivePredictor.read(DATA)
    ratios = [
        row.latency_s / found.predict(row.collective, row.message_byte, gpus, device).likely_s
        for row in read_kernels(DATA, "collectives")
        if (row.device, row.gpus, row.engine, row.precision) == (device, gpus, "nccl", "fp16")
        and row.collective in ("all_reduce", "all_gather", "reduce_scatter")
        and row.message_byte >= 2**20
    ]
    assert 0.67 < np.median(ratios) < 1.5
