"""The chapter on chips: arithmetic by hand, what a chosen chip becomes, and what the text says of the real table."""

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from helpers.papers import REFERENCES, committed_chips, empty, tiny
from helpers.places import ROOT

from report import facts
from report.chapters.chips import figures, tables
from report.chapters.chips.facts import EXAMPLE, LABELLED, labelled, promised
from report.display import Missing
from report.failures import in_environment
from report.markdown import SPACE
from report.paper import chips, load

CPU, GPU = tiny().machine("cpu"), tiny().machine("gpu")


@cache
def committed():
    return replace(tiny(), chips=committed_chips())


def of(paper):
    return facts.of_chapter("chips", paper)


def table(ridges, kind="gpu", precision="fp16", unit="tensor", **columns):
    """Chips with these ridge points: so many FLOP/s on 1 B/s."""
    about = {
        "alias": "", "vendor": "Maker", "die": "", "chip_kind": kind, "year": 2020,
        "precision": precision, "unit": unit,
        "sparse_peak_flop_per_s": None, "bandwidth_byte_per_s": 1.0, "memory_type": "HBM", "power_w": 1.0,
        "derivation": "", "verified": "yes", "source": "epoch_hw", "note": "", "memory_byte": None,
    }  # fmt: skip
    rows = [about | {"chip": f"Maker {ridge}", "peak_flop_per_s": float(ridge)} for ridge in ridges]
    return pd.DataFrame(rows).assign(**columns, ridge_flop_per_byte=[float(ridge) for ridge in ridges])


def shown(chart):
    """All rows of a chart."""
    return [row for rows in chart["datasets"].values() for row in rows]


def cells(markdown):
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in markdown.splitlines()[2:]]


def test_the_tiny_table():
    # Abacus 1: 1e12 / 1e11 = 10. Bead 2: 1e13 / 1e12 = 10 at fp32, 1e14 / 1e12 = 100 at bf16, where sparse is twice.
    # Cog 3 has its memory on the chip and is not confirmed; Dial 4 prints integers alone.
    found = of(tiny())
    assert found.table.chips.number == 4
    assert found.table.unconfirmed.is_missing  # one alone
    assert (found.ends.least.number, found.ends.least_chip.text) == (10, "Abacus 1")
    assert (found.ends.most.number, found.ends.most_chip.text) == (100, "Bead 2")
    assert (found.precision.chip.text, found.precision.vector.number, found.precision.tensor.number) == (
        "Bead 2",
        10,
        100,
    )
    assert (found.sparse.factor.number, found.sparse.factor.count) == (2, 1)


def test_single_chips_against_their_datasheets():
    # T4: 65 TFLOP/s and 320 GB/s, 8.1 at fp32. V100: 125 / 0.9. H100: 989.4 / 3.35. B200: 2250 / 7.7.
    found = of(committed())
    assert found.precision.chip.text == EXAMPLE == "NVIDIA T4"
    assert found.precision.tensor.number == pytest.approx(65e12 / 320e9)
    assert found.precision.vector.number == pytest.approx(8.1e12 / 320e9)
    ridges = [found.generations.v100, found.generations.h100, found.generations.b200]
    assert [value.number for value in ridges] == pytest.approx([138.9, 295.3, 292.2], abs=0.06)


def test_what_the_text_says_of_the_committed_table_holds():
    found = of(committed())
    typical = [found.typical.cpu, found.typical.soc, found.typical.gpu, found.typical.asic]
    assert [value.number for value in typical] == sorted(value.number for value in typical)
    assert found.levelled_off
    assert found.turned_back
    assert found.generations.last_tpu.number > 2 * found.generations.first_tpu.number
    assert found.sparse.factor.number == 2
    h100 = committed_chips()[committed_chips().chip == "NVIDIA H100 SXM"].set_index(["precision", "unit"])
    # The problem: sparse at 8 bits against dense at 16
    dense, sparse = h100.peak_flop_per_s["fp16", "tensor"], h100.sparse_peak_flop_per_s["fp8", "tensor"]
    assert sparse / dense == pytest.approx(4, rel=0.001)


def test_boards_of_one_die_count_once_in_the_typical_ridge_point():
    # Dies at 10, 20, 60, and a second board with the die of 60: the median is 20, that of boards would be 40
    rows = table([10, 20, 60, 70]).assign(die=["a", "b", "c", "c"], year=[2020, 2020, 2020, 2021])
    typical = of(replace(tiny(), chips=rows)).typical
    assert (typical.gpu.number, typical.gpu.count) == (20, 3)
    assert typical.cpu.is_missing
    assert of(replace(tiny(), chips=rows.head(2))).typical.gpu.is_missing


