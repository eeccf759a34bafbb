import errno
import io
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from measure.errors import UserError
from roofwright.command_line import CommandLine, answer, data_flag

FULL = Path("/dev/full")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def ending(problem):
    def action():
        raise problem

    return action


def test_a_commands_own_exit_code_stands(capsys):
    assert answer("program", lambda: 1) == 1
    assert capsys.readouterr().err == ""


def test_bad_input_is_one_line_whatever_stands_in_it(capsys):
    problem = UserError("the file 'a\nb\x1b[2J' is wrong; mend it")
    assert answer("program", ending(problem)) == 2
    assert capsys.readouterr().err == "program: the file 'a\\nb\\x1b[2J' is wrong; mend it\n"


def test_ctrl_c_leaves_no_traceback(capsys):
    assert answer("program", ending(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "\nprogram: stopped\n"


@pytest.mark.parametrize(
    ("environment", "is_red"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_complaint_is_red_on_a_terminal_unless_colour_is_not_wanted(monkeypatch, environment, is_red):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", Terminal())
    answer("program", ending(UserError("no")))
    assert sys.stderr.getvalue() == ("\x1b[31mprogram: no\x1b[0m\n" if is_red else "program: no\n")


@pytest.mark.parametrize("say", ["print", "make_console().print"])
def test_a_reader_that_leaves_ends_the_command_quietly(say):
    pytest.importorskip("rich", reason="one of the two writes with rich")
    script = (
        "import sys; from measure.verbs.terminal import make_console; from roofwright.command_line import answer\n"
        f"sys.exit(answer('program', lambda: [{say}('line') for _ in range(100_000)] and 0))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a file that is always full")
@pytest.mark.parametrize("lines", [1, 100_000])
def test_an_output_that_takes_no_more_is_one_line(lines):
    script = (
        "import sys; from roofwright.command_line import answer\n"
        f"sys.exit(answer('program', lambda: [print('line') for _ in range({lines})] and 0))"
    )
    with FULL.open("w") as full:
        run = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert run.stderr == (
        "program: standard output cannot be written (No space left on device); make room or write elsewhere\n"
    )
    assert run.returncode == 2


@pytest.mark.parametrize("problem", [BrokenPipeError(), OSError(errno.ENOSPC, "No space left on device")])
def test_what_another_file_or_pipe_does_is_no_ending(problem):
    with pytest.raises(type(problem)):
        answer("program", ending(problem))


def test_a_second_ctrl_c_does_not_disturb_how_the_first_ends(capsys):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not

    def action():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            print("in order")

    try:
        assert answer("program", action) == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # until the program has ended
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("in order\n", "\nprogram: stopped\n")


def test_ctrl_c_is_as_it_was_after_a_command_that_was_not_stopped():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert answer("program", lambda: 0) == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


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


def test_a_further_command_is_told_where_the_cache_is_unless_it_is_the_usual_one():
    assert data_flag(Path("data")) == ""
    assert data_flag(Path("my data")) == " --data 'my data'"
