"""Findings about chips: against arithmetic by hand, and that each of their numbers follows from the table."""

import inspect
import re
from dataclasses import replace
from functools import cache
from itertools import takewhile

import pandas as pd
import pytest
from helpers.papers import committed_chips, tiny, wide
from helpers.sentences import plain

from report import findings
from report.analysis.available import Missing
from report.analysis.product_lines import LINES

MODULES = (findings.chips, findings.comparisons)


def calls():
    """Every finding about chips, with every kind of chip that it is asked for."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and hasattr(function, "__wrapped__"):
                asked = list(inspect.signature(function).parameters)[1:]
                for arguments in [(kind,) for kind in ("cpu", "gpu", "asic", "soc")] if asked == ["kind"] else [()]:
                    yield pytest.param(function, arguments, id="-".join([name, *arguments]))


def without(chip):
    return replace(wide(), chips=wide().chips[wide().chips.chip != chip])


def changed(frame, row, **values):
    """The frame with other values in a row, ridge points following."""
    other = frame.copy()
    for column, value in values.items():
        other.loc[row, column] = value
    if "peak_flop_per_s" in other:
        other["ridge_flop_per_byte"] = other.peak_flop_per_s / other.bandwidth_byte_per_s
    return other


@cache
def variants():
    """The wide paper with all rows of a table changed, each otherwise, and then with one row changed or dropped."""
    return [*of_all_rows(wide()), *of_one_row(wide())]


def of_all_rows(paper):
    """Most numbers change with these already; one that does changes with one of the rows."""
    columns = ["peak_flop_per_s", "bandwidth_byte_per_s", "sparse_peak_flop_per_s", "power_w"]
    for step in (0.0007, -0.0007, 0.013, -0.013):  # small ones leave the ranking as it is
        factors = 1 + step * (1 + pd.Series(paper.chips.index, paper.chips.index) % 7)
        for some in (columns, columns[:1], columns[1:2]):
            frame = paper.chips.assign(**{column: paper.chips[column] * factors for column in some})
            frame["ridge_flop_per_byte"] = frame.peak_flop_per_s / frame.bandwidth_byte_per_s
            yield replace(paper, chips=frame)
        demand = paper.workloads.footprint_intensity * (1 + step)
        yield replace(paper, workloads=paper.workloads.assign(footprint_intensity=demand))
    for years in (1, -1):
        yield replace(paper, chips=paper.chips.assign(year=paper.chips.year + years))
    yield replace(paper, workloads=paper.workloads.assign(batch=paper.workloads.batch * 2))
    for _, same in paper.chips.groupby("chip_kind"):
        again = same.assign(chip=same.chip + " again")
        yield replace(paper, chips=pd.concat([paper.chips, again], ignore_index=True))
        for one in (same.chip.min(), same.chip.max()):
            again = same[same.chip == one].assign(chip=f"{one} again")
            yield replace(paper, chips=pd.concat([paper.chips, again], ignore_index=True))
    for rest in range(3):
        yield replace(paper, chips=paper.chips[paper.chips.index % 3 != rest])


def of_one_row(paper):
    for row, now in paper.workloads.iterrows():
        for factor in (1.1, 10):
            intensity = now.footprint_intensity * factor
            yield replace(paper, workloads=changed(paper.workloads, row, footprint_intensity=intensity))
        yield replace(paper, workloads=paper.workloads.drop(index=row))
    for row, now in paper.chips.iterrows():
        numbers = {
            "peak_flop_per_s": now.peak_flop_per_s * 1.05,
            "sparse_peak_flop_per_s": now.sparse_peak_flop_per_s * 1.4,
            "bandwidth_byte_per_s": now.bandwidth_byte_per_s * 1.1,
            "power_w": now.power_w * 1.3,
        }
        for values in (
            numbers, {"year": now.year + 1}, {"year": now.year - 1}, {"verified": "no"}, {"power_w": 123.0},
            {"peak_flop_per_s": now.peak_flop_per_s * 3}, {"peak_flop_per_s": now.peak_flop_per_s / 3},
        ):  # fmt: skip
            yield replace(paper, chips=changed(paper.chips, row, **values))
        yield replace(paper, chips=paper.chips.drop(index=row))
        own = paper.chips[paper.chips.chip == now.chip]
        yield replace(paper, chips=paper.chips.drop(index=own.index))
        again = own.assign(chip=f"{now.chip} again")
        yield replace(paper, chips=pd.concat([paper.chips, again], ignore_index=True))


# Numbers that belong to words and not to data: those of precisions, of names and of the sentence's own terms.
WORDS = re.compile(r"(?:bf|fp|tf|int)\d+|\b16[ -]bits?|" + "|".join(line.name for line in LINES))


def numbers_of(text, names):
    """The text's numbers, and the text without them."""
    bare = WORDS.sub("@", re.sub("|".join(map(re.escape, names)), "@", plain(text)))
    found = re.findall(r"\d+(?:[.,]\d+)*", bare)
    return found, re.sub(r"\d+(?:[.,]\d+)*", "#", bare)


