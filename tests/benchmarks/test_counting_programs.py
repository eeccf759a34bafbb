"""The benchmark of counting programs on torchvision's networks, on one of them."""

import logging

import counting_programs as benchmark
import pytest

torch = pytest.importorskip("torch", reason="networks are counted")
pytest.importorskip("torchvision", reason="its networks are counted")


@pytest.fixture(autouse=True)
def settings():
    """The benchmark has a process of its own, and leaves attention's fast path and warnings in logs off."""
    before, silent = torch.backends.mha.get_fastpath_enabled(), logging.root.manager.disable
    yield
    torch.backends.mha.set_fastpath_enabled(before)
    logging.disable(silent)


def test_one_network_and_its_scores(capsys):
    (row,) = benchmark.results_of("roofwright", "squeezenet1_1")
    # torchvision publishes 0.349 GMAC and 1,235,496 parameters
    assert (row.program, row.status, row.parameter_count) == ("roofwright", "ok", 1_235_496)
    assert row.forward_mac == pytest.approx(349e6, abs=0.5e6)
    benchmark.show_scores([row, *benchmark.results_of("fvcore", "squeezenet1_1")])
    assert "1 of 1, all" in capsys.readouterr().out
