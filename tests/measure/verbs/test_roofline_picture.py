import xml.dom.minidom
from dataclasses import replace

import pytest
from helpers.answering import timed
from helpers.rows import ENVIRONMENT, workload

from measure.domain.demands import demands, reached
from measure.domain.roofs import Rates
from measure.verbs.model import HEIGHT, MARGIN, WIDTH, Axis, svg
from measure.verbs.show import Answer

RATES = Rates({"fp32": 1e9}, 1e8, "stream_copy")
BYTES = {
    "parameter_byte": 60_000_000,
    "input_byte": 10**7,
    "activation_byte": 3 * 10**7,
    "inference_peak_byte": 8 * 10**7,
}


def found(*cells, rates=RATES, flop=5 * 10**8):
    asked = demands([workload("alexnet", flop=flop, **BYTES)], rates, ["fp32"])
    return Answer("alexnet", "3x2x2", ENVIRONMENT, rates, asked, reached(cells, asked), [], None)


def test_an_axis_has_whole_decades():
    axis = Axis([5.0, 50.0], 0, 200)
    assert axis.decades == [1, 10, 100]
    assert [axis(value) for value in (1, 10, 100)] == [0, 100, 200]
    assert Axis([10.0], 0, 200).decades == [10, 100]


def drawn(picture, tag):
    return xml.dom.minidom.parseString(picture).getElementsByTagName(tag)


def test_a_cell_lies_under_the_roof_at_its_intensity():
    picture = svg(found(timed(latency_s=2.0)))  # 250 MFLOP/s of the 500 MFLOP/s that 5 FLOP/B allow
    (point,), (roof,) = drawn(picture, "circle"), drawn(picture, "polyline")
    corners = [tuple(map(float, corner.split(","))) for corner in roof.getAttribute("points").split()]
    x, y = float(point.getAttribute("cx")), float(point.getAttribute("cy"))
    (left, bottom), (ridge, top), (right, flat) = corners
    assert left < x < ridge < right  # 5 FLOP/B is below the ridge point, 10
    assert top == flat < y < bottom + HEIGHT
    slope = (top - bottom) / (ridge - left)
    assert y > bottom + slope * (x - left)  # downwards: half of what is attainable
    assert left >= MARGIN
    assert right <= WIDTH
    assert "batch size 1, fp32: 250 MFLOP/s at 5 FLOP/B" in picture


@pytest.mark.parametrize(
    "answer",
    [
        found(),
        found(replace(timed(), status="oom", latency_s=None)),
        found(timed(), rates=Rates({}, None, None)),
        found(timed(), flop=0),
    ],
)
def test_without_a_roof_or_a_rate_there_is_no_picture(answer):
    assert svg(answer) == ""
