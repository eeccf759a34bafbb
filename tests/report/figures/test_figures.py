"""Every figure of the package: a valid chart over papers that fill it, and a sentence without data."""

import inspect
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import vl_convert
from helpers.charts import drawn, on, rows, titles
from helpers.counted_papers import counted
from helpers.elsewhere_papers import timed_elsewhere
from helpers.fleets import fleet
from helpers.papers import empty, tiny, wide
from helpers.predicted_papers import predicted
from helpers.profiled_papers import profiled
from helpers.published_papers import printed
from helpers.sentences import plain
from helpers.spoken import spoken
from helpers.sweep_papers import swept
from helpers.training_papers import trained

from report import figures
from report.analysis.available import Missing

PAPERS = {
    **{
        module: {"timed elsewhere": timed_elsewhere}
        for module in ("elsewhere", *(f"elsewhere_{part}" for part in ("pairs", "predictors", "roofs", "shares")))
    },
    "elsewhere_sweeps": {"swept": swept},
    "fleet": {"five machines": partial(fleet, 1, 1.5, 2, 4, 8)},
    "kernels": {"counted": counted, "trained": trained},
    "kernels.counted_bytes": {"counted": counted},
    "language": {"spoken": spoken},
    "layer_shares.kinds": {"wide": wide},
    "layer_shares": {"trained": trained, "trained on a CPU": partial(trained, gpu=False)},
    "pies": {"trained": trained, "trained on a CPU": partial(trained, gpu=False)},
    "prediction": {"predicted": predicted},
    "published": {"printed": printed},
    "ratios": {"trained": trained, "trained on a CPU": partial(trained, gpu=False)},
    "strips": {"trained": trained, "trained on a CPU": partial(trained, gpu=False)},
    "waterfall": {"profiled": profiled, "profiled on a CPU": partial(profiled, gpu=False)},
}
"""The papers for modules, or single figures, that need more than the wide one holds."""

CHOICES = {"kind": ("cpu", "gpu", "asic", "fpga"), "device": ("cpu", "gpu")}
"""What figures are asked for, by the names of their parameters."""


def calls():
    """Yield the name of every figure, its function, and each combination of what it is asked for."""
    for module in figures.__all__:
        for name, function in inspect.getmembers(getattr(figures, module), inspect.isfunction):
            if function.__module__ == f"report.figures.{module}" and hasattr(function, "__wrapped__"):
                asked = list(inspect.signature(function).parameters)[1:]
                for arguments in product(*(CHOICES[parameter] for parameter in asked)):
                    yield f"{module}.{name}", function, arguments


def papers(figure):
    return PAPERS.get(figure) or PAPERS.get(figure.partition(".")[0]) or {"wide": wide}


def on_papers():
    for figure, function, arguments in calls():
        for name, paper in papers(figure).items():
            yield pytest.param(function, arguments, paper, id="-".join([figure, *arguments, name]))


@pytest.mark.parametrize(("function", "arguments", "paper"), list(on_papers()))
def test_every_figure_is_valid_named_described_and_drawn(function, arguments, paper):
    specification = drawn(function, paper(), *arguments)
    assert specification["name"]
    assert len(specification["description"]) > 60
    assert "nan" not in str(specification["datasets"])
    picture = vl_convert.vegalite_to_svg(specification)
    assert "mark-" in picture
    assert "NaN" not in picture
    assert "undefined" not in picture


def test_without_data_every_figure_is_a_sentence():
    charts = [figure for figure, function, asked in calls() if not isinstance(function(empty(), *asked), Missing)]
    assert charts == []


def test_names_of_pictures_are_unique():
    papers_of = [(function, asked, next(iter(papers(figure).values()))) for figure, function, asked in calls()]
    names = [drawn(function, paper(), *asked)["name"] for function, asked, paper in papers_of]
    assert len(set(names)) == len(names) > 30


def test_demands():
    bars = rows(drawn(figures.workload.demands, tiny()), "model", "exactly")
    exactly = {(row["model"], plain(row["exactly"])) for row in bars}
    assert ("broad", "510,000,000 FLOP") in exactly
    assert ("broad", "25,000,000 parameters") in exactly
    assert ("broad", "102,000,000 B") in exactly
    assert ("broad", "5.0000 FLOP/B") in exactly
    assert len(bars) == 16


