import json

import pypandoc
import pytest

from report.text.prose import Prose, command, escape, quoted, washed

TEXTS = (
    "python -m measure --device cuda",
    "vit_b_16 and *this* | `that` [x](y) @key 10^9^ H~2~O $x$ <b> #1 \\ {y}",
    "1. not a list",
    ": no definition",
    "::: {.no} div",
    "{{< no shortcode >}} {=html} {#no}",
    "%a title &lt; &amp; at::native::{lambda()#1}",
    "=cmd()|'/C calc'!A0 and \"'a' -- '",
)


@pytest.mark.parametrize("text", TEXTS)
def test_pandoc_prints_the_text_as_it_is(text):
    printed = pypandoc.convert_text(escape(text), "plain", format="markdown", extra_args=["--wrap=none"])
    assert printed.strip().replace("’", "'") == text


def test_a_command_between_backticks_is_code():
    text = "It is `a_b`; `python -m measure --models 'vgg*'` measures it."
    printed = pypandoc.convert_text(escape(text), "html", format="markdown", extra_args=["--wrap=none"])
    assert printed.strip() == "<p>It is `a_b`; <code>python -m measure --models 'vgg*'</code> measures it.</p>"


@pytest.mark.parametrize("name", ["a`b", "a|b", "{#a}", "{{< meta title >}}"])
def test_a_command_with_a_name_that_ends_code_is_text(name):
    assert command("python -m measure --models vgg11") == "`python -m measure --models vgg11`"
    text = f"Nothing; {command(f'python -m measure --models {name}')} measures it."
    assert "<code>" not in pypandoc.convert_text(escape(text), "html", format="markdown")
    assert pypandoc.convert_text(escape(text), "plain", format="markdown", extra_args=["--wrap=none"]).strip() == text


@pytest.mark.parametrize("text", ["a\n\n# b", "a\r\n    b", "a\tb", "a\x1b[31mb"])
def test_what_would_begin_a_line_stays_on_it(text):
    assert len(escape(text).splitlines()) == 1
    printed = pypandoc.convert_text(escape(text), "plain", format="markdown", extra_args=["--wrap=none"])
    assert printed.split() == text.replace("\x1b", " ").split()


@pytest.mark.parametrize("text", ['a "b" \\ c', "&lt; &#60; {{< meta title >}} <b>", "two\n\nlines"])
def test_pandoc_takes_an_attribute_as_it_is(text):
    document = json.loads(pypandoc.convert_text(f"[x]{{told={quoted(text)}}}", "json", format="markdown"))
    (span,) = document["blocks"][0]["c"]
    assert span["c"][0][2] == [["told", " ".join(text.split())]]


def test_prose_shows_itself_escaped():
    assert Prose("a_b") == "a_b"
    assert Prose("a_b")._repr_markdown_() == "a\\_b"


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("a\x00b\x1bc\x85d\x9fe", "a b c d e"),
        ("a\u2028b\u2029c", "a b c"),
        ("a\ufffeb\uffffc\ufdd0d\U0001fffee\U0010fffff", "a\ufffdb\ufffdc\ufffdd\ufffde\ufffdf"),
        ("a\ud800b", "a\ufffdb"),
        ("two\nlines\tand 论文 \U0001f9ea \u00a0 é", "two\nlines\tand 论文 \U0001f9ea \u00a0 é"),
    ],
)
def test_what_no_picture_or_page_can_hold_is_replaced(text, clean):
    assert washed(text) == clean
    assert escape(text) == escape(clean)
    assert quoted(text) == quoted(clean)
