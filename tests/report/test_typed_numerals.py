"""No numeral of the chapters stands typed but what is listed here; and the check of that fails where it should."""

import pytest
from helpers.places import ROOT
from helpers.typed_numerals import Allowed, complaints, literal_complaints
from report.analysis import elsewhere_pairs, operator_shares, product_lines
from report.figures import kernels as kernel_figures
from report.figures import layer_shares, pies, strips, waterfall
from report.findings import method
from report.tables import elsewhere, prediction

from measure.domain.values import SPACE
from measure.predicting.study import HIGH, LOW
from report.markdown import percent
from report.paper import counting_programs


def share(value):
    """A share's per cent, as captions print it: without the unit."""
    return percent(value, 1).partition(SPACE)[0]


LIE = round(10 * (elsewhere_pairs.TAILS[1] - elsewhere_pairs.TAILS[0]))
OF_TEN = Allowed(r"\b(\w+) of ten\b", "the models between two quantiles", {8: "eight"}[LIE])
NINE = Allowed(
    r"\b(nine)(?: \w+)? in ten\b", "what an interval of predictions holds", {9: "nine"}[round(10 * (HIGH - LOW))]
)
BITS = Allowed(r"16[ -]bits?\b", "precisions are called by their bits")
IN_CHAPTERS = [
    BITS,
    NINE,
    OF_TEN,
    Allowed(r"but for ([\d.]+) %", "captions hold no code", share(elsewhere.AGREES)),
    Allowed(r"ResNet-18", "a model's name"),
    Allowed(r"fp16, batch size (\d+), eager", "captions hold no code", str(prediction.TYPICAL_BATCH)),
    Allowed(r"\(MAC, 2 FLOP each\)|multiply-add is 2 FLOP|2 for a multiply-add", "a definition"),
    Allowed(r"1 GB is 10\^9\^ bytes", "a definition"),
    Allowed(r"line of exponent 1 in", "proportional, by definition"),
    Allowed(r"may exceed 1;|never silently 0\.", "the ends of a share and of a count"),
    Allowed(r"more than 100 %|Below 100 %:", "a whole"),
    Allowed(r"batch size 1\b", "a single input"),
    Allowed(r"below 1 the model is memory-bound", "of a ratio to the ridge point"),
    Allowed(r"(\d+) % intervals?\b", "captions hold no code", method.CONFIDENCE.partition(SPACE)[0]),
    Allowed(r"fewer than (\d+) samples", "captions hold no code", method.FEWEST_SAMPLES),
    Allowed(r"with (\d+) dies or more", "captions hold no code", str(product_lines.FEWEST)),
    Allowed(r"within ([\d.]+) %", "captions hold no code", share(counting_programs.TOLERANCE)),
    Allowed(r"rounded to a (\w+)", "captions hold no code", {10**6: "million"}[counting_programs.PUBLISHED_MAC_STEP]),
    Allowed(r"Groups below ([\d.]+) % of a call", "captions hold no code", share(kernel_figures.SMALL)),
    Allowed(r"groups below ([\d.]+) % are left out", "captions hold no code", share(kernel_figures.SEEN)),
    Allowed(r"groups below ([\d.]+) % of a latency", "captions hold no code", share(waterfall.SMALL)),
    Allowed(r"at most (\d+) slices", "captions hold no code", str(pies.MOST)),
    Allowed(r"slices of ([\d.]+) %", "captions hold no code", share(pies.SMALL)),
    Allowed(r"kinds below ([\d.]+) % drawn", "captions hold no code", share(layer_shares.SMALL)),
    Allowed(r"Layers below ([\d.]+) % of each", "captions hold no code", share(strips.SMALL)),
    Allowed(r"fp32 and batch size (\d+): as printed", "captions hold no code", str(operator_shares.STUDIED_BATCH)),
    Allowed(r"adds four operations for each element", "thop's: test_peers.py holds it against thop"),
]
IN_FINDINGS = [
    BITS,
    NINE,
    Allowed(r"batch sizes? 1\b", "a single input, which the finding asks for"),
    Allowed(r"8 bits or fewer", "the precisions that the finding asks for"),
    Allowed(r"fewer than three models", "two have an order whatever they are"),
    Allowed(r"batch sizes 1, 64 and 256|from 64 to 256|at 256|1 and 256", "the claim's own batch sizes"),
    Allowed(r"--batch-sizes 1(?: 64)?(?: 256)?\b", "a command that measures these"),
]

