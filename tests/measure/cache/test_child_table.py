import pytest
from helpers.rows import run, samples

from measure.cache.records import ROUND, Sample
from measure.cache.table import ChildTable, append


@pytest.fixture
def parts(tmp_path):
    return ChildTable(tmp_path / "samples.csv", Sample, ROUND)


def test_the_parts_of_the_rows_that_are_asked_for(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    assert parts.of([run("b")]) == samples(1, "b")
    assert parts.of([run("a"), run("b")]) == samples(2, "a") + samples(1, "b")
    assert parts.of([]) == []


def test_new_parts_stand_where_the_old_ones_stood(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    parts.put([(run("c"), samples(1, "c")), (run("a"), samples(1, "a"))])
    assert [row.model for row in parts.of([run("a"), run("b"), run("c")])] == ["a", "b", "c"]


def test_parts_come_back_after_there_were_none(parts):
    for own in (samples(2), [], samples(3)):
        parts.put([(run(), own)])
        assert parts.of([run()]) == own


def test_what_stands_in_two_places_is_replaced_in_both(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    append(parts.path, Sample, samples(2, "a"))  # as two folders that were joined by hand
    parts.put([(run("a"), samples(1, "a"))])
    assert parts.of([run("a"), run("b")]) == samples(1, "a") + samples(1, "b")
