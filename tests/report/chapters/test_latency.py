import re
from dataclasses import replace

import pytest
from helpers.elsewhere_papers import timed_elsewhere
from helpers.papers import empty, many, tiny
from helpers.places import ROOT

from report import facts
from report.chapters.latency import figures, tables
from report.chapters.latency.facts import DENSENET, _reference, equal_flop, of, timed_gpu, timed_here

CHAPTER = ROOT / "report" / "chapters" / "latency" / "latency.qmd"
FIGURES = (figures.here, figures.gpu, figures.ranks, figures.ranks_by_batch, figures.throughput, figures.equal)


def with_reference(paper):
    """Return the paper with a reference that needs no reading."""
    paper = replace(paper)
    paper.__dict__["reference"] = many()
    return paper


def on_cpu(paper):
    return replace(paper, machines=tuple(machine for machine in paper.machines if machine.chip_kind == "cpu"))


@pytest.fixture(scope="module")
def found():
    return facts.of_chapter("latency", with_reference(many()))


@pytest.fixture(scope="module")
def published():
    return of(with_reference(on_cpu(timed_elsewhere())))


def values(name, paper):
    return {key: value for key, value, _ in facts.entries(name, facts.of_chapter(name, with_reference(paper)))}


def test_the_ranking_at_the_smallest_batch_by_hand(found):
    # On the CPU of ``many`` model k takes 10 ms * 2^k and asks for 2^k GFLOP: time is in proportion to FLOP
    small = found.here.small
    assert (small.batch.number, small.networks.number) == (1, 8)
    assert small.flop.number == pytest.approx(1)
    assert (small.doubling.number, small.typical_factor.number) == pytest.approx((2, 1))
    assert found.here.fourfold.number == pytest.approx(4)
    # Parameters 8 1 7 2 6 3 5 4 against 1 to 8: squares 49 + 1 + 16 + 4 + 1 + 9 + 4 + 16 = 100
    assert small.parameters.number == pytest.approx(1 - 6 * 100 / (8 * 63))
    assert small.parameters.count == 8


def test_the_fastest_and_the_slowest_are_named(found):
    fastest, slowest = found.here.fastest, found.here.slowest
    assert (fastest.name, fastest.number) == ("a", pytest.approx(0.01))
    assert (slowest.name, slowest.number) == ("h", pytest.approx(1.28))


def test_the_ranking_at_the_largest_batch_by_hand(found):
    # At 16 without g, which ran out of memory: a takes 10 ms an input, b 20 / 2.04 = 9.8, and so on up to h with 320
    large = found.here.large
    assert (large.batch.number, large.networks.number) == (16, 7)
    assert large.flop.number == pytest.approx(1 - 6 * 2 / (7 * 48))


def test_a_gpu_of_ones_own_goes_before_a_published_one(found):
    # 1 ms * 2^(k/2) in all batches, but five times that for c and a fifth for f:
    # 1, 1.41, 10, 2.83, 4, 1.13, 8, 11.3: places 1 3 7 4 5 2 6 8, squares 0 + 1 + 16 + 0 + 0 + 16 + 1 + 0 = 34
    ranking = found.gpu.ranking
    assert (found.gpu.precision.text, ranking.batch.number) == ("fp32", 16)
    assert ranking.flop.number == pytest.approx(1 - 6 * 34 / (8 * 63))


def test_throughput_over_batch_sizes_by_hand(found):
    # Of the seven networks with all sizes, batch 4 doubles the rate of each; batch 16 has 2.04 times that of batch 1
    # for five, once for a and 4 times for h
    batching = found.batching
    assert (batching.first.number, batching.peak.number, batching.peak_over_first.count) == (1, 16, 7)
    assert batching.peak_over_first.number == pytest.approx(2.04)
    assert batching.last_over_first.number == pytest.approx(2.04)
    assert batching.last_over_peak.is_missing  # the peak is the last


def test_the_deadline_by_hand(found):
    # a has all sizes: 10 ms, 4 in 20 ms, 16 in 160 ms
    deadline = found.deadline
    assert (deadline.name.text, deadline.batch.number, deadline.best.number) == ("a", 16, 4)
    assert (deadline.rate.number, deadline.best_rate.number) == pytest.approx((100, 200))


