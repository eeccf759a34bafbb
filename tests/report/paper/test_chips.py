import re

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.world import committed_chips, world

from measure.errors import UserError
from report.paper import chips

PUBLISHED = {
    # NVIDIA's datasheets, without sparsity: half of the printed rates with it
    ("NVIDIA H100 SXM", "bf16", "tensor"): 989.4e12,
    ("NVIDIA T4", "fp32", "vector"): 8.1e12,
    ("NVIDIA Tesla P100 PCIe", "fp32", "vector"): 9.3e12,  # 3584 cores x 2 FLOP x 1.3 GHz = 9.32
    ("NVIDIA A30", "bf16", "tensor"): 165.2e12,  # 224 tensor cores x 256 FMA x 2 x 1.44 GHz; NVIDIA's code has 165
    ("NVIDIA H100 NVL", "fp32", "vector"): 60.3e12,  # 132 SMs x 128 FMA x 2 x 1.785 GHz
    ("NVIDIA B200 SXM", "fp32", "vector"): 75e12,  # 148 SMs x 128 FMA x 2 x 1.965 GHz = 74.4, which NVIDIA rounds
    ("NVIDIA Jetson AGX Orin 64GB", "fp16", "tensor"): 85e12 / 2,
    ("NVIDIA RTX PRO 6000 Blackwell", "fp4", "tensor"): 2015e12,  # NVIDIA's 4000 with sparsity is rounded
    ("NVIDIA GeForce RTX 4070", "fp32", "vector"): 29.15e12,  # 5888 cores x 2 x 2.475 GHz
    ("NVIDIA GeForce RTX 5080", "fp4", "tensor"): 1801e12 / 2,  # the AI TOPS that NVIDIA prints are sparse
    ("Intel Gaudi 3", "bf16", "tensor"): 1677.7e12,  # 8 engines x 65536 FMA x 2 x 1.6 GHz; Intel prints 1678
    ("AMD Instinct MI250X (one of two dies)", "bf16", "tensor"): 383.0e12 / 2,  # AMD prints 383.0 for both
    ("AMD Instinct MI300A", "bf16", "tensor"): 980.6e12,  # 228 CUs x 2048 FLOP x 2.1 GHz, as AMD prints
    ("Apple M4 GPU (10 cores)", "fp16", "vector"): 4.0397e12,  # 10 cores x 256 FLOP x 1.578 GHz; 3.909 was measured
}


def test_peaks_and_bandwidths_are_those_that_vendors_print():
    peaks = committed_chips().set_index(["chip", "precision", "unit"]).peak_flop_per_s
    assert {key: peaks[key] for key in PUBLISHED} == pytest.approx(PUBLISHED, rel=3e-3)
    bandwidths = committed_chips().drop_duplicates("chip").set_index("chip").bandwidth_byte_per_s
    assert bandwidths["NVIDIA T4"] == 320e9  # 256 bit x 10 Gb/s / 8
    assert bandwidths["NVIDIA B200 SXM"] == pytest.approx(7.672e12, rel=5e-3)  # HGX: 7680 bit x 3996 MHz x 2 / 8
    assert bandwidths["Google TPU v2"] == 716e9  # of 2 x 358 in Google's code


DRIVERS_NAMES = {
    "Tesla P100-PCIE-16GB": "NVIDIA Tesla P100 PCIe", "Tesla V100-PCIE-16GB": "NVIDIA V100 PCIe",
    "Tesla T4": "NVIDIA T4", "NVIDIA T4G": "NVIDIA T4", "NVIDIA A100-SXM4-40GB": "NVIDIA A100 SXM 40GB",
    "A100-SXM4-40GB": "NVIDIA A100 SXM 40GB", "NVIDIA A100 80GB PCIe": "NVIDIA A100 PCIe 80GB",
    "NVIDIA H200": "NVIDIA H200 SXM", "NVIDIA GH200 480GB": "NVIDIA GH200 96GB",
    "NVIDIA GH200 144G HBM3e": "NVIDIA GH200 SXM", "NVIDIA B200": "NVIDIA B200 SXM",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "NVIDIA RTX PRO 6000 Blackwell",
    # as libdrm's amdgpu.ids has it, which ROCm and AMD SMI read
    "AMD Instinct MI300X VF": "AMD Instinct MI300X",
    "Apple M1 Max GPU (32 cores)": "Apple M1 Max GPU (32 cores)",
    # A slice, a laptop's and one of another number of cores are not the chip whose name theirs begins with
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb": None, "NVIDIA GeForce RTX 4070 Laptop GPU": None,
    "Apple M1 Max GPU (28 cores)": None, "Example": None, "": None,
}  # fmt: skip
"""A driver's name of a GPU, and its chip; tables have other chips under the drivers' names."""


def test_a_drivers_name_finds_its_chip_and_no_other():
    table = committed_chips()
    found = {name: set(chips.datasheet(table, name).chip) for name in DRIVERS_NAMES}
    assert found == {name: {chip} - {None} for name, chip in DRIVERS_NAMES.items()}
    assert set(chips.datasheet(world().chips, "example gpu").chip) == {"Bead 2"}
    assert list(chips.datasheet(table.iloc[:0], "example gpu").columns) == list(table.columns)


