import pytest

from measure.errors import UserError
from report.engine.project import Project
from report.engine.source import CodeBlock, TextBlock, read_source


@pytest.fixture
def read(tmp_path):
    def make(**files):
        for name, text in files.items():
            path = tmp_path / name.replace("__", "/")
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".qmd").write_text(text)
        return read_source(Project(tmp_path, "index.qmd", {}, 1))

    return make


def places(block):
    return [(line.text, line.place) for line in block.lines]


def test_prose_and_cells(read):
    before, cell, after = read(index="one\n\n```{python}\n#| label: x\nf()\n```\n\ntwo")
    assert isinstance(before, TextBlock)
    assert places(before) == [("one", "index.qmd:1"), ("", "index.qmd:2")]
    assert isinstance(cell, CodeBlock)
    assert cell.opening.place == "index.qmd:3"
    assert places(cell) == [("#| label: x", "index.qmd:4"), ("f()", "index.qmd:5")]
    assert places(after) == [("", "index.qmd:7"), ("two", "index.qmd:8")]


def test_includes_are_relative_to_the_document_in_nested_ones_too(read):
    (prose,) = read(
        index="a\n{{< include part/one.qmd >}}\nz", part__one="b\n{{< include part/two.qmd >}}", part__two="c"
    )
    text = [(line.text, line.place) for line in prose.lines if line.text]
    assert text == [("a", "index.qmd:1"), ("b", "part/one.qmd:1"), ("c", "part/two.qmd:1"), ("z", "index.qmd:3")]


def test_listings_are_prose_that_is_marked(read):
    (prose,) = read(index="a\n````\n```{python}\nx\n```\n````\nb")
    assert prose.listing == [False, True, True, True, True, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{< include none.qmd >}}", r"^index\.qmd:2: the included file none\.qmd is not there"),
        ("{{< include index.qmd >}}", r"^index\.qmd:1: index\.qmd includes itself"),
        ("a\n\nb {{< video x.mp4 >}}", r"^index\.qmd:3: unknown shortcode 'video'"),
        ("see {{< include a.qmd >}}", r"^index\.qmd:1: unknown shortcode 'include'.*alone on its line"),
        ("a\n```{r}\n1\n```", r"^index\.qmd:2: a cell in 'r'"),
        ("```{python, echo=FALSE}\n1\n```", r"^index\.qmd:1: options of a cell belong in"),
        ("- a\n\n  ```{python}\n  1\n  ```", r"^index\.qmd:3: a cell must begin at the left margin"),
        ("a\n```{python}\n1\n", r"^index\.qmd:2: this code block is never closed"),
    ],
)
def test_refusals(read, text, message):
    with pytest.raises(UserError, match=message):
        read(index=text)


def test_an_included_file_has_no_front_matter(read):
    with pytest.raises(UserError, match=r"^part/one\.qmd:1: an included file has no front matter"):
        read(index="{{< include part/one.qmd >}}", part__one="---\ntitle: x\n---\n")
