import pytest
from helpers.places import ROOT
from helpers.world import world

from measure.cache.table import read
from report.paper import counting_programs, frame
from report.paper.printed import ProgramCount


def test_a_count_is_right_within_a_hundredth_or_its_rounding():
    ours, fvcore, thop = (
        world().counting_programs.query(f"program == '{name}'").set_index("model")
        for name in ("roofwright", "fvcore", "thop")
    )
    # 40.48e6 rounds to the published 40e6, and is 1.2 % more
    assert ours.loc["shufflenet_v2_x0_5"].deviation == pytest.approx(0.012)
    assert ours[["right", "equal"]].all(axis=None)
    # 2.01 of 2, 1.02 of 1, 42 of 40, 6.4 of 10
    assert fvcore.deviation.tolist() == pytest.approx([0.005, 0.02, 0.05, -0.36])
    assert fvcore.right.tolist() == [True, False, False, False]
    assert not fvcore.equal.any()
    assert not thop.loc["vit_b_16", ["right", "equal"]].any()  # was not counted


def test_each_model_that_was_counted_has_a_line_and_one_of_no_known_line_is_a_line_itself():
    known = {line for group in counting_programs.LINES.values() for line in group}
    counted = frame(read(ROOT / "data" / "workload" / "counting_programs.csv", ProgramCount), ProgramCount)
    lines = counting_programs.derive(counted).groupby("line").model.nunique()
    assert (set(lines.index), lines.sum()) == (known, 80)
    own = counting_programs.derive(world().counting_programs.assign(model="of_my_own"))
    assert set(own.line) == {"of_my_own"}