def test_no_name_is_that_of_two_chips():
    table = committed_chips().drop_duplicates("chip")
    names = [{name.casefold() for name in (row.chip, *row.alias.split(";")) if name} for row in table.itertuples()]
    assert len(set().union(*names)) == sum(map(len, names))


CLOCK = re.compile(r"[\d.]+ GHz(?: \((\w+)\))?")


def test_the_peak_of_each_cpu_is_that_at_its_base_clock():
    table = committed_chips()
    for row in table.itertuples():
        clocks = set(CLOCK.findall(row.derivation.partition("; ")[0]))
        assert clocks == {"base"} if row.chip_kind == "cpu" else "base" not in clocks, (row.chip, row.precision)
    peaks = {(row.chip, row.precision): row.peak_flop_per_s for row in table.itertuples()}
    # (8 x 3.0 x 32 + 16 x 2.2 x 16) x 1e9 = (768 + 563.2) x 1e9
    assert peaks["Intel Core i9-13900K", "fp32"] == pytest.approx(1.3312e12, rel=1e-3)
    # (8 x 3.4 x 16 + 8 x 2.5 x 8) x 1e9 = (435.2 + 160) x 1e9
    assert peaks["Intel Core i7-13700K", "fp64"] == pytest.approx(595.2e9, rel=1e-3)
    # 144 x 3.1e9 x 16 = 7.1424e12, which NVIDIA prints as 7.1
    assert peaks["NVIDIA Grace CPU Superchip (144 cores)", "fp64"] == pytest.approx(7.1424e12, rel=1e-3)


def test_a_chip_has_one_die_and_a_die_one_vendor_and_kind():
    table = committed_chips()
    assert (table.groupby("chip").die.nunique() == 1).all()
    named = table[table.die != ""].groupby("die")
    assert (named.vendor.nunique() == 1).all()
    assert (named.chip_kind.nunique() == 1).all()
    boards = named.chip.unique().map(set)
    a100 = {f"NVIDIA A100 {board}" for board in ("PCIe 40GB", "PCIe 80GB", "SXM 40GB", "SXM 80GB")}
    assert boards["GA100"] == a100 | {"NVIDIA A30"}


def test_of_dies():
    rows = [
        ("later", "X", 2022, "fp32", 9.0),
        ("small", "X", 2020, "fp32", 1.0),
        ("large", "X", 2020, "fp32", 2.0),
        ("large", "X", 2020, "bf16", 4.0),
        ("first", "Y", 2021, "fp32", 3.0),
        ("alike", "Y", 2021, "fp32", 3.0),
        ("alone", "", 2023, "fp32", 1.0),
        ("other", "", 2023, "fp32", 1.0),
    ]
    frame = pd.DataFrame(rows, columns=["chip", "die", "year", "precision", "peak_flop_per_s"])
    dies = chips.of_dies(frame)
    # All rows of X's first chip, and the fastest of these; Y's first in the table; every chip without a die.
    assert dies.chip.tolist() == ["large", "large", "first", "alone", "other"]
    assert dies.die.tolist() == ["X", "X", "Y", "", ""]
    assert chips.of_dies(frame.iloc[:0]).empty


FOUR = world().chips.head(5)
"""Abacus 1, Bead 2 at two precisions, Cog 3 (with its memory on the chip) and Dial 4 (with integers alone)."""


def test_the_fastest_rates_of_chips():
    assert chips.fastest(FOUR[FOUR.chip == "Bead 2"]).precision.tolist() == ["bf16"]
    headline = chips.headline(FOUR)
    assert sorted(zip(headline.chip, headline.precision, strict=True)) == [
        ("Abacus 1", "fp32"), ("Bead 2", "bf16"), ("Cog 3", "bf16"),
    ]  # fmt: skip
    assert FOUR[chips.on_chip(FOUR)].chip.tolist() == ["Cog 3"]


def test_all_rows_of_a_chip_have_one_link(tmp_path):
    header = (ROOT / "data" / "chips.csv").read_text("utf-8").partition("\n")[0]
    row = "Bead 2,,Bead,,gpu,2021,{},vector,1e13,,1e12,HBM2,300,,yes,epoch_hw,,,,,NVLink 4,{},8\n"
    path = tmp_path / "chips.csv"
    path.write_text(f"{header}\n{row.format('fp32', '4.5e11')}{row.format('fp64', '450e9')}", "utf-8")
    assert len(chips.read(path, frozenset({"epoch_hw"}))) == 2
    path.write_text(f"{header}\n{row.format('fp32', '4.5e11')}{row.format('fp64', '9e11')}", "utf-8")
    with pytest.raises(UserError, match="line 3, column link_byte_per_s: 'Bead 2' has another one in line 2"):
        chips.read(path, frozenset({"epoch_hw"}))
