"""A real trace of an H100, as published by AMD-AGI/TraceLens (MIT licence, copyright Advanced Micro Devices, Inc.)."""

import json
from dataclasses import replace

import pytest
from helpers.places import ROOT, TESTS

from measure import __main__ as command
from measure.cache.traces import read_trace

TRACE = TESTS / "data" / "h100-vit-base-batch4.json.gz"


@pytest.fixture(scope="module")
def committed():
    return read_trace(ROOT / "data", "nvidia-h100-sxm-vit-base")


def test_the_import_gives_the_committed_tables(tmp_path, capsys, committed):
    assert command.main(["import-trace", str(TRACE), "--name", "ViT-Base", "--json", "--data", str(tmp_path)]) == 0
    answer = json.loads(capsys.readouterr().out)
    # 154 kernels of 1.22 ms, as its events say; the first convolution's 2 fills are no kernels.
    assert (answer["kernels"], answer["steps"], answer["operator_share"]) == (154, 1, 1.0)
    assert answer["kernel_time_s"] == pytest.approx(1220.926e-6)
    ours = read_trace(tmp_path, "nvidia-h100-sxm-vit-base")
    assert (ours.operators, ours.steps) == (committed.operators, committed.steps)
    said = {"source": committed.devices[0].source, "licence": committed.devices[0].licence, "version": None}
    assert [replace(row, **said) for row in ours.devices] == [replace(row, version=None) for row in committed.devices]
