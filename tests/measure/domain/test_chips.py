from types import SimpleNamespace

import pytest

from measure.domain.chips import chip_names, datasheet_roof, rows_by_name


def row(precision, peak):
    columns = {"chip": "Bead 2", "alias": "NVIDIA Bead 2; BEAD2 ", "bandwidth_byte_per_s": 1e11}
    return SimpleNamespace(precision=precision, peak_flop_per_s=peak, **columns)


def test_a_chip_answers_to_all_its_names_in_any_case_and_the_faster_unit_gives_the_peak_at_each_precision():
    rows = [row("fp16", 1e12), row("fp16", 8e12), row("fp32", 2e12)]
    assert chip_names(rows[0]) == {"bead 2", "nvidia bead 2", "bead2"}
    roof = datasheet_roof(rows_by_name(rows)["bead2"])
    assert (roof.flop_per_s, roof.byte_per_s) == ({"fp16": 8e12, "fp32": 2e12}, 1e11)
    assert roof.at("fp16").ridge_flop_per_byte == pytest.approx(80)  # 8e12 / 1e11
    assert roof.at("bf16") is None