@pytest.mark.parametrize(("function", "arguments"), list(calls()))
def test_every_number_changes_with_some_row(function, arguments):
    names = sorted(set(wide().chips.chip) | set(wide().workloads.model), key=len, reverse=True)
    told, frame = numbers_of(function(wide(), *arguments), names)
    fixed = set(range(len(told)))
    for variant in variants():
        other = function(variant, *arguments)
        if isinstance(other, Missing):
            continue
        numbers, other_frame = numbers_of(other, names)
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(frame, other_frame, strict=False))
        comparable = sum(pair[0] == "#" for pair in alike)
        fixed -= {at for at in fixed if at < comparable and numbers[at] != told[at]}
        if not fixed:
            return
    assert not fixed, f"no row changes {[told[at] for at in fixed]} in: {frame}"


@pytest.mark.parametrize(
    ("function", "chip", "precision"),
    [
        (findings.chips.extent, "Abacus 1", "fp32"),
        (findings.chips.ridges, "Abacus 1", "fp32"),
        (findings.chips.demand, "Abacus 9", "bf16"),
        (findings.comparisons.leading_kinds, "NVIDIA D4 (SXM)", "fp8"),
        (findings.comparisons.leading_kinds, "Dial 4", "int8"),
        (findings.comparisons.data_center_and_phone, "NVIDIA A1", "fp32"),
        (findings.comparisons.data_center_and_phone, "Apple A1 GPU", "fp32"),
        (findings.comparisons.tensor_units, "NVIDIA A1", "bf16"),
        (findings.comparisons.efficiency, "Google TPU v1", "bf16"),
        (findings.chips.low_precision, "NVIDIA C3", "int8"),
        (findings.chips.low_precision, "NVIDIA C3", "bf16"),
        (findings.chips.sparsity, "Bead 2", "bf16"),
        (findings.chips.matrix_units, "Abacus 9", "fp32"),
        (findings.comparisons.ridge_growth, "Bead 2", "bf16"),
    ],
)
def test_a_sentence_follows_its_row(function, chip, precision):
    table = wide().chips
    (row,) = table.index[(table.chip == chip) & (table.precision == precision)]
    before = function(wide())
    assert not isinstance(before, Missing)
    gone = replace(wide(), chips=table.drop(index=row))
    larger = changed(table, row, peak_flop_per_s=1.5 * table.peak_flop_per_s[row])
    assert function(gone) != before
    if function is not findings.chips.extent:  # which counts
        assert function(replace(wide(), chips=larger)) != before


