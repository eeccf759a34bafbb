import io
import logging
import sys

from hypothesis import given
from hypothesis import strategies as st

from measure.verbs import terminal
from measure.verbs.terminal import markdown


def test_the_log_goes_to_standard_error_once_and_where_the_progress_bar_wants_it(monkeypatch):
    log = logging.getLogger("measure")
    monkeypatch.setattr(log, "handlers", [])
    own, above_the_bar = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", own)
    for _ in range(2):
        terminal.log_to_stderr()
    logging.getLogger("measure.run.plan").info("%d to do", 3)
    monkeypatch.setattr(sys, "stderr", above_the_bar)
    log.info("begun")
    log.setLevel(logging.NOTSET)  # what this remembers of the level is forgotten again
    assert own.getvalue()[8:] == " measure.run.plan: 3 to do\n"
    assert above_the_bar.getvalue()[8:] == " measure: begun\n"


@given(st.lists(st.text("a|\\*_`<[", max_size=5), min_size=1, max_size=4))
def test_no_cell_of_markdown_ends_its_column_or_is_markup(cells):
    *_, line = markdown([["head"] * len(cells), cells], [])
    inside = line.removeprefix("| ").removesuffix(" |")
    for sign in "\\|*_`<[":  # each is escaped, but the bars between cells
        inside = inside.replace(f"\\{sign}", chr(0xE000 + ord(sign)))
    assert inside.count("|") == len(cells) - 1
    assert not set("*_`<[\\") & set(inside)
