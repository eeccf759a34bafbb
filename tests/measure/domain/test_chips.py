from types import SimpleNamespace

import pytest

from measure.domain.chips import chip_names, datasheet_roof, rows_by_name


def row(chip, precision, peak, alias="", bandwidth=1e11):
    return SimpleNamespace(
        chip=chip, alias=alias, precision=precision, peak_flop_per_s=peak, bandwidth_byte_per_s=bandwidth
    )


def test_a_chip_answers_to_its_name_and_aliases_in_any_case():
    bead = row("Bead 2", "fp32", 1e12, alias="NVIDIA Bead 2; BEAD2 ")
    assert chip_names(bead) == {"bead 2", "nvidia bead 2", "bead2"}
    assert rows_by_name([bead])["bead2"] == [bead]


def test_the_faster_unit_gives_the_peak_at_each_precision():
    units = [row("Bead 2", "fp16", 1e12), row("Bead 2", "fp16", 8e12), row("Bead 2", "fp32", 2e12)]
    roof = datasheet_roof(units)
    assert (roof.flop_per_s, roof.byte_per_s) == ({"fp16": 8e12, "fp32": 2e12}, 1e11)
    assert roof.at("fp16").ridge_flop_per_byte == pytest.approx(80)  # 8e12 / 1e11
    assert roof.at("bf16") is None
