"""The chapter on the reader's machine, from the rules of the world: its processor is a reader's."""

from dataclasses import replace

import pytest
from helpers.world import nothing, numbers, world, wrong

from report.chapters.here.facts import of
from report.paper import REFERENCE

CPU = world().at_hand


def on(**changes):
    return replace(world(), machines=(replace(CPU, **changes),))


def test_facts_by_hand():
    expected = {
        "machine": "Example CPU, Example core, 2 cores",
        "roofs.peak": 100e9, "roofs.bandwidth": 10e9, "roofs.ridge": 10.0,
        # 125 GFLOP/s at batch size 8 are within the peak's interval
        "roofs.beaten": None,
        # At batch size 1 all ten networks, at 8 nine, at 64 six. By parameters, input and output broad has
        # 510 MFLOP / 100.5 MB = 5.1 FLOP/B, the others 22 (lean) and more. By the bytes between layers lean has
        # 100 / 20 = 5, broad 510 / 120 = 4.25; tokens 25, deep 80, MobileNet-v2 1,000 / 52.2 = 19, the rest more
        "bound.batch": 1, "bound.networks": 10, "bound.whole": 1, "bound.layers": 2, "names": "broad, lean",
        # deep has 5 GFLOP and takes 100 ms; DenseNet-121 has 8 and takes 80 (at most 82). That is 1.6 * 1.25 = 2.0,
        # as is at batch size 8 GoogLeNet (32 GFLOP, 512 ms) against deep (40, 320); the smaller batch size is told.
        # broad (510 MFLOP, 20 ms) against MobileNet-v2 (1 GFLOP, 10 ms) would be 3.9, but has no interval
        "pair.batch": 1, "pair.light": "deep", "pair.heavy": "DenseNet-121", "pair.flop": 1.6, "pair.time": 1.25,
        # lean: max(0.9, 1.0) + 0.5 + max(0.1, 0.5) = 2.0 of 4 ms; deep 51.1 of 100, GoogLeNet 42.0 of 80
        "shares.least": 0.5, "shares.least.name": "lean",
    }  # fmt: skip
    assert wrong("here", world(), expected) == {}


def test_a_peak_below_the_networks_is_told():
    low = {"peak_flop_per_s": 5e10, "peak_low_flop_per_s": 4e10, "peak_high_flop_per_s": 6e10}
    # The six reach 62.5 or 125 GFLOP/s at batch size 8, broad 85, deep 125, tokens 80 at 1; lean 50 at most
    assert wrong("here", on(roofs=CPU.roofs.assign(**low)), {"roofs.beaten": 9}) == {}


def test_the_batch_is_the_largest_of_those_with_most_networks():
    models = CPU.cells[CPU.cells.batch == 64].model
    paper = on(cells=CPU.cells[CPU.cells.model.isin(models)])
    # At batch size 64 the parameters are read once for 64 inputs, so as a whole no network is below 10 FLOP/B
    assert wrong("here", paper, {"bound.batch": 64, "bound.networks": 6, "bound.whole": 0}) == {}
    found = of(paper)
    assert (found.has_several, found.some_whole, found.some_layers) == (True, False, found.bound.layers.number > 0)


def test_one_network_is_both_extremes():
    found = of(on(cells=CPU.cells[(CPU.cells.model == "lean") & (CPU.cells.batch == 1)]))
    assert (found.has_several, found.shares.least.number) == (False, 0.5)


def test_a_pair_needs_intervals_that_do_not_meet():
    cells = CPU.cells.assign(latency_high_s=CPU.cells.latency_high_s.where(CPU.cells.model != "densenet121", 0.2))
    expected = {"pair.batch": 8, "pair.light": "GoogLeNet", "pair.heavy": "deep", "pair.flop": 1.25, "pair.time": 1.6}
    assert wrong("here", on(cells=cells), expected) == {}


def test_loaded_cells_are_no_surprise():
    loaded = CPU.cells.assign(flags=CPU.cells["flags"].where(CPU.cells.model != "deep", "loaded"))
    found = numbers("here", on(cells=loaded))
    assert (found["bound.networks"], found["pair.light"], found["pair.time"]) == (10, None, None)


def test_without_a_roof_only_networks_are_counted():
    expected = {"roofs.peak": None, "bound.networks": 10, "bound.layers": None, "names": None}
    assert wrong("here", on(roofs=CPU.roofs[:0]), expected) == {}
    expected = {"roofs.peak": 100e9, "bound.batch": None, "shares.least": None}
    assert wrong("here", on(cells=CPU.cells[:0]), expected) == {}


@pytest.mark.parametrize("paper", [nothing(), on(folder=REFERENCE)])
def test_our_own_paper_has_no_such_chapter(paper):
    found = numbers("here", paper)
    assert all(value is None for key, value in found.items() if not key.endswith(".name"))
