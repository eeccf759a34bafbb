from dataclasses import replace

import pytest
from helpers.answering import timed
from helpers.comparing import ENVIRONMENT as MACHINE
from helpers.comparing import machine, put
from helpers.rows import ENVIRONMENT, layer, operator, operator_time, profile, roof_measurement, workload

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.advice import Advice
from measure.domain.demands import demands, layer_demands, reached
from measure.domain.models import Model
from measure.domain.roofs import Roof
from measure.errors import UserError
from measure.run.request import Request
from measure.run.task import RunCache
from measure.verbs.answer import ModelAnswer, heading, result_lines, roof_line
from measure.verbs.model import first_cell, read_answer
from measure.verbs.terminal import aligned, markdown

MODEL = Model("alexnet", "torchvision", "plain", (3, 2, 2))
REQUEST = Request([MODEL], [1], ["fp32"], ())
BYTES = {"parameter_byte": 60, "input_byte": 10, "activation_byte": 30, "inference_peak_byte": 80}


@pytest.fixture
def cache(tmp_path):
    put(machine(tmp_path), 0, [0.5] * 6)
    folder, own = MachineFolder(tmp_path, "box"), {"environment_id": MACHINE.environment_id}
    folder.put_profile(replace(profile("alexnet"), **own), [replace(operator_time("alexnet"), **own)])
    folder.put_roof_measurements([
        replace(roof_measurement(), **own),  # 1024 FLOP in half a second
        replace(roof_measurement(), **own, roof_kernel="stream_read", precision="fp64", flop=0, byte=512, round=0),
    ])  # fmt: skip
    rows = workload("alexnet", flop=200, **BYTES), [layer("alexnet")], [operator("alexnet")]
    Workloads(tmp_path).put([rows])
    return RunCache(Workloads(tmp_path), folder, MACHINE)


def test_the_cache_answers_for_a_model(cache):
    found = read_answer(cache, REQUEST)
    assert (found.model, found.input_shape, found.environment) == ("alexnet", "3x2x2", MACHINE)
    assert (found.rates.flop_per_s, found.rates.byte_per_s) == ({"fp32": 2048}, 1024)
    (demand,), (cell,), (head,) = found.demands, found.cells, found.layers
    assert (demand.intensity_flop_per_byte, demand.attainable_flop_per_s) == (2, 2048)  # 200 FLOP on 100 B
    assert (cell.flop_per_s, cell.roof_share) == (400, 400 / 2048)
    assert (head.time_s, head.time_share) == (0.25, 1)
    assert found.advice.remedy == "bf16"  # its one layer is linear


def test_json_names_the_stream_of_the_roof(cache):
    rates = read_answer(cache, REQUEST).as_json()["rates"]
    assert rates == {"flop_per_s": {"fp32": 2048}, "byte_per_s": 1024, "stream": "stream_read", "load": 0}


def test_what_is_asked_for_and_not_there_is_left_out(cache):
    found = read_answer(cache, replace(REQUEST, batch_sizes=[1, 8]))
    assert [each.batch for each in found.demands] == [1]
    assert read_answer(cache, replace(REQUEST, precisions=["bf16"])).cells == []


def test_a_model_that_could_not_be_counted_is_said(cache):
    strange = replace(MODEL, name="strange")
    row = replace(workload("strange"), status="unsupported", reason="it reads values")
    cache.workloads.put([(row, [], [])])
    with pytest.raises(UserError, match="NAME: strange could not be counted: it reads values"):
        read_answer(cache, replace(REQUEST, models=[strange]))


def test_the_profiled_cell_is_of_the_smallest_batch():
    assert first_cell(replace(REQUEST, batch_sizes=[2, 64], precisions=["bf16", "fp32"]))[:3] == ("alexnet", 2, "bf16")


RATES = Roof({"fp32": 1e9}, 1e8)  # the ridge point is at 10 FLOP/B
LARGE = {
    "parameter_byte": 60_000_000,
    "input_byte": 10**7,
    "activation_byte": 3 * 10**7,
    "inference_peak_byte": 8 * 10**7,
}


def answered(*cells, operators=(), advice=None, rates=RATES):
    asked = demands([workload("alexnet", flop=5 * 10**8, **LARGE)], rates, ["fp32"])
    layers = layer_demands([layer("alexnet")], "fp32", rates, operators)
    return ModelAnswer("alexnet", "3x2x2", ENVIRONMENT, rates, asked, reached(cells, asked), layers, advice)


def lines(answer, with_layers=False):
    return result_lines(answer, aligned, with_layers=with_layers, data_flag=" --data d")


