"""The chapters' filter on small documents, as plain text or HTML."""

import json
import re

import pytest
from helpers.pages import filtered
from helpers.places import FILTER

META = """---
training: {step: true, gpu: false, claims: {fast: true, slow: false}}
---

"""
GAPS = "# Next\n\n::: {#gaps}\nAdd:\n:::\n"
GONE = '::: {#fig-gone}\n::: {.gap command="measure gpu"}\n:::\n\nCaption\n:::\n'


def printed(text, to="markdown", env=None):
    return filtered(FILTER, META + text, to, env)


def test_the_first_commands_of_the_list_are_printed_twice():
    values = "".join(
        f'A [–]{{.missing command="measure {at}"}}.\n\n' for at in ("--device cuda", 1, "add-published FILE", 2, 3)
    )
    first = "::: {.first-gaps}\nBegin with these; [all](#next) are below.\n:::\n\n"
    begin, _, rest = printed(f"# A\n\n{first}{values}{GAPS.replace('Next', 'Next {#next}')}").partition("# Next")
    assert re.findall(r"measure (\S+)`", begin) == ["1", "2", "3"]
    assert re.findall(r"measure ([^\s`]+)", rest) == ["--device", "1", "add-published", "2", "3"]
    # Without a list there is nothing to begin with
    assert printed(f"# A\n\nKept.\n\n{first}{GAPS.replace('Next', 'Next {#next}')}") == "# A\n\nKept."


def referring(text):
    return f"Kept.\n\n{GONE}\n{text}\n\n- {text}\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("*A **[–]{.missing}*** value.\n\nKept.", "Kept."),
        ("- one\n- two [–]{.missing}\n- three\n", "- one\n- three"),
        ("Kept.\n\n1. [–]{.missing}\n", "Kept."),
        ("- one\n    - [–]{.missing}\n- two\n", "- one\n- two"),
        ("> [–]{.missing}\n\nKept.", "Kept."),
        ("::: {.answer}\n[–]{.missing}\n:::\n\nKept.", "Kept."),
        ("::: {.callout-note}\n## How long is [–]{.missing}?\nLong.\n:::\n\nKept.", "Kept."),
        ("::: {.callout-note}\n## How long?\nIt takes [–]{.missing}.\n:::\n\nKept.", "Kept."),
        # References to something dropped
        (referring("See @fig-gone."), "Kept."),
        (referring("See [@fig-gone; @fig-b]"), "Kept."),
        (referring("@Fig-gone shows it"), "Kept."),
        (referring("[Here](#fig-gone)."), "Kept."),
        # Headings with nothing below them, and references to them
        (
            f"# A {{#sec-a}}\n\nKept.\n\n## B {{#sec-b}}\n\nSee @sec-c.\n\n"
            f"## C {{#sec-c}}\n\n{GONE}\n\n# D\n\nSee @sec-b.",
            "# A {#sec-a}\n\nKept.",
        ),
        # A chapter goes with its question
        (
            "# A\n\n*Why?*\n\n[–]{.missing}\n\n## B\n\n[–]{.missing}\n\n# C\n\n*Why?*\n\n## D\n\nSo.",
            "# C\n\n*Why?*\n\n## D\n\nSo.",
        ),
        # Without anything to list its place goes with its heading
        (f"# A\n\nKept.\n\nSee @sec-next.\n\n{GAPS}".replace("# Next", "# Next {#sec-next}"), "# A\n\nKept."),
    ],
)
def test_what_lacks_a_value_is_not_printed(text, left):
    assert printed(text) == left


def test_captions_and_tables_name_in_words_what_is_missing():
    missing = '[–]{.missing command="measure --all"}'
    text = f"A {missing}.\n\n- B {missing}\n\n{GONE}\n::: {{#fig-b}}\nPicture\n\nAfter @fig-gone.\n:::\n\n"
    text += f"| @fig-gone |\n|---|\n| [–]{{.missing}} |\n\n{GAPS}"
    found = printed(text, "plain")
    assert found.count("Figure [without data]") == 2
    assert "–" in found  # a row of a table stays
    assert found.endswith("Next\n\nAdd:\n\n- measure --all.\n- measure gpu.")


