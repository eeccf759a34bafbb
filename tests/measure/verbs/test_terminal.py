import errno
import io
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from measure.errors import UserError
from measure.verbs import terminal
from measure.verbs.terminal import aligned, markdown

FULL = Path("/dev/full")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def ending(problem):
    def action():
        raise problem

    return action


def test_a_commands_own_exit_code_stands(capsys):
    assert terminal.answer("program", lambda: 1) == 1
    assert capsys.readouterr().err == ""


def test_bad_input_is_one_line_whatever_stands_in_it(capsys):
    problem = UserError("the file 'a\nb\x1b[2J' is wrong; mend it")
    assert terminal.answer("program", ending(problem)) == 2
    assert capsys.readouterr().err == "program: the file 'a\\nb\\x1b[2J' is wrong; mend it\n"


def test_ctrl_c_leaves_no_traceback(capsys):
    assert terminal.answer("program", ending(KeyboardInterrupt())) == 130
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
    terminal.answer("program", ending(UserError("no")))
    assert sys.stderr.getvalue() == ("\x1b[31mprogram: no\x1b[0m\n" if is_red else "program: no\n")


@pytest.mark.parametrize("say", ["print", "make_console().print"])
def test_a_reader_that_leaves_ends_the_command_quietly(say):
    pytest.importorskip("rich", reason="one of the two writes with rich")
    script = (
        "import sys; from measure.verbs.terminal import answer, make_console\n"
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
        "import sys; from measure.verbs.terminal import answer\n"
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
        terminal.answer("program", ending(problem))


def test_a_second_ctrl_c_does_not_disturb_how_the_first_ends(capsys):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job has not

    def action():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            signal.raise_signal(signal.SIGINT)
            print("in order")

    try:
        assert terminal.answer("program", action) == 130
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # until the program has ended
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr() == ("in order\n", "\nprogram: stopped\n")


def test_ctrl_c_is_as_it_was_after_a_command_that_was_not_stopped():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert terminal.answer("program", lambda: 0) == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_log_goes_to_standard_error_and_once(capsys, monkeypatch):
    log = logging.getLogger("measure")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "level", logging.NOTSET)
    for _ in range(2):
        terminal.log_to_stderr()
    logging.getLogger("measure.run.plan").info("%d to do", 3)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.endswith(" measure.run.plan: 3 to do\n")
    log.setLevel(logging.NOTSET)  # what this remembers of the level is forgotten again


def test_on_a_terminal_the_log_goes_where_the_progress_bar_wants_it(monkeypatch):
    log = logging.getLogger("measure")
    monkeypatch.setattr(log, "handlers", [])
    own, above_the_bar = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stderr", own)
    terminal.log_to_stderr()
    monkeypatch.setattr(sys, "stderr", above_the_bar)
    log.info("begun")
    log.setLevel(logging.NOTSET)
    assert (own.getvalue(), above_the_bar.getvalue()[8:]) == ("", " measure: begun\n")


LINES = [("model", "B/A", "change"), ("a", "1.000", ""), ("longer name", "12.000", "slower")]


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right():
    assert aligned(LINES, ["B/A"]) == [
        "model           B/A  change",
        "a             1.000",
        "longer name  12.000  slower",
    ]


def test_markdown_has_a_head_and_numbers_stand_right():
    assert markdown(LINES[:2], ["B/A"]) == ["| model | B/A | change |", "| :--- | ---: | :--- |", "| a | 1.000 |  |"]


def test_no_cell_of_markdown_ends_its_column_or_is_markup():
    (*_, line) = markdown([("model",), ("a|b_c*<i>",)], [])
    assert line == r"| a\|b\_c\*\<i> |"
