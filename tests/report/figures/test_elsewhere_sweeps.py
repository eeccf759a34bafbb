from dataclasses import replace

from helpers.charts import drawn, rows, titles
from helpers.sentences import plain
from helpers.sweep_papers import T4, V100, swept

from report.figures import elsewhere_sweeps


def test_a_panel_a_device_with_a_line_a_model_and_precision():
    chart = drawn(elsewhere_sweeps.throughput, swept())
    assert titles(chart) == [T4, V100]
    points = {(row["device"], row["line"], row["batch"]): row for row in rows(chart, "line", "saturated")}
    assert len(points) == 25
    assert points[T4, "resnet50, fp32", 64]["rate"] == 390
    saturated = {key for key, row in points.items() if row["saturated"]}
    assert saturated == {
        (T4, "ash, fp32", 16), (T4, "ash, fp16", 256), (T4, "resnet50, fp32", 64), (T4, "resnet50, fp16", 256),
        (V100, "resnet50, fp32", 64),
    }  # fmt: skip
    assert "2 models on the NVIDIA T4 and NVIDIA V100 SXM2 at fp32 and fp16" in plain(chart["description"])
    assert "1040 inputs/s (resnet50, fp32 on the NVIDIA V100 SXM2 at batch size 256)" in (
        plain(chart["description"]).replace(",040", "040")
    )


def test_printed_steps_stand_beside():
    # 64 / 0.7590 and 64 / 0.1867
    found = rows(drawn(elsewhere_sweeps.throughput, swept()), "step")
    steps = {(row["device"], row["step"]): row["rate"] for row in found}
    assert len(steps) == 6
    assert (steps[T4, "step of resnet50"], steps[V100, "step of resnet50"]) == (84.321, 342.8)


def test_without_printed_steps_there_are_the_lines():
    none = replace(swept(), training_steps=swept().training_steps.head(0))
    chart = drawn(elsewhere_sweeps.throughput, none)
    assert titles(chart) == [T4, V100]
    assert "printed" not in chart["description"]
