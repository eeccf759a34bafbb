import random
from itertools import combinations
from math import pi

import pytest
import vl_convert
from helpers.charts import drawn, rows
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.charts import theme
from report.charts.labels import Box, text_size
from report.figures import marks, pies


def test_slices():
    found = pies.slices({"a": 6, "b": 3, "c": 0.5, "d": 0.5, "e": -2, "f": 0})
    assert [(piece.part, piece.share, piece.text) for piece in found] == [
        ("a", 0.6, "60"), ("b", 0.3, "30"), ("c", 0.05, "5"), ("d", 0.05, "5"),
    ]  # fmt: skip
    assert (found[0].start, found[0].end) == (0, pytest.approx(1.2 * pi))
    assert found[-1].end == pytest.approx(2 * pi)


def test_at_most_six_slices_and_one_for_the_others():
    found = pies.slices(dict.fromkeys("abcdefgh", 10) | {"other": 15, "i": 1})
    assert [piece.part for piece in found] == [*"abcdef", "other"]
    assert found[-1].share == pytest.approx(36 / 96)  # g, h, i and what was called other already


def test_a_share_that_is_printed_as_0_is_not_printed():
    assert [piece.text for piece in pies.slices({"a": 1000, "b": 1})] == ["100", ""]
    assert pies.slices({"a": 0.0}) == []


def label_box(text, place):
    """The room of a label at its anchor."""
    (x, y), (width, height) = place, text_size(text, theme.LABEL_SIZE)
    left = x if x > 0 else x - width
    return Box(left, y - height / 2, left + width, y + height / 2)


def test_labels_never_overlap():
    chance = random.Random(7)
    for _ in range(400):
        pie = pies.slices({part: chance.random() ** chance.choice([1, 3, 8]) for part in "abcdefghij"})
        boxes = [label_box(piece.text, place) for piece, place in zip(pie, pies.label_places(pie), strict=True)]
        for one, other in combinations(boxes, 2):
            assert not one.overlaps(other)
        for box in boxes:  # nor do they reach another pie's
            assert box.left >= -pies.COLUMN / 2
            assert box.right <= pies.COLUMN / 2
            assert box.top >= -pies.ROW / 2
            assert box.bottom <= pies.ROW / 2


def test_by_kind():
    chart = drawn(pies.by_kind, trained())
    shares = {(row["model"], row["of"], row["part"]): plain(row["share"]) for row in rows(chart, "of", "part")}
    # 6, 2, 1 and the remainder's 1 of 10 ms; 12, 5, 4 and 3 of 24 ms
    assert shares["lean", "time, forward", "convolution"] == "60.0 %"
    assert shares["lean", "time, forward", "outside the layers"] == "10.0 %"
    assert shares["lean", "time, backward", "activation"] == "16.7 %"
    # 35.2 of 44 MB
    assert shares["lean", "memory, backward", "activation"] == "80.0 %"
    # Of deep's 1000 ms the head takes 25 and the remainder 15: the others.
    assert shares["deep", "time, backward", "other"] == "4.00 %"


def test_whose_pies_are_drawn():
    assert marks.first_of(pies.MODELS, ["vit_b_16", "net", "alexnet"], 8) == ["alexnet", "vit_b_16"]
    assert marks.first_of(pies.MODELS, "badc", 8) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("gpu", [True, False])
def test_it_is_drawn(gpu):
    specification = drawn(pies.by_kind, trained(gpu=gpu))
    assert specification["name"] == "training-pies"
    assert vl_convert.vegalite_to_svg(specification).count("<path") >= 16  # two models, four pies, two slices or more


def test_without_steps_it_is_a_sentence():
    assert "--device cpu --sections workload training" in pies.by_kind(tiny())
