import json

import pypandoc
import pytest
from helpers.sentences import plain

from report.text import prose
from report.text.prose import (
    Prose,
    change,
    command,
    escape,
    exact,
    intensity,
    listing,
    number,
    percent,
    quoted,
    si,
    throughput,
    washed,
)

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


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (989.4e12, "FLOP/s", "989 TFLOP/s"),
        (3.35e12, "B/s", "3.35 TB/s"),
        (49.6e9, "B/s", "49.6 GB/s"),
        (0.0123, "s", "12.3 ms"),
        (4.56e-7, "s", "456 ns"),
        (2.5e-5, "s", "25.0 µs"),
        (1.0, "s", "1.00 s"),
        (999.6, "B", "1.00 kB"),  # rounds into the next prefix
        (1.835e15, "FLOP/s", "1.84 PFLOP/s"),  # half is rounded up
        (61_100_840, "", "61.1 M"),
        (0, "B", "0 B"),
    ],
)
def test_si(value, unit, text):
    assert plain(si(value, unit)) == text


def test_other_numbers():
    assert plain(intensity(989.4e12 / 3.35e12)) == "295 FLOP/B"
    assert plain(percent(0.4567)) == "46 %"
    assert plain(exact(4089184256, "FLOP")) == "4,089,184,256 FLOP"
    assert plain(throughput(29312.4)) == "29,300 inputs/s"
    assert plain(throughput(21.04)) == "21.0 inputs/s"


def test_words():
    assert [plain(number(count, "model")) for count in (0, 1, 24)] == ["no model", "1 model", "24 models"]
    assert plain(number(2, "family", "families")) == "2 families"
    assert [listing(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert listing(["a", "b", "c", "d"], 2) == "a, b and 2 more"
    assert listing(["a", "b"], 2) == "a and b"


def test_integers_do_operations():
    assert prose.rate_unit("int8") == "OP/s"
    assert prose.rate_unit("fp8") == "FLOP/s"
    assert prose.ridge_unit("int8") == "OP/B"


def test_change():
    assert plain(change(0.258, 0.2, 0.331)) == "26 % (20 to 33 %)"
    assert plain(change(0.03, -0.085, 0.16)) == "3.0 % (−8.5 to 16 %)"


def test_words_that_agree_with_a_number():
    assert [prose.by_number(count, "has", "have") for count in (0, 1, 2)] == ["have", "has", "have"]
    assert prose.capitalised("the FLOP") == "The FLOP"
    assert prose.capitalised("") == ""
    assert plain(prose.signed_percent(-0.25)) == "−25 %"
