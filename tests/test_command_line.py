import errno
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from measure.errors import UserError
from measure.verbs.flags import parse_time
from roofwright.command_line import CommandLine, answer

FULL = Path("/dev/full")


def ending(problem):
    def action():
        raise problem

    return action


def test_closed_output_and_too_many_files_are_one_sentence(monkeypatch, capsys):
    assert answer("program", ending(OSError(errno.EMFILE, "Too many open files"))) == 2
    assert "allow more, such as with ulimit -n 1024" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", None)  # as Python has it after >&-
    assert answer("program", lambda: 0) == 2
    assert "program: standard output is closed" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stderr", None)
    assert answer("program", lambda: 0) == 2


@pytest.mark.parametrize(
    ("environment", "is_red"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_a_complaint_is_one_line_and_red_on_a_terminal(monkeypatch, environment, is_red):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert answer("program", ending(UserError("the file 'a\nb\x1b[2J' is bad"))) == 2
    line = "program: the file 'a\\nb\\x1b[2J' is bad"
    assert sys.stderr.getvalue() == (f"\x1b[31m{line}\x1b[0m\n" if is_red else f"{line}\n")


def writing(lines, say="print"):
    """A program that writes lines."""
    return [
        sys.executable,
        "-c",
        "import sys; from measure.verbs.terminal import make_console; from roofwright.command_line import answer\n"
        f"sys.exit(answer('program', lambda: [{say}('line') for _ in range({lines})] and 0))",
    ]


@pytest.mark.parametrize("say", ["print", "make_console().print"])
def test_a_reader_that_leaves_ends_the_command_quietly(say):
    with subprocess.Popen(writing(100_000, say), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        run.stdout.readline()
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a file that is always full")
def test_an_output_that_takes_no_more_is_one_line():
    with FULL.open("w") as full:
        run = subprocess.run(writing(1), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    problem = "standard output cannot be written (No space left on device)"
    assert (run.returncode, run.stderr) == (2, f"program: {problem}; make room or write elsewhere\n")


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_a_letter_that_a_pipe_lacks_ends_no_command(encoding):
    """As on Windows, where a pipe has the letters of one language."""
    program = writing(1)
    program[-1] = program[-1].replace("'line'", r"'\u00b5s \u8a9e'")
    run = subprocess.run(program, env=os.environ | {"PYTHONIOENCODING": encoding}, capture_output=True, check=True)
    assert run.stdout.decode(encoding).strip() == {"ascii": "?s ?", "cp1252": "µs ?", "utf-8": "µs 語"}[encoding]


def test_a_second_ctrl_c_does_not_disturb_how_the_first_ends(capsys):
    def action():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            print("in order")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not
    try:
        assert answer("program", lambda: 1) == 1  # a command's own exit code
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # as before
        assert answer("program", action) == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # until the program has ended
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("in order\n", "\nprogram: stopped\n")


@pytest.fixture
def flags():
    flags = CommandLine(prog="python -m program")
    flags.add_argument("--models", nargs="+", default=[])
    flags.add_argument("--engine")
    flags.add_argument("--size", nargs=2)
    form = flags.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--csv", action="store_true")
    flags.add_argument("--budget", type=parse_time)
    flags.add_argument("file", metavar="FILE", nargs="?")
    flags.add_argument("--kind", choices=["auto", "quarto"])
    flags.add_argument("-v", "--verbose", action="store_true")
    return flags


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ["--models", "vgg*", "a b", "-v", "-v"],
            {"models": ["vgg*", "a b"], "json": False, "command": "python -m program --models 'vgg*' 'a b' -v -v"},
        ),
        (["--size", "1", "2", "--json", "--engine=x"], {"size": ["1", "2"], "json": True, "engine": "x", "models": []}),
        (["--", "--modles"], {"file": "--modles"}),  # two dashes end the flags
    ],
)
def test_flags_and_values_are_parsed(flags, words, expected):
    parsed = vars(flags.parse_args(words))
    assert {name: parsed[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["a", "stray", "--modles"], "there is no flag --modles; did you mean --models?"),
        (["--models", "a", "--model", "b"], "there is no flag --model; did you mean --models?"),  # no first letters
        (["--xyzzy=1"], "there is no flag --xyzzy; see python -m program --help"),
        (["a", "stray"], "nothing is expected at 'stray'; see python -m program --help"),
        (["--models"], "--models: expected at least one argument; see python -m program --help"),
        (["--kind", "quatro"], "--kind: 'quatro' is not one of auto, quarto; did you mean quarto?"),
        (["--models", "a", "--models=b"], "--models: given more than once; give all values after one --models"),
        (["--models", "a", ""], "--models: the value is empty; give one or leave it out"),
        (["--models="], "--models: the value is empty; give one or leave it out"),
        (["--csv", "--json"], "--csv and --json: print in different ways; give one of them"),
        (["--budget", "x"], "--budget: 'x' is not a valid time; use 90s, 10m or 1h30m"),  # a type's own sentence
        (["", "--kind", "auto"], "an argument: the value is empty; give one or leave it out"),
    ],
)
def test_a_complaint_is_one_sentence(flags, words, sentence):
    with pytest.raises(UserError) as caught:
        flags.parse_args(words)
    assert str(caught.value) == sentence
