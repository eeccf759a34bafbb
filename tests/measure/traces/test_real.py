"""A real trace of an H100, as published by AMD-AGI/TraceLens (MIT licence, copyright Advanced Micro Devices, Inc.)."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.cells import profile_task
from helpers.places import ROOT, TESTS
from helpers.rows import ENVIRONMENT

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads
from measure.cache.traces import read_trace, trace_names
from measure.models import catalog
from measure.profiling.profile import CellProfile, read_recording, rows_of
from measure.run.sections import put
from measure.run.storing import RunCache

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
    (device,) = committed.devices
    labels = {"source": device.source, "licence": device.licence, "version": device.version}
    assert [replace(row, **labels) for row in ours.devices] == [device]


class Replayed:
    """A profiler that recorded this trace."""

    def export_chrome_trace(self, path):
        Path(path).write_bytes(gzip.decompress(TRACE.read_bytes()))


def test_a_profile_is_stored_as_an_imported_trace(tmp_path, capsys, committed):
    rows = rows_of(read_recording(Replayed()), {committed.steps[0].step})
    (model,) = catalog.find(["vit_b_16"])
    task = profile_task(model, 4, "bf16", "eager", "inference")
    (tmp_path / "chips.csv").write_bytes((ROOT / "data" / "chips.csv").read_bytes())
    name = "NVIDIA H100 80GB HBM3"
    environment = replace(ENVIRONMENT, device="cuda", name=name)
    cache = RunCache(Workloads(tmp_path), MachineFolder(tmp_path, "h100"), environment)
    for _ in range(2):  # measured again, it replaces itself
        put(cache, task, CellProfile(3, 0.5, 0.5, (), trace=rows))
    (folder,) = trace_names(tmp_path)
    stored = read_trace(tmp_path, folder)
    assert (stored.operators, stored.steps) == (committed.operators, committed.steps)
    (device,) = stored.devices
    assert (device.network, device.source) == ("ViT-B/16, batch 4, bf16, inference", "machines/h100")
    assert (device.chip, device.device_name, device.torch) == ("NVIDIA H100 SXM", name, "2.9")
    assert stored.is_measured
    assert not committed.is_measured
    for verb in (["show"], ["trace", folder]):
        assert command.main([*verb, "--data", str(tmp_path)]) == 0
        assert device.network in capsys.readouterr().out
