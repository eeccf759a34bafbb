import re

import pytest
from helpers.papers import committed_chips, tiny, wide

from report.analysis.product_lines import DATA_CENTER_GPUS, LINES, PHONES, growing, members


def line(name):
    return next(each for each in LINES if each.name == name)


@pytest.mark.parametrize(
    ("of", "chips"),
    [
        (
            line("NVIDIA, HBM"),
            {
                "Tesla P100 PCIe", "Tesla P100 SXM2", "V100 SXM2", "V100 PCIe", "A30", "A100 PCIe 40GB",
                "A100 PCIe 80GB", "A100 SXM 40GB", "A100 SXM 80GB", "H100 SXM", "H100 PCIe", "H100 NVL", "H200 SXM",
                "H200 NVL", "B200 SXM", "B300 SXM",
            },
        ),
        (line("NVIDIA, GDDR"), {"T4", "A10", "A10G", "A40", "L4", "L40", "L40S"}),
    ],
)  # fmt: skip
def test_lines_of_nvidia_in_the_committed_table(of, chips):
    assert set(of.of(committed_chips()).chip) == {f"NVIDIA {chip}" for chip in chips}


def test_other_lines_in_the_committed_table():
    table = committed_chips()
    assert line("Google TPU").of(table).chip.nunique() == 7
    assert line("Apple M").of(table).chip.str.extract(r"(M\d)")[0].unique().tolist() == ["M1", "M2", "M4"]
    assert line("Apple A").of(table).chip.str.extract(r"(A\d+)")[0].unique().tolist() == ["A14", "A15", "A16"]
    amd = ("MI100", "MI210", "MI250X", "MI250X (one of two dies)", "MI300A", "MI300X", "MI325X", "MI350X", "MI355X")
    assert DATA_CENTER_GPUS.of(table).chip.nunique() == 16 + 7 + len(amd)
    assert PHONES.of(table).chip.nunique() == 3 + 2 + 1


def test_members_are_at_one_precision_and_unit():
    found = {series.name: series for series in members(wide().chips)}
    assert list(found) == ["NVIDIA, HBM", "Google TPU", "Apple A"]
    assert found["NVIDIA, HBM"].rate == "16-bit floating point on tensor units"
    assert sorted(found["NVIDIA, HBM"].rows.peak_flop_per_s) == [1e13, 4e13, 1.6e14, 6.4e14]


def test_growing_needs_four_dies():
    assert [(series.name, series.whole) for series in growing(wide().chips)] == [("GPUs", ""), ("NVIDIA, HBM", "GPUs")]
    assert growing(tiny().chips) == []
    # With A1 and B2 on one die the line has three; the kind has Bead 2 beside them.
    one_die = wide().chips.assign(die=wide().chips.chip.map({"NVIDIA A1": "X", "NVIDIA B2": "X"}).fillna(""))
    (gpus,) = growing(one_die)
    assert sorted(gpus.rows.chip) == ["Bead 2", "NVIDIA A1", "NVIDIA C3", "NVIDIA D4 (SXM)"]


def test_growing_in_the_committed_table():
    found = growing(committed_chips())
    kinds = [series for series in found if not series.whole]
    dies = [row.die or row.chip for series in kinds for row in series.rows.itertuples()]
    assert len(dies) == len(set(dies)) > 40  # kinds share no die, and none has one twice
    names = {series.name for series in kinds}
    assert {series.whole for series in found} - {""} <= names
    for series in found:
        assert series.rows.die[series.rows.die != ""].is_unique


def test_no_series_mixes_base_and_turbo_clocks():
    for series in (*members(committed_chips()), *growing(committed_chips())):
        peaks = series.rows.derivation.str.partition("; ")[0]
        clocks = {kind for peak in peaks for kind in re.findall(r"GHz(?: \((\w+)\))?", peak)}
        assert len(clocks) <= 1, (series.name, clocks)
        assert not peaks.str.contains("turbo|boost").any()
