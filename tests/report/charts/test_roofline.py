import json
import re
from itertools import product
from math import atan, cos, log10, sin

import pandas as pd
import pytest

from measure.domain.roofs import Roofline
from report.charts import theme
from report.charts.labels import text_size
from report.charts.panels import specified
from report.charts.roofline import DrawnRoof, Plane
from report.figure_files import as_csv

# 100 GFLOP/s and 10 GB/s meet at 10 FLOP/B; the cache's 100 GB/s meet the peak at 1
ROOF = DrawnRoof(Roofline(100e9, 10e9), "fp32 100 GFLOP/s", "DRAM 10 GB/s", (("L2 100 GB/s", 100e9),))
PLANE = Plane.over([ROOF], 500, 300)


def test_the_axes_follow_from_the_roofs_alone():
    assert (PLANE.x.low, PLANE.x.high) == (pytest.approx(10 / 40, rel=0.2), pytest.approx(400, rel=0.2))
    assert PLANE.y.low < 1e9 < 100e9 < PLANE.y.high
    wider = Plane.over([ROOF], 500, 300, intensities=[0.01], rates=[1e6])
    assert (wider.x.low <= 0.01, wider.y.low <= 1e6) == (True, True)


def test_a_roof_bends_at_its_ridge_and_a_cache_ends_at_the_peak():
    rows = [line.split(",") for line in as_csv(specified(PLANE.chart())).splitlines() if line.startswith("line")]
    corners = [(roof, round(float(at), 3), float(rate) / 1e9) for _, roof, at, rate in rows]
    own = [corner for corner in corners if "DRAM" in corner[0]]
    assert own[1][1:] == (10, 100)
    assert own[2][2] == 100
    assert own[0][2] == pytest.approx(10 * own[0][1], rel=1e-2)  # 10 GB/s at the left end
    cache = [corner for corner in corners if "L2" in corner[0]]
    assert len(cache) == 2
    assert cache[-1][1:] == (1, 100)


def test_a_group_has_its_share_of_the_roof():
    # 40 GFLOP/s at 5 FLOP/B, where 10 GB/s allow 50; 30 at 20, right of the ridge
    rows = pd.DataFrame({"kind": ["a", "b"], "share": [0.5, 0.5], "time_s": [1, 1], "flop_per_s": [40e9, 30e9]})
    groups = PLANE.groups(rows.assign(intensity=[5, 20]), "kind", "kind", "step")
    drawn = specified(PLANE.chart(groups))["datasets"].values()
    assert [row["attained"] for table in drawn for row in table if "attained" in row] == pytest.approx([0.8, 0.3])


def test_no_name_covers_a_roof_or_its_texts():
    taken = list(PLANE.taken())
    flat = PLANE.y.pixel(100e9)
    assert any(box.top <= flat <= box.bottom and box.left > PLANE.x.pixel(10) for box in taken)
    ridge = (PLANE.x.pixel(3), PLANE.y.pixel(30e9))  # on the slope
    assert any(box.left - 4 <= ridge[0] <= box.right + 4 and box.top - 4 <= ridge[1] <= box.bottom + 4 for box in taken)


def test_a_sloping_text_has_an_angle_that_the_grammar_allows():
    drawn = json.dumps(specified(PLANE.chart()))
    angles = [float(angle) for angle in re.findall(r'"angle": ([-\d.]+)', drawn)]
    assert angles  # the names of two slopes, which rise: clockwise they turn by more than 270 degrees
    assert all(270 < angle < 360 for angle in angles)


def test_no_name_covers_a_text_along_its_roof():
    """The text starts 4 pixels over its roof, and is turned around its place on the roof."""
    drawn = specified(PLANE.chart())
    rows = [row for rows in drawn["datasets"].values() for row in rows if row.get("slope")]
    assert [row["text"] for row in rows] == ["DRAM 10 GB/s", "L2 100 GB/s"]
    taken = list(PLANE.taken())
    for row in rows:
        width, height = text_size(row["text"], theme.LABEL_SIZE)
        x, y, angle = PLANE.x.pixel(row["intensity"]), PLANE.y.pixel(row["rate"]), atan(row["slope"])
        for along, up in product((1, width / 2, width - 1), (5, 4 + height / 2, 3 + height)):
            right, down = x + along * cos(angle) - up * sin(angle), y - along * sin(angle) - up * cos(angle)
            assert any(box.left <= right <= box.right and box.top <= down <= box.bottom for box in taken)


def test_a_text_rises_with_its_roof_wherever_the_roof_begins():
    wide = Plane.over([ROOF], 500, 300, intensities=[1e-3])  # the roofs begin at the plane's foot, right of its corner
    decades = log10(wide.x.high / wide.x.low), log10(wide.y.high / wide.y.low)
    slopes = [row["slope"] for rows in specified(wide.chart())["datasets"].values() for row in rows if row.get("slope")]
    assert slopes == pytest.approx([(300 / decades[1]) / (500 / decades[0])] * 2, rel=1e-4)