def test_the_heading_names_the_machine_and_what_the_model_asks_for():
    title, _, head, row = heading(answered(), aligned)
    assert title == "alexnet on Chip, of 2 cores (cpu, 2 threads, torch 2.9), inputs of 3x2x2"
    assert head.split() == ["batch", "precision", "FLOP", "bytes", "FLOP/B", "memory"]
    assert " ".join(row.split()) == "1 fp32 500 MFLOP 100 MB 5 80.0 MB"


def test_what_is_reached_stands_beside_the_roof():
    head, row, _, roof = lines(answered(timed(latency_s=2.0)))
    assert head.split()[-4:] == ["attainable", "share", "bound", "by"]
    # 500 MFLOP in 2 s; 5 FLOP/B times 100 MB/s; the interval of the helper is 0.9 to 1.1 times the latency
    assert " ".join(row.split()) == "1 fp32 2.00 s 10 % 0.5 250 MFLOP/s 500 MFLOP/s 50 % memory"
    assert roof == "The roof: 1.00 GFLOP/s at fp32, and 100 MB/s from memory, as measured here."


def test_what_failed_says_why():
    failed = replace(timed(), status="oom", reason="too large", latency_s=None)
    assert lines(answered(failed))[0] == "Batch size 1 at fp32: oom, too large"


def test_without_a_roof_its_columns_are_empty():
    _, row, _, roof = lines(answered(timed(latency_s=2.0), rates=Roof({}, None)))
    assert " ".join(row.split()) == "1 fp32 2.00 s 10 % 0.5 250 MFLOP/s"
    assert roof == "The roof was not measured."


def test_the_costliest_layers_are_named():
    said = lines(answered(timed(), operators=[operator_time("alexnet")]))
    assert "Costliest layers at batch size 1: head (linear) 100 % of the operators' time." in said


def test_three_layers_are_the_costliest():
    layers = [replace(layer("alexnet", position=number), path=f"l{number}") for number in range(5)]
    operators = [operator_time("alexnet", path=f"l{number}", time_s=number) for number in range(5)]
    answer = replace(answered(timed()), layers=layer_demands(layers, "fp32", RATES, operators))
    # 4, 3 and 2 of 10 s
    named = "l4 (linear) 40 %, l3 (linear) 30 %, l2 (linear) 20 %"
    assert f"Costliest layers at batch size 1: {named} of the operators' time." in lines(answer)


def test_measured_advice_and_a_hypothesis_read_differently():
    said = lines(answered(timed(), advice=Advice("compile", gain=1.5)))
    assert said[-1] == "Try first: compile, measured to be 1.5 times as fast as batch size 1."
    said = lines(answered(timed(), advice=Advice("compile", why="it moves bytes", flags="--models alexnet")))
    assert said[-2:] == [
        "Try first: compile. That is a hypothesis: it moves bytes. To test it:",
        "  python -m measure --models alexnet --data d",
    ]


def test_each_flag_is_told_once_with_the_cells_that_it_is_about():
    asked = answered(replace(timed(), flags=("loaded", "wide")))
    assert lines(asked)[-2:] == [
        "Mind batch size 1 at fp32: other programs used a tenth of the cores or more (loaded).",
        "Mind batch size 1 at fp32: the interval is wider than asked (wide).",
    ]


def test_the_layers_come_last_where_they_are_asked_for():
    said = lines(answered(timed()), with_layers=True)
    assert " ".join(said[-2].split()) == "layer type calls parameters FLOP bytes bound by time share"
    assert " ".join(said[-1].split()) == "head Linear 1 5 10 FLOP 96 B memory"


def test_markdown_has_the_same_numbers():
    assert heading(answered(), markdown)[-1] == "| 1 | fp32 | 500 MFLOP | 100 MB | 5 | 80.0 MB |"


def test_a_roof_that_other_programs_disturbed_is_told_to_be_too_low():
    said = roof_line(answered(rates=replace(RATES, load=0.4)))
    assert said.startswith(roof_line(answered()))
    assert "Other programs used 40 % of the cores meanwhile" in said


def test_uncounted_operators_are_named_in_text_and_json(cache):
    row = replace(workload("alexnet", flop=200, **BYTES), uncounted="histc:1:0.1;topk:2:0.01")
    cache.workloads.put([(row, [layer("alexnet")], [operator("alexnet")])])
    found = read_answer(cache, REQUEST)
    assert found.as_json()["demands"][0]["uncounted"] == ["histc", "topk"]
    assert heading(found, aligned)[-1] == "The FLOP leave out operators without a formula: histc, topk."
