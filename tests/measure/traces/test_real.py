"""A real trace of an H100, as published by AMD-AGI/TraceLens (MIT licence, copyright Advanced Micro Devices, Inc.)."""

import json
from dataclasses import replace

import pytest
from helpers.places import ROOT, TESTS

from measure import __main__ as command
from measure.cache.trace_records import TraceOperator
from measure.cache.traces import read_trace

TRACE = TESTS / "data" / "h100-vit-base-batch4.json.gz"


def test_the_import_gives_the_committed_tables(tmp_path, capsys):
    assert command.main(["import-trace", str(TRACE), "--name", "ViT-Base", "--json", "--data", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    # 154 kernels of 1.22 ms, as its events say; the first convolution's 2 fills are no kernels.
    assert (answer["kernels"], answer["steps"], answer["operator_share"]) == (154, 1, 1.0)
    assert answer["kernel_time_s"] == pytest.approx(1220.926e-6)
    ours = read_trace(tmp_path, "nvidia-h100-sxm-vit-base")
    committed = read_trace(ROOT / "data", "nvidia-h100-sxm-vit-base")
    assert ours.operators == committed.operators
    assert ours.steps == committed.steps
    said = {"source": committed.devices[0].source, "licence": committed.devices[0].licence}
    assert [replace(row, version=None, **said) for row in ours.devices] == [
        replace(row, version=None) for row in committed.devices
    ]


def test_every_call_of_the_network_is_there():
    """12 layers: 4 products of 768 x 768, 2 of the feed-forward part, an attention, 2 norms; a norm and a pooler."""
    calls: dict[str, int] = {}
    rows: list[TraceOperator] = read_trace(ROOT / "data", "nvidia-h100-sxm-vit-base").operators
    for row in rows:
        calls[row.operator or ""] = calls.get(row.operator or "", 0) + row.calls
    assert calls["addmm"] == 12 * 6 + 1
    assert calls["_scaled_dot_product_flash_attention"] == calls["gelu"] == 12
    assert calls["native_layer_norm"] == 12 * 2 + 1
