from dataclasses import replace

import pytest
from helpers.cells import DATED as MACHINE
from helpers.cells import machine, put, timed
from helpers.rows import ENVIRONMENT, layer, operator_time, profile, roof_measurement, workload

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads
from measure.domain.advice import Advice
from measure.domain.model_work import cell_work, layer_work, reached
from measure.domain.roofs import Roof
from measure.domain.workload_records import Workload
from measure.errors import UserError
from measure.models import catalog
from measure.run.request import Request
from measure.run.storing import RunCache
from measure.verbs import model
from measure.verbs.answer import ModelAnswer, heading, result_lines, roof_line
from measure.verbs.terminal import aligned

SHAPE = "3x224x224"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache that lacks nothing about alexnet: 200 FLOP on 60 + 10 + 30 B, which took 0.5 s, half in its one layer.

    The roof is of 1024 FLOP and of 512 B in half a second. One operator has no formula.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(model, "current", lambda *_: MACHINE)
    folder, own = machine(tmp_path / "cache"), {"environment_id": MACHINE.environment_id}
    put(folder, 0, [0.5] * 6)
    profiled = replace(profile("alexnet"), **own, input_shape=SHAPE)
    folder.put_profile(profiled, [replace(operator_time("alexnet"), **own)])
    product = replace(roof_measurement(), **own)
    stream = {"roof_kernel": "stream_read", "precision": "fp64", "flop": 0, "byte": 512, "round": 0}
    folder.put_roof_measurements([product, replace(product, **stream)])
    footprint = {"parameter_byte": 60, "input_byte": 10, "activation_byte": 30, "inference_peak_byte": 80}
    counted = replace(
        workload("alexnet", flop=200, uncounted="histc:1:0.1;topk:2:0.01", **footprint), input_shape=SHAPE
    )
    Workloads(tmp_path / "cache").put([
        (counted, [replace(layer("alexnet"), input_shape=SHAPE)], []),
        (replace(counted, model="vgg11", status="unsupported", reason="reads values"), [], []),
    ])  # fmt: skip
    return tmp_path / "cache"


WORDS = ["--device", "cpu", "--machine", "box", "--data", "cache"]


@pytest.mark.usefixtures("cache")
def test_the_cache_answers_for_a_model(golden, capsys):
    for name, words in {"model": "--layers", "model-markdown": "--markdown --layers", "model-json": "--json"}.items():
        assert command.main(["model", "alexnet", *WORDS, *words.split()]) == 0
        printed = capsys.readouterr()
        golden(name, printed.out)
        assert printed.err == ""  # nothing was measured


def test_gaps_in_the_cache_are_skipped_and_failed_counts_refused(cache):
    held = RunCache(Workloads(cache), MachineFolder(cache, "box"), MACHINE)
    alexnet, vgg11 = catalog.find(["alexnet", "vgg11"])
    found = model.read_answer(held, Request([alexnet], [1, 8], ["fp32"], ()))
    assert [each.batch for each in found.demands] == [1]
    assert model.read_answer(held, Request([alexnet], [1], ["bf16"], ())).cells == []
    assert model.first_cell(Request([alexnet], [2, 64], ["bf16", "fp32"], ()))[:3] == ("alexnet", 2, "bf16")
    with pytest.raises(UserError, match="NAME: vgg11 could not be counted: reads values"):
        model.read_answer(held, Request([vgg11], [1], ["fp32"], ()))
    row = next(row for row in held.workloads.rows(Workload) if row.model == "vgg11")
    held.workloads.put([(replace(row, status="error", reason="5 is not 4"), [], [])])
    with pytest.raises(UserError, match="5 is not 4; correct it, or if only counting fails, time it alone: "):
        model.read_answer(held, Request([vgg11], [1], ["fp32"], ()))


RATES = Roof({"fp32": 1e9}, 1e8)  # the ridge point is at 10 FLOP/B
BYTES = {"parameter_byte": 6e7, "input_byte": 1e7, "activation_byte": 3e7, "inference_peak_byte": 8e7}
COUNTED = workload("alexnet", flop=5 * 10**8, **BYTES)
HYPOTHESIS = Advice("compile", why="it moves bytes", flags="--models alexnet")
LAYERS = [replace(layer("alexnet", position=number), path=f"l{number}") for number in range(5)]
TIMES = [operator_time("alexnet", path=f"l{number}", time_s=number) for number in range(5)]
FAILED = replace(timed(), status="oom", reason="too large", latency_s=None)
FLAGGED = replace(timed(), flags=("loaded", "wide"))
AT_WORK = {"advice": Advice("compile", gain=1.5), "layers": LAYERS, "operators": TIMES}


def answered(*cells, advice=None, rates=RATES, layers=(), operators=()):
    """An answer for 500 MFLOP on 100 MB: 5 FLOP/B, under the slope of the roof."""
    of_cells, of_layers = cell_work([COUNTED], rates, ["fp32"]), layer_work(layers, "fp32", rates, operators)
    found = of_cells, reached(cells, of_cells), of_layers, advice
    return ModelAnswer("alexnet", "3x2x2", ENVIRONMENT, rates, *found)


def test_a_roof_under_a_power_cap_says_so():
    product = replace(roof_measurement(), throttle="power cap")
    stream = replace(product, roof_kernel="stream_read", throttle=None)
    answer = answered(timed(latency_s=2.0), rates=replace(RATES, arithmetic={"fp32": product}, stream=stream))
    assert roof_line(answer) == (
        "The roof: 1.00 GFLOP/s at fp32 (power cap), and 100 MB/s from memory, as measured here."
    )


def test_what_an_answer_may_lack_or_hold(golden):
    for name, answer in {
        # In 2 s, ± 10 % by the helper: 250 of 5 FLOP/B times 100 MB/s. Layers of 4, 3 and 2 of 10 s are the costliest
        "answer-measured": answered(timed(latency_s=2.0), **AT_WORK),
        "answer-hypothesis": answered(FLAGGED, advice=HYPOTHESIS, rates=replace(RATES, load=0.4)),
        "answer-without-roof": answered(timed(latency_s=2.0), rates=Roof({}, None)),
        "answer-failed": answered(FAILED),
    }.items():
        lines = [*heading(answer, aligned), *result_lines(answer, aligned, data_flag=" --data d")]
        golden(name, "\n".join(lines) + "\n")


def test_an_answer_has_the_energy_of_an_input_where_the_device_counts_it():
    spent = replace(timed(batch=1), energy_j=0.31, joule_per_input=0.31)
    head, *_, row = result_lines(answered(spent), aligned)[:2]
    assert "inputs/s  energy/input" in head
    assert "310 mJ" in row
    assert "energy" not in "\n".join(result_lines(answered(timed()), aligned))
