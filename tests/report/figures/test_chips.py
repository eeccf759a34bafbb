"""Figures of chips, on the tiny cache and on more chips, against arithmetic by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.charts import drawn, rows, titles
from helpers.papers import tiny, wide
from helpers.sentences import plain

from report import figures
from report.figures.chips import HEADLINE
from report.figures.precisions import representatives


def test_plane_opens_with_each_chips_fastest_rate():
    chart = drawn(figures.chips.plane, tiny())
    points = {row["chip"]: row for row in rows(chart, "chip", "peak", "choice") if row["choice"] == HEADLINE}
    assert set(points) == {"Abacus 1", "Bead 2", "Cog 3"}
    (dial,) = (row for row in rows(chart, "chip", "dense peak", "choice") if row["chip"] == "Dial 4")
    assert (dial["choice"], plain(dial["dense peak"])) == ("int8, tensor units", "10.00 TOP/s")
    assert (points["Bead 2"]["peak"], points["Bead 2"]["flow"]) == (1e14, 1e12)
    assert plain(points["Bead 2"]["ridge point"]) == "100.0 FLOP/B"
    assert plain(points["Bead 2"]["sparse peak"]) == "200.0 TFLOP/s"
    assert plain(points["Bead 2"]["power"]) == "300 W"
    assert points["Abacus 1"]["derivation"] == "16 cores x 2 GHz x 32 FLOP/cycle"
    assert points["Cog 3"]["name"] == "Cog 3 †"
    assert [chip for chip, row in points.items() if not row["confirmed"]] == ["Cog 3"]


def test_plane_offers_each_precision_and_unit():
    chart = drawn(figures.chips.plane, tiny())
    (offered,) = [param["bind"]["options"] for param in chart["params"] if param["name"] == "choice"]
    assert offered == [HEADLINE, "fp32, vector units", "bf16, tensor units", "int8, tensor units"]
    at_fp32 = [row["chip"] for row in rows(chart, "chip", "peak", "choice") if row["choice"] == offered[1]]
    assert sorted(at_fp32) == ["Abacus 1", "Bead 2"]
    named = {(row["choice"], row["text"]) for row in rows(chart, "text", "choice")}
    assert ("fp32, vector units", "Bead 2") in named


def test_plane_has_diagonals_of_equal_ridge_point():
    ends = rows(drawn(figures.chips.plane, tiny()), "ratio", "x", "y")
    assert {row["ratio"] for row in ends} >= {10, 100}
    assert all(row["y"] / row["x"] == pytest.approx(row["ratio"]) for row in ends)


def test_roofs_bend_at_the_ridge_point():
    chart = drawn(figures.chips.roofs, tiny())
    corners = [row for row in rows(chart, "chip", "intensity", "rate") if row["chip"] == "Abacus 1"]
    # 1e12 FLOP/s and 1e11 B/s
    assert (10, 1e12) in [(row["intensity"], row["rate"]) for row in corners]
    assert max(row["rate"] for row in corners) == 1e12


def test_roofs_have_a_panel_a_kind_on_the_same_axes():
    chart = drawn(figures.chips.roofs, tiny())
    assert titles(chart) == [
        "CPU, at fp32 on vector units",
        "GPU, at 16-bit floating point on tensor units",
        "ASIC, at 16-bit floating point on tensor units",
        "FPGA, each at its fastest rate",
    ]
    scales = {str(layer["encoding"]["x"]["scale"]) for panel in chart["concat"] for layer in panel["layer"][:1]}
    assert len(scales) == 1
    assert {row["text"] for row in rows(chart, "text", "y")} == {"Abacus 1", "Bead 2", "Cog 3 †", "Dial 4"}


def test_of_many_chips_some_have_a_name():
    (row,) = tiny().chips[(tiny().chips.chip == "Abacus 1") & (tiny().chips.precision == "fp32")].to_dict("records")
    many = [row | {"chip": f"Abacus {k}", "peak_flop_per_s": k * 1e12, "alias": ""} for k in range(1, 31)]
    chart = drawn(figures.chips.roofs, replace(tiny(), chips=pd.DataFrame(many)))
    named = [row["text"] for row in rows(chart, "text", "y")]
    assert (len(named), named[0], named[-1]) == (9, "Abacus 30", "Abacus 1")


def test_representatives_are_the_chips_with_the_most_rates():
    # Four rates; two of newer and older chips, the newer wins; TPU v2 has two; SoCs and FPGAs have one each.
    assert representatives(wide().chips) == ["NVIDIA D4 (SXM)", "Abacus 9", "Google TPU v2"]


def test_precisions_join_rates_with_one_peak():
    chart = drawn(figures.precisions.precisions, wide())
    named = {row["text"] for row in rows(chart, "text", "chip") if row["chip"] == "NVIDIA D4 (SXM)"}
    assert named == {"fp32 vector", "bf16 tensor", "fp8/int8 tensor"}
    corners = rows(chart, "chip", "level", "rate")
    tops = {row["level"]: row["rate"] for row in corners if row["chip"] == "Abacus 9"}
    assert tops == {"fp32 vector": 2e12, "bf16 tensor": 3.2e13}


def test_precisions_of_a_chosen_chip():
    specification = drawn(figures.precisions.precisions, wide())
    (chosen,) = [param for param in specification["params"] if param["name"] == "chosen"]
    assert chosen["value"] == "NVIDIA D4 (SXM)"
    assert set(chosen["bind"]["options"]) == set(wide().chips.chip)
    titles = [panel["title"] for panel in specification["concat"]]
    assert titles == [{"text": {"expr": "chosen"}}, "Abacus 9", "Google TPU v2"]


def test_precisions_need_a_chip_with_several():
    one_each = replace(tiny(), chips=tiny().chips.drop_duplicates("chip"))
    assert "two precisions" in figures.precisions.precisions(one_each)


def test_generations_lead_with_the_fastest_of_a_year():
    later = wide().chips[wide().chips.chip == "NVIDIA B2"].assign(chip="NVIDIA B2 slow", peak_flop_per_s=3e13)
    paper = replace(wide(), chips=pd.concat([wide().chips, later], ignore_index=True))
    chart = drawn(figures.generations.generations, paper)
    points = {row["chip"]: row for row in rows(chart, "chip", "leader")}
    assert points["NVIDIA B2"]["leader"]
    assert not points["NVIDIA B2 slow"]["leader"]
    assert (points["NVIDIA D4 (SXM)"]["line"], points["NVIDIA D4 (SXM)"]["short"]) == ("NVIDIA, HBM", "D4")
    assert "NVIDIA GeForce RTX 1" not in points
    assert len(chart["concat"]) == 3


def test_power():
    points = {row["chip"]: row for row in rows(drawn(figures.chips.peak_per_watt, wide()), "chip", "watts")}
    assert {chip: row["watts"] for chip, row in points.items()} == {
        "Abacus 1": 100, "Bead 2": 300, "NVIDIA D4 (SXM)": 640, "Google TPU v1": 50,
    }  # fmt: skip
    assert points["Google TPU v1"]["name"] == "Google TPU v1 ‡"
    assert points["NVIDIA D4 (SXM)"]["peak"] == 6.4e14  # at bf16, not fp8
