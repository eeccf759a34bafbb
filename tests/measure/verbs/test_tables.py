from measure.verbs.terminal import aligned, markdown

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
