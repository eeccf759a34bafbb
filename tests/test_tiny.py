"""The example's numbers are the instrument's."""

import ast
import sys

import pytest
import torchvision
from helpers.places import ROOT

from examples import tiny
from measure.counting.count import count
from measure.models import catalog
from measure.roofs.roofs import flop_and_byte
from measure.timing.sampling import Sampling


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_flop_parameters_and_bytes_are_the_counters(name):
    found = tiny.count(torchvision.models.get_model(name), (4, 3, 224, 224))
    (model,) = catalog.find([name])
    expected = count(model, 4).workload
    assert found == (expected.forward_flop, expected.parameter_count, expected.footprint_byte)


def test_a_product_and_a_triad_have_the_kernels_flop_and_bytes():
    # 2 * 64^3 FLOP; 3 arrays of 1000 elements of 4 B
    assert tiny.matrix_product(64)[1] == flop_and_byte("matmul", "fp32", 64)[0] == 524_288
    assert tiny.triad(1000)[1] == flop_and_byte("stream_triad", "fp32", 12_000)[1] == 12_000


def test_a_latency_is_the_median_of_the_rounds_medians():
    assert tiny.latency([[1.0, 2.0, 9.0], [3.0, 4.0, 5.0], [8.0, 6.0, 7.0]]) == 4.0  # of 2, 4 and 7


@pytest.mark.parametrize(
    ("blocks", "is_flat"),
    [([1.0] * 5, False), ([1.0] * 6, True), ([9.0] * 3 + [1.0] * 3, False), ([1.02] * 3 + [1.0] * 3, True)],
)
def test_warm_up_ends_by_the_instruments_settings(blocks, is_flat):
    usual = Sampling()
    own = (tiny.BLOCK_S, tiny.TARGET, tiny.TREND, tiny.WARM_UP_S)
    assert own == (usual.block_s, usual.target, usual.trend, usual.warm_up_s)
    assert tiny.is_flat(blocks) == is_flat


def test_it_draws_a_roofline_and_imports_nothing_of_the_project(tmp_path, monkeypatch, capsys):
    out = tmp_path / "roofline.svg"
    words = ["tiny.py", "--models", "mobilenet_v2", "--rounds", "1", "--seconds", "0.05", "--out", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(tiny, "WARM_UP_S", 0.1)
    tiny.main()
    assert "mobilenet_v2: 0.60 GFLOP" in capsys.readouterr().out  # torchvision publishes 0.30 GMAC
    assert out.read_text().startswith("<svg")
    nodes = ast.walk(ast.parse((ROOT / "examples" / "tiny.py").read_text("utf-8")))
    imported = {node.module.partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom)}
    assert not imported & {"measure", "report"}
