from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import cells, plain

from report.tables import elsewhere


def test_devices():
    rows = {(row[0], row[1]): row for row in cells(plain(elsewhere.devices(timed_elsewhere())))}
    # Cog 3: the last oak reaches 3 times 51 % of half the peak
    assert rows["Cog 3", "fp16"][2:8] == ["24", "38 %", "38 %", "76 %", "timm:oak11", "8"]
    assert rows["Bead 2", "fp32"][2] == "24"
    assert rows["Bead 2", "fp16"][5:8] == ["102 %", "timm:oak11", "8"]


def test_contradictions():
    (row,) = cells(plain(elsewhere.contradictions(timed_elsewhere())))
    assert row == ["epoch_hw", "Bead 2", "1", "1", "2.00 to 2.00", "timm:torn at 8, fp16, made.csv"]  # 16 a second for 1 s, and 8 inputs
