from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import cells, plain

from report.tables import elsewhere


def test_devices():
    rows = {(row[0], row[1]): row for row in cells(plain(elsewhere.devices(timed_elsewhere())))}
    # On Cog 3 oaks reach 3 / 2 of 40 to 51 %, elms half of 10 to 21 %: between 10.5 and 60 % lies the median
    assert rows["Cog 3", "fp16"][2:8] == ["24", "35 %", "35 %", "76.5 %", "timm:oak11", "8"]
    # At fp32 the last oak takes 10 times as long as at 51 % of 100 TFLOP/s, of a peak of 10
    assert rows["Bead 2", "fp32"][2] == "24"
    assert rows["Bead 2", "fp32"][5:8] == ["51.0 %", "timm:oak11", "8"]


def test_contradictions():
    (row,) = cells(plain(elsewhere.contradictions(timed_elsewhere())))
    assert row == [
        "epoch\\_hw",
        "Bead 2",
        "1",
        "1",
        "2.00 to 2.00",
        "timm:torn at 8, fp16, made\\.csv",
    ]  # 16 a second for 1 s, and 8 inputs
