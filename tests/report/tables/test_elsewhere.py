from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import cells, plain

from report.engine.columns import BREAK
from report.tables import elsewhere
from report.tables.elsewhere import _breakable


def test_devices():
    first, second = cells(plain(elsewhere.devices(timed_elsewhere())))
    # At fp32 Bead 2 ran 24 models, at fp16 28. Compiled oaks reach twice 40 to 51 %. The next are the elms 21, 20 and
    # 19, at 1.5 times 19, 18 and 17 %: the 13th to 15th of 28, and (27 + 25.5) / 2 = 26.25
    assert first == ["Bead 2", "fp16", "28", "26 %", "26 %", "102 %", "timm:oak11 \\(fp16, 8\\)", "[@epoch_hw]"]
    # On Cog 3 oaks reach 3 / 2 of 40 to 51 %, elms half of 10 to 21 %: between 10.5 and 60 % lies the median
    assert second == ["Cog 3", "fp16", "24", "35 %", "35 %", "76.5 %", "timm:oak11 \\(fp16, 8\\)", "[@epoch_hw]"]


def test_a_long_name_lets_the_line_break():
    assert _breakable("vit_tiny_r") == f"vit\\_{BREAK}tiny\\_{BREAK}r"


def test_contradictions():
    (row,) = cells(plain(elsewhere.contradictions(timed_elsewhere())))
    assert row == [
        "[@epoch_hw]",
        "Bead 2",
        "1",
        "1",
        "2.00 to 2.00",
        "timm:torn at 8, fp16, made\\.csv",
    ]  # 16 a second for 1 s, and 8 inputs
