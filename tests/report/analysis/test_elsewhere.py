import pandas as pd
import pytest

from report.analysis import elsewhere
from report.analysis.elsewhere import CHANGES, LOWERED, changed, fastest, generations, trained

COMPILED, LAYOUT = CHANGES


def timing(**other):
    row = {
        "source": "src", "device": "Bead 2", "phase": "inference", "model": "net", "batch": 8, "input_size": 224,
        "precision": "fp32", "autocast": "fp16", "layout": "contiguous", "compiler": "", "torch": "2.4",
        "input_copied": "no", "tuned": "yes", "latency_s": 1.0,
    }  # fmt: skip
    return row | other


def frame(*rows):
    return pd.DataFrame(rows)


def test_a_change_takes_rows_that_are_alike_in_all_else():
    rows = frame(
        timing(), timing(compiler="torch.compile", latency_s=0.5), timing(compiler="torch.compile", torch="2.9"),
        timing(model="other"), timing(model="other", batch=4, compiler="torch.compile"),
        timing(layout="channels_last", latency_s=2.0),
    )  # fmt: skip
    (pair,) = changed(rows, COMPILED).itertuples()
    assert (pair.model, pair.torch, pair.speed_up) == ("net", "2.4", 2)
    (pair,) = changed(rows, LAYOUT).itertuples()
    assert pair.speed_up == 0.5


def test_a_lower_precision_is_held_against_the_higher_without_autocast():
    rows = frame(
        timing(autocast=""), timing(autocast="", precision="fp16", latency_s=0.25), timing(precision="fp16"), timing()
    )
    (pair,) = changed(rows, LOWERED).itertuples()
    assert pair.speed_up == 4


def test_devices_are_compared_at_the_same_version_and_batch():
    rows = frame(
        timing(), timing(device="Bead 3", latency_s=0.5), timing(model="late", torch="2.9"),
        timing(model="late", device="Bead 3"),
    )  # fmt: skip
    (pair,) = generations(*(rows[rows.device == device] for device in ("Bead 2", "Bead 3"))).itertuples()
    assert (pair.model, pair.speed_up) == ("net", 2)


def test_a_step_is_held_against_inference_per_input():
    # 1 s for 8 inputs, and 2 s for 4 of them: four times as long for each; the newest inference counts
    rows = frame(
        timing(), timing(torch="2.1", latency_s=9.0), timing(phase="step", batch=4, latency_s=2.0, torch="1.12")
    )
    (pair,) = trained(rows).itertuples()
    assert pair.speed_up == pytest.approx(4)


def test_of_each_model_the_fastest_inference_counts():
    rows = frame(timing(), timing(batch=64, latency_s=2.0), timing(phase="step")).assign(computed="fp16")
    rows["flop_per_s"] = rows.batch / rows.latency_s
    (row,) = fastest(rows).itertuples()
    assert row.batch == 64
    assert elsewhere.FEWEST > 2
