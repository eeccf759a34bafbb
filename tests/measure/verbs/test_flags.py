import sys
from pathlib import Path
from types import ModuleType

import pytest

from measure.errors import UserError
from measure.verbs.flags import parse_percent, parse_time, parser_of

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
    ("parse", "text", "value"),
    [
        *((parse_time, *row) for row in (("90s", 90), ("10m", 600), ("1h30m", 5400), (" 45", 45), ("1h1s", 3601))),
        *((parse_time, text, None) for text in ("", "m", "10x", "1m1h", "1.5h", "0s", "٣m")),
        *((parse_percent, *row) for row in (("5%", 0.05), (" 2.5 %", 0.025))),
        *((parse_percent, text, None) for text in ("", "5", "-5%", "1e2%", "٣%", "9" * 400 + "%")),
    ],
)
def test_times_and_percentages(parse, text, value):
    if value is None:
        with pytest.raises(UserError, match=r"--f: .* is not a "):
            parse("--f", text)
    else:
        assert parse("--f", text) == value
