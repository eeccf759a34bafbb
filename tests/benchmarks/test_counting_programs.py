"""The benchmark of counting programs on torchvision's networks, on one of them."""

import logging
from dataclasses import replace

import counting_programs as benchmark
import pytest

torch = pytest.importorskip("torch", reason="networks are counted")
pytest.importorskip("torchvision", reason="its networks are counted")


def test_one_network_and_its_scores(capsys):
    before, silent = torch.backends.mha.get_fastpath_enabled(), logging.root.manager.disable
    try:
        (row,) = benchmark.results_of("roofwright", "squeezenet1_1")
    finally:  # the benchmark has a process of its own, and leaves both off
        torch.backends.mha.set_fastpath_enabled(before)
        logging.disable(silent)
    # torchvision publishes 0.349 GMAC and 1,235,496 parameters
    assert (row.program, row.status, row.parameter_count) == ("roofwright", "ok", 1_235_496)
    assert row.forward_mac == pytest.approx(349e6, abs=0.5e6)
    benchmark.show_scores([row, replace(row, program="fvcore")])
    assert "1 of 1, all" in capsys.readouterr().out
