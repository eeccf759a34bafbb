from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import many, tiny

from report.analysis import saturation
from report.analysis.available import DataMissingError
from report.analysis.saturation import ARITHMETIC, CAPACITY, MEMORY, OPEN


def cells(*rows, model="net"):
    """Cells of a model: batch size, throughput (None: ran out of memory), memory-bound or not."""
    return pd.DataFrame(
        [
            {
                "model": model,
                "batch": batch,
                "throughput_per_s": rate,
                "status": "oom" if rate is None else "ok",
                "attained": 0.5,
                "memory_bound": bound,
            }
            for batch, rate, bound in rows
        ]
    ).astype({"throughput_per_s": float})


def found(*rows):
    (row,) = saturation.saturations(cells(*rows)).to_dict("records")
    return row


def test_the_smallest_batch_with_the_share_of_the_best():
    row = found((1, 10.0, False), (4, 95.0, False), (16, 100.0, False))
    assert (row["batch"], row["limit"], row["attained"]) == (4, ARITHMETIC, 0.5)
    assert (row["batches"], row["first_per_s"], row["best_per_s"]) == ((1, 4, 16), 10, 100)
    assert (row["gain"], row["kept"]) == (10, 1)
    assert found((1, 10.0, False), (4, 94.9, False), (16, 100.0, False))["batch"] == 16


def test_it_may_be_the_smallest_and_throughput_may_fall():
    row = found((16, 40.0, False), (1, 100.0, True), (4, 70.0, False))
    assert (row["batch"], row["limit"], row["kept"], row["gain"]) == (1, MEMORY, 0.4, 1)


def test_the_largest_measured_is_open_or_the_last_that_fits():
    rising = [(1, 10.0, False), (4, 50.0, False), (16, 100.0, False)]
    assert found(*rising)["limit"] == OPEN
    assert found(*rising, (64, None, False))["limit"] == CAPACITY
    assert found((1, None, False), *rising[1:], (64, 200.0, False))["limit"] == OPEN  # a smaller one failed


def test_without_a_roof_the_limit_is_not_known():
    rows = cells((1, 100.0, False), (4, 100.0, False), (16, 90.0, False)).assign(attained=float("nan"))
    assert saturation.saturations(rows).limit.tolist() == [None]


def test_models_without_a_full_sweep_are_left_out():
    swept = cells((1, 1.0, False), (2, 2.0, False), (8, 3.0, False), model="swept")
    # Two sizes alone, and three with a factor of 16 in between
    two = cells((1, 1.0, False), (2, 2.0, False))
    wide = cells((1, 1.0, False), (4, 2.0, False), (64, 3.0, False), model="wide")
    assert saturation.saturations(pd.concat([swept, two, wide])).model.tolist() == ["swept"]


def test_of_a_machine():
    rows = saturation.of_machine(many().machine("cpu")).set_index("model")
    assert rows.batch.to_dict() == {**dict.fromkeys("abcdefg", 4), "h": 16}
    assert rows.limit.to_dict() == {**dict.fromkeys("abcdef", ARITHMETIC), "g": CAPACITY, "h": OPEN}
    assert rows.gain["b"] == pytest.approx(2.04)
    assert rows.kept["a"] == pytest.approx(0.5)
    cpu = many().machine("cpu")
    both = replace(cpu, cells=pd.concat([cpu.cells, cpu.cells.assign(precision="bf16")]))
    assert len(saturation.of_machine(both)) == 8  # at the base precision alone
    kept = cpu.cells.assign(variant="kept_memory", throughput_per_s=cpu.cells.batch * 1.0)
    rows = saturation.of_machine(replace(cpu, variants=kept))
    assert rows.variant.tolist() == ["eager"] * 8 + ["kept_memory"] * 8
    assert rows.batch.tolist()[8:] == [16] * 8
    with pytest.raises(DataMissingError, match=r"Example GPU over a full sweep .* --device cuda --batch-sizes"):
        saturation.of_machine(tiny().machine("gpu"))


def test_a_variant_without_a_sweep_leaves_batch_sizes_whole():
    machine = many().machine("cpu")
    one = machine.cells[machine.cells.precision == "fp32"].groupby("model").head(1)
    rows = saturation.of_machine(replace(machine, variants=one.assign(variant="kept_memory")))
    assert set(rows.variant) == {"eager"}
    assert rows.batch.dtype.kind == "i"