def test_extent():
    text = plain(findings.chips.extent(tiny()))
    assert text.startswith("The table holds 4 chips (1 CPU, 1 GPU, 1 ASIC and 1 FPGA) with 5 roofs")
    assert "For 1 of these roofs, of 1 chip, neither a document of the vendor nor two independent sources" in text
    assert findings.chips.on_chip(tiny()).startswith("The bandwidth of the Cog 3 is that of memory on the chip")


def test_ridges():
    # Abacus 1e12/1e11 = 10; Bead 1e14/1e12 = 100; Dial 1e13/1e11 = 100 with integers; Cog's memory is on the chip.
    assert plain(findings.chips.ridges(tiny())) == (
        "Among chips with memory outside the chip, confirmed ridge points of floating-point rates run from 10.0 FLOP/B "
        "(Abacus 1) to 100 FLOP/B (Bead 2)."
    )
    # Medians of 20 and 40, of 10 and 160, of 100, 100, 100, 200, 400 and 800, of 200 and 1000; one die has none.
    assert plain(findings.chips.ridges(wide())).endswith(
        "The median is lowest among SoCs (30.0 FLOP/B, 2 dies) and highest among ASICs (600 FLOP/B, 2 dies): a model "
        "needs that many operations for each byte it moves before arithmetic, and not memory, is its bound."
    )


def with_dies(**dies):
    """The wide paper with chips on these dies, by the beginnings of their names."""
    chips = wide().chips
    named = {chip: die for die, some in dies.items() for chip in chips.chip if chip.startswith(some)}
    return replace(wide(), chips=chips.assign(die=chips.chip.map(named).fillna("")))


def test_integers_and_unconfirmed_roofs_are_no_extremes():
    # The Dial would have 1e16 / 1e11 = 100,000 OP/B, the A2 1.6e12 / 1e6 = 1.6 million FLOP/B, unconfirmed.
    table = wide().chips
    steep = changed(table, table.index[table.chip == "Dial 4"][0], peak_flop_per_s=1e16)
    steep = changed(steep, table.index[table.chip == "Apple A2 GPU (2 cores)"][0], bandwidth_byte_per_s=1e6)
    text = findings.chips.ridges(replace(wide(), chips=steep))
    assert "from 10.0 FLOP/B (Abacus 1) to 1000 FLOP/B (Google TPU v2)." in plain(text)


def test_chips_of_one_die_count_once():
    # Of GPUs at 16 bits A1 100, B2 200, C3 400, D4 800 and Bead 2 100 FLOP/B; with B2, C3 and D4 on the die of A1 two.
    one = with_dies(X=("NVIDIA A1", "NVIDIA B2", "NVIDIA C3", "NVIDIA D4"))
    text = plain(findings.chips.demand(one))
    assert text.startswith("At 16-bit floating point the ridge points of 5 dies run, where confirmed, from")
    assert "of 1 die of data-center GPUs compute at 16 bits 2.00 times (X, NVIDIA A1) what" in plain(
        findings.comparisons.tensor_units(one)
    )
    # The A1's alone: 5e12 and 1e11, beside 1.3e12 and 4.5e10
    assert "the median of 1 die of data-center GPUs computes 3.85 times and moves 2.22 times as much" in plain(
        findings.comparisons.data_center_and_phone(one)
    )
    # C3 prints int8, as D4 does, but two years before it: 3 times.
    assert "3.00 times as high at int8 in the median of 1 die" in plain(findings.chips.low_precision(one))
    assert "No kind of chip" in findings.comparisons.ridge_growth(one)


def test_demand():
    # Intensities at bf16, twice those at fp32: at batch 1 10, 20, 80, 200; at 8 30.8, 70.3, 267, 667. Ridge points at
    # 16 bits: Bead 100, A1 100, B2 200, C3 400, D4 800, TPUs 200 and 1000, Abacus 9 160; their median 200.
    assert plain(findings.chips.demand(wide())) == (
        "At 16-bit floating point the ridge points of 8 dies run, where confirmed, from 100 FLOP/B (Bead 2) to 1000 "
        "FLOP/B (Google TPU v2). At batch size 1 the median model has 50.0 FLOP/B and is memory-bound on 8 of them. "
        "On the median die none of 4 models are compute-bound. At batch size 8 the median model has 169 FLOP/B and is "
        "memory-bound on 5 of them. On the median die 2 of 4 models are compute-bound."
    )


