from types import SimpleNamespace

import pandas as pd
from recomputing import remedies


def test_what_helps_most_is_what_was_measured_to_beyond_both_intervals():
    columns = ["model", "batch", "precision", "variant", "latency_s", "low_s", "high_s"]
    cells = pd.DataFrame(
        [
            ("a", 1, "fp32", "eager", 1.0, 0.9, 1.1),
            ("a", 1, "bf16", "eager", 0.8, 0.7, 0.85),  # 1.25 times as fast, 0.9 / 0.85 at least
            ("a", 4, "fp32", "eager", 2.0, 1.0, 4.0),  # 4 · 1 / 2 = 2 times as fast, but 4 · 0.9 / 4 at least
            ("b", 1, "fp32", "eager", 1.0, 0.9, 1.1),
            ("b", 4, "fp32", "eager", 2.0, 1.9, 2.1),  # 4 · 0.9 / 2.1 at least
        ],
        columns=columns,
    )
    profiles = pd.DataFrame(
        [(model, 1, "fp32", "inference", "eager", "ok") for model in "abc"],
        columns=["model", "batch", "precision", "phase", "variant", "status"],
    )
    variants = pd.DataFrame(
        [
            ("a", 1, "fp32", "cold", 3.0, 0.9),
            ("b", 1, "fp32", "kept_memory", 1.5, 1.2),
            ("c", 1, "fp32", "cold", 1, 0.9),
        ],
        columns=["model", "batch", "precision", "variant", "speed_up", "speed_up_low"],
    )
    third = cells.iloc[[0]].assign(model="c")
    cells = pd.concat([cells, third])
    asked = cells[(cells.precision == "fp32") & (cells.batch == 1)].assign(operator_bound_s=0.1)
    cache = SimpleNamespace(asked=lambda machine: asked)
    machine = SimpleNamespace(cells=cells, profiles=profiles, speed_ups=variants)
    assert remedies.helping(cache, machine) == (["bf16", "batch size 4"], 3)
