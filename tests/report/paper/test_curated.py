import re

import pytest
from helpers.world import REFERENCES

from measure.domain.schema import TABLES
from measure.errors import UserError
from measure.published.records import CountedSuite, FlopPerCycle, model_numbers
from report.paper import curated

KEYS = frozenset({"one", "two"})
HEADER = b"suite,cases,wrong,source,note"


def read(path, content):
    path = path / "suites.csv"
    path.write_bytes(content)
    return curated.read(path, CountedSuite, KEYS)


def test_lines_are_numbered_as_in_an_editor(tmp_path):
    content = b"\xef\xbb\xbf" + HEADER + b'\r\na,2,0,one,"two\nlines"\r\nb,1,1, one ,no line end'
    rows = CountedSuite("a", 2, 0, "one", "two\nlines"), CountedSuite("b", 1, 1, "one", "no line end")
    assert read(tmp_path, content) == [(3, rows[0]), (4, rows[1])]


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (HEADER + b"\na,2,0,one,x\n\n", "line 3: 0 cells where the header has 5; correct the line or delete it"),
        (b"chip\n\xff\n", "suites.csv: is not UTF-8 text"),
        (HEADER + b"\n" + b"x" * 200_000, "suites.csv, line 2: "),
        (HEADER + b"\na,2,0,one,\na,3,0,one,\n", "suites.csv, line 3: duplicate of line 2: 'a'"),
        (HEADER + b"\na,2,0,three,\n", "suites.csv, line 2, column source: 'three'"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, named):
    with pytest.raises(UserError, match=named):
        read(tmp_path, content)


def test_keys_of_a_bibliography_and_its_uniform_fields(tmp_path):
    """A DOI and an arXiv number are in fields of their own."""
    file = tmp_path / "some.bib"
    file.write_text("@article{one1999, title={A @misc{trap} b}}\n  @Misc { two ,\n note={x}}\n@string{x = {y}}\n")
    assert curated.read_keys(file) == {"one1999", "two"}
    form = {"doi": r"10\.\d{4,}/\S+", "eprint": r"\d{4}\.\d{4,5}", "url": r"https?://\S+", "year": r"\d{4}"}
    for entry in REFERENCES.read_text(encoding="utf-8").split("\n@")[1:]:
        fields = dict(re.findall(r"^  (\w+) *= \{(.*)\},?$", entry, re.MULTILINE))
        assert {"author", "title"} <= set(fields), entry
        assert [name for name in form if name in fields and not re.fullmatch(form[name], fields[name])] == [], entry


GOOD = "V,6,1;4-7,,Core,avx2,fp32,32,,one;two,"


def read_rates(tmp_path, *lines):
    path = tmp_path / "flop_per_cycle.csv"
    path.write_text("\n".join([",".join(TABLES[FlopPerCycle].columns), *lines]))  # an editor may leave no line end
    return curated.flop_per_cycle(path, KEYS)


def test_a_model_may_have_rows_of_other_precisions(tmp_path):
    row, *others = read_rates(tmp_path, GOOD, GOOD.replace("fp32", "fp64"), GOOD.replace("avx2", "avx512f"))
    assert (row.vendor, row.family, row.flop_per_cycle, row.note, len(others)) == ("V", 6, 32, "", 2)
    assert model_numbers(row.models) == {1, 4, 5, 6, 7}
    with pytest.raises(UserError, match="line 3, column models: line 2 names a model of 7 too"):
        read_rates(tmp_path, GOOD, GOOD.replace("1;4-7", "7"))


@pytest.mark.parametrize(
    ("steppings", "other", "are_one"), [("0-4", "5-7", False), ("0-4", "4", True), ("", "5", True), ("", "", True)]
)
def test_steppings_tell_microarchitectures_of_one_model_apart(tmp_path, steppings, other, are_one):
    lines = [GOOD.replace("1;4-7,,", f"85,{each},") for each in (steppings, other)]
    if not are_one:
        assert [row.steppings for row in read_rates(tmp_path, *lines)] == [steppings, other]
        return
    with pytest.raises(UserError, match="line 3"):
        read_rates(tmp_path, *lines)


def test_a_long_cell_is_cut_in_the_sentence(tmp_path):
    with pytest.raises(UserError) as caught:
        read(tmp_path, b"id,study,claim\n1," + b"x" * 5000 + b",a\n")
    assert len(str(caught.value)) < 400
