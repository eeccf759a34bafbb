from dataclasses import replace
from math import exp, sqrt
from statistics import median

import pytest
from helpers.cells import CELL, DATED, NEWER, machine, put
from helpers.places import ROOT
from helpers.rows import run, samples

from measure.cache.folders import MachineFolder
from measure.domain.cell import Cell
from measure.domain.energy import RoundEnergy
from measure.domain.latency import group_rounds, launch_bound, summarise_cell
from measure.domain.records import Run


def test_a_cell_has_the_median_of_its_rounds_and_all_flags(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.10, 0.11, 0.12])
    put(folder, 1, [0.20, 0.21, 0.22])
    put(folder, 2, [0.30, 0.31, 0.32], flags="drifting;throttled")
    (cell,) = folder.cells(DATED)
    assert (Cell.of(cell), cell.status, cell.rounds, cell.flags) == (CELL, "ok", 3, ("throttled", "wide"))
    assert (cell.latency_s, cell.inputs_per_s) == (0.21, 1 / 0.21)  # the median of 0.11, 0.21, 0.31
    assert cell.latency_low_s < 0.11 < 0.31 < cell.latency_high_s  # Student's, of two degrees of freedom: 4.3 times


def test_the_interval_between_rounds_makes_a_cell_wide():
    def flags(rounds, timed):
        runs = [replace(run(round_=number), flags="drifting;loaded;wide") for number in range(rounds)]
        return group_rounds(runs, timed)[Cell.of(runs[0])].flags

    # Rounds that agree are an interval of no width; rounds of 0.1 s and 1.1 s, one sample each, are far apart.
    assert flags(2, [*samples(1), *samples(1, round_=1)]) == {"loaded"}
    assert flags(2, [*samples(1), replace(samples(2)[1], round=1)]) == {"loaded", "wide"}
    assert flags(1, [*samples(3), *samples(2, round_=1)]) == {"drifting", "loaded", "wide"}  # the last have no run


def test_the_last_requested_width_makes_a_cell_wide():
    # Student's t of two degrees of freedom is 4.30: three rounds with a deviation of 1 % are ±2.5 % wide at 95 %
    timed = [replace(samples(1)[0], round=number, latency_s=time_s) for number, time_s in enumerate((0.99, 1, 1.01))]
    for targets, found in (
        ((None, None, None), set()), ((0.01, 0.01, 0.01), {"wide"}), ((0.2, 0.2, 0.01), {"wide"}),
        ((0.01, 0.01, 0.2), set()),
    ):  # fmt: skip
        runs = [replace(run(round_=n), target=each, recorded_at=f"2026-01-0{n + 1}") for n, each in enumerate(targets)]
        assert group_rounds(runs, timed)[Cell.of(runs[0])].flags == found


@pytest.mark.parametrize(("flags", "latency_s", "found"), [  # of rounds that take 1, 2 and 9 s
    (("", "", "loaded"), 1.5, {"wide"}), (("loaded", "", "wide;loaded"), 2, set()),
    (("loaded", "loaded", "loaded"), 2, {"loaded", "wide"}),  # nothing else is known
])  # fmt: skip
def test_disturbed_rounds_count_only_for_a_cell_without_others(tmp_path, flags, latency_s, found):
    folder = machine(tmp_path)
    for number, (time_s, flag) in enumerate(zip((1, 2, 9), flags, strict=True)):
        put(folder, number, [time_s], flags=flag or None)
    (cell,) = folder.cells(DATED)
    assert (cell.latency_s, set(cell.flags)) == (latency_s, found)


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [  # a round with a result decides, and without one the first failure
        ([([0.1], "ok", None), ([], "timeout", "slow")], ("ok", None, 0.1, 10.0, 1)),
        ([([], "oom", "first"), ([], "timeout", "second")], ("oom", "first", None, None, 0)),
        ([([], "oom", "first"), ([0.1], "ok", None)], ("ok", None, 0.1, 10.0, 1)),
    ],
)
def test_a_cells_status_and_latency_are_those_of_good_rounds(tmp_path, rounds, expected):
    folder = machine(tmp_path)
    for number, (latencies, status, reason) in enumerate(rounds):
        put(folder, number, latencies, status=status, reason=reason)
    (cell,) = folder.cells(DATED)
    assert (cell.status, cell.reason, cell.latency_s, cell.inputs_per_s, cell.rounds) == expected


def test_stages_and_other_environments_are_no_cells(tmp_path):
    folder = machine(tmp_path, "box", DATED, NEWER)
    put(folder, 0, [0.1])
    put(folder, 0, [0.2], environment=NEWER)
    (whole, _) = folder.rows(Run)
    folder.put_run(replace(whole, phase="step"), [], [(replace(whole, phase="forward"), [])])
    found = [(cell.phase, cell.latency_s) for cell in folder.cells(DATED)]
    assert found == [("inference", 0.1), ("step", None)]


