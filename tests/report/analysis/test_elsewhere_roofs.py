import pytest
from helpers.elsewhere_papers import timed_elsewhere
from helpers.papers import empty

from report.analysis import elsewhere_roofs
from report.analysis.available import DataMissingError


def test_streams():
    found = {(row.device, row.stream): row.share for row in elsewhere_roofs.streams(timed_elsewhere()).itertuples()}
    # Of 1 and 20 TB/s, by the fastest number of threads; a stencil is no stream
    assert found == {("Bead 2", "read"): 0.9, ("Bead 2", "triad"): 0.8, ("Cog 3", "write"): 0.75}


def test_products():
    found = {row.device: row.share for row in elsewhere_roofs.products(timed_elsewhere()).itertuples()}
    assert found == {"Bead 2": 0.9, "Cog 3": 0.5}  # of 100 and 200 TFLOP/s


def test_levels():
    assert set(elsewhere_roofs.levels(timed_elsewhere()).byte_per_s) == {1e13, 0.9e12}  # of gpu-cache alone


@pytest.mark.parametrize("wanted", [elsewhere_roofs.streams, elsewhere_roofs.products, elsewhere_roofs.levels])
def test_without_a_table_it_is_said_what_restores_it(wanted):
    with pytest.raises(DataMissingError, match="restore"):
        wanted(empty())
