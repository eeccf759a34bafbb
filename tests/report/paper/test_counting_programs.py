import pytest
from helpers.world import world


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
