import gc

import pytest

from report import without_garbage_search


@pytest.mark.parametrize("searched", [True, False])
def test_the_search_for_garbage_pauses_and_is_on_or_off_as_it_was(searched):
    before = gc.get_threshold()
    gc.set_threshold(700)
    (gc.enable if searched else gc.disable)()
    try:
        with without_garbage_search():
            assert not gc.isenabled()
        assert gc.isenabled() == searched
        assert gc.get_threshold()[0] > 700
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*before)
