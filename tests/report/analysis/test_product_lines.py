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
                "Tesla P100 SXM2", "V100 SXM2", "A100 PCIe 40GB", "A100 SXM 40GB", "A100 SXM 80GB",
                "H100 SXM", "H100 PCIe", "H200 SXM", "B200 SXM",
            },
        ),
        (line("NVIDIA, GDDR"), {"T4", "A10", "L4", "L40S"}),
    ],
)  # fmt: skip
def test_lines_of_nvidia_in_the_committed_table(of, chips):
    assert set(of.of(committed_chips()).chip) == {f"NVIDIA {chip}" for chip in chips}


def test_other_lines_in_the_committed_table():
    table = committed_chips()
    assert line("Google TPU").of(table).chip.nunique() == 7
    assert line("Apple M").of(table).chip.str.extract(r"(M\d)")[0].unique().tolist() == ["M1", "M2", "M4"]
    assert line("Apple A").of(table).chip.str.extract(r"(A\d+)")[0].unique().tolist() == ["A14", "A15", "A16"]
    assert DATA_CENTER_GPUS.of(table).chip.nunique() == 9 + 4 + 2  # two of AMD
    assert PHONES.of(table).chip.nunique() == 3 + 2 + 1


def test_members_are_at_one_precision_and_unit():
    found = {series.name: series for series in members(wide().chips)}
    assert list(found) == ["NVIDIA, HBM", "Google TPU", "Apple A"]
    assert found["NVIDIA, HBM"].rate == "16-bit floating point on tensor units"
    assert sorted(found["NVIDIA, HBM"].rows.peak_flop_per_s) == [1e13, 4e13, 1.6e14, 6.4e14]


def test_growing_needs_four_chips():
    assert [series.name for series in growing(wide().chips)] == ["GPUs", "NVIDIA, HBM"]
    assert growing(tiny().chips) == []
