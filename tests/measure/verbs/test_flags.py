import pytest

from measure.errors import UserError
from measure.verbs.flags import CommandLine


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


def test_what_is_missing_is_named():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("a", metavar="A")
    with pytest.raises(UserError, match=r"^the following arguments are required: A; see python -m program --help$"):
        flags.parse_args([])


def test_what_follows_two_dashes_is_no_flag():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("file", metavar="FILE")
    assert flags.parse_args(["--", "--modles"]).file == "--modles"
