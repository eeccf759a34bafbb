"""The paper of a cache with hundreds of models: what each figure draws and each table lists stays bounded."""

from types import SimpleNamespace

import pytest
from helpers.chapters import SHARED, calls
from helpers.fleets import fleet
from helpers.many_models import write_many
from helpers.paper_text import told
from helpers.papers import REFERENCES
from helpers.sentences import cells, check_no_gap
from report.analysis.available import Missing
from report.analysis.long_lists import ALWAYS, ROWS

from report.charts import figure_data
from report.paper import load

pytestmark = pytest.mark.long

MODELS = 500
MOST = 5_000
"""So many rows a dataset of a figure may have: beyond them Altair itself warns of pages too large to open."""

LETTERS = 4_000
"""A finding that names each of hundreds of models would be longer."""


@pytest.fixture(scope="module")
def paper(tmp_path_factory):
    data = tmp_path_factory.mktemp("many") / "data"
    write_many(data, MODELS)
    return load(data, REFERENCES)


def shown(paper, kind):
    """What cells of the chapters show, by their code, of figures or of tables."""
    names = SHARED | {"data": paper, "show": SimpleNamespace(show=lambda content: content)}
    found = {call: eval(call, names) for call in calls() if f"{kind}." in call}
    return {call: content for call, content in found.items() if not isinstance(content, Missing)}


def test_no_figure_has_more_than_5000_rows(paper):
    sizes = {}
    for call, chart in shown(paper, "figures").items():
        specification = figure_data.specification(chart)
        sizes[call] = [len(rows) for rows in specification["datasets"].values()]
        assert "NaN" not in str(specification)
    assert len(sizes) > 25
    assert {call: max(rows) for call, rows in sizes.items() if max(rows, default=0) > MOST} == {}
    # Of 500 models at three batch sizes
    assert any(max(rows, default=0) > 200 for rows in sizes.values())


def test_figures_say_what_they_leave_out(paper):
    told = [str(chart.to_dict(validate=False)) for chart in shown(paper, "figures").values()]
    assert sum(f"Shown are {ROWS} of" in text for text in told) >= 7
    assert sum("one mark stands for them" in text for text in told) >= 3


def test_tables_of_models_stay_short(paper):
    long = []
    for call, table in shown(paper, "tables").items():
        check_no_gap(table)
        header = table.splitlines()[0][2:-2].split(" | ")
        if "Model" in header:
            rows = cells(table)
            models = {row[header.index("Model")] for row in rows}
            assert len(models) <= ROWS + 1, call
            assert len(rows) <= 2 * ALWAYS * 3, call  # on two devices at three batch sizes
            if any("more models" in model for model in models):
                long.append(call)
                assert "more models: data/" in next(model for model in models if "more models" in model)
    assert len(long) >= 8


def test_sentences_stay_short(paper):
    texts = told(paper, r"findings\.(?!cards)")  # a card a model, of as many as a page shows
    assert len(texts) > 50
    assert {text.code: len(text.text) for text in texts if len(text.text) > LETTERS} == {}


def test_sixty_machines_are_told_in_as_many_words_as_ten():
    few, many = (told(fleet(*[1 + k / 100 for k in range(count)])) for count in (10, 60))
    grown = {
        text.code: (len(before.text), len(text.text))
        for before, text in zip(few, many, strict=True)
        if len(text.text) > 1.5 * len(before.text)
    }
    # A row a machine, in the HTML edition alone
    assert list(grown) == ["show.show(tables.machines.fleets(data))"]