def test_intensity_by_batch():
    points = {
        (row["model"], row["batch"]): row["intensity"]
        for row in rows(drawn(figures.workload.intensity_by_batch, tiny()), "model", "intensity")
    }
    # deep at batch 8: 40 GFLOP over 40 + 4 + 76 MB
    assert points["deep", 8] == pytest.approx(40e9 / 120e6, rel=1e-5)
    assert len(points) == 8


def test_flop_by_footprint():
    points = {row["model"]: row for row in rows(drawn(figures.workload.flop_by_footprint, tiny()), "model", "byte")}
    assert (points["broad"]["byte"], points["broad"]["flop"]) == (102e6, 510e6)
    assert plain(points["deep"]["intensity"]) == "100.0 FLOP/B"
    assert len(points) == 4


def test_layer_kinds():
    chart = drawn(figures.layer_shares.kinds, tiny())
    flop, parameters, traffic = (
        {(row["model"], row["kind"]): row["part"] for row in chart["datasets"][panel["data"]["name"]]}
        for panel in chart["concat"]
    )
    # lean: 90 MFLOP of convolution, 10 of activation and 10 of the linear layer, of 110 in all
    assert flop["lean", "convolution"] == pytest.approx(90 / 110, rel=1e-4)
    assert flop["lean", "activation"] == pytest.approx(10 / 110, rel=1e-4)
    # 0.25 of 1 M parameters; 1 + 9 of 20 MB
    assert (parameters["lean", "convolution"], traffic["lean", "convolution"]) == (0.25, 0.5)
    assert ("lean", "activation") not in parameters  # it has none
    for shares in (flop, parameters, traffic):
        for model in ("lean", "broad", "deep", "tokens"):
            assert sum(part for (name, _), part in shares.items() if name == model) == pytest.approx(1, abs=1e-4)


def test_attainable():
    chart = drawn(figures.bounds.attainable, tiny())
    assert len(chart["concat"]) == 3
    # lean at batch 1 by traffic: 5 FLOP/B, of the CPU's 10 GB/s 50 GFLOP/s, of the GPU's 0.5 TB/s 2.5 TFLOP/s
    found = {
        (row["roof"], row["batch"]): (row["rate"], row["bound"])
        for row in rows(chart, "model", "rate")
        if row["model"] == "lean" and plain(row["FLOP per byte"]) == "5.000 FLOP/B"
    }
    assert found == {("Example CPU (4 cores)", 1): (50e9, "memory-bound"), ("Example GPU", 1): (2.5e12, "memory-bound")}
    # Two roofs, three definitions, four models, two batch sizes.
    assert len(rows(chart, "model", "rate")) == 48


def test_attainable_with_a_chip_where_no_gpu_was_measured():
    chart = drawn(figures.bounds.attainable, replace(wide(), machines=(tiny().machine("cpu"),)))
    names = {row["text"] for row in rows(chart, "text", "x")}
    assert {plain(name) for name in names} == {
        "Example CPU (4 cores), measured: 100 GFLOP/s", "NVIDIA D4 (SXM), datasheet: 40.0 TFLOP/s",
    }  # fmt: skip


def test_training_memory():
    chart = drawn(figures.workload.training, tiny())
    # lean at batch 8: 4 MB of parameters, as much of gradients and of momentum, 40 MB saved; the peak is 60 MB
    parts = {row["part"]: row for row in rows(chart, "model", "part") if row["model"] == "lean"}
    assert parts["momentum"]["share"] == pytest.approx(4 / 60, rel=1e-4)
    assert parts["saved activations"]["share"] == pytest.approx(40 / 60, rel=1e-4)
    assert plain(parts["saved activations"]["size"]) == "40.00 MB"
    (lean,) = [row for row in rows(chart, "model", "inference") if row["model"] == "lean"]
    assert lean["inference"] == pytest.approx(20 / 60, rel=1e-4)
    assert plain(lean["peak in training"]) == "60.0 MB"


def only_cpu():
    return replace(tiny(), machines=(tiny().machine("cpu"),))


def test_a_panel_a_device_that_was_measured():
    assert titles(drawn(figures.benchmarks.throughput, tiny())) == ["CPU", "GPU"]
    assert titles(drawn(figures.benchmarks.throughput, only_cpu())) == ["CPU"]


def test_throughput():
    points = on("CPU", drawn(figures.benchmarks.throughput, tiny()), "model", "rate")
    assert points["lean", 8]["rate"] == 500  # 8 / 16 ms
    assert points["deep", 1]["rate"] == 10  # 1 / 100 ms
