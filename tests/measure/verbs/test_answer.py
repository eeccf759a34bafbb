from dataclasses import replace

import pytest
from helpers.comparing import ENVIRONMENT, machine, put
from helpers.rows import layer, operator, operator_time, profile, roof_measurement, workload

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.models import Model
from measure.errors import UserError
from measure.run.request import Request
from measure.run.run_cache import RunCache
from measure.verbs.show import answer, first_cell

MODEL = Model("alexnet", "torchvision", "plain", (3, 2, 2))
REQUEST = Request([MODEL], [1], ["fp32"], ())
BYTES = {"parameter_byte": 60, "input_byte": 10, "activation_byte": 30, "inference_peak_byte": 80}


@pytest.fixture
def cache(tmp_path):
    put(machine(tmp_path), 0, [0.5] * 6)
    folder, own = MachineFolder(tmp_path, "box"), {"environment_id": ENVIRONMENT.environment_id}
    folder.put_profile(replace(profile("alexnet"), **own), [replace(operator_time("alexnet"), **own)])
    folder.put_roof_measurements([
        replace(roof_measurement(), **own),  # 1024 FLOP in half a second
        replace(roof_measurement(), **own, roof_kernel="stream_read", precision="fp64", flop=0, byte=512, round=0),
    ])  # fmt: skip
    rows = workload("alexnet", flop=200, **BYTES), [layer("alexnet")], [operator("alexnet")]
    Workloads(tmp_path).put([rows])
    return RunCache(Workloads(tmp_path), folder, ENVIRONMENT)


def test_the_cache_answers_for_a_model(cache):
    found = answer(cache, REQUEST)
    assert (found.model, found.input_shape, found.environment) == ("alexnet", "3x2x2", ENVIRONMENT)
    assert (found.rates.flop_per_s, found.rates.byte_per_s) == ({"fp32": 2048}, 1024)
    (demand,), (cell,), (head,) = found.demands, found.cells, found.layers
    assert (demand.intensity_flop_per_byte, demand.attainable_flop_per_s) == (2, 2048)  # 200 FLOP on 100 B
    assert (cell.flop_per_s, cell.roof_share) == (400, 400 / 2048)
    assert (head.time_s, head.time_share) == (0.25, 1)
    assert found.advice.remedy == "bf16"  # its one layer is linear


def test_what_is_asked_for_and_not_there_is_left_out(cache):
    found = answer(cache, replace(REQUEST, batch_sizes=[1, 8]))
    assert [each.batch for each in found.demands] == [1]
    assert answer(cache, replace(REQUEST, precisions=["bf16"])).cells == []


def test_a_model_that_could_not_be_counted_is_said(cache):
    strange = replace(MODEL, name="strange")
    row = replace(workload("strange"), status="unsupported", reason="it reads values")
    cache.workloads.put([(row, [], [])])
    with pytest.raises(UserError, match="NAME: strange could not be counted: it reads values"):
        answer(cache, replace(REQUEST, models=[strange]))


def test_the_profiled_cell_is_of_the_smallest_batch():
    assert first_cell(replace(REQUEST, batch_sizes=[2, 64], precisions=["bf16", "fp32"]))[:3] == ("alexnet", 2, "bf16")
