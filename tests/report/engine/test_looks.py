"""How both engines show callouts, frames, pictures and formulas, as HTML or Typst."""

import re

import pytest
from helpers.pages import filtered
from helpers.places import LOOKS


def shown(text, to="markdown"):
    return filtered(LOOKS, text, to)


CALLOUTS = """::: {.callout-note collapse="true" #tip-a}
## How *long*?
In $x$ s.
:::

::: {.callout-tip}
Say so.
:::
"""


def test_a_callout_has_the_same_frame_in_both_engines():
    first, second = shown(CALLOUTS, "html").split("</details>")
    opening = '<details class="callout callout-note" id="tip-a"><summary class="title">'
    assert first.startswith(f'{opening}\nHow <em>long</em>?\n</summary><div class="body">\n<p>In ')
    title = '<div class="callout callout-tip"><div class="title">\nTip\n</div>'
    assert second.strip() == f'{title}<div class="body">\n<p>Say so.</p>\n</div></div>'
    first, second = shown(CALLOUTS, "typst").split("<tip-a>")
    assert re.sub(r"\s+", "", first).startswith('#boxed("callout-note")[How#emph[long]?][In#setmath.equation(alt:"x")')
    assert re.sub(r"\s+", "", second) == '#boxed("callout-tip")[Tip][Sayso.]'


@pytest.mark.parametrize(("width", "height", "kinds"), [(430, 131, [".beside"]), (431, 130, [".flat"]), (431, 131, [])])
def test_a_narrow_picture_has_text_at_its_side(tmp_path, width, height, kinds):
    picture = tmp_path / "a.svg"
    picture.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" stroke-width="9" width="{width}" height="{height}"/>')
    assert re.findall(r"\.(?:beside|flat)", shown(f"![]({picture})")) == kinds
    assert shown("![](none.svg)") == "![](none.svg)"


def test_the_pdf_says_a_formula_as_its_tex():
    text = shown('A $\\pi \\text{"}$ and\n$$\nx\n$$ {#eq-a}\n', "typst")
    assert r'#set math.equation(alt: "\\pi \\text{\"}");$pi' in text
    assert text.startswith("#block(breakable: false)[")  # no page begins with the equation
    assert text.index('(alt: " x ");') < text.index("$ x $")
    assert "alt" not in shown("A $x$.", "html")


@pytest.mark.parametrize("first", ["So it is.", "- So it is."])
def test_a_reference_block_says_whose_data_it_is_about(first):
    text = f"::: {{.reference}}\n{first}\n:::\n"
    assert shown(text, "plain").split() == ["Reference.", *first.split()]
    machine = "---\nmachines:\n  reference: Example CPU\n---\n"
    assert shown(machine + text, "plain").split() == ["Reference:", "Example", "CPU.", *first.split()]
    assert shown(machine + text.replace("{.r", "{.band .r"), "plain").split() == ["Reference.", *first.split()]
    typst = shown(text, "typst")
    assert typst.startswith("#reference[")
    assert typst.endswith("]")
    assert shown("::: {.answer}\nYes.\n:::\n", "typst").startswith("#answer[")


def test_a_number_and_its_per_cent_stay_on_one_line():
    assert shown("At 95 % in *5 %, 10* of %.", "plain") == "At 95\u00a0% in 5\u00a0%, 10 of %."
    assert "95\u00a0%" in shown("![At 95 % of it](none.svg)", "plain")
