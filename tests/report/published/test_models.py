from dataclasses import replace

import pytest
from helpers.published_papers import ALEXNET_OUTPUT_BYTE, printed

from report.published import models
from report.published.verdict import AGREES, NOT_COMPARABLE


def row_of(model, quantity):
    (found,) = (
        row for row in models.comparisons(printed()) if row.subject == model and row.quantity.startswith(quantity)
    )
    return found


def test_flop():
    row = row_of("alexnet", "FLOP")
    assert row.verdict.outcome == AGREES  # 1.43 and 1.428 G
    assert row.ours == 1_428_376_960
    assert row_of("resnet50", "FLOP").ours == pytest.approx(8.178e9)


def test_what_was_not_counted_names_the_command():
    row = row_of("vgg11", "FLOP")
    assert row.verdict.outcome == NOT_COMPARABLE
    assert "`python -m measure --sections workload --models vgg11 --batch-sizes 1" in row.verdict.reason
    assert "which model it means" in row_of("mobilenet_v3 (as printed)", "footprint").verdict.reason


def test_a_footprint_in_mebibytes_with_outputs_twice():
    # (244403360 + 602112 + 2 x 4339616) / 1048576 = 241.9; printed 242.03
    assert models.output_byte(printed(), "alexnet") == ALEXNET_OUTPUT_BYTE
    row = row_of("alexnet", "footprint")
    assert row.ours == 244_403_360 + 602_112 + 2_366_880
    assert models.footprints(printed(), "alexnet")[models.SUMMARY] == pytest.approx(241.93e6, rel=1e-4)


def test_outputs_that_are_written_over_inputs():
    # 100 numbers each: an activation reads and writes them, a sum reads twice as many
    paper = printed()
    rows = paper.layers[(paper.layers.batch == 1) & (paper.layers.model == "alexnet")]
    rows = rows.assign(activation_byte=0, parameter_byte=0, traffic_byte=[800, 1200], forward_other_flop=[100, 100])
    assert models.output_byte(replace(paper, layers=rows), "alexnet") == 400 + 400


def test_an_intensity_is_the_quotient_of_what_is_printed():
    # 8.22 / 0.38462 = 21.37
    assert "quotient of its FLOP and its footprint" in row_of("resnet50", "intensity").verdict.reason


def test_ways_of_counting():
    found = models.betrayed(printed(), "daugherty").set_index("way")
    # alexnet 1.428 is 1.43; resnet50 8.178 is not 8.22; mobilenet_v3_large 0.433 is not 0.47
    assert (found.loc["products alone"].equal, found.loc["products alone"].models) == (1, 3)
    assert models.betrayed(printed(), "pham2024").empty
