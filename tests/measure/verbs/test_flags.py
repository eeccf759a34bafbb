import sys
from pathlib import Path
from types import ModuleType

import pytest

from measure.errors import UserError
from measure.verbs.flags import CommandLine, check_folder, check_writable, data_flag, parser_of


@pytest.fixture
def flags():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("--models", nargs="+", default=[])
    flags.add_argument("--engine", choices=["auto", "quarto"])
    flags.add_argument("-v", "--verbose", action="store_true")
    return flags


def test_what_is_said_is_parsed_and_the_whole_command_kept(flags):
    said = flags.parse_args(["--models", "vgg*", "a b", "-v", "-v"])
    assert (said.models, said.verbose) == (["vgg*", "a b"], True)
    assert said.command == "python -m program --models 'vgg*' 'a b' -v -v"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--modles", "a"], "there is no flag --modles; did you mean --models?"),
        (["stray", "--modles"], "there is no flag --modles; did you mean --models?"),
        (["--xyzzy=1"], "there is no flag --xyzzy; see python -m program --help"),
        (["stray"], "nothing is expected at 'stray'; see python -m program --help"),
        (["--models"], "--models: expected at least one argument; see python -m program --help"),
        (["--engine", "quatro"], "--engine: 'quatro' is not one of auto, quarto; did you mean quarto?"),
        (["--engine", "a, b"], "--engine: 'a, b' is not one of auto, quarto"),
        (["--models", "a", "--models=b"], "--models: given more than once; give all values after one --models"),
        (["--model", "a"], "there is no flag --model; did you mean --models?"),
        (["--models", "a", "--model", "b"], "there is no flag --model; did you mean --models?"),
        (["--verb"], "there is no flag --verb; did you mean --verbose?"),
        (["--models", ""], "--models: the value is empty; give one or leave it out"),
        (["--models", "a", ""], "--models: the value is empty; give one or leave it out"),
        (["--models="], "--models: the value is empty; give one or leave it out"),
        (["--engine="], "--engine: the value is empty; give one or leave it out"),
        (["", "--engine", "auto"], "an argument: the value is empty; give one or leave it out"),
    ],
)
def test_a_complaint_is_one_sentence(flags, words, sentence):
    with pytest.raises(UserError) as caught:
        flags.parse_args(words)
    assert str(caught.value) == sentence


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


def test_what_is_missing_is_named():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("a", metavar="A")
    with pytest.raises(UserError, match=r"^the following arguments are required: A; see python -m program --help$"):
        flags.parse_args([])


def test_what_follows_two_dashes_is_no_flag():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("file", metavar="FILE")
    assert flags.parse_args(["--", "--modles"]).file == "--modles"


def test_a_file_is_no_folder_and_what_is_not_there_may_become_one(tmp_path):
    check_folder(tmp_path, "--data")
    check_folder(tmp_path / "new", "--data")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"^--data: .*/file is a file; name a folder$"):
        check_folder(tmp_path / "file", "--data")


@pytest.mark.parametrize("name", ["workload", "machines"])
def test_a_file_in_the_place_of_the_caches_own_folders_is_said_before_measuring(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(UserError, match=f"/{name} is a file"):
        check_writable(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_further_command_is_told_where_the_cache_is_unless_it_is_the_usual_one():
    assert data_flag(Path("data")) == ""
    assert data_flag(Path("my data")) == " --data 'my data'"
