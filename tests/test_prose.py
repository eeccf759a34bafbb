import pypandoc
import pytest

from report.prose import Prose, escape

TEXTS = (
    "python -m measure --device cuda",
    "vit_b_16 and *this* | `that` [x](y) @key 10^9^ H~2~O $x$ <b> #1 \\ {y}",
    "1. not a list",
)


@pytest.mark.parametrize("text", TEXTS)
def test_pandoc_prints_the_text_as_it_is(text):
    printed = pypandoc.convert_text(escape(text), "plain", format="markdown", extra_args=["--wrap=none"])
    assert printed.strip() == text


def test_prose_shows_itself_escaped():
    assert Prose("a_b") == "a_b"
    assert Prose("a_b")._repr_markdown_() == "a\\_b"
