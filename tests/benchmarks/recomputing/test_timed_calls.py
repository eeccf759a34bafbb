"""Made timings on Bead 2 of the tiny cache: 100 TFLOP/s at bf16, 10 at fp32, 1 TB/s."""

import shutil

import numpy as np
import pytest
from helpers.elsewhere_papers import count, timing
from helpers.places import ROOT, TESTS
from recomputing.timed_calls import TERMS, read_calls

from measure.cache.hand_kept import PublishedTiming
from measure.cache.schema import file_of
from measure.cache.table import write
from measure.cache.workload_records import PublishedCount, PublishedKind
from measure.domain.words import LAYER_KINDS

OAK = "timm:oak1.in1k"
KINDS = [
    PublishedKind(OAK, 224, "inference", "convolution", 10, 2 * 10**9, 0, 9 * 10**6, 5 * 10**6),
    PublishedKind(OAK, 224, "inference", "activation", 20, 0, 0, 8 * 10**6, 8 * 10**6),
    PublishedKind(OAK, 224, "backward", "convolution", 15, 4 * 10**9, 0, 12 * 10**6, 10**7),
]


@pytest.fixture
def read(tmp_path):
    shutil.copy(TESTS / "data" / "chips.csv", tmp_path)

    def of(*rows, kinds=KINDS):
        made = ((PublishedTiming, rows), (PublishedCount, [count(OAK, 2e9, 3e6, "oak")]), (PublishedKind, kinds))
        for record, each in made:
            file_of(record, tmp_path).parent.mkdir(parents=True, exist_ok=True)
            write(file_of(record, tmp_path), record, each)
        return read_calls(tmp_path)

    return of


def bf16(**changed):
    return timing(OAK, 0.01, **{"autocast": "bf16", **changed})


def test_a_published_row_is_a_call_with_its_terms(read):
    calls = read(bf16(device="bead-2-40gb", throughput_per_s=1000.0))
    (row,) = calls.rows.itertuples()
    assert (row.device, row.software, row.precision, row.variant) == ("Bead 2", "2.4", "bf16", "eager")
    assert (row.architecture, row.family, row.latency_s) == ("oak1", "oak", pytest.approx(0.008))
    terms = dict(zip(TERMS, calls.terms[0], strict=True))
    # 8 inputs of 2 GFLOP at 100 TFLOP/s; half of 9 + 7 * 5 MB and of 8 * 8 MB at 1 TB/s; 30 operators
    assert terms["convolution arithmetic"] == pytest.approx(1.6e-4)
    assert terms["convolution memory"] == pytest.approx(2.2e-5)
    assert terms["activation memory"] == terms["unfused memory"] == pytest.approx(3.2e-5)
    assert (terms["launches"], terms["call"]) == pytest.approx((3e-5, 1e-6))
    assert sum(calls.terms[0]) == pytest.approx(1.6e-4 + 2.2e-5 + 2 * 3.2e-5 + 3e-5 + 1e-6)
    # Each kind at its roof; all FLOP are of convolutions, of 54 MB they move 22
    assert calls.roofline.sum() == pytest.approx(1.6e-4 + 3.2e-5)
    assert calls.make_ups[0][[0, 5, -1]] == pytest.approx([1, 22 / 54, 0.2 * np.log(8)])
    # Half of 4 MB of parameters for each of 8 inputs
    assert row.parameter_s == pytest.approx(1.6e-5)


def test_conditions_are_terms(read):
    step, copied, compiled = read(
        bf16(phase="step", batch=2), bf16(input_copied="yes"), bf16(compiler="torch.compile", layout="channels_last")
    ).terms[[2, 0, 1]]  # forward passes come first
    terms = [dict(zip(TERMS, row, strict=True)) for row in (step, copied, compiled)]
    # 2 * (2 + 4) GFLOP; half of 9 + 5 and 12 + 10 MB; half of 4 MB of parameters
    assert terms[0]["convolution arithmetic"] == pytest.approx(1.2e-4)
    assert terms[0]["convolution memory"] == pytest.approx(1.8e-5)
    assert terms[0]["parameter update"] == pytest.approx(2e-6)
    assert terms[1]["input copy"] == pytest.approx(8e-3)  # 8 MB, a nanosecond a byte
    assert terms[2]["unfused memory"] == 0


@pytest.mark.parametrize("changed", [{"device": "Nobody 9"}, {"autocast": "fp16"}, {"input_size": 256}])
def test_a_row_without_a_roof_or_a_count_goes(read, changed):
    assert len(read(bf16(), bf16(**changed))) == 1


def test_a_step_without_a_backward_pass_goes(read):
    assert list(read(bf16(), bf16(phase="step"), kinds=KINDS[:2]).rows.phase) == ["inference"]


def test_the_committed_calls_are_those_that_the_study_reads():
    from measure.predicting import timings

    one = sorted(
        (*call.setting, call.demand.batch, call.latency_s, *call.demand.terms(call.roof, call.how))
        for call in timings.read(ROOT / "data")
    )
    calls = read_calls(ROOT / "data")
    # The two programs keep their kinds in orders of their own
    ours = [*(f"{kind} arithmetic" for kind in LAYER_KINDS), *(f"{kind} memory" for kind in LAYER_KINDS)]
    places = [TERMS.index(term) for term in [*filter(TERMS.__contains__, ours), *TERMS[-5:]]]
    keys = calls.rows[["device", "source", "software", "precision", "variant", "phase", "batch", "latency_s"]]
    other = sorted((*key, *row) for key, row in zip(keys.to_numpy().tolist(), calls.terms[:, places], strict=True))
    assert [row[:7] for row in one] == [row[:7] for row in other]
    np.testing.assert_allclose([row[7:] for row in one], [row[7:] for row in other], rtol=1e-9)