def test_a_command_is_listed_with_what_it_adds_and_where_it_runs():
    def value(flags, machine=""):
        return f'A [–]{{.missing command="measure {flags}"{machine}}}.\n\n'

    problem = f"::: {{.callout-note}}\n## Problem\nHow long?\n\n{value('a')}:::\n\n"
    text = f"# A {{#sec-a}}\n\nKept.\n\n{value('a')}{value('a')}## B\n\nKept.\n\n{GONE}{value('a')}{problem}"
    text += GONE.replace("fig-gone", "tbl-gone") + GONE.replace("fig-gone", "fig-more")
    text += (
        f"# Gone {{#sec-gone}}\n\n{value('a')}{value('--device cuda', ' machine=gpu')}"
        f"# C {{#sec-c .unnumbered}}\n\nKept.\n\n{value('--device cuda x')}"
    )
    found = filtered(FILTER, f"---\nmachines: {{names: {{gpu: Bead 2}}}}\n---\n\n{text}{GAPS}")
    listed = [line.replace("-   ", "- ") for line in found.splitlines() if line.startswith("- ")]
    assert listed == [
        '- `measure a`: "A" (@sec-a), "B" (@sec-a) and 1 more.',
        '- `measure gpu`: 2 figures and a table in "B" (@sec-a).',
        '- `measure --device cuda`: "Gone", on the Bead 2.',
        '- `measure --device cuda x`: "C", on a GPU.',
    ]


CONDITIONS = {
    '.content-visible when-meta="training.step"': True,
    '.content-visible when-meta="training.gpu"': False,
    '.content-visible when-meta="training.none.deeper"': False,
    '.content-visible unless-meta="training.gpu"': True,
    '.content-visible unless-meta="training.step"': False,
}


def test_conditions():
    text = "".join(f"::: {{{each}}}\n{at}\n:::\n\n" for at, each in enumerate(CONDITIONS))
    assert printed(text) == "\n\n".join(str(at) for at, is_printed in enumerate(CONDITIONS.values()) if is_printed)


def test_conditions_of_words_in_a_caption():
    words = " ".join(f"[{at}]{{{each}}}" for at, each in enumerate(CONDITIONS))
    nested = (
        '[a [b]{.content-visible when-meta="training.gpu"}[–]{.missing}]{.content-visible when-meta="training.step"}'
    )
    found = printed(f"::: {{#fig-b}}\nPicture\n\nOf {words} {nested}.\n:::\n", "plain").split()
    assert found == ["Picture", "Of", "0", "3", "a", "–."]


CLAIMS = {"fast": True, "fast slow": False, "none": False, "training.fast": True, "chips.fast": False}


def test_a_reference_block_is_printed_where_its_claims_hold():
    blocks = [f'::: {{.reference claims="{claims}"}}\nOf {claims}.\n:::\n\n' for claims in CLAIMS]
    text = printed("# A {#sec-training}\n\n" + "".join(blocks), "plain")
    assert text.split("\n\n")[1:] == [f"Of {claims}." for claims, hold in CLAIMS.items() if hold]


MORE = """# A

@fig-m shows it. @fig-m as well, and (@fig-m).

::: {.more}
::: {#fig-m}
Picture

Caption
:::
:::

# C

Text
"""


def test_what_is_for_the_page_alone_is_folded():
    html = printed(MORE, "html")
    fold = '<details class="more"><summary>All figures and tables</summary>'
    places = [html.index(part) for part in ("shows it", fold, "Caption", "</details>", "C</h1>")]
    assert places == sorted(places)
    text = printed(MORE)
    assert text.count(r'[Figure S1 in the HTML edition]{.content-visible when-format="typst"}') == 3
    assert f"({'[@suppfig-m]'}{{.content-visible" in text
    full = printed(f"---\nroofwright:\n  pdf: full\n---\n\n{MORE}")
    assert "content-visible" not in full
    assert "@suppfig-m shows it" in full


