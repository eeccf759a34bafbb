import math

import pandas as pd
import pytest

from measure.records import Run, Sample
from report import cells
from report.paper import Roof, frame


def run(model="net", number=0, status="ok", reason=None, flags=None, precision="fp32"):
    return Run("e", model, 1, precision, "inference", "eager", status, reason, "2026-01-01", number, flags)


def sample(latency_s, index=0, number=0, model="net", precision="fp32"):
    return Sample("e", model, 1, precision, "inference", "eager", index, 1, latency_s, number)


def counted(precision="fp32"):
    return pd.DataFrame(
        {
            "model": ["net"],
            "batch": [1],
            "precision": [precision],
            "input_shape": ["3x4x4"],
            "forward_flop": [100.0],
            "footprint_intensity": [5.0],
        }
    )


def derived(runs, samples, workloads):
    return cells.derive(
        frame(runs, Run), frame(samples, Sample), workloads, lambda _precision: Roof(200.0, 20.0)
    )


def test_the_median_is_that_of_the_rounds_medians_whatever_their_numbers_of_samples():
    samples = [sample(2.0, index) for index in range(50)]
    samples += [sample(4.0, 0, 1), sample(5.0, 0, 2)]
    (row,) = derived([run(number=number) for number in range(3)], samples, counted()).itertuples()
    assert row.latency_s == 4.0  # of 2, 4 and 5
    assert row.latency_low_s < 2.0  # three rounds so far apart say little
    assert (row.rounds, row.sample_count) == (3, 52)
    assert row.flop_per_s == 25.0
    assert row.attainable_flop_per_s == 100.0  # 5 FLOP/B at 20 B/s
    assert row.attained == 0.25


def test_one_round_has_the_interval_of_its_own():
    values = [1.0, 1.0, 2.0, 3.0, 4.0, 9.0]
    (row,) = derived(
        [run()], [sample(value, index) for index, value in enumerate(values)], counted()
    ).itertuples()
    # Of six sorted values the first and the last enclose the median.
    assert (row.latency_low_s, row.latency_s, row.latency_high_s) == (1.0, 2.5, 9.0)


def test_flags_of_any_round_are_the_cells():
    runs = [run(number=0, flags="wide"), run(number=1), run(number=2, flags="drifting;wide")]
    (row,) = derived(runs, [sample(1.0, 0, number) for number in range(3)], counted()).itertuples()
    assert row.flags == "drifting;wide"


def test_a_round_that_failed_is_the_cells_outcome():
    runs = [run(number=0), run(number=1, status="oom", reason="full")]
    (row,) = derived(runs, [sample(1.0)], counted()).itertuples()
    assert (row.status, row.reason, row.rounds) == ("oom", "full", 1)


def test_tf32_asks_for_what_fp32_does():
    rows = derived([run(precision="tf32")], [sample(1.0, precision="tf32")], counted())
    assert rows.forward_flop.tolist() == [100.0]
    assert rows.precision.tolist() == ["tf32"]
    assert math.isnan(derived([run(precision="bf16")], [], counted()).forward_flop[0])


@pytest.mark.parametrize("runs", [[], [run(status="error", reason="no")]])
def test_cells_without_samples_have_no_latency(runs):
    rows = derived(runs, [], counted())
    assert len(rows) == len(runs)
    assert rows.latency_s.isna().all()
