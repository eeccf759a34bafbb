from hypothesis import given
from hypothesis import strategies as st

from measure.verbs.terminal import markdown


@given(st.lists(st.text("a|\\*_`<[", max_size=5), min_size=1, max_size=4))
def test_no_cell_of_markdown_ends_its_column_or_is_markup(cells):
    *_, line = markdown([["head"] * len(cells), cells], [])
    inside = line.removeprefix("| ").removesuffix(" |")
    for sign in "\\|*_`<[":  # each is escaped, but the bars between cells
        inside = inside.replace(f"\\{sign}", chr(0xE000 + ord(sign)))
    assert inside.count("|") == len(cells) - 1
    assert not set("*_`<[\\") & set(inside)
