import pytest

from measure.errors import UserError
from report.load.hand_tables import read_lines


def test_lines_are_numbered_as_an_editor_does(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b'a,b\r\n1,"two\nlines"\r\n\r\n')
    assert list(read_lines(path)) == [(1, ["a", "b"]), (3, ["1", "two\nlines"]), (4, [])]


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_header(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\xef\xbb\xbfchip,kind\n")
    assert list(read_lines(path)) == [(1, ["chip", "kind"])]


def test_no_file_has_no_lines(tmp_path):
    assert list(read_lines(tmp_path / "none.csv")) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"chip\n\xff\n", r"table\.csv: is not UTF-8 text; save it as CSV in UTF-8"),
        (b"chip\n" + b"x" * 200_000, r"table\.csv, line 2: field larger than field limit .*; mend the line"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, sentence):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=sentence):
        list(read_lines(path))


def test_a_folder_is_no_table(tmp_path):
    with pytest.raises(UserError, match="cannot be read \\(Is a directory\\); restore the file"):
        list(read_lines(tmp_path))
