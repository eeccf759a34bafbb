import pytest

from measure.cache.hand_kept import Claim, PrintedChip
from measure.errors import UserError
from report.load import hand_tables

KEYS = frozenset({"one"})


def read(path):
    return hand_tables.read(path, Claim, KEYS)


def test_lines_are_numbered_as_an_editor_does_and_cells_are_stripped(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_bytes(b'id,study,claim\r\n1,one,"two\nlines"\r\n2, one ,no line end')
    assert read(path) == [(3, Claim("1", "one", "two\nlines")), (4, Claim("2", "one", "no line end"))]


def test_a_line_without_cells_is_named(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_text("id,study,claim\n1,one,a\n\n")
    with pytest.raises(UserError, match="line 3: 0 cells where the header has 3; mend the line or delete it"):
        read(path)


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_header(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_bytes(b"\xef\xbb\xbfclaim,id,study\n")
    assert read(path) == []


def test_no_file_has_no_lines(tmp_path):
    assert read(tmp_path / "none.csv") == []
    frame = hand_tables.frame([], PrintedChip)
    assert frame.empty
    assert frame.bandwidth_byte_per_s_rounding.sum() == 0.0


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"chip\n\xff\n", r"table\.csv: is not UTF-8 text; save it as CSV in UTF-8"),
        (b"id,study,claim\n" + b"x" * 200_000, r"table\.csv, line 2: field larger than field limit .*; mend the line"),
        (b"", r"table\.csv, line 1: the columns must be id, study, claim, each once: see 'claim', and mend"),
        (b"id,study,claim\n1,one,a\n1,one,b\n", r"table\.csv, line 3: 1 stands in line 2 already; delete one"),
        (
            b"id,study,claim\n1,two,a\n",
            r"table\.csv, line 2, column study: 'two' is not in the bibliography; add its entry to bib/references",
        ),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, sentence):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        read(path)


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(UserError, match="cannot be read \\(Is a directory\\); restore the file"):
        read(tmp_path)
