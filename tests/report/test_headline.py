"""The two lines about a machine, by hand: 1000 FLOP/s and 100 B/s, so that the ridge lies at 10 FLOP/B."""

from dataclasses import replace

import pytest
from helpers.answering import timed
from helpers.comparing import CELL, ENVIRONMENT, machine
from helpers.rows import RECORDED_AT, roof_measurement, workload

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import Run, Sample
from measure.domain.roofs import Roof
from report.headline import FlopCell, counted, headline, surprise

ROOF = Roof({"fp32": 1000.0}, 100.0)


def cell(model, flop, latency_s, batch=1, byte=10):
    return FlopCell(model, batch, latency_s, flop, byte)


def test_the_share_of_the_roof_is_the_rate_over_what_its_intensity_allows():
    # 50 FLOP on 10 B: 5 FLOP/B allow 500 FLOP/s, and 50 FLOP in 0.2 s are 250.
    assert cell("net", 50, 0.2).roof_share(ROOF) == pytest.approx(0.5)
    assert cell("net", 50, 0.2).roof_share(Roof({}, None)) is None
    assert cell("net", 50, 0.2, byte=0).roof_share(ROOF) is None


def test_the_pair_whose_order_by_flop_misleads_most_is_the_surprise():
    cells = [
        cell("light", 100, 0.3), cell("middle", 200, 0.2), cell("heavy", 400, 0.25),
        cell("light", 200, 0.1, batch=2), cell("heavy", 800, 0.4, batch=2),
    ]  # fmt: skip
    # light over middle: 2 times fewer, 1.5 times as long, 3 in all; light over heavy: 4 and 1.2, 4.8 in all.
    assert surprise(cells, ROOF) == "At batch 1, light needs 4 times fewer FLOP than heavy and takes 1.2 times as long"


def test_where_flop_order_the_models_the_one_farthest_from_its_roof_is_named():
    # Attainable at 10 FLOP/B and more: 1000 FLOP/s. 100 FLOP in 0.2 s are half of that, 400 in 0.5 s 80 %.
    cells = [cell("light", 100, 0.2), cell("heavy", 400, 0.5)]
    assert surprise(cells, ROOF) == "light is farthest from its roof: 50 % at batch 1"
    # 5 % longer may be chance.
    assert surprise([cell("light", 100, 0.42), cell("heavy", 400, 0.4)], ROOF).startswith("light is farthest")
    # Without a roof the one that takes longest for its FLOP.
    assert surprise(cells, Roof({}, None)) == "light takes 200 ms at batch 1"


def test_only_timed_forward_passes_in_eager_mode_at_full_precision_that_were_counted_count():
    rows = [workload("alexnet", flop=200, parameter_byte=60, input_byte=10, activation_byte=30)]
    (found,) = counted([timed()], rows)
    assert (found.flop, found.byte) == (200, 100)
    for left_out in (
        timed(variant="compile"),
        timed(batch=2),
        replace(timed(), latency_s=None),
        replace(timed(), phase="step"),
        replace(timed(), flags=("loaded", "wide")),
    ):
        assert counted([left_out], rows) == []
    assert counted([timed()], [replace(rows[0], status="unsupported")]) == []


def test_a_machine_says_its_roof_and_the_typical_share_of_it(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    machine(tmp_path)
    own = {"environment_id": ENVIRONMENT.environment_id}
    (line,) = headline(folder, ENVIRONMENT, Workloads(tmp_path))
    assert line == f"{ENVIRONMENT.name}: its roof was not measured"
    product = replace(roof_measurement(), **own)  # 1024 FLOP in half a second
    stream = replace(product, roof_kernel="stream_read", precision="fp64", flop=0, byte=512, round=0)
    folder.put_roof_measurements([product, stream])
    (line,) = headline(folder, ENVIRONMENT, Workloads(tmp_path))
    assert line == f"{ENVIRONMENT.name}: 2.05 kFLOP/s at fp32 and 1.02 kB/s from memory"
    folder.put_roof_measurements([replace(product, load=0.5)])
    (line,) = headline(folder, ENVIRONMENT, Workloads(tmp_path))
    assert line.endswith(" from memory (measured beside other programs)")


def test_the_share_is_the_median_of_the_cells(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    machine(tmp_path)
    cell = {"environment_id": ENVIRONMENT.environment_id} | CELL._asdict()
    run = Run(**cell, status="ok", reason=None, recorded_at=RECORDED_AT, round=0, input_shape="3x2x2")
    folder.put_run(run, [Sample(**cell, sample=0, block=1, latency_s=0.5, round=0)])
    own = {"environment_id": ENVIRONMENT.environment_id}
    product = replace(roof_measurement(), **own)
    stream = replace(product, roof_kernel="stream_read", precision="fp64", flop=0, byte=512, round=0)
    folder.put_roof_measurements([product, stream])
    counts = workload("alexnet", flop=256, parameter_byte=64, input_byte=32, activation_byte=32)
    Workloads(tmp_path).put([(counts, [], [])])
    first, second = headline(folder, ENVIRONMENT, Workloads(tmp_path))
    # 256 FLOP on 128 B: 2 FLOP/B allow 2048 FLOP/s; in 0.5 s they are 512.
    assert first.endswith("; the model reaches 25 % of that")
    assert second == "alexnet is farthest from its roof: 25 % at batch 1"