SETTINGS = "project:\n  type: default\n  render:\n    - index.qmd\n"
CELL = '```{{python}}\n#| label: fig-a\n#| fig-cap: "{caption}"\n#| fig-alt: "{alternative}"\nshow.show(1)\n```\n'


@pytest.fixture
def paper(tmp_path):
    """Writes a paper of one document with this text; its folder."""

    def written(text):
        (tmp_path / "_quarto.yml").write_text(SETTINGS, encoding="utf-8")
        (tmp_path / "index.qmd").write_text(text, encoding="utf-8")
        return tmp_path

    return written


def test_no_numeral_of_the_chapters_is_typed():
    assert complaints(ROOT, IN_CHAPTERS) == []


def test_no_numeral_of_the_findings_is_typed():
    published = [ROOT / "report/published/findings.py", *(ROOT / "report/published/claims").glob("*.py")]
    files = sorted([*(ROOT / "report/findings").rglob("*.py"), *published])
    assert literal_complaints(files, IN_FINDINGS) == []


@pytest.mark.parametrize(
    "text",
    [
        "The CPU reaches 231 GFLOP/s.",
        "It is faster in all but three of them.",
        "Four\nmodels are slower.",
        "# The 24 models",
        "| model | latency |\n|---|---|\n| alexnet | 9.4 ms |",
        "Said @fig-a, 7 models are slower.",
        "Known [@key2020]. Yet 7 models are slower.",
        "So `{python} findings.a(data)` of 24 models are.",
        '---\nsubtitle: "On 24 models"\n---\n',
        CELL.format(caption="Roofs of 24 models.", alternative="Bars."),
        CELL.format(caption="Roofs.", alternative="Bars of 24 models."),
        "$x$ of 24 models",
    ],
)
def test_a_typed_numeral_is_complained_of(paper, text):
    (complaint,) = complaints(paper(text), [])
    assert "is typed in" in complaint
    assert complaint.startswith("index.qmd")


@pytest.mark.parametrize(
    "text",
    [
        "On one of the two machines half of it is at fp32, bf16 or v2.",
        "Of `{python} findings.a(data)` models, `--batch-sizes 1` counts.",
        "Formulas such as $2 x$ are none.\n\n$$\ny = 2 x + 3\n$$ {#eq-line-2}\n",
        "A study counts 24 models [@key2020].",
        "In @fig-24-models and [a page](https://example.org/24), {.column-24}",
        "```\nlistings of 24 models\n```",
    ],
)
def test_what_is_code_formula_name_or_cited_is_not(paper, text):
    assert complaints(paper(text), []) == []


def test_what_is_allowed_has_to_be_what_the_code_says(paper):
    text = CELL.format(caption="Whiskers: 95 % intervals.", alternative="Bars.")
    assert complaints(paper(text), [Allowed(r"(\d+) % intervals", "", "95")]) == []
    (complaint,) = complaints(paper(text), [Allowed(r"(\d+) % intervals", "", "99")])
    assert complaint == "index.qmd:1, fig-cap: '95 % intervals', where the code says 99"


def test_what_is_allowed_has_to_be_there(paper):
    (complaint,) = complaints(paper("No number."), [Allowed(r"24 models", "there were some")])
    assert complaint == "nothing matches '24 models' any more"


def test_a_numeral_that_a_module_types_is_complained_of(tmp_path):
    module = tmp_path / "finding.py"
    module.write_text(
        '"""Of 24 models."""\nWIDTH = "1"\n\n\ndef told(count):\n    """Tells of 24."""\n'
        '    return f"{count:,} of {count + 2} models"\n',
        encoding="utf-8",
    )
    assert literal_complaints([module], []) == []
    module.write_text('def told():\n    return f"{0} of 24 models"\n', encoding="utf-8")
    (complaint,) = literal_complaints([module], [])
    assert complaint == "finding.py:2: '24' is typed in 'of 24 models'"
