import csv
from dataclasses import replace

import pytest
from helpers.places import ROOT
from helpers.rows import machine_in, run, samples, workload

from measure.cache import table
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run, Sample
from measure.domain.workload_records import Workload
from measure.errors import UserError
from measure.published import contributed_checks
from measure.published.contributed_checks import check

COUNTED = [workload(flop=10)]
"""10 FLOP in 0.1 s at least are 100 FLOP/s; the fastest roof kernel does 1024 FLOP in 0.5 s: 2048 FLOP/s."""


@pytest.fixture
def folder(tmp_path):
    return machine_in(tmp_path / "box").folder


def change(path, line, column, text):
    """Puts a text into a cell; lines count from 1, the header's."""
    rows = [*csv.reader(path.read_text().splitlines())]
    rows[line - 1][rows[0].index(column)] = text
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def refused(folder, counted=()):
    with pytest.raises(UserError) as caught:
        check(folder, counted)
    return str(caught.value)


def test_the_committed_rows_are_passed_on(folder):
    machine = MachineFolder(folder.parent, folder.name, folder)
    table.append(folder / "runs.csv", Run, [run("killed", phase="forward")])  # a stage, without the run of its step
    table.append(folder / "samples.csv", Sample, samples(2, "killed", phase="forward") + samples(1, batch=64))
    rows, counted = check(folder, ())
    assert (rows, counted) == (machine.tables(), [])
    assert {row.model for row in rows[Run] + rows[Sample]} == {"net"}
    assert len(rows[Sample]) == 3  # none of the round that was out of memory


@pytest.mark.slow
@pytest.mark.parametrize("name", machine_names(ROOT / "data"))
def test_the_committed_machines_are_plausible(name):
    check(ROOT / "data" / "machines" / name, Workloads(ROOT / "data").rows(Workload))


@pytest.mark.parametrize(
    ("file", "line", "column", "text", "words"),
    [
        ("samples.csv", 3, "latency_s", "1e6", "the cell is '1e6', not a number from 1e-12 to 86400 s"),
        ("runs.csv", 2, "environment_id", "e2", "machine.csv has no 'e2'"),
        ("hardware_counters.csv", 2, "fp32_flop", "1e18", "did more FLOP in its time than any chip"),
        ("roofs.csv", 2, "flop", "600000000000000000", "ran at 1.20 EFLOP/s, faster than any chip"),
        ("roofs.csv", 2, "latency_low_s", "0.55", "is ok, and its interval does not hold its latency"),
        # 10^15 B in half a second, each 2 (2 - 1) / 2 = 1 time on the bus of two processes
        ("collectives.csv", 2, "message_byte", "1000000000000000", "ran at 2.00 PB/s of bus bandwidth"),
        ("data_parallel_steps.csv", 2, "latency_high_s", "0.45", "is ok, and its interval does not hold its latency"),
        ("profiles.csv", 2, "input_shape", "9" * 19, "not whole numbers joined by 'x'"),
        ("runs.csv", 3, "status", "ok", "is ok, and samples.csv has no sample of it"),
        ("samples.csv", 3, "sample", "0", "contradicts line 2"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_have_been_measured_is_named(folder, file, line, column, text, words):
    check(folder, COUNTED)
    change(folder / file, line, column, text)
    message = refused(folder)
    assert message.startswith(f"{folder / file}, line {line}")
    assert words in message


def test_a_model_faster_than_ten_times_the_roof_is_named(folder):
    change(folder / "samples.csv", 3, "latency_s", "0.0005")  # 10 FLOP: 20 000 FLOP/s, of 2048 at the roof
    check(folder, COUNTED)
    change(folder / "samples.csv", 3, "latency_s", "0.0004")
    assert "line 3, column latency_s: 'net' at batch size 1 ran at 25.0 kFLOP/s, more" in refused(folder, COUNTED)
    check(folder, ())  # of a model that is not counted here nobody knows
    change(folder / "roofs.csv", 2, "roof_kernel", "stream_triad")  # which is no measure of arithmetic
    check(folder, COUNTED)
    many = [replace(COUNTED[0], forward_flop=10**14)]  # / 0.4 ms = 2.5e17
    assert "'net' at batch size 1 ran at 250 PFLOP/s, more than the plausible 200 PFLOP/s" in refused(folder, many)


def test_a_step_is_its_passes_and_is_compared_at_its_input_shape(folder):
    counted = replace(COUNTED[0], backward_flop=20)
    least = contributed_checks._least_flop([counted, replace(counted, precision="bf16", forward_flop=8)])
    of_phases = {"inference": 8, "forward": 8, "backward": 20, "step": 28}
    assert least == {("net", shape, 1, phase): flop for phase, flop in of_phases.items() for shape in ("3x2x2", None)}
    larger = replace(COUNTED[0], input_shape="3x40x40", forward_flop=4000)  # 40 kFLOP/s in 0.1 s
    check(folder, [*COUNTED, larger])  # the rows name no shape, so the least that any asks for
    change(folder / "runs.csv", 2, "input_shape", "3x40x40")
    assert "line 2, column latency_s: 'net' at batch size 1 ran at 40.0 kFLOP/s" in refused(folder, [*COUNTED, larger])
    check(folder, COUNTED)  # at that shape it is not counted


def test_a_round_at_two_shapes_is_refused_and_machines_not_mixed(folder):
    for file, old, new, words in (
        ("runs.csv", ",,,,,0,", ",,,,3x40x40,0,", "runs.csv, line 4, column round: repeats the row in line 2"),
        ("machine.csv", "e1,h1", "e2,h2", "machine.csv, line 3, column hardware_id: is of another machine"),
    ):
        text = (folder / file).read_text()
        (folder / file).write_text(text + text.splitlines()[1].replace(old, new) + "\n")
        assert words in refused(folder)
        (folder / file).write_text(text)


def test_the_fastest_is_ten_times_any_chip():
    with (ROOT / "data" / "chips.csv").open(newline="") as file:
        chips = list(csv.DictReader(file))
    assert 10 * max(float(row["peak_flop_per_s"]) for row in chips) < contributed_checks.FASTEST_FLOP_PER_S
    assert 10 * max(float(row["bandwidth_byte_per_s"]) for row in chips) < contributed_checks.FASTEST_BYTE_PER_S
