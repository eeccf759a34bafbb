"""The chapter on latency, from the rules of the world (tests/data/world/README.md)."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers.places import ROOT as PROJECT
from helpers.world import CPU, GPU, mutated, nothing, rows_of, world, wrong
from scipy.stats import spearmanr

from report import display
from report.chapters.latency import facts, figures, tables
from report.chapters.latency import timed as module
from report.chapters.latency.timed import (
    Timed,
    _of_machine,
    equal_flop,
    has_intervals,
    timed_elsewhere,
    timed_gpu,
    timed_here,
)
from report.charts.drawing import picture
from report.charts.panels import specified
from report.figure_files import as_csv
from report.stats.value import Source

# lean, broad, tokens, deep and the six: GFLOP and parameters (M), and ms at batch size 1; ms an input at 64
FLOP = np.array([0.1, 0.51, 4, 5, 1, 2, 4, 8, 16, 32])
PARAMETERS = np.array([1, 25, 20, 10, 8, 1, 7, 2, 6, 3])
SMALL = np.array([4, 20, 50, 100, 10, 20, 80, 80, 160, 640])
LARGE = np.array([20, 40, 160, 160, 320, 1280])
# The 24 networks with k + 1 GFLOP at 40 + k % of 100 TFLOP/s (oaks) or 2 k - 3 %; then ash0 to 3 and the twins, in µs
TIMED_FLOP = np.array([*range(1, 25), 8.1, 8.2, 8.3, 8.4, 0.6, 3.6, 8.2])
TIMED = np.array(
    [*((k + 1) / (40 + k if k < 12 else 2 * k - 3) * 1e3 for k in range(24)), 172, 176, 174, 180, 80, 60, 178]
)
# Their MB an input at fp32: the products' for the first of 8 inputs and for each further one, and the other layers'
TIMED_BYTE = np.array([
    *(17 / 8 + 0.1 * k if k != 12 else 1.7 / 8 + 9 for k in range(24)),
    17 / 8 + 17, 17 / 8 + 17, 17 / 8 + 17, 17 / 8 + 18, 6.8 / 8 + 16, 15.3 / 8 + 6, 17 / 8 + 17,
])  # fmt: skip
# Their layer-by-layer bounds, in µs: 10 for each GFLOP of the products, whose bytes take less, then the bytes of other
# layers at fp16 and 1 TB/s
TIMED_BOUND = (
    10 * TIMED_FLOP + np.array([*(0.1 * k if k != 12 else 9 for k in range(24)), 17, 17, 17, 18, 16, 6, 17]) / 2
)
# Lean, deep and the six in ms with one input, and the six an input in batches of 8 and 64, on the CPU and on the GPU
ROOT = 2 ** (np.arange(6) / 2)
ONE = np.array([4, 100, *SMALL[4:]]), np.array([1, 1, *ROOT])
EIGHT, MANY = (0.8 * SMALL[4:], ROOT / 2), (LARGE, 20 * ROOT / 64)


CHAPTER = (PROJECT / "report" / "chapters" / "latency" / "latency.qmd").read_text("utf-8")


def rho(x, y):
    return spearmanr(x, y).statistic


def trend(x, y):
    """The factor of y for twice the x, and the typical factor off the line, of numpy's least squares."""
    slope, middle = np.polyfit(np.log(x), np.log(y), 1)
    return 2**slope, np.median(np.exp(abs(np.log(y) - middle - slope * np.log(x))))


