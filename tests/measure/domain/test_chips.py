from math import nan
from types import SimpleNamespace

import pytest

from measure.domain.chips import chip_names, datasheet_roof, fastest_units, reachable_peak, rows_by_name
from measure.domain.roofs import Roof


def row(precision="fp32", peak=1e12, bandwidth=1e9, cache=None, chip="A100", alias=""):
    return SimpleNamespace(
        chip=chip, alias=alias, precision=precision, peak_flop_per_s=peak, bandwidth_byte_per_s=bandwidth,
        cache_byte=cache,
    )  # fmt: skip


def test_a_chip_is_found_by_each_of_its_names_in_any_case():
    assert chip_names(row()) == {"a100"}  # an empty alias is no name
    fp32, fp16, other = row(alias="NVIDIA A100; a100 "), row("fp16"), row(chip="T4", alias="Tesla T4;T4")
    assert chip_names(fp32) == {"a100", "nvidia a100"}
    assert rows_by_name([fp32, fp16, other]) == {
        "a100": [fp32, fp16], "nvidia a100": [fp32], "t4": [other], "tesla t4": [other],
    }  # fmt: skip


def test_the_fastest_unit_of_a_precision_gives_its_peak():
    plain, tensor, other = row("fp16", 78e12), row("fp16", 312e12), row("fp32", 19.5e12)
    for rows in ([plain, tensor, other], [tensor, plain, other]):
        assert fastest_units(rows) == {"fp16": tensor, "fp32": other}
    assert fastest_units([]) == {}


@pytest.mark.parametrize(
    ("peaks", "precision", "peak"),
    [
        ({"fp32": 19.5e12, "tf32": 156e12}, "fp32", 156e12),  # torch may multiply in TF32
        ({"fp32": 19.5e12, "fp16": 312e12}, "fp32", 19.5e12),
        ({"fp16": 312e12}, "bf16", 312e12),  # a datasheet may name one format of 16 bits for both
        ({"fp16": 65e12, "bf16": 70e12}, "fp16", 70e12),
        ({"fp64": 9.7e12, "fp32": 19.5e12}, "fp64", 9.7e12),
        ({"fp32": 19.5e12}, "fp64", None),
        ({"fp32": 19.5e12, "fp64": 9.7e12}, "fp16", None),
    ],
)
def test_a_precision_may_reach_another_formats_rate(peaks, precision, peak):
    assert reachable_peak(Roof(peaks, 1e9), precision) == peak


def test_a_datasheet_s_roof_has_the_fastest_units_and_the_best_memory():
    rows = [row("fp16", 78e12, 1.5e12, 4e7), row("fp16", 312e12, 1.6e12, 4e7), row("fp32", 19.5e12, 2e12, 5e7)]
    assert datasheet_roof(rows) == Roof({"fp16": 312e12, "fp32": 19.5e12}, 2e12, cache_byte=5e7)
    # An unknown cache is None in a record and NaN in a frame
    for unknown in (None, nan):
        assert datasheet_roof([row(cache=unknown)]) == Roof({"fp32": 1e12}, 1e9, cache_byte=None)
        assert datasheet_roof([row(cache=unknown), row("fp16", cache=1.0)]).cache_byte == 1.0