def test_leaders():
    assert plain(findings.chips.leaders(tiny(), "gpu")) == (
        "The GPU is at 16-bit floating point on tensor units. The highest peak is 100 TFLOP/s, of the "
        "Bead 2. The highest "
        "bandwidth of memory outside the chip is 1.00 TB/s, of the same chip."
    )
    assert plain(findings.chips.leaders(tiny(), "fpga")).startswith(
        "No floating-point precision is shared by half of the 1 FPGA; each is shown at the fastest rate of integers. "
        "The highest peak is 10.0 TOP/s at int8, of the Dial 4."
    )
    assert "No such rate is confirmed. The highest peak is 200 TFLOP/s" in plain(findings.chips.leaders(tiny(), "asic"))
    # The A2's 1.6e12 are not confirmed.
    soc = plain(findings.chips.leaders(wide(), "soc"))
    assert "The highest confirmed peak is 1.00 TFLOP/s, of the Apple A1 GPU." in soc
    assert "bandwidth" not in findings.chips.leaders(tiny(), "asic")  # its only memory is on the chip


def test_leading_kinds():
    text = plain(findings.comparisons.leading_kinds(wide()))
    # 4e13 against 2e12: 20; 1.28e15 against 8e14 and 1e13: 1.6 and 128; 8e14 against 6.4e14: 1.25
    assert text == (
        "Of the kinds of chip with a confirmed peak at a precision, GPUs lead at fp32, fp8 and int8, by most at int8, "
        "with 128 times the peak of the best FPGA, and by least at fp8, with 1.60 times that of the best ASIC; ASICs "
        "lead at bf16, with 1.25 times the peak of the best GPU."
    )


def test_data_center_and_phone():
    # GPUs 5e12 and 4e13 at 1e11 and 8e11 B/s: medians 22.5e12, 4.5e11, ridge points 50 both. Phones 1e12 and 1.6e12
    # at 5e10 and 4e10: 1.3e12, 4.5e10, ridge points 20 and 40: 30.
    assert plain(findings.comparisons.data_center_and_phone(wide())) == (
        "At fp32 on vector units the median of 2 dies of data-center GPUs computes 17.3 times and moves 10.0 "
        "times as much as the median of 2 SoCs of phones. The median ridge points, 50.0 FLOP/B and 30.0 FLOP/B, differ "
        "by a factor of 1.67."
    )
    assert "phone SoCs" in findings.comparisons.data_center_and_phone(
        replace(wide(), chips=wide().chips[wide().chips.chip_kind == "gpu"])
    )


def test_tensor_units():
    # 1e13 / 5e12 and 6.4e14 / 4e13
    text = plain(findings.comparisons.tensor_units(wide()))
    assert "of 2 dies of data-center GPUs compute at 16 bits 2.00 (NVIDIA A1) to 16.0 times (NVIDIA D4 (SXM))" in text


def test_efficiency():
    # 1e12 / 100 W, 1e14 / 50 W
    text = plain(findings.comparisons.efficiency(wide()))
    assert "For 4 of 13 chips with a floating-point rate a power is stated" in text
    assert "runs, where confirmed, from 10.0 GFLOP/s/W (Abacus 1, 2020) to 2.00 TFLOP/s/W (Google TPU v1, 2019)" in text
    assert "The power of the Google TPU v1 is a measured maximum" in text
    assert "measured" not in findings.comparisons.efficiency(tiny())