def test_facts_by_hand():
    doubling, factor = trend(FLOP, SMALL)
    large_doubling, large_factor = trend(FLOP[4:], LARGE)
    expected = {
        "here.first": 1, "here.last": 64,
        "here.fastest": 0.004, "here.fastest.name": "lean", "here.slowest": 0.64, "here.slowest.name": "ResNet-50",
        "here.small.networks": 10, "here.small.flop": rho(FLOP, SMALL),
        "here.small.parameters": rho(PARAMETERS, SMALL), "here.small.doubling": doubling,
        "here.small.typical_factor": factor, "here.fourfold": doubling**2,
        "here.large.networks": 6, "here.large.flop": rho(FLOP[4:], LARGE),
        "here.large.parameters": rho(PARAMETERS[4:], LARGE), "here.large.doubling": large_doubling,
        "here.large.typical_factor": large_factor,
        # On the GPU network k takes 20 ms * 2^(k/2) at 64; FLOP and the bound have that order
        "gpu.name": "Bead 2", "gpu.ranking.flop": 1,
        "gpu.ranking.parameters": rho(PARAMETERS[4:], range(6)), "gpu.ranking.layers": 1,
        "gpu.ranking.doubling": 2**0.5, "gpu.ranking.typical_factor": 1,
        # Lean and deep take 1 ms at 1 there, the six 2^(k/2) ms
        "gpu.small": rho([0.1, 5, *FLOP[4:]], ONE[1]),
        # 64 inputs take 20 times as long as one
        "gpu.batching.first": 1, "gpu.batching.last": 64, "gpu.batching.networks": 6, "gpu.batching.least": 64 / 20,
        "gpu.batching.most": 64 / 20,
        "both.batch": 1, "both.least": 4, "both.least.name": "lean", "both.most": 640 / ROOT[5],
        "both.most.name": "ResNet-50",
        # Eight networks ran on both, fewer than enough, but no other processor shares more
        "orders.processor": "Example CPU, Example core, 2 cores", "orders.gpu": "Bead 2",
        "orders.small.batch": 1, "orders.small.networks": 8, "orders.small.rho": rho(*ONE),
        "orders.middle.batch": 8, "orders.middle.networks": 6, "orders.middle.rho": rho(*EIGHT),
        # An input of the six takes 0.8 of the time at 8, of lean, broad and deep less; of the six twice the time at 64
        "batching.first": 1, "batching.peak": 8, "batching.last": 64, "batching.peak_over_first": 1 / 0.8,
        "batching.peak_networks": 9, "batching.last_over_peak": 0.8 / 2, "batching.last_networks": 6,
        # Within 7.5 and 9.5 GFLOP lie oak7, oak8, the ashes and ResNet-50. oak7 takes 8 / 0.47 = 170 µs and is first,
        # oak8 9 / 0.48 = 187.5 µs and is last
        "equal.gpu": "Bead 2", "equal.networks": 7, "equal.fast.name": "oak7", "equal.slow.name": "oak8",
        "equal.spread": (9 / 0.48) / (8 / 0.47), "equal.peak": 1e14, "equal.bandwidth": 1e12,
        "equal.fast.flop": 8e9, "equal.fast.arithmetic": 8e9 / 1e14, "equal.fast.measured": 8e9 / 0.47e14,
        # fp16 halves the bytes: 10 MB + 7 * 1 MB of convolution and 8 * 0.7 MB of activation, for 8 inputs
        "equal.fast.traffic": (17e6 + 5.6e6) / 2 / 8, "equal.fast.memory": (17e6 + 5.6e6) / 2 / 8 / 1e12,
        "equal.slow.flop": 9e9, "equal.slow.measured": 9e9 / 0.48e14,
        "equal.flop": rho([8, 9, 8.1, 8.2, 8.3, 8.4, 8.2], [170.2, 187.5, 172, 176, 174, 180, 178]),
        # Oaks get slower with k; elms quicker, as (k + 1) / (2 k - 3) falls
        "advice.families": 2, "advice.family_flop": np.mean([1, -1]),
        # Oaks move more bytes with k. So do elms, which get quicker, but elm12: it moves most and is slowest. Ranks
        # differ by 2 i - 12 for i = 1 to 11: rho is 1 - 6 * 440 / (12 * 143). Seven others are no family
        "advice.family_bytes": np.mean([1, 1 - 6 * 440 / (12 * 143)]),
        "advice.networks": 31, "advice.flop": rho(TIMED_FLOP, TIMED), "advice.bytes": rho(TIMED_BYTE, TIMED),
        "advice.bound": rho(TIMED_BOUND, TIMED),
        "exception": None,  # on both devices FLOP and the bound order the six alike
        # ResNet-18 takes 8 * 20 ms * 0.8 at 8 and 64 * 40 ms, more than a second, at 64
        "deadline.name": "ResNet-18", "deadline.batch": 8, "deadline.rate": 62.5, "deadline.best": 8,
        "deadline.best_rate": 62.5,
        # AlexNet has 6 M parameters and takes 160 ms, DenseNet-121 2 M and 80 ms
        "reference.parameter_ratio": 3, "reference.speed_ratio": 0.5,
    }  # fmt: skip
    assert wrong("latency", world(), expected) == {}