def test_networks_of_equal_flop_by_hand(published):
    # Of the models with k + 1 GFLOP, 7.5 to 9.5 hold oak7 (47 % of 100 TFLOP/s: 170.2 µs) and oak8 (48 %: 187.5 µs)
    equal = published.equal
    assert (equal.gpu.text, equal.networks.number) == ("Bead 2", 2)
    assert (equal.fast.name.text, equal.slow.name.text) == ("oak7", "oak8")
    assert equal.spread.number == pytest.approx((9 / 0.48) / (8 / 0.47))
    assert equal.fast.measured.number == pytest.approx(8e9 / 0.47e14)
    assert equal.fast.arithmetic.number == pytest.approx(8e9 / 1e14)
    # fp16 halves the bytes: 10 MB + 7 * 1 MB of convolution and 8 * 0.7 MB of activation, for 8 inputs, at 1 TB/s
    assert equal.fast.traffic.number == pytest.approx((17e6 + 5.6e6) / 2 / 8)
    assert equal.fast.memory.number == pytest.approx((17e6 + 5.6e6) / 2 / 8 / 1e12)


def test_the_rule_on_the_published_gpu(published):
    # (k + 1) GFLOP at (40 + k) % of the peak rise with k among the oaks, and at (k - 2) % fall with k among the elms
    advice = published.advice
    assert (advice.families.number, advice.family_flop.number) == (2, pytest.approx((1 - 1) / 2))
    # FLOP take longer than bytes: places 1 to 12 agree, and 13 to 24 are turned round: 2 (11^2 + 9^2 + ... + 1)
    assert advice.longer.number == pytest.approx(1 - 6 * 572 / (24 * (24**2 - 1)))
    assert published.gpu.name.text == "Bead 2"


def test_parameters_mislead_where_the_larger_network_is_faster():
    # a stands for DenseNet-121 with 8 M parameters and 10 ms, b for AlexNet with 1 M and 20 ms
    timed = timed_here(many())
    renamed = timed.rows.assign(model=timed.rows.model.replace({"a": DENSENET, "b": "alexnet"}))
    reference = _reference(replace(timed, rows=renamed))
    assert reference.parameter_ratio.number == pytest.approx(1 / 8)
    assert reference.speed_ratio.number == pytest.approx(0.5)
    assert _reference(timed).speed_ratio.is_missing


def test_the_claims_hold_for_the_reference_data():
    from report.paper import load

    claims = of(load(ROOT / "data")).claims
    assert claims == {"parameters_mislead": True}


def one_network():
    cpu = many().machine("cpu")
    cells = cpu.cells[(cpu.cells.model == "a") & (cpu.cells.batch == 1)]
    return replace(many(), machines=(replace(cpu, cells=cells),))


@pytest.mark.parametrize("paper", [empty, one_network, tiny, timed_elsewhere, many], ids=lambda paper: paper.__name__)
def test_whatever_is_missing_no_fact_figure_or_table_fails(paper):
    made = paper()
    assert values("latency", made)
    for show in (*FIGURES, tables.predictors, tables.latencies):
        assert "cannot" not in show(made).markdown.replace("cannot be read", "")


def test_with_nothing_measured_values_are_missing_and_name_their_command():
    found = values("latency", empty())
    assert all(value.is_missing for key, value in found.items() if ".here." in key)
    assert "--sections inference" in found["latency.here.small.flop"].source.command
    for show in (figures.here, figures.ranks_by_batch, figures.throughput, tables.latencies):
        assert '.gap command="python -m measure' in show(empty()).markdown


def test_without_a_gpu_the_published_one_is_shown():
    cpu = on_cpu(timed_elsewhere())
    assert timed_gpu(cpu).name == "Bead 2"
    assert timed_gpu(many()).batches == (1, 4, 16)
    assert equal_flop(timed_gpu(cpu)).model.tolist() == ["timm:oak7", "timm:oak8"]


def test_every_value_in_the_text_is_a_fact():
    text = CHAPTER.read_text("utf-8")
    latency = of(with_reference(empty()))
    names = re.findall(r"`\{python\} ([^`]+)`", text)
    assert len(names) > 40
    for name in names:
        eval(name, {"latency": latency})  # raises for a name that is no fact
    claims = {claim for block in re.findall(r'claims="([^"]+)"', text) for claim in block.split()}
    assert claims == set(latency.claims)
