"""The bytes that nn.MultiheadAttention's fast path leaves out in inference, as devices ran it (docs/counting.md)."""

import pytest
import torch
from helpers.places import ROOT
from torch import nn
from torch.profiler import profile

from measure.cache import table
from measure.cache.traces import read_trace
from measure.domain.workload_records import Workload

LAYERS, WIDTH, TOKENS, BATCH = 12, 768, 50, 64  # of ViT-B/32: 7 x 7 patches and a class


@pytest.mark.parametrize(
    ("trace", "precision", "element_byte"), [("h100", "bf16", 2), ("h100", "fp32", 4), ("h200", "fp32", 4)]
)
def test_a_trace_of_inference_has_three_quarters_of_the_counted_bytes(trace, precision, element_byte):
    stored = read_trace(ROOT / "data", f"nvidia-{trace}-sxm-vit-b-32-batch-{BATCH}-{precision}-inference")
    steps = {row.step for row in stored.operators}
    ran = sum(row.byte or 0 for row in stored.operators) / len(steps)
    rows = table.read(ROOT / "data" / "workload" / "models.csv", Workload)
    key = ("vit_b_32", BATCH, precision)
    (counted,) = (row.traffic_byte for row in rows if (row.model, row.batch, row.precision) == key)
    # A copy of the input moves 2 T, the sum with three biases 6 T, the copies of queries, keys and values 6 T
    left_out = LAYERS * (2 + 6 + 6) * TOKENS * BATCH * WIDTH * element_byte
    assert ran + left_out == pytest.approx(counted, rel=2e-3)  # the fused attention also writes its sums
    assert ran / counted == pytest.approx(0.749, abs=0.002)


def test_torch_takes_the_fast_path_in_inference_alone():
    layer, tokens = nn.MultiheadAttention(16, 2, batch_first=True).eval(), torch.randn(1, 8, 16)
    for no_gradients, takes in ((True, True), (False, False)):
        with torch.inference_mode(no_gradients), profile() as profiler:
            layer(tokens, tokens, tokens, need_weights=False)
        names = {event.name for event in profiler.events()}
        assert ("aten::_native_multi_head_attention" in names) is takes
