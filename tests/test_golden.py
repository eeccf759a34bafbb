import pytest
from helpers import golden as files
from helpers.places import TESTS


def test_a_text_is_compared_with_its_file_and_written_anew_when_asked_to(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "GOLDEN", tmp_path / "golden")
    with pytest.raises(AssertionError, match="pytest --overwrite"):
        files.check("a", "1\n", overwrite=False)
    files.check("a", "1\n", overwrite=True)
    files.check("a", "1\n", overwrite=False)
    with pytest.raises(AssertionError, match=r"differs from .*a\.txt"):
        files.check("a", "2\n", overwrite=False)


def test_every_golden_file_belongs_to_a_test():
    assert files.stale(list(TESTS.rglob("test_*.py"))) == []
