import repeat

from measure.domain.comparison import FASTER, SLOWER, WITHIN_ERROR, ComparedRow, Repeats, RoofKernel
from measure.domain.latency import Cell


def cell(batch):
    return Cell("net", batch, "fp32", "inference", "eager")


def cells(count, change):
    return [ComparedRow(cell(batch), ratio=1.0, change=change) for batch in range(count)]


def test_a_twentieth_of_the_cells_with_a_result_in_both_runs_may_be_flagged_whichever_way():
    flagged = [*cells(38, WITHIN_ERROR), *cells(1, SLOWER), *cells(1, FASTER)]
    assert repeat.verdict(flagged) == "2 of 40 cells flagged, within 2"
    assert repeat.verdict([*cells(18, WITHIN_ERROR), *cells(2, SLOWER)]) == "2 of 20 cells flagged, BEYOND 1"
    failed = ComparedRow(cell(64), Repeats(), Repeats(status="oom"))
    roof = ComparedRow(RoofKernel("fma", 8, "fp32", "burst"), ratio=1.2, change=SLOWER)
    assert repeat.verdict([*cells(20, WITHIN_ERROR), failed, roof]) == "0 of 20 cells flagged, within 1"