def test_ones_own_gpu_goes_before_a_published_one():
    assert timed_gpu(world()).batches == (1, 8, 64)
    alone = world(chosen=(CPU,))
    assert timed_gpu(alone) is None
    own, of_cpu, of_gpu = map(facts.of, (world(), alone, world(chosen=(GPU,))))
    assert (own.own_gpu, own.gpu_fp32, own.gpu.name.text) == (True, True, "Bead 2")
    assert (of_cpu.own_gpu, of_cpu.gpu_fp32, of_cpu.gpu.name.text) == (False, False, None)
    assert (of_gpu.own_gpu, of_gpu.gpu_fp32, of_gpu.gpu.name.text) == (False, True, None)
    assert (timed_elsewhere(alone).name, timed_elsewhere(alone).precision) == ("Bead 2", "fp16")
    equal = equal_flop(timed_elsewhere(alone))
    assert equal.name.tolist() == ["oak7", "ash0", "ash2", "ash1", "ResNet-50", "ash3", "oak8"]


def timed(kind, *times, flop=None, bound=None, width=None):
    """Return networks timed at batch sizes 1, 8 and 64: for each size, the times of an input by network."""
    rows = [
        {
            "model": f"n{at}", "name": f"N{at}", "label": f"N{at}", "input_shape": "3", "batch": batch,
            "input_s": time, "latency_s": batch * time, "throughput_per_s": 1 / time,
            "low_s": batch * time * (1 - width) if width else np.nan,
            "high_s": batch * time * (1 + width) if width else np.nan,
            "flop": (flop or times[0])[at], "layers_s": (bound or times[0])[at], "parameters": 1.0 + at * 3 % 7,
            "activation_byte": 1.0 + at * 5 % 7, "traffic_byte": 1.0 + at * 2 % 7,
        }
        for batch, found in zip((1, 8, 64), times, strict=False) for at, time in enumerate(found)
    ]  # fmt: skip
    batches = (1, 8, 64)[: len(times)]
    return Timed(f"A {kind}", kind, "fp32", pd.DataFrame(rows), Source("t"), batches)


UP, MIXED = [*range(1, 13)], [7, 2, 11, 4, 9, 1, 12, 3, 8, 5, 10, 6]
"""Two orders of twelve networks; their rank correlation is 0.05."""


def test_single_inputs_may_be_ordered_otherwise_than_batches():
    def is_apart(*of_gpu):
        return facts._is_single_apart(facts._orders(timed("CPU", UP, UP, UP), timed("GPU", *of_gpu)))

    assert is_apart(MIXED, UP, UP)
    assert not is_apart(UP, UP, UP)
    assert not is_apart(MIXED, MIXED, MIXED)  # batches as well
    assert not is_apart(MIXED)  # no batches
    orders = facts._orders(timed("CPU", UP, UP), timed("GPU", UP))
    assert (orders.small.batch.number, orders.middle.rho.number) == (1, None)


def test_orders_of_few_networks_are_those_of_a_processor_with_more(monkeypatch):
    """A reader's processor shares eleven networks with the GPU, another one twelve."""
    own, other, gpu = (timed(kind, UP[:count]) for kind, count in (("own", 11), ("other", 12), ("GPU", 12)))
    monkeypatch.setattr(module, "_of_machine", lambda _machine: other)
    monkeypatch.setattr(module, "timed_gpu", lambda _paper: gpu)
    monkeypatch.setattr(module, "timed_here", lambda _paper: own)
    assert module.ranked_devices.__wrapped__(world()) == [other, gpu]
    monkeypatch.setattr(module, "timed_here", lambda _paper: gpu)  # twelve are enough
    assert module.ranked_devices.__wrapped__(world()) == [gpu, gpu]
    monkeypatch.setattr(module, "timed_gpu", lambda _paper: None)
    assert module.ranked_devices.__wrapped__(world()) == [gpu]