LAUNCHED = {  # of networks by their batch size: latency (s), and whether launching kernels may decide it
    "slow host": {1: (0.004, True), 8: (0.0039, True), 64: (0.0077, True), 256: (0.0079, False)},  # 2 x 3.9 ms = 7.8 ms
    "fast device": {8: (0.001, True), 64: (0.008, False), 256: (0.0075, False)},
    "one batch": {64: (0.5, True)},
}


def test_the_time_of_a_launch_does_not_grow_with_the_batch():
    cells = {
        CELL._replace(model=model, batch=batch): each for model, of in LAUNCHED.items() for batch, each in of.items()
    }
    other = CELL._replace(model="slow host", precision="bf16", batch=256)
    found = launch_bound({cell: latency_s for cell, (latency_s, _) in cells.items()} | {other: 1.0})
    assert found == {cell for cell, (_, is_launch_bound) in cells.items() if is_launch_bound} | {other}


@pytest.mark.parametrize(
    ("device", "rounds", "has_interval"), [("cpu", 1, True), ("cuda", 1, False), ("mps", 1, False), ("cuda", 3, True)]
)
def test_a_single_round_of_launches_has_no_interval(tmp_path, device, rounds, has_interval):
    environment = replace(DATED, device=device)
    folder = machine(tmp_path, "box", environment)
    for number in range(rounds):
        put(folder, number, [0.10, 0.11, 0.12, 0.10, 0.11, 0.12])
    (cell,) = folder.cells(environment)
    assert cell.latency_s == pytest.approx(0.11, abs=0.01)
    assert ((cell.latency_low_s is not None), (cell.latency_high_s is not None)) == (has_interval, has_interval)


def test_rounds_of_other_cells_agree_on_the_h100_and_the_h200():
    """The medians of two rounds differ by 2 % at most where the latency grows with the batch, else by up to 340 %."""
    ratios = {True: [], False: []}
    for name in ("nvidia-h100-80gb-hbm3-69d5", "nvidia-h200-03df"):
        folder = MachineFolder(ROOT / "data", name)
        cells = [each for each in folder.cells(folder.newest_environment()) if each.latency_s is not None]
        bound = launch_bound({Cell.of(each): each.latency_s for each in cells})
        for each in cells:
            if each.rounds == 2:
                ratios[Cell.of(each) in bound].append(each.latency_most_s / each.latency_least_s)
    assert max(ratios[False]) < 1.02
    assert max(ratios[True]) > 2
    assert median(ratios[True]) > 1.03
    assert min(map(len, ratios.values())) > 40


def test_a_language_model_has_tokens_a_second():
    for model, per_s in (("gpt2_prefill_128", 4 * 128 / 0.5), ("gpt2_decode_128", 4 / 0.5), ("alexnet", None)):
        cell = CELL._replace(model=model, batch=4)
        assert summarise_cell(cell, [[0.5] * 6] * 3, (), None).tokens_per_s == per_s


def test_the_energy_of_a_call_an_input_and_a_token(tmp_path):
    folder = machine(tmp_path)
    put(folder, 0, [0.1] * 5, energy_j=3.0, block=2)  # a second of 10 calls
    put(folder, 1, [0.1] * 5, energy_j=6.0, block=4)  # two seconds of 20
    put(folder, 2, [0.1] * 5)  # not read
    (cell,) = folder.cells(DATED)
    # (10 x 3 J + 20 x 6 J) / 30; two rounds have no interval
    assert (cell.energy_j, cell.energy_low_j, cell.joule_per_input, cell.joule_per_token) == (5.0, None, 5.0, None)
    decode = CELL._replace(model="gpt2_decode_128", batch=4)
    spent = summarise_cell(decode, [[0.5] * 6], (), None, energies=[RoundEnergy(10, 80.0, 5.0)])
    assert (spent.energy_j, spent.joule_per_input, spent.joule_per_token) == (8.0, 2.0, 2.0)  # 4 tokens a call
    prefill = CELL._replace(model="gpt2_prefill_128", batch=4)
    assert summarise_cell(prefill, [[0.5] * 6], (), None, energies=[RoundEnergy(1, 512.0, 5.0)]).joule_per_token == 1
    assert summarise_cell(decode, [[0.5] * 6], (), None).energy_j is None


def test_energies_of_three_rounds_have_an_interval():
    decode = CELL._replace(model="gpt2_decode_128", batch=4)
    energies = [RoundEnergy(10, 10 * joule, 5.0) for joule in (8 * exp(-0.1), 8.0, 8 * exp(0.1))]
    spent = summarise_cell(decode, [[0.5] * 6], (), None, energies=energies)
    # Logarithms with a deviation of 0.1; Student's t of two degrees of freedom at 96 % is 4.8487
    half = 4.8487 * 0.1 / sqrt(3)
    interval = spent.energy_low_j, spent.energy_high_j
    assert interval == pytest.approx((8 * exp(-half), 8 * exp(half)), rel=1e-4)
    # All joules over all calls: 8 (exp(-0.1) + 1 + exp(0.1)) / 3; 4 inputs and 4 tokens a call
    assert (spent.energy_j, spent.joule_per_input, spent.joule_per_token) == pytest.approx(
        (8.02669, 2.00667, 2.00667), rel=1e-5
    )
