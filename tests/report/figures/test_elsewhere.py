"""What the figures of others' measurements show of those in helpers.elsewhere_papers."""

from helpers.charts import drawn, rows, titles
from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.figures import elsewhere, elsewhere_pairs, elsewhere_predictors, elsewhere_roofs, elsewhere_shares


def test_on_roofs():
    chart = drawn(elsewhere.on_roofs, timed_elsewhere())
    assert [plain(title) for title in titles(chart)] == ["Bead 2, fp16", "Cog 3, fp16"]
    marks = rows(chart, "models", "achieved")
    assert sum(row["models"] for row in marks) == 24 + 4 + 24  # each model is in one place of its panel
    assert len(marks) < 24 + 4 + 24


def test_changes_and_generations():
    found = {row["name"]: row for row in rows(drawn(elsewhere_pairs.changes, timed_elsewhere()), "median")}
    assert found["torch.compile, Bead 2, inference at fp16"]["median"] == 1.75
    chart = drawn(elsewhere_pairs.generations, timed_elsewhere())
    (promised,) = rows(chart, "promised")
    assert round(promised["promised"], 6) == 2


def test_shares():
    found = {
        row["name"]: row["median"] for row in rows(drawn(elsewhere_shares.by_family, timed_elsewhere()), "quarter")
    }
    assert found == {"oak": 0.91, "elm": 0.2225}
    panels = drawn(elsewhere_shares.by_size, timed_elsewhere())
    assert {plain(title) for title in titles(panels)} == {"Bead 2, fp16", "Cog 3, fp16"}


def test_predictors():
    found = {
        (row["name"], row["predictor"]): row["value"]
        for row in rows(drawn(elsewhere_predictors.matrix, timed_elsewhere()), "told")
    }
    assert found["Bead 2, fp16", "our latency"] == 0.8


def test_roofs():
    chart = drawn(elsewhere_roofs.delivered, timed_elsewhere())
    assert {row["name"]: row["share"] for row in rows(chart, "precision", "share")} == {"Bead 2": 0.9, "Cog 3": 0.5}
    assert len(rows(chart, "stream", "share")) == 3
    assert len(rows(drawn(elsewhere_roofs.levels, timed_elsewhere()), "set")) == 2