def test_what_the_page_shows_alone_is_counted_apart():
    """In the order of the document, figures and tables each, also where the PDF has all; Quarto learns of the kinds."""
    only = '::: {.content-visible when-format="html"}\n## H {#sec-h}\n\n::: {#fig-b}\nPicture\n\nB\n:::\n:::\n'
    cells = "| a |\n|---|\n| b |\n"
    table = f'::: {{.more}}\n::: {{.cell #tbl-c tbl-cap="C"}}\n{cells}:::\n\n{cells}\n: D {{#tbl-d}}\n:::\n'
    references = "@fig-b, [this](#fig-b), @Tbl-c, @tbl-d, @sec-h."
    source = f"---\nroofwright:\n  pdf: full\n---\n\n{references}\n\n{MORE}\n{only}\n{table}"
    text = printed(source)
    assert "[Figure S2 in the HTML edition]" in text
    assert "[this](#suppfig-b)" in text
    assert "@supptbl-c, @supptbl-d" in text
    assert '[[Section "H"](#sec-h)]' in text
    assert '[Section "H" in the HTML edition]' in text
    assert "## H {#sec-h .unnumbered}" in text
    assert 'supptbl-cap="C' in text
    assert re.search(r"::: \{#supptbl-d\}\s+a\s+-+\s+b\s+D\s+:::", text)
    kinds = json.loads(printed(source, "json"))["meta"]["crossref"]["c"]["custom"]["c"]
    assert sorted(kind["c"]["key"]["c"] for kind in kinds) == ["suppfig", "supptbl"]


def test_a_caption_in_quartos_attribute_has_words_too():
    """Quarto reads it after the filter, and printed `?@fig-m` for a figure outside the PDF."""
    cell = '::: {.cell #tbl-a tbl-cap="Of @sec-c: @fig-gone and @fig-m \\\\*"}\n| a |\n|---|\n| b |\n:::\n'
    text = printed(f"{GONE}\n{MORE}\n{cell}", "native")
    caption = re.search(r'"tbl-cap"\s*,\s*"((?:[^"\\]|\\.)*)"', text)[1].encode().decode("unicode_escape")
    only = '[@suppfig-m]{.content-visible when-format="html"}'
    instead = '[Figure S1 in the HTML edition]{.content-visible when-format="typst"}'
    assert caption.strip() == rf"Of @sec-c: Figure \[without data\] and {only}{instead} \*"


def test_a_heading_above_what_is_for_the_page_alone_is_too():
    only = '::: {.content-visible when-format="html"}\nText\n:::\n'
    text = printed(f"# A\n\n[There](#sec-b).\n\n## B {{#sec-b}}\n\n{only}\n## C\n\nMore")
    heading = '::: {.content-visible when-format="html"}\n## B {#sec-b .unnumbered}\n:::'
    assert heading in text
    link = '[[There](#sec-b)]{.content-visible when-format="html"}[There]{.content-visible when-format="typst"}'
    assert text.startswith(f"# A\n\n{link}.")
    assert "## C" in text.split(heading)[1]


def test_a_cell_that_failed_under_quarto_leaves_its_sentence(monkeypatch):
    traceback = "Cell In[1], line 1\n----> 1 1 / 0\n\n\x1b[31mZeroDivisionError\x1b[0m: division by zero"
    failed = f"::: {{.cell-output .cell-output-error}}\n```\n{traceback}\n```\n:::\n\nKept."
    monkeypatch.delenv("ROOFWRIGHT_STRICT")
    sentence = (
        "This could not be computed: ZeroDivisionError: division by zero. Everything that depends on it is left out."
    )
    assert printed(failed, "plain") == f"{sentence}\n\nKept."
    text = printed(f"{failed} See @fig-a, @tbl-b and @fig-there.\n\n::: {{#fig-there}}\nx\n\nThere.\n:::\n", "plain")
    assert "Kept. See Figure [could not be computed], Table [could not be computed] and" in " ".join(text.split())
    assert "fig-there" in text
    monkeypatch.setenv("ROOFWRIGHT_STRICT", "1")
    with pytest.raises(AssertionError, match="ZeroDivisionError: division by zero"):
        printed(failed)
