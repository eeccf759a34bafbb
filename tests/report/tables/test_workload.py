import re
from dataclasses import replace

import pypandoc
import torch
from helpers.papers import tiny, wide
from helpers.sentences import cells

from measure.counting import recorder  # noqa: F401 - registers all formulas
from measure.counting.formulas import (
    batch_norm_backward_flop,
    batch_norm_flop,
    formula_of,
    row_norm_backward_flop,
    row_norm_flop,
)
from measure.domain.words import COSTS, ELEMENTARY, TANH_GELU
from report.tables import workload


def all_tables(paper):
    return [workload.models(paper), workload.training(paper), workload.bounds(paper)]


def test_models():
    # broad: 25 M parameters, 102 MB, 510 MFLOP / 102 MB, / 100.504 MB, / 120 MB
    rows = cells(workload.models(tiny()))
    assert [row[0] for row in rows] == ["broad", "deep", "lean", "tokens"]
    assert rows[0] == [
        "broad", "25.0 M", "510 MFLOP", "5.00 MFLOP", "102 MB", "5.00", "5.07", "4.25",
    ]  # fmt: skip


def test_training():
    rows = {row[0]: row[1:] for row in cells(workload.training(tiny()))}
    assert rows["lean"] == ["1.900", "–", "40.0 MB", "4.00 MB", "8.00 MB", "20.0 MB", "60.0 MB"]
    assert rows["tokens"][:2] == ["2.000", "10 %"]  # 3.2 of 32 GFLOP


def test_bounds():
    table = workload.bounds(wide())
    rows = {row[0]: row[1:] for row in cells(table)}
    assert "| Abacus 9, fp32, 10.0\u00a0FLOP/B | Abacus 9, bf16, 160\u00a0FLOP/B |" in table.splitlines()[0]
    # broad: 5 FLOP/B at fp32 and 10 at bf16, and from b (510 - 20) = 1000 on compute-bound at 10;
    # at 160 from b (510 - 160) = 8000, all bytes halved
    assert rows["broad"][:2] == ["0.50; 3", "0.063; 23"]
    # lean: 20 FLOP/B at bf16, at most 100 / 3
    assert rows["lean"][:2] == ["1.0; 1", "0.13; never"]


def test_a_model_that_was_not_counted_at_a_chips_precision():
    rows = wide().workloads
    partly = rows[(rows.precision == "fp32") | (rows.model == "lean")]
    table = {row[0]: row[1:] for row in cells(workload.bounds(replace(wide(), workloads=partly)))}
    assert table["broad"][:2] == ["0.50; 3", "–"]


def test_costs_are_those_that_are_counted():
    rows = {row[0]: row[1:] for row in cells(workload.costs().replace("\\", ""))}
    named = {
        name: (int(cost), place)
        for cost, row in rows.items()
        for place, cell in enumerate(row)
        for name in cell.split(", ")
        if name != "–"
    }
    assert named["add"] == (1, 0)
    assert named["sigmoid"] == (4, 0)  # 1 / (1 + exp(-x)): a change of sign, an exponential, an addition, a division
    assert named["sigmoid_backward"] == (3, 1)  # g y (1 - y)
    assert named["gelu (tanh)"] == (TANH_GELU["gelu"], 0)
    assert len(named) == len({*ELEMENTARY, *COSTS}) + len(TANH_GELU)


def value(formula, **letters):
    """What a formula of the table gives: ``5n - 2r`` for n and r."""
    return eval(re.sub(r"(\d)([a-z])", r"\1*\2", formula), {}, letters)


def flop(name, *args, out):
    return formula_of(f"aten::{name}")(args, {}, out).other_flop


def test_formulas_are_those_that_are_counted():
    rows = {text: (forward, backward) for text, forward, backward in workload.FORMULAS}
    printed = [row[0] for row in cells(workload.formulas())]
    assert len(printed) == len(rows)
    some, few = torch.empty(6, 20, device="meta"), torch.empty(6, 1, device="meta")
    scale = torch.empty(20, device="meta")
    image, half = torch.empty(2, 3, 8, 8, device="meta"), torch.empty(2, 3, 4, 4, device="meta")
    n, m, r = 120, 6, 6
    rest = iter(rows.values())
    assert value(next(rest)[0], n=n, m=m) == flop("sum", some, out=few)
    assert value(next(rest)[0], n=n) == flop("mean", some, out=few)
    assert value(next(rest)[0], n=n) == flop("var", some, out=few)
    forward, backward = next(rest)
    assert value(forward, n=n, r=r) == flop("_softmax", some, -1, False, out=some)
    assert value(backward, n=n, r=r) == flop("_softmax_backward_data", some, some, -1, torch.float, out=some)
    forward, backward = next(rest)
    assert value(forward, n=n, r=r) == flop("_log_softmax", some, -1, False, out=some)
    assert value(backward, n=n, r=r) == flop("_log_softmax_backward_data", some, some, -1, torch.float, out=some)
    assert value(next(rest)[0], n=384, c=3) == batch_norm_flop(image, training=False, tracked=True)
    forward, backward = next(rest)
    assert value(forward, n=384, c=3) == batch_norm_flop(image, training=True, tracked=True)
    assert value(backward, n=384, c=3) == batch_norm_backward_flop(image, True, (True, True, True))
    forward, backward = next(rest)
    assert value(forward, n=n, r=r) == row_norm_flop(some, few, scale, scale)
    assert value(backward, n=n, r=r, p=20) == row_norm_backward_flop(some, few, scale, (True, True, True))
    # 96 windows of 2 x 2 cover the image of 384 elements once.
    forward, backward = next(rest)
    assert value(forward, w=384, m=96) == flop("max_pool2d_with_indices", image, 2, 2, out=(half, half))
    assert value(backward, w=384, m=96) == flop("max_pool2d_with_indices_backward", half, image, out=image)
    forward, backward = next(rest)
    assert value(forward, w=384, m=96) == flop("avg_pool2d", image, 2, 2, out=half)
    assert value(backward, w=384, m=96) == flop("avg_pool2d_backward", half, image, 2, 2, 0, out=image)
    forward, backward = next(rest)
    assert value(forward, m=384) == flop("upsample_bilinear2d", half, [8, 8], False, out=image)
    assert value(backward, m=384) == flop("upsample_bilinear2d_backward", image, [8, 8], out=half)
    assert next(rest, None) is None


def test_pandoc_reads_each_table_as_one():
    for table in [*all_tables(wide()), workload.costs(), workload.formulas()]:
        html = pypandoc.convert_text(table, "html", format="markdown", extra_args=["--mathml"])
        assert html.count("<table") == 1
        assert html.count("<tr") == len(table.splitlines()) - 1
        assert "|" not in html
