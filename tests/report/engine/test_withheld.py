from report.engine.withheld import Withheld

MARKDOWN = "one\n\n```{=html}\n<b>two</b>\n<i>three</i>\n```\n\n```\ncode\n```\n\n```{=html}\n<!--four-->\n```\nfive\n"


def test_raw_html_is_withheld_and_no_line_moves():
    short = Withheld().without_raw_blocks(MARKDOWN)
    assert "two" not in short
    assert "four" not in short
    kept = ("one", "```{=html}", "code", "five")
    assert [line for line in short.split("\n") if line in kept] == [
        "one",
        "```{=html}",
        "code",
        "```{=html}",
        "five",
    ]
    for line in kept:
        assert short.split("\n").index(line) == MARKDOWN.split("\n").index(line)


def test_what_was_withheld_comes_back():
    withheld = Withheld()
    assert withheld.restored(withheld.without_raw_blocks(MARKDOWN)) == MARKDOWN.replace(
        "</i>\n```",
        "</i>\n\n```",  # the line that the second line of raw HTML left
    )
    assert withheld.restored(f"<p>{withheld.mark('<img>')}</p>") == "<p><img></p>"


def test_a_mark_of_nothing_else_is_a_comment():
    assert Withheld().restored("<!-- withheld -->") == "<!-- withheld -->"
