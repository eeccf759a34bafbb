"""The appendix on published results: verdicts by hand, and the project's own tables against known misprints."""

from dataclasses import replace
from functools import cache

import pandas as pd
import pytest
from helpers.places import ROOT
from helpers.world import REFERENCES, nothing

from report import facts
from report.chapters.published import tables
from report.chapters.published.facts import RARE
from report.chapters.published.tables import AGREES, OPEN, UNKNOWN, VERDICTS, judge
from report.paper import REFERENCE, load
from report.stats.value import Value


@cache
def whole():
    """The project's data of the reference machine alone."""
    paper = load(ROOT / "data", REFERENCES, chosen=[REFERENCE])
    vars(paper)["reference"] = paper
    return paper


HALF = [("half", 50.0)]
TIMED = Value(2.0, low=1.5, high=2.5)


@pytest.mark.parametrize(
    ("printed", "rounding", "ours", "causes", "verdict"),
    [
        (100, 0.5, Value(100.0), HALF, AGREES),
        (101, 0.5, Value(100.0), HALF, AGREES),  # 1 % off
        (101.1, 0.05, Value(100.0), HALF, UNKNOWN),
        (104, 5, Value(100.0), HALF, AGREES),  # within its rounding
        (50, 0.5, Value(100.0), HALF, "half"),
        (51.4, 0.5, Value(100.0), HALF, "half"),  # 2.8 % off
        (51.6, 0.5, Value(100.0), HALF, UNKNOWN),  # 3.2 % off
        # 204 is 2 % from 200, which comes first, but within 1 % of 205; of equal ones the first
        (204, 0.5, Value(100.0), [("far", 200.0), ("near", 205.0)], "near"),
        (200, 0.5, Value(100.0), [("first", 200.0), ("second", 200.0)], "first"),
        (2.01, 0.005, TIMED, [], AGREES),
        (2.4, 0.05, TIMED, [], OPEN),  # within the interval of a timing
        (2.54, 0.05, TIMED, [], OPEN),  # could be 2.5
        (65.0, 0.5, Value(None), [("precision", 65.0)], "precision"),  # without ours only a cause makes a verdict
        (60.0, 0.5, Value(None), [("precision", 65.0)], ""),
    ],
)
def test_a_figure_is_ours_or_has_a_likely_cause(printed, rounding, ours, causes, verdict):
    assert judge(printed, rounding, ours, causes) == verdict


def test_a_timing_outside_of_the_interval_is_another_machines():
    assert judge(2.6, 0.05, TIMED, [], "machine") == "machine"


def test_outputs_count_in_place_or_not():
    # A convolution keeps 400 B; a ReLU in place reads and writes 400 B; a sum reads two and writes 300 B for 75 numbers
    layers = pd.DataFrame({
        "model": "net", "batch": 1, "precision": "fp32", "activation_byte": [400, 0, 0],
        "traffic_byte": [900, 800, 900], "parameter_byte": [100, 0, 0], "forward_other_flop": [0, 100, 75],
    })  # fmt: skip
    assert tables.output_byte(replace(nothing(), layers=layers), "net") == 400 + 400 + 300


MISPRINTS = {
    "chips": {
        ("A", "NVIDIA H100 SXM, bf16", "peak"): "sparse",  # 1,979 TFLOP/s; dense 989.4
        ("A", "NVIDIA T4", "peak"): "precision",  # 65 TFLOP/s is fp16; fp32 has 8.1
        # 2 cores x 4.1 GHz x 2,048 OP a cycle are 16.8 TOP/s; 33.6 are printed
        ("C", "Intel Xeon Gold 6448Y (2 cores), int8", "peak"): "doubled",
        ("D", "NVIDIA V100, fp32", "bandwidth"): AGREES,
    },
    "models": {("B", "AlexNet", "FLOP"): AGREES},
    "training": {
        # AlexNet's linear layers have 58.6 M weights, with 4 FLOP each and input on the way back: 15.0 G for 64
        ("A", "AlexNet, batch 64", "FLOP, backward"): "linear",
        ("B", "ResNet-50, batch 32", "FLOP, forward/backward"): "repeated",
        ("C", "ResNet-18", "FLOP, forward/backward"): "gradient",
    },
    "training_steps": {
        # 215.4 GB/s x 0.9508 s = 204.8 GB, and 204.8 GFLOP/s is printed
        ("D", "ResNet-50, NVIDIA L4", "FLOP, rate × time"): "misprint",
        # 1,615 GFLOP/s over 147.8 GB/s is 10.93; 10.92 is printed
        ("D", "ResNet-50, NVIDIA T4", "intensity"): AGREES,
    },
}  # fmt: skip


@pytest.mark.parametrize("table", MISPRINTS)
def test_verdicts_of_the_projects_tables(table):
    found = {(row.study, row.subject, row.quantity): row.verdict for row in tables.of(whole().reference)[table]}
    assert {key: found[key] for key in MISPRINTS[table]} == MISPRINTS[table]


def test_quantities_that_are_all_wrong_alike():
    rows = tables.of(whole().reference)
    footprints = [row for row in rows["models"] if row.quantity == "footprint"]
    assert {row.verdict for row in footprints} == {"summary"}
    assert "Inception-v3" not in {row.subject for row in footprints}  # its size of input is unknown
    # 270 GFLOP at 8.1 TFLOP/s take 33.3 ms; 33.33 s are printed
    assert {row.verdict for row in rows["step_estimates"] if row.quantity == "time"} == {"milliseconds"}


def test_an_estimate_of_an_unknown_batch_is_not_compared_with_counts():
    others = whole().published
    paper = replace(whole(), published=replace(others, training_steps=others.training_steps.iloc[:0]))
    assert {row.quantity for row in tables.of(paper)["step_estimates"]} == {"time"}


def test_the_ratios_of_both_passes_that_profilers_print():
    ratios = facts.of_chapter("published", whole()).ratios
    assert (ratios.lowest.number, ratios.highest.number) == (0.0006, 425.38)  # rows of data/published/training.csv


def test_the_numbers_of_the_text_add_up_and_every_cause_is_in_it():
    found = facts.of_chapter("published", whole())
    causes = {name: getattr(found.causes, name).number for name in found.causes.__dataclass_fields__}
    assert sum(causes.values()) == found.differ.number
    assert found.agree.number + found.open.number + found.differ.number == found.figures.number
    text = (ROOT / "report" / "chapters" / "published" / "published.qmd").read_text("utf-8")
    assert [name for name in causes if text.count(f"published.causes.{name}`") != 1] == []
    assert set(VERDICTS) == {AGREES, OPEN, *RARE, *causes} - {"rare"}


def test_who_printed_and_who_timed():
    found = facts.of_chapter("published", whole())
    assert found.studies.number == 4  # A to D
    # Two peaks of tensor cores next to fp32 and int8; B's times of GoogLeNet and MobileNet-v3 and C's of AlexNet,
    # SqueezeNet and ResNet-18 lie outside our intervals
    assert (found.causes.precision.number, found.causes.machine.number) == (2, 5)
    others = whole().published
    timings = pd.DataFrame({"source": ["timm_results", "lamikr_benchmark", "timm_results", "timm_results"]})
    paper = replace(whole(), published=replace(others, timings=timings))
    vars(paper)["reference"] = paper
    credit = facts.of_chapter("published", paper).timings
    assert (credit.all.number, credit.timm.number) == (4, 3)
