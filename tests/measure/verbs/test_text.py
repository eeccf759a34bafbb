from dataclasses import replace

from helpers.answering import timed
from helpers.rows import ENVIRONMENT, layer, operator_time, workload

from measure.domain.advice import Advice
from measure.domain.demands import demands, layer_demands, reached
from measure.domain.roofs import Roof
from measure.verbs import show
from measure.verbs.show import ModelAnswer
from measure.verbs.terminal import aligned, markdown

RATES = Roof({"fp32": 1e9}, 1e8, "stream_copy")  # the ridge point is at 10 FLOP/B
BYTES = {
    "parameter_byte": 60_000_000,
    "input_byte": 10**7,
    "activation_byte": 3 * 10**7,
    "inference_peak_byte": 8 * 10**7,
}


def found(*cells, operators=(), advice=None, rates=RATES):
    asked = demands([workload("alexnet", flop=5 * 10**8, **BYTES)], rates, ["fp32"])
    layers = layer_demands([layer("alexnet")], "fp32", rates, operators)
    return ModelAnswer("alexnet", "3x2x2", ENVIRONMENT, rates, asked, reached(cells, asked), layers, advice)


def lines(answer, with_layers=False):
    return show.lines(answer, aligned, with_layers, " --data d")


def test_the_heading_names_the_machine_and_what_the_model_asks_for():
    title, _, head, row = show.heading(found(), aligned)
    assert title == "alexnet on Chip, of 2 cores (cpu, 2 threads, torch 2.9), inputs of 3x2x2"
    assert head.split() == ["batch", "precision", "FLOP", "bytes", "FLOP/B", "memory"]
    assert " ".join(row.split()) == "1 fp32 500 MFLOP 100 MB 5 80.0 MB"


def test_what_is_reached_stands_beside_the_roof():
    head, row, _, roof = lines(found(timed(latency_s=2.0)))
    assert head.split()[-4:] == ["attainable", "share", "bound", "by"]
    # 500 MFLOP in 2 s; 5 FLOP/B times 100 MB/s; the interval of the helper is 0.9 to 1.1 times the latency
    assert " ".join(row.split()) == "1 fp32 2.00 s 10 % 0.5 250 MFLOP/s 500 MFLOP/s 50 % memory"
    assert roof == "The roof: 1.00 GFLOP/s at fp32, and 100 MB/s from memory, as measured here."


def test_what_failed_says_why():
    failed = replace(timed(), status="oom", reason="too large", latency_s=None)
    assert lines(found(failed))[0] == "Batch size 1 at fp32: oom, too large"


def test_without_a_roof_its_columns_are_empty():
    _, row, _, roof = lines(found(timed(latency_s=2.0), rates=Roof({}, None, None)))
    assert " ".join(row.split()) == "1 fp32 2.00 s 10 % 0.5 250 MFLOP/s"
    assert roof == "The roof was not measured."


def test_the_costliest_layers_are_named():
    said = lines(found(timed(), operators=[operator_time("alexnet")]))
    assert "Costliest layers at batch size 1: head (linear) 100 % of the operators' time." in said


def test_three_layers_are_the_costliest():
    layers = [replace(layer("alexnet", position=number), path=f"l{number}") for number in range(5)]
    operators = [operator_time("alexnet", path=f"l{number}", time_s=number) for number in range(5)]
    answer = replace(found(timed()), layers=layer_demands(layers, "fp32", RATES, operators))
    # 4, 3 and 2 of 10 s
    named = "l4 (linear) 40 %, l3 (linear) 30 %, l2 (linear) 20 %"
    assert f"Costliest layers at batch size 1: {named} of the operators' time." in lines(answer)


def test_measured_advice_and_a_hypothesis_read_differently():
    said = lines(found(timed(), advice=Advice("compile", gain=1.5)))
    assert said[-1] == "Try first: compile, measured to be 1.5 times as fast as batch size 1."
    said = lines(found(timed(), advice=Advice("compile", why="it moves bytes", flags="--models alexnet")))
    assert said[-2:] == [
        "Try first: compile. That is a hypothesis: it moves bytes. To test it:",
        "  python -m measure --models alexnet --data d",
    ]


def test_each_flag_is_told_once_with_the_cells_that_it_is_about():
    asked = found(replace(timed(), flags=("loaded", "wide")))
    assert lines(asked)[-2:] == [
        "Mind batch size 1 at fp32: other programs used a tenth of the cores or more (loaded).",
        "Mind batch size 1 at fp32: the interval is wider than asked (wide).",
    ]


def test_the_layers_come_last_where_they_are_asked_for():
    said = lines(found(timed()), with_layers=True)
    assert " ".join(said[-2].split()) == "layer type calls parameters FLOP bytes bound by time share"
    assert " ".join(said[-1].split()) == "head Linear 1 5 10 FLOP 96 B memory"


def test_markdown_has_the_same_numbers():
    assert show.heading(found(), markdown)[-1] == "| 1 | fp32 | 500 MFLOP | 100 MB | 5 | 80.0 MB |"


def test_a_roof_that_other_programs_disturbed_is_told_to_be_too_low():
    said = show.roof_line(found(rates=replace(RATES, load=0.4)))
    assert said.startswith(show.roof_line(found()))
    assert "Other programs used 40 % of the cores meanwhile" in said


def test_what_is_known_before_anything_is_timed_is_a_bound():
    # 500 MFLOP at 200 GFLOP/s take 2.5 ms, 100 MB at 20 GB/s 5 ms.
    rates = Roof({"fp32": 200e9}, 20e9, "stream_triad")
    (said,) = show.bound_lines(found(), rates, "at a rough first look")
    assert said == (
        "Batch 1 at fp32: 5.00 ms or more, bound by memory (200 GFLOP/s and 20.0 GB/s at a rough first look)."
    )
    assert show.bound_lines(found(), Roof({}, 20e9, None), "by the datasheet") == []
    assert show.bound_lines(found(), None, "no memory") == ["No first look at the roof: no memory."]
