import io
import logging
import sys

from measure.verbs import terminal
from measure.verbs.terminal import aligned, markdown


class Terminal(io.StringIO):
    def isatty(self):
        return True


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