def test_few_networks_do_not_tell_which_count_predicts_better():
    """FLOP and the bound have the same order; then only one of them has that of the times."""
    assert facts.lead(timed("CPU", UP, flop=UP, bound=UP).rows) == (0, 0)
    low, high = facts.lead(timed("CPU", UP, flop=MIXED, bound=UP).rows)
    assert 0 < low < 1 - rho(UP, MIXED) < high
    assert facts.lead(timed("CPU", UP[:5], flop=UP[:5], bound=UP[:5]).rows) == (None, None)
    assert facts.of(world()).too_few


def test_flop_are_enough_where_they_rank_no_worse_than_bytes():
    cpu = timed("CPU", UP, UP)
    assert facts._is_flop_enough(cpu)  # bytes have the order of 1 + (2 k mod 7)
    rows = cpu.rows
    assert not facts._is_flop_enough(replace(cpu, rows=rows.assign(flop=rows.traffic_byte, traffic_byte=rows.flop)))


def test_a_device_whose_batches_flop_rank_better_than_the_bound_is_an_exception_to_the_rule():
    def exception(*found):
        return facts._exception(*found).text

    good = timed("CPU", MIXED, UP, flop=MIXED, bound=UP)
    assert facts.of(world()).gpu_bound
    assert exception(good, None) is None
    assert exception(good, timed("GPU", UP, UP, flop=UP, bound=MIXED)) == "A GPU"
    assert exception(timed("CPU", UP, MIXED, flop=UP, bound=MIXED)) is None  # the smallest batch alone


def test_an_interval_is_claimed_where_one_is_drawn():
    assert has_intervals(timed("CPU", UP, width=0.1))
    assert not has_intervals(timed("CPU", UP))
    assert not has_intervals(None)
    cpu = world().machine("cpu")
    assert has_intervals(_of_machine(cpu))
    assert not has_intervals(_of_machine(replace(cpu, cells=cpu.cells.assign(rounds=2))))
    assert facts.of(world()).has_intervals
    caption = next(line for line in CHAPTER.splitlines() if line.startswith("#| fig-cap") and "Latency of one" in line)
    assert 'intervals, where a cell has one.]{.content-visible when-meta=\\"latency.has_intervals\\"}' in caption


def test_figures_show_the_facts():
    alone = world(chosen=(CPU,))  # the GPU would add a panel
    times = {row[:2]: row[2] for row in rows_of(figures.here.__wrapped__(alone), "name", "batch", "latency_s")}
    assert {times["ResNet-18", batch] for batch in (1, 8, 64)} == {0.02, 0.128, 2.56}
    rates = {row[:2]: row[2] for row in rows_of(figures.throughput.__wrapped__(alone), "name", "batch", "rate")}
    assert [rates["ResNet-18", batch] for batch in (1, 8, 64)] == pytest.approx([1 / 0.02, 1 / 0.016, 1 / 0.04])
    spans = {row[0]: row[1:] for row in rows_of(figures.equal.__wrapped__(world()), "name", "traffic_byte", "input_s")}
    assert spans["oak7"] == pytest.approx((1_412_500, 8e9 / 0.47e14), rel=1e-5)
    rows = {row[:2]: row[2] for row in rows_of(figures.ranks.__wrapped__(world()), "first", "second", "rho")}
    assert rows["CPU, batch 1", "FLOP"] == pytest.approx(rho(FLOP, SMALL), abs=1e-6)
    assert rows["CPU, batch 1", "GPU, batch 1"] == pytest.approx(rho(*ONE), abs=1e-6)
    assert rows["CPU, batch 64", "GPU, batch 64"] == pytest.approx(rho(*MANY), abs=1e-6)
    assert rows["CPU, batch 64", "GPU, batch 1"] == pytest.approx(rho(LARGE, ROOT), abs=1e-6)


def cells(table):
    return [
        [cell.strip().replace("\\", "").replace("\xa0", " ") for cell in line.strip("|").split("|")]
        for line in table.splitlines()
    ]


