import re

import pytest
from helpers.places import ROOT

from measure.errors import UserError
from report.paper.hand_tables import read_keys


def test_keys(tmp_path):
    file = tmp_path / "some.bib"
    file.write_text("@article{one1999, title={A @misc{trap} b}}\n  @Misc { two ,\n note={x}}\n@string{x = {y}}\n")
    assert read_keys(file) == {"one1999", "two"}


def test_the_references_are_uniform():
    """A DOI and an arXiv number stand alone, in fields of their own; what is only in a note is not printed."""
    for entry in (ROOT / "bib" / "references.bib").read_text(encoding="utf-8").split("\n@")[1:]:
        fields = dict(re.findall(r"^  (\w+) *= \{(.*)\},?$", entry, re.MULTILINE))
        assert {"author", "title"} <= set(fields), entry
        assert re.fullmatch(r"10\.\d{4,}/\S+", fields.get("doi", "10.1234/x")), entry
        assert re.fullmatch(r"\d{4}\.\d{4,5}", fields.get("eprint", "1234.56789")), entry
        assert fields.get("eprinttype", "arxiv") == "arxiv", entry
        assert ("eprint" in fields) == ("eprinttype" in fields), entry
        assert re.fullmatch(r"https?://\S+", fields.get("url", "https://x")), entry
        assert re.fullmatch(r"\d{4}", fields.get("year", "2000")), entry
        assert "arxiv:" not in fields.get("note", "").lower(), entry
        assert not {"doi", "eprint"} <= set(fields), entry


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.bib"):
        read_keys(tmp_path / "none.bib")
