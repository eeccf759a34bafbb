import pytest

from measure.cache.spreadsheet import as_text


@pytest.mark.parametrize("cell", ["=cmd()", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(cell):
    assert as_text(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["resnet50", "a=b", "", -1, -0.5, None, True])
def test_everything_else_stays(cell):
    assert as_text(cell) is cell
