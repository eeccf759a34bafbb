import pytest

from measure.errors import UserError
from report.bibliography import read_keys


def test_keys(tmp_path):
    file = tmp_path / "some.bib"
    file.write_text(
        "@article{one1999, title={A @misc{trap} b}}\n  @Misc { two ,\n note={x}}\n@string{x = {y}}\n"
    )
    assert read_keys(file) == {"one1999", "two"}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.bib"):
        read_keys(tmp_path / "none.bib")