def test_a_table_has_counts_latencies_and_the_best_throughput_by_device():
    head, _, *rows = cells(tables.latencies.__wrapped__(world()))
    sizes = [[f"{kind}, batch 1", f"{kind}, batch 8", f"{kind}, batch 64"] for kind in ("CPU", "GPU")]
    best = [[f"{kind}, best", "at batch"] for kind in ("CPU", "GPU")]
    assert head == ["Network", "FLOP", "Parameters", *sizes[0], *best[0], *sizes[1], *best[1]]
    (row,) = [row for row in rows if row[0] == "ResNet-18"]  # 20 ms, 128 ms, 2.56 s, as in its figure; k = 1
    assert [cell.split()[0] for cell in row[3:6]] == ["20.0", "128", "2.56"]
    assert row[6:8] == ["62.5 /s", "8"]  # 8 / 128 ms
    # 2^(1/2), 4 and 20 times as many ms, to the digits of their intervals
    assert [float(cell.split()[0]) for cell in row[8:11]] == pytest.approx([1.41, 5.66, 28.3], abs=0.05)
    assert row[12] == "64"


def test_the_short_table_has_networks_of_both_devices():
    """All are fastest at 8 on the processor, and at 64 on the GPU but lean and deep: they ran there with one input."""
    head, _, *rows = cells(tables.networks.__wrapped__(world()))
    small = ["batch 8", "batch 64"]
    assert head == ["Network", "FLOP", "CPU, batch 1", *small, "GPU, batch 1", *small, "GPU, best", "at batch"]
    assert len(rows) == 8
    (row,) = [row for row in rows if row[0] == "ResNet-18"]
    assert row[2:5] == ["20.0 ms", "62.5 /s", "25.0 /s"]
    assert [row[0] for row in rows if row[-1] == "1"] == ["lean", "deep"]


def test_timings_without_counts_are_left_out(tmp_path):
    changes = {"workload/models.csv": lambda row: None if row["batch"] == "64" else row}
    paper = world(mutated(tmp_path / "data", changes))
    assert timed_here(paper).batches == (1, 8)
    for show in (figures.here, figures.ranks, tables.latencies):
        show.__wrapped__(paper)


def test_times_meet_counts_and_bounds_at_their_own_batch_size():
    """The bound of the processor orders its batches of 8 as time does, and single inputs the other way round."""
    cpu, down = timed("CPU", UP, UP, UP), UP[::-1]
    bounds = cpu.rows.batch.map({1: -1.0, 8: 1.0, 64: 1.0}) * cpu.rows.input_s + 100
    cpu = replace(cpu, rows=cpu.rows.assign(layers_s=bounds))
    rows = figures.correlations([cpu, timed("GPU", UP, down, UP)]).set_index(["first", "second"]).rho
    assert rows["CPU, batch 1", "bound, CPU"] == rows["GPU, batch 1", "bound, CPU"] == pytest.approx(-1)
    assert rows["CPU, batch 8", "bound, CPU"] == rows["FLOP", "bound, CPU"] == pytest.approx(1)  # 8 is the middle
    assert rows["CPU, batch 8", "GPU, batch 8"] == rows["CPU, batch 64", "GPU, batch 8"] == pytest.approx(-1)


def titles(chart):
    return [panel["title"] for panel in specified(chart)["concat"]]


def test_a_matrix_that_is_mostly_white_is_not_drawn(monkeypatch):
    """Of seven networks no order is certain; the published GPU's matrix stands alone, or none."""
    monkeypatch.setattr(figures, "ranked_devices", lambda _paper: [timed("CPU", MIXED[:7], UP[:7])])
    monkeypatch.setattr(figures, "timed_gpu", lambda _paper: None)
    alike = dict.fromkeys(("parameters", "activation_byte", "traffic_byte"), UP)
    gpu = timed("GPU", UP)
    monkeypatch.setattr(figures, "timed_elsewhere", lambda _paper: replace(gpu, rows=gpu.rows.assign(**alike)))
    assert titles(figures.ranks.__wrapped__(world())) == [["A GPU, fp32: 12 networks"]]
    monkeypatch.setattr(figures, "timed_elsewhere", lambda _paper: None)
    with pytest.raises(display.Missing):
        figures.ranks.__wrapped__(world())


