"""The paper of a cache with hundreds of models: it renders, and what its figures draw stays bounded."""

import base64
import gzip
import json

import pytest
from helpers.many_models import write_many
from helpers.pages import Page, render

pytestmark = pytest.mark.slow

MODELS = 500
MOST = 5_000
"""So many rows a dataset of a figure may have."""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    write_many(folder / "data", MODELS)
    out = render(folder / "data", folder / "project", "--formats", "html")
    assert (out / "index.html").stat().st_size < 10_000_000
    return Page((out / "index.html").read_text("utf-8")).root


def test_figures_draw_all_models_within_bounds(page):
    most = {}
    for node in page.all("script.chart"):
        text = gzip.decompress(base64.b64decode("".join(node.content))).decode()
        assert "NaN" not in text
        specification = json.loads(text)
        most[specification["name"]] = max(map(len, specification["datasets"].values()), default=0)
    assert len(most) > 25
    assert {name: rows for name, rows in most.items() if rows > MOST} == {}
    assert max(most.values()) > 200  # of 500 models at two batch sizes


def test_tables_of_the_text_stay_short(page):
    (main,) = page.all("main")
    lengths = [len(table.all("tr")) for table in main.all("table", outside=("details", ".more", ".chooser"))]
    assert len(lengths) > 5
    assert max(lengths) <= 40
