import shutil

import pytest
from helpers import elsewhere_papers
from helpers.locks import watch_writes
from helpers.places import ROOT, TESTS

from measure import __main__ as command
from measure.cache import table
from measure.cache.hand_kept import PublishedTiming
from measure.cache.predictions import BY_DEVICE, PUT_ASIDE, Coefficient, KindCost, PredictionError
from measure.cache.schema import file_of
from measure.cache.table import NAME, held
from measure.predicting.study import ASIDE


@pytest.fixture
def data(tmp_path):
    shutil.copy(TESTS / "data" / "chips.csv", tmp_path)
    return tmp_path


def test_without_latencies_there_is_nothing_to_fit(data, capsys):
    assert command.main(["fit", "--data", str(data)]) == 2
    assert "holds no latency of a counted model on a device with known roofs" in capsys.readouterr().err


def test_coefficients_costs_and_errors_are_written(data, capsys):
    elsewhere_papers.put_elsewhere(data)
    assert command.main(["fit", "--data", str(data)]) == 0
    told = capsys.readouterr()
    assert told.out.split("\n")[0].split()[:3] == ["left", "out", "device"]
    assert "any GPU" in told.err
    for record in (Coefficient, KindCost):
        assert {row.device for row in table.read(file_of(record, data), record)} == {"any GPU"}
    # One device was timed, by one source, with fewer models than a fit of its own takes: nothing can be left out
    assert table.read(file_of(PredictionError, data), PredictionError) == []


def test_the_tables_are_locked_while_they_are_written(data, monkeypatch):
    elsewhere_papers.put_elsewhere(data)
    written = watch_writes(monkeypatch)
    assert command.main(["fit", "--data", str(data)]) == 0
    assert written == {"coefficients.csv": True, "kinds.csv": True, "errors.csv": True}


def test_a_second_fit_is_told_of_the_first(data, capsys):
    elsewhere_papers.put_elsewhere(data)
    folder = file_of(Coefficient, data).parent
    with held(folder / NAME):
        assert command.main(["fit", "--data", str(data)]) == 2
    assert "; wait for it or name another --data" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == [NAME]


def test_what_was_looked_at_stays_so(data):
    (data / "chips.csv").write_bytes((ROOT / "data" / "chips.csv").read_bytes())
    elsewhere_papers.put_elsewhere(data)
    model, latency_s = elsewhere_papers.name(12), elsewhere_papers.latency_s(12)
    devices = ("NVIDIA T4", "NVIDIA V100 SXM2", ASIDE[1])
    rows = [elsewhere_papers.timing(model, latency_s, device=device) for device in devices]
    table.write(file_of(PublishedTiming, data), PublishedTiming, rows)

    def left_out(*flags):
        assert command.main(["fit", *flags, "--data", str(data)]) == 0
        return {row.left_out for row in table.read(file_of(PredictionError, data), PredictionError)}

    assert left_out() == {BY_DEVICE}
    assert left_out("--aside") == left_out() == {BY_DEVICE, PUT_ASIDE}
