import pandas as pd
import pytest

from measure.domain.values import SPACE
from report.analysis.long_lists import ALWAYS, ROWS, evenly, left_out, listed


def test_of_more_than_there_is_room_for_the_ends_and_some_evenly_from_between():
    sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert evenly(sizes, 9) == sizes
    assert evenly(sizes, 3) == [1, 16, 256]
    assert evenly(sizes, 5) == [1, 4, 16, 64, 256]


@pytest.mark.parametrize("count", [61, 62, 90, 119, 120, 121, 2000])
def test_none_is_shown_twice(count):
    shown = evenly(range(count))
    assert (len(set(shown)), shown[0], shown[-1]) == (ROWS, 0, count - 1)
    assert shown == sorted(shown)


def test_what_is_left_out_is_said():
    assert left_out([1, 2], [1, 2]) == ""
    assert left_out([1, 4], [1, 2, 3, 4]).replace(SPACE, " ") == (
        "Shown are 2 of 4 models: the first, the last and some evenly from between."
    )


def rows_of(count, cells=1):
    models = [f"m{number:04}" for number in range(count) for _ in range(cells)]
    return pd.DataFrame({"model": models, "value": [float(-number // cells) for number in range(count * cells)]})


def test_a_table_of_few_models_lists_them_all():
    for rows in (rows_of(ROWS), rows_of(ALWAYS, cells=50)):
        shown, left = listed(rows, "value")
        assert shown.equals(rows)
        assert left == 0


@pytest.mark.parametrize(
    # With two rows a model, 60 rows are those of 30 models; of three, fewer than are always listed
    ("cells", "models"),
    [(1, 60), (2, 30), (3, 24)],
)
def test_a_table_of_many_models_lists_so_many_rows(cells, models):
    shown, left = listed(rows_of(100, cells), "value")
    assert (shown.model.nunique(), left) == (models, 100 - models)
    assert len(shown) == models * cells
    assert {"m0000", "m0099"} <= set(shown.model)


def test_models_without_a_value_are_listed_too():
    rows = rows_of(100)
    rows.loc[0, "value"] = float("nan")  # the last in order
    shown, left = listed(rows, "value")
    assert (shown.model.iloc[0], len(shown), left) == ("m0000", 60, 40)