def test_a_matrix_prints_its_coefficients():
    rows = pd.DataFrame([
        {"first": "FLOP", "second": "latency", "rho": 0.974, "pale": False},
        {"first": "bytes", "second": "latency", "rho": -0.5, "pale": True},
    ])  # fmt: skip
    made = specified(figures.matrix(rows, []))
    texts = re.findall(r">([^<]+)</text>", picture(made))
    assert {"0.97", "−0.50", "FLOP", "bytes", "latency"} <= set(texts)
    assert texts.count("latency") == 1  # it is correlated with both others: a row, no column
    assert as_csv(made).splitlines()[1:] == ["FLOP,latency,0.974,false", "bytes,latency,-0.5,true"]


def test_each_line_of_throughput_has_a_look_of_its_own():
    made = specified(figures.throughput.__wrapped__(world()))
    for panel in made["concat"]:
        (looks,) = (layer["encoding"] for layer in panel["layer"] if layer["mark"]["type"] == "point")
        colors, shapes = (looks[channel]["scale"] for channel in ("color", "shape"))
        assert colors["domain"] == shapes["domain"]
        assert {"MobileNet-v2", "ResNet-18"} < set(colors["domain"])
        assert len(set(colors["range"])) == len(set(shapes["range"])) == figures.LINES


def test_a_published_gpu_is_the_second_row_without_a_gpu_of_ones_own():
    made = specified(figures.here.__wrapped__(world(chosen=(CPU,))))
    assert [panel.get("title") for panel in made["concat"]] == [
        "Example CPU, Example core, 2 cores, fp32", None, None, "Bead 2, fp16", None, None,
    ]  # fmt: skip
    assert made["columns"] == 3


def test_the_fastest_and_the_slowest_of_equal_flop_are_named():
    named = {row[0] for row in rows_of(figures.equal.__wrapped__(world()), "text", "ex")}
    assert {"oak7", "oak8"} <= named <= {"oak7", "oak8", "ResNet-50"}


@pytest.mark.parametrize(("slower", "parameters", "misleads"), [(1, 2e6, False), (4, 2e6, True), (4, 12e6, False)])
def test_parameters_mislead_where_fewer_of_them_take_longer(slower, parameters, misleads):
    """DenseNet-121 takes 80 ms, half as long as AlexNet, which has 6 M parameters."""
    (machine,) = world().reference.machines
    cells, of_densenet = machine.cells, machine.cells.model == "densenet121"
    times = [f"latency{end}_s" for end in ("", "_low", "_high")]
    times = {name: cells[name].where(~of_densenet, slower * cells[name]) for name in times}
    cells = cells.assign(**times, parameter_count=cells.parameter_count.where(~of_densenet, parameters))
    paper = replace(nothing())
    vars(paper)["reference"] = replace(world().reference, machines=(replace(machine, cells=cells),))
    assert facts.of(paper).claims == {"parameters_mislead": misleads}


def test_a_title_tells_batches_with_fewer_networks():
    here = timed_here(world())
    counts = {batch: here.at(batch).model.nunique() for batch in here.batches}
    title = " ".join(figures._of([here]))
    assert here.networks == max(counts.values()) > min(counts.values())
    for batch, networks in counts.items():
        assert (f"{networks} at batch {batch}" in title) == (networks < here.networks)


def test_releases_of_pytorch_may_differ(tmp_path):
    assert not facts._do_releases_differ(world())
    environment = f"machines/{GPU}/machine.csv"
    other = mutated(tmp_path / "world", {environment: lambda row: row | {"torch": "2.0.0"}})
    assert facts._do_releases_differ(world(other))


def test_without_a_roof_no_count_leads():
    no_bound = {"model": ["oak1", "oak2"], "layers_s": [None, None], "flop": [1.0, 2.0], "input_s": [1.0, 2.0]}
    assert facts.lead(pd.DataFrame(no_bound)) == (None, None)
