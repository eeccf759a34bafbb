import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.places import ROOT
from helpers.watching import watch_writes
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import file_of
from measure.domain.values import percent
from measure.predicting.records import ALL, BY_BOTH, BY_DEVICE, OURS, PUT_ASIDE, Coefficient, PredictionError
from measure.predicting.study import ASIDE
from measure.published.records import PublishedTiming

CACHE = Path("cache")
OPTIONS = ("option", "autocast"), ("option", "benchmark")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """The counts of the world and real chips; one of its networks was timed by others on three GPUs."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(WORLD / "published" / "measurements", CACHE / "published" / "measurements")
    shutil.copy(ROOT / "data" / "chips.csv", CACHE)  # which has the devices that are put aside
    timed = next(row for row in table.read(file_of(PublishedTiming, WORLD), PublishedTiming) if row.autocast == "fp16")
    rows = [replace(timed, device=device) for device in ("NVIDIA T4", "NVIDIA V100 SXM2", ASIDE[1])]
    table.write(file_of(PublishedTiming, CACHE), PublishedTiming, rows)


def fit(*flags):
    return command.main(["fit", *flags, "--data", "cache"])


def read(record):
    return table.read(file_of(record, CACHE), record)


def test_only_one_fit_at_a_time_writes_coefficients_and_errors(monkeypatch, capsys):
    written = watch_writes(monkeypatch)
    assert fit() == 0
    assert written == dict.fromkeys(("coefficients.csv", "hosts.csv", "networks.csv", "errors.csv"), True)
    found = {(row.device, row.level, row.label) for row in read(Coefficient)}
    assert found == {("any GPU", *each) for each in (("pool", ""), ("die", "TU104"), ("die", "GV100"), *OPTIONS)}
    printed = capsys.readouterr()
    assert printed.out.split("\n")[0].split()[:3] == ["left", "out", "device"]
    of_kinds = printed.out.split("\n\n")[1]
    assert "any GPU, fp32, inference" in of_kinds or "any GPU, 16 bits, inference" in of_kinds
    assert "->" not in of_kinds  # nothing was fitted before
    assert "any GPU" in printed.err
    assert {row.left_out for row in read(PredictionError)} == {BY_DEVICE, BY_BOTH, PUT_ASIDE}
    (whole,) = (
        row
        for row in read(PredictionError)
        if (row.left_out, row.source, row.method, row.batches, row.sort) == (BY_DEVICE, "", OURS, ALL, ALL)
    )
    assert fit() == 0
    of_kinds = capsys.readouterr().out.split("\n\n")[1]
    assert of_kinds.count(f"{percent(whole.median_error)} -> {percent(whole.median_error)}") == 1
    with table.held(file_of(Coefficient, CACHE).parent / table.NAME):
        assert fit() == 2
    assert "is fitting in cache/prediction" in capsys.readouterr().err
