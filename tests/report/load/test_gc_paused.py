import gc

import pytest

from report.load.gc_paused import unsearched


def test_the_search_is_off_within_and_on_again():
    before = gc.get_freeze_count()
    with unsearched():
        assert not gc.isenabled()
        records = [[number] for number in range(1000)]
    assert gc.isenabled()
    # the thousand records at least are left out from now on
    assert gc.get_freeze_count() >= before + len(records)
    gc.unfreeze()


def test_an_error_ends_it_too():
    with pytest.raises(ValueError, match="x"), unsearched():
        raise ValueError("x")
    assert gc.isenabled()
    gc.unfreeze()


def test_where_it_was_off_it_stays_off():
    gc.disable()
    try:
        with unsearched():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
