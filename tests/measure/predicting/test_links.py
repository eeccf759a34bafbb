import pytest
from helpers.places import ROOT

from measure.cache import table
from measure.domain.chips import fold_name
from measure.errors import UserError
from measure.predicting.kernels import served_chips
from measure.predicting.links import Link
from measure.published.records import Chip

DATA = ROOT / "data"
HEADER = (DATA / "chips.csv").read_text("utf-8").partition("\n")[0]
OLDER = HEADER.removesuffix(",link,link_byte_per_s,node_gpus")
CHIP = "Example Chip 9,EC9,NVIDIA,EX100,gpu,2025,{precision},vector,6e13,,2e12,HBM3,400,,no,example,,8e10,5e7,"


def with_rows(folder, header, *rows):
    (folder / "chips.csv").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return folder


def link_of(folder, chip):
    return served_chips(folder)[fold_name(chip)].known_link


def test_links_are_those_that_vendors_print():
    links = {
        # NVIDIA prints 600, 900 and 1800 GB/s of NVLink for both directions together
        "NVIDIA A100 SXM 80GB": Link(600e9 / 2, 8, "NVLink 3"), "NVIDIA H100 SXM": Link(900e9 / 2, 8, "NVLink 4"),
        "NVIDIA GB200 SXM": Link(1800e9 / 2, 72, "NVLink 5"),
        "AMD Instinct MI300X": Link(7 * 64e9, 8, "Infinity Fabric"),  # a link to each of the 7 others
    }  # fmt: skip
    assert {name: link_of(DATA, name) for name in links} == links


@pytest.mark.parametrize("name", ["PCIe 3.0 x16", "PCIe 4.0 x8", "PCIe 4.0 x16", "PCIe 5.0 x8", "PCIe 5.0 x16"])
def test_pcie_has_128_bits_of_data_in_130(name):
    transfers, lanes = {"3": 8e9, "4": 16e9, "5": 32e9}[name[5]], int(name.rpartition("x")[2])
    rates = {row.link_byte_per_s for row in table.read(DATA / "chips.csv", Chip) if row.link == name}
    assert [*rates] == [pytest.approx(transfers * lanes * 128 / 130 / 8, rel=1e-3)]


def test_a_chip_of_ones_own_may_have_a_link_or_none(tmp_path):
    own = CHIP.format(precision="fp16")
    assert link_of(with_rows(tmp_path, HEADER, f"{own},NVLink 4,4.5e11,8"), "ec9") == Link(4.5e11, 8, "NVLink 4")
    for header, row in ((HEADER, f"{own},,,"), (OLDER, own)):  # tables from before the columns had none
        with pytest.raises(UserError, match="no link of 'Example Chip 9'; add link and link_byte_per_s"):
            link_of(with_rows(tmp_path, header, row), "Example Chip 9")
    # A row of one's own that replaces one of the project's, without the columns, leaves the link of the others
    t4 = own.replace("Example Chip 9,EC9", "NVIDIA T4,")
    assert link_of(with_rows(tmp_path, OLDER, t4), "NVIDIA T4") == link_of(DATA, "NVIDIA T4")


def test_a_link_has_a_name_and_a_rate_and_is_the_chips(tmp_path):
    own, other = (CHIP.format(precision=precision) for precision in ("fp16", "fp32"))
    with pytest.raises(
        UserError, match="line 2, column link: the rate of a link without its name, of 'Example Chip 9'"
    ):
        link_of(with_rows(tmp_path, HEADER, f"{own},,4.5e11,8"), "Example Chip 9")
    with pytest.raises(UserError, match="no link of 'Example Chip 9'"):
        link_of(with_rows(tmp_path, HEADER, f"{own},NVLink 4,,8"), "Example Chip 9")
    with_rows(tmp_path, HEADER, f"{own},NVLink 4,4.5e11,8", f"{other},NVLink 4,4.5e11,")
    with pytest.raises(UserError, match=r"the rows of 'Example Chip 9' .* have several links"):
        link_of(tmp_path, "EC9")
