"""The chapter on chips: arithmetic by hand, on small tables and on the committed one."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import cells_of, committed_chips, rows_of, world, wrong

from report.chapters.chips import figures, tables
from report.chapters.chips.facts import LABELLED, SMALL, has_own_price, promised
from report.chapters.chips.facts import of as of_chips
from report.charts.panels import specified
from report.markdown import SPACE

CPU, GPU = world().machine("cpu"), world().machine("gpu")


def committed():
    return replace(world(), chips=committed_chips())


def table(ridges):
    """Chips with these ridge points: so many FLOP/s on 1 B/s."""
    rows = pd.concat([world().chips.head(1)] * len(ridges), ignore_index=True)
    return rows.assign(
        chip=[f"Maker {ridge}" for ridge in ridges], chip_kind="gpu", precision="fp16", unit="tensor", verified="yes",
        note="", memory_type="HBM", peak_flop_per_s=[float(ridge) for ridge in ridges], bandwidth_byte_per_s=1.0,
        ridge_flop_per_byte=[float(ridge) for ridge in ridges],
    )  # fmt: skip


def of(rows, **changed):
    return replace(world(), chips=rows, **changed)


def test_a_table_of_four_chips():
    # Abacus 1: 1e12 / 1e11 = 10. Bead 2: 1e13 / 1e12 = 10 at fp32, 1e14 / 1e12 = 100 at bf16, where sparse is twice.
    # Cog 3 has its memory on the chip and is not confirmed; Dial 4 prints integers alone.
    expected = {
        "table.chips": 4, "table.unconfirmed": 1,
        "precision.chip": "Bead 2", "precision.vector": 10, "precision.tensor": 100, "sparse.factor": 2,
        # 2 cores (4 logical) x 2 GHz x 32 FLOP/cycle; 100 GFLOP/s were measured
        "hand.promised": 128e9, "hand.measured": 1e11, "hand.share": 100 / 128,
    }  # fmt: skip
    assert wrong("chips", of(world().chips.head(5)), expected) == {}


def test_what_a_watt_and_a_dollar_buy():
    # Dies of 100, 200 and 400 FLOP/s on 1 B/s at 100, 100 and 50 W: 1, 2 and 8 FLOP/s for a watt, and 0.01, 0.01, 0.02
    # B/s. A second board with the third die would make it 5. At fp32 they have a tenth; a GPU of a fourth die has no
    # matrix units. They hold 2, 3 and 5 B, read in as many seconds. 20, 30 and an estimate of 9 dollars, each for
    # 1e-9 GB/s.
    rows = table([100, 200, 400, 800]).assign(
        die=["a", "b", "c", "c"], year=[2020, 2020, 2020, 2021], power_w=[100.0, 100.0, 50.0, 100.0],
        memory_byte=[2.0, 3.0, 5.0, None], price_usd=[20.0, 30.0, 9.0, None],
        note=["", "", "price is an estimate", ""],
    )  # fmt: skip
    tenth = {"peak_flop_per_s": rows.peak_flop_per_s / 10, "ridge_flop_per_byte": rows.ridge_flop_per_byte / 10}
    vector = rows.assign(precision="fp32", unit="vector", **tenth)
    other = vector[:1].assign(chip="Maker 7", die="d", peak_flop_per_s=7.0)
    rows = pd.concat([rows, vector, other], ignore_index=True)
    expected = {
        "costs.flop_gpu": 0.2, "costs.flop_matrix": 2, "costs.byte_gpu": 0.01, "typical.gpu": 20, "typical.matrix": 200,
        "costs.reading_gpu": 2.5, "costs.reading_most": 5, "costs.reading_most.name": "Maker 400", "costs.listed": 3,
        "costs.least_price": 20e9,
        "costs.least_price.name": "Maker 100", "costs.most_price": 30e9, "costs.most_price.name": "Maker 200",
    }  # fmt: skip
    assert wrong("chips", of(rows), expected) == {}


def test_single_chips_against_their_datasheets():
    expected = {
        "precision.chip": "NVIDIA T4", "precision.tensor": 65e12 / 320e9, "precision.vector": 8.1e12 / 320e9,
        "generations.v100": 125 / 0.9, "sparse.factor": 2,
        "generations.h100": 989.4 / 3.35, "generations.b200": 2250 / 7.7,
        "upgrade.peak": 989.4 / 65, "upgrade.bandwidth": 3.35 / 0.32,
    }  # fmt: skip
    assert wrong("chips", committed(), expected) == {}


def test_boards_of_one_die_count_once_in_the_typical_ridge_point():
    # Dies at 10, 20, 60, and a second board with the die of 60: the median is 20; over boards it would be 40
    rows = table([10, 20, 60, 70]).assign(
        die=["a", "b", "c", "c"], year=[2020, 2020, 2020, 2021], chip_kind="cpu", precision="fp32", unit="vector"
    )
    assert wrong("chips", of(rows), {"typical.cpu": 20, "typical.soc": None, "typical.gpu": None}) == {}
    assert wrong("chips", of(rows.assign(chip_kind="soc")), {"typical.soc": 20}) == {}
    assert (
        wrong("chips", of(rows.assign(chip_kind="asic", precision="bf16", unit="tensor")), {"typical.asic": 20}) == {}
    )
    assert wrong("chips", of(rows.head(2)), {"typical.cpu": None}) == {}


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        # Ridge points 50, 100, 200: above 60 lie 2, above 300 none; above 40 lie 3, above 150 one
        ((1, 64), {"whole_small": 2, "whole_large": 0, "layers_small": 3, "layers_large": 1, "dies": 3, "networks": 6,
                   "intensity": 60, "large": 64}),
        ((1,), {"whole_small": 2, "large": None, "whole_large": None}),
    ],
)  # fmt: skip
def test_dies_on_which_the_typical_network_is_memory_bound(batches, expected):
    """Six networks at bf16; at batch size 1 of 60 FLOP/B as a whole and 40 layer by layer, at 64 of 300 and 150."""
    intensities = {1: (60, 40), 64: (300, 150)}
    networks = pd.DataFrame(
        {"model": name, "batch": batch, "precision": "bf16", "compulsory_intensity": intensities[batch][0],
         "traffic_intensity": intensities[batch][1]} for name in "abcdef" for batch in batches
    )  # fmt: skip
    paper = of(table([50, 100, 200]), workloads=networks)
    assert wrong("chips", paper, {f"demand.{key}": value for key, value in expected.items()}) == {}
    few = replace(paper, workloads=networks.query("model < 'd'"))
    assert wrong("chips", few, {"demand.whole_small": None}) == {}


def test_the_promise_is_arithmetic_on_cpus_and_printed_for_gpus():
    # 2 physical cores (4 logical) x 2 GHz x 32 FLOP/cycle, whatever chip has the name; Abacus 1 has 16 cores
    assert promised(world(), CPU) == (pytest.approx(128e9), "2 cores x 2.00 GHz x 32 FLOP/cycle/core")
    named = replace(CPU, environment=replace(CPU.environment, name="Abacus 1"))
    assert promised(world(), named)[0] == pytest.approx(128e9)
    assert promised(world(), replace(CPU, clock_hz=None)) == (None, "")
    assert promised(world(), GPU)[0] == 1e13  # Bead 2 at fp32
    other = replace(GPU, environment=replace(GPU.environment, name="Unknown GPU"))
    assert promised(world(), other)[0] is None


def test_peaks_are_multiplied_out():
    # 40 x 2.3 x 64 = 5888; 320 x 64 x 2 x 1.59 = 65,126; 10 x 256 x 1.398 = 3579 GFLOP/s; 2 x 2 x 32 = 128
    text = tables.peaks.__wrapped__(replace(committed(), machines=(CPU,))).replace("\\", "").replace(SPACE, " ")
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in text.splitlines()[2:]]
    results = [row[1].rpartition(" = ")[2] for row in rows]
    assert results == ["5.89 TFLOP/s", "65.1 TFLOP/s", "3.58 TFLOP/s", "128 GFLOP/s"]
    # 8 channels of 8 B at 3200 MT/s are 204.8 GB/s; 5888 / 204.8 = 28.75, and 65 TFLOP/s over 320 GB/s are 203
    assert rows[0][1:4] == [
        "40 cores × 2.3 GHz × 64 FLOP/cycle/core = 5.89 TFLOP/s",
        "8 ch × 3200 MT/s × 8 B = 205 GB/s",
        "28.8",
    ]
    assert rows[1][3] == "203"


def test_the_table_of_rates_has_every_mark():
    rows = world().chips
    measured = rows.assign(note=rows.note.mask(rows.chip == "Dial 4", "power is measured maximum"), power_w=50.0)
    assert cells_of(tables.rates.__wrapped__(of(rows.head(3))))["Bead 2"] == [
        "2021", "bf16 tensor", "100 TFLOP/s", "200 TFLOP/s", "1.00 TB/s", "100", "–", "300 W", "–", "–",
        "[@epoch_hw; @stas_mle]",
    ]  # fmt: skip
    found = cells_of(tables.rates.__wrapped__(of(measured.head(5))))
    assert found["Cog 3"][1:5] == [
        "bf16 tensor *",
        "200 TFLOP/s",
        "–",
        "20.0 TB/s †",
    ]  # unconfirmed; memory on the chip
    assert (found["Abacus 1"][7], found["Dial 4"][7]) == ("50.0 W", "50.0 W ‡")
    assert found["Abacus 1"][9] == "16 cores × 2 GHz × 32 FLOP/cycle"


def test_the_table_and_the_figure_of_the_labelled_chips_agree():
    # 65 TFLOP/s over 320 GB/s; 100 GFLOP/s over 10 GB/s were measured
    row = cells_of(tables.labelled_chips.__wrapped__(world()))["T4"]
    assert row[:-1] == ["GPU", "2018", "fp16", "65", "320", "203", "16 GB", "70", "–"]
    chart = figures.roofs.__wrapped__(world())
    corners = rows_of(chart, "chip", "intensity", "attainable")
    assert [rate for chip, _, rate in corners if chip == "NVIDIA T4"][1:] == [65e12, 65e12]
    assert (world().machine("cpu").name, 10, 100e9) in corners
    assert ("NVIDIA T4", "fp16, tensor units", pytest.approx(65 / 0.32, rel=1e-5)) in rows_of(
        chart, "chip", "rate", "ridge"
    )


def test_prices_of_whole_devices_and_estimates_bear_a_mark():
    # The A16's power is measured, and its price is a phone's; NVIDIA states no price of an H100, and lists the 4090
    found = {chip: row[7:9] for chip, row in cells_of(tables.labelled_chips.__wrapped__(committed())).items()}
    assert found["A16 GPU"] == ["7.6 ‡", "999 §"]
    assert found["H100 SXM"] == ["700", "33,600 §"]
    assert found["RTX 4090"] == ["450", "1,599"]


def test_no_list_price_is_known_of_a_gpu_for_data_centres():
    # The text says so. GPUs of a desktop have one, such as the TITAN V with its stacked memory
    found = committed_chips()
    names = r"Tesla|\b(?:V100|A100|H100|H200|B200|B300|GH200|GB200|T4|L4|L40S?|A10G?|A30|A40)\b|Instinct"
    central = found[found.chip.str.contains(names) & (found.chip_kind == "gpu")]
    assert central.chip.nunique() > 30
    assert not has_own_price(central).any()


def test_no_phone_or_laptop_has_matrix_units():
    # The text says so. Boards have them
    found = committed_chips()
    small = found[(found.chip_kind == "soc") & (found.unit == "tensor")]
    assert len(small)
    assert small.chip.str.contains("Jetson|GB10").all()


def test_phones_in_the_figure_are_known_at_fp32_alone():
    found = committed_chips()
    phones = found[found.chip.isin(LABELLED[SMALL]) & found.chip.str.contains("A16|Snapdragon|Dimensity")]
    assert phones.chip.nunique() == 3
    assert set(phones.precision) == {"fp32"}


def test_the_caption_explains_only_the_marks_that_occur():
    # None of the figure's chips prints integers alone or has its memory on the chip. Cog 3 has, and is not confirmed;
    # Dial 4 prints integers alone; no power or price of these chips has a note
    usual, few = ("integers", "memory_inside"), ("measured_power", "other_prices")
    facts = of_chips(committed())
    assert not any(getattr(facts, f"has_{mark}") for mark in usual)
    assert all(getattr(facts, f"has_{mark}") for mark in ("unconfirmed", *few))
    facts = of_chips(of(world().chips.head(5)))
    assert all(getattr(facts, f"has_{mark}") for mark in ("unconfirmed", *usual))
    assert not any(getattr(facts, f"has_{mark}") for mark in few)


def test_memory_is_printed_as_by_its_vendor():
    # Google prints GiB for a TPU v6e (32 x 2^30 B), NVIDIA 80 GB for an H100
    found = {chip: row[6] for chip, row in cells_of(tables.labelled_chips.__wrapped__(committed())).items()}
    assert [found[chip] for chip in ("TPU v6e", "H100 SXM", "Xeon Platinum 8380")] == ["32 GiB", "80 GB", "–"]


def test_small_gpus_ask_for_nearly_as_much_as_large_ones():
    # Medians over dies at fp32: 15 (CPUs), 34 (small GPUs), 40 (large ones). Small GPUs at 17 would be less than half
    assert of_chips(committed()).is_small_like_large
    found = committed_chips()
    half = found.ridge_flop_per_byte.where(found.chip_kind != "soc", found.ridge_flop_per_byte / 2)
    assert not of_chips(of(found.assign(ridge_flop_per_byte=half))).is_small_like_large


def test_names_at_ridge_points_cross_no_line_and_no_other_name():
    chart = figures.roofs.__wrapped__(committed())
    names = [row[0] for row in rows_of(chart, "text", "ex")]
    assert len(names) == len(set(names)) == sum(map(len, LABELLED.values())) + 1  # of every chip, and the machine


def test_a_processor_stands_with_the_chips_of_nearest_peak_and_a_gpu_with_gpus():
    # 100 GFLOP/s are below the 472 GFLOP/s of a Jetson Nano; 8 TFLOP/s are near an M1 Max, but a GPU is no phone
    for machine, panel in ((CPU, f"{SMALL}, and the machine at hand"), (GPU, next(iter(LABELLED)))):
        chart = specified(figures.roofs.__wrapped__(replace(committed(), machines=(machine,))))
        panels = {
            part["title"]: {row["chip"] for layer in part["layer"] for row in chart["datasets"][layer["data"]["name"]]
                            if "chip" in row}
            for part in chart["concat"]
        }  # fmt: skip
        assert [title for title, members in panels.items() if machine.name in members] == [panel]