def test_low_precision():
    # fp8 2e0 on D4 and 1 on TPU v2; int8 4.8e14 / 1.6e14 = 3 on C3 and 2 on D4
    assert plain(findings.chips.low_precision(wide())) == (
        "Against 16 bits on the same unit of the same chip the dense peak is 1.50 times as high at fp8 in the median "
        "of 2 dies and 2.50 times as high at int8 in the median of 2 dies."
    )
    chips = wide().chips
    half = (chips.chip == "NVIDIA C3") & (chips.precision == "int8")
    slow = chips.assign(peak_flop_per_s=chips.peak_flop_per_s.where(~half, 0.8e14))
    assert plain(findings.chips.low_precision(replace(wide(), chips=slow))).endswith(
        "Fewer bits may be slower: NVIDIA C3 has 0.500 times its 16-bit peak at int8."
    )


def test_sparsity():
    assert "in the median of 1 die 2.00 times as high and at most 2.00 times (Bead 2 at bf16)" in plain(
        findings.chips.sparsity(tiny())
    )
    assert "No roof" in findings.chips.sparsity(without("Bead 2"))


def test_matrix_units():
    assert plain(findings.chips.matrix_units(wide())) == (
        "Of 2 CPUs 1 has such units: the Abacus 9 computes 16.0 times as fast at bf16 on its tensor units as at fp32 "
        "on its vector units. Its ridge point moves from 10.0 FLOP/B to 160 FLOP/B. The fastest CPU without them, "
        "the Abacus 1, reaches 1.00 TFLOP/s at fp32."
    )


def test_growth():
    # Without Bead 2 the GPUs are the line of four: 100, 200, 400 and 800 FLOP/B in 2016, 2018, 2020 and 2022.
    assert plain(findings.comparisons.ridge_growth(without("Bead 2"))) == (
        "The ridge points of GPUs (4 dies, 16-bit floating point on tensor units, 2016 to 2022) rose by 41 % (41 to "
        "41 %) a year, and so double every 2.0 years."
    )
    # The line is a part of the kind and not counted beside it.
    assert plain(findings.comparisons.wall(without("Bead 2"))) == (
        "Of 1 kind peaks outgrew bandwidths by more than chance for 1, GPUs: by 100 % a year for the peaks against "
        "41 % for the bandwidths."
    )


def test_growth_that_may_be_chance():
    level = (
        wide().chips[wide().chips.chip_kind == "gpu"].assign(ridge_flop_per_byte=[100 + row % 3 for row in range(12)])
    )
    assert "which may be chance" in findings.comparisons.ridge_growth(replace(wide(), chips=level))
    # Ridge points of 100, 200, 400, 800 and again 100 FLOP/B, in years 0, 2, 4, 6 and 5: their powers of two grow by
    # 7.6 / 23.2 = 0.33 a year, with a standard error of (4.31 / 3 / 23.2) ** 0.5 = 0.25 and t = 3.18: no less than 0.
    assert plain(findings.comparisons.wall(wide())) == (
        "Of 1 kind peaks outgrew bandwidths by more than chance for none. For GPUs the interval of the difference, the "
        "growth of the ridge point, includes none."
    )


def test_the_committed_table():
    # Intel Xeon Gold 6448Y: 32 cores * 2.1 GHz * 1024 FLOP/cycle with AMX, 64 with AVX-512.
    text = plain(findings.chips.matrix_units(replace(tiny(), chips=committed_chips())))
    assert "the Intel Xeon Gold 6448Y computes 16.0 times as fast at bf16 on its tensor units" in text


def test_dies_of_the_committed_table():
    # 181.05 / 90.5 = 2.00 and 2250 / 75 = 30; V100, T4, A100, A40 (of the A10's die), L4, L40 (of the L40S's), H100,
    # B200, B300, MI100, MI250X, MI300X and MI355X.
    text = plain(findings.comparisons.tensor_units(replace(tiny(), chips=committed_chips())))
    assert "of 13 dies of data-center GPUs compute at 16 bits 2.00 (AD102, NVIDIA L40) to 30.0 times (GB100," in text
