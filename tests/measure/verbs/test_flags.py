import sys
from pathlib import Path
from types import ModuleType

import pytest

from measure.errors import UserError
from measure.verbs.flags import check_folder, check_writable, parse_percent, parse_time, parser_of

DOCSTRING = """Do a thing with
many words.

models MODEL*  any number, which
    are named
--out FILE.zip?  one or none
--known MODEL TIME  two values
--batch N  one (required)
-v --verbose  a switch
"""


def test_a_verbs_docstring_is_its_help_and_its_flags(monkeypatch):
    module = ModuleType("measure.verbs.thing", DOCSTRING)
    module.DEFAULTS = {"known": ["net", "1s"]}
    monkeypatch.setitem(sys.modules, module.__name__, module)
    parser = parser_of("thing")
    assert (parser.prog, parser.description) == ("python -m measure thing", "Do a thing with many words.")
    assert " any number, which are named\n" in parser.format_help()
    given = parser.parse_args(["a", "b", "--batch", "8", "--out", "-v"])
    assert (given.models, given.out, given.known, given.batch) == (["a", "b"], None, ["net", "1s"], "8")
    assert (given.verbose, given.data) == (True, Path("data"))
    assert parser.parse_args(["--batch", "8", "--known", "net", "2s"]).known == ["net", "2s"]
    with pytest.raises(UserError, match="required: --batch"):
        parser.parse_args([])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90), ("10m", 600), ("1h30m", 5400), ("45", 45), ("2h", 7200), ("1h1s", 3601),
        *((text, None) for text in ("", "m", "10x", "1m1h", "ten", "1.5h", "0s", "٣m")),
    ],
)  # fmt: skip
def test_times(text, seconds):
    if seconds is None:
        with pytest.raises(UserError, match=r"--call-limit: .* is not a valid time"):
            parse_time("--call-limit", text)
    else:
        assert parse_time("--call-limit", text) == seconds


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("5%", 0.05), (" 2.5 %", 0.025),
        *((text, None) for text in ("", "5", "-5%", "five%", "1e2%", "٣%", "9" * 400 + "%")),
    ],
)  # fmt: skip
def test_percentages(text, share):
    if share is None:
        with pytest.raises(UserError, match=r"--f: .* is not a percentage"):
            parse_percent("--f", text)
    else:
        assert parse_percent("--f", text) == share


def test_a_file_is_no_folder_and_what_is_not_there_may_become_one(tmp_path):
    check_folder(tmp_path, "--data")
    check_folder(tmp_path / "new", "--data")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^--data: .*/file is a file"):
        check_folder(tmp_path / "file", "--data")


@pytest.mark.parametrize("name", ["workload", "machines"])
def test_a_file_in_the_place_of_the_caches_own_folders_is_said_before_measuring(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"/{name} is a file"):
        check_writable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