def networks(*batches):
    """Six networks at bf16; at batch size 1 of 60 FLOP/B as a whole and 40 layer by layer, at 64 of 300 and 150."""
    intensities = {1: (60, 40), 64: (300, 150)}
    rows = [
        {"model": name, "batch": batch, "precision": "bf16",
         "compulsory_intensity": intensities[batch][0], "traffic_intensity": intensities[batch][1]}
        for name in "abcdef" for batch in batches
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_dies_on_which_the_typical_network_is_memory_bound():
    # Ridge points 50, 100, 200: above 60 lie 2, above 300 none; above 40 lie 3, above 150 one
    paper = replace(tiny(), chips=table([50, 100, 200]), workloads=networks(1, 64))
    found = of(paper).demand
    counts = [found.whole_small, found.whole_large, found.layers_small, found.layers_large]
    assert [value.number for value in counts] == [2, 0, 3, 1]
    assert (found.dies.number, found.networks.number, found.intensity.number) == (3, 6, 60)
    assert (found.small.number, found.large.number) == (1, 64)


def test_one_batch_size_has_no_larger_one():
    found = of(replace(tiny(), chips=table([50, 100, 200]), workloads=networks(1))).demand
    assert found.whole_small.number == 2
    assert found.large.is_missing
    assert found.whole_large.is_missing


def test_a_few_networks_are_not_typical():
    few = networks(1, 64).query("model < 'd'")
    assert of(replace(tiny(), chips=table([50, 100, 200]), workloads=few)).demand.whole_small.is_missing


def test_the_promise_of_a_processor_is_cores_times_clock_times_flop_per_cycle():
    # 2 physical cores (4 logical) x 2 GHz x 32 FLOP/cycle, whatever chip has the name; Abacus 1 has 16 cores
    peak, arithmetic = promised(tiny(), CPU)
    assert peak == pytest.approx(128e9)
    assert arithmetic == "2 cores x 2.00 GHz x 32 FLOP/cycle/core"
    named = replace(CPU, environment=replace(CPU.environment, name="Abacus 1"))
    assert promised(tiny(), named)[0] == pytest.approx(128e9)
    assert promised(tiny(), replace(CPU, clock_hz=None)) == (None, "")


def test_the_promise_of_a_gpu_is_printed():
    assert promised(tiny(), GPU)[0] == 1e13  # Bead 2 at fp32
    other = replace(GPU, environment=replace(GPU.environment, name="Unknown GPU"))
    assert promised(tiny(), other)[0] is None


def test_the_measured_share_of_the_promise():
    hand = of(replace(tiny(), machines=(CPU,))).hand
    measured = CPU.roof("fp32")
    assert hand.measured.number == measured.peak_flop_per_s
    assert hand.share.number == pytest.approx(measured.peak_flop_per_s / 128e9)


def test_the_labelled_chips_are_of_five_kinds_with_sources():
    found = labelled(committed_chips())
    assert set(found.chip) == set(LABELLED)
    assert len(found) >= 10
    assert set(found.chip_kind) == set(chips.KINDS)
    assert found.source.str.len().min() > 0


@pytest.mark.parametrize("chosen", [["NVIDIA T4"], ["NVIDIA T4", "AMD Alveo U280", "Groq LPU v1 (GroqChip)"]])
def test_a_chosen_chip_is_a_roof_a_row_and_a_name(chosen):
    paper = replace(tiny(), chips=committed_chips()[committed_chips().chip.isin(chosen)])
    for chart in (figures.roofs, figures.precisions):
        keys = {row.get("chip", "").removesuffix(" †") for row in shown(chart.__wrapped__(paper))}
        assert keys >= set(chosen)
    names = {row.get("text", "").split(",")[0].removesuffix(" †") for row in shown(figures.roofs.__wrapped__(paper))}
    assert names >= set(chosen)
    listed = "".join(row[0] for row in cells(tables.labelled_chips.__wrapped__(paper))).replace("\\", "")
    assert all(chip in listed for chip in chosen)


def test_the_flag_chooses_the_chips_of_the_paper():
    with in_environment({"ROOFWRIGHT_CHIPS": "NVIDIA T4,Google TPU v*"}):
        found = load(ROOT / "data", REFERENCES)
    assert {chip for chip in found.chips.chip if not chip.startswith("Google TPU v")} == {"NVIDIA T4"}
    assert not found.is_whole
    assert "NVIDIA H100 SXM" in set(found.reference.chips.chip)


def test_roofs_bend_at_their_ridge_points():
    rows = [row for row in shown(figures.roofs.__wrapped__(committed())) if row.get("name") == "NVIDIA T4, fp16"]
    corners = {row["intensity"]: row["attainable"] for row in rows if "intensity" in row}
    assert corners[203.125] == 65e12
    assert max(corners.values()) == 65e12
    assert min(corners.values()) == pytest.approx(min(corners) * 320e9, rel=1e-4)


def test_product_lines_are_of_the_table_and_run_forward():
    years = committed_chips().drop_duplicates("chip").set_index("chip").year
    for line in figures.LINES.values():
        ordered = [years[chip] for chip in line]
        assert ordered == sorted(ordered)


def test_peaks_are_multiplied_out():
    # 40 x 2.3 x 64 = 5888; 320 x 64 x 2 x 1.59 = 65,126; 10 x 256 x 1.398 = 3579 GFLOP/s; 2 x 2 x 32 = 128
    rows = cells(tables.peaks.__wrapped__(replace(committed(), machines=(CPU,))).replace("\\", "").replace(SPACE, " "))
    assert [row[1].rpartition(" = ")[2] for row in rows] == [
        "5.89 TFLOP/s",
        "65.1 TFLOP/s",
        "3.58 TFLOP/s",
        "128 GFLOP/s",
    ]
    assert rows[0][1] == "40 cores × 2.3 GHz × 64 FLOP/cycle/core = 5.89 TFLOP/s"
    assert rows[0][2] == "8 ch × 3200 MT/s × 8 B = 205 GB/s"
    assert [row[3] for row in rows[:2]] == ["28.8", "203"]


def test_every_rate_is_listed_with_a_source_beside_its_chip():
    rows = cells(tables.rates.__wrapped__(committed()))
    assert len(rows) == len(committed_chips())
    with_source = {row[0] for row in rows if row[-1].startswith("[@")}
    assert with_source == {row[0] for row in rows}


@pytest.mark.parametrize("make", ["roofs", "ridges", "plane", "power", "precisions"])
def test_figures_without_chips_are_gaps(make):
    paper = replace(empty(), chips=committed_chips().head(0))
    with pytest.raises(Missing):
        getattr(figures, make).__wrapped__(paper)


def test_nothing_at_all_leaves_all_facts_missing():
    paper = replace(empty(), chips=committed_chips().head(0))
    assert all(value.is_missing for _, value, _ in facts.entries("chips", of(paper)))
