"""Large tables are read by pandas' parser as the cache's own reads them, and refused with the same words."""

import pandas as pd
import pytest

from measure.cache import table
from measure.domain.records import OperatorTime, Sample
from measure.domain.schema import TABLES
from measure.errors import UserError
from measure.published.records import PublishedTiming
from report.paper import frames

SAMPLE = "e,resnet18,{batch},fp32,inference,eager,0,1,{latency},0,{event},,,,,,"
TIMING = "study,f,{device},inference,resnet18,1,{size},fp32,,,,2.0,,0.5,,,{samples},,no,no,mean,"


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Write lines below a record's header; pandas reads however small the table is."""
    monkeypatch.setattr(frames, "LARGE", 0)

    def write(record, *lines, end="\n"):
        path = tmp_path / "table.csv"
        path.write_text("\n".join([",".join(TABLES[record].columns), *lines]) + end, "utf-8", newline="")
        return path

    return write


def both(path, record, monkeypatch):
    """Return the columns by pandas, and those by the cache's own parser, or the errors of each."""
    found = []
    for quick in (frames.quick_columns, None):
        monkeypatch.setattr(table, "quick", quick)
        try:
            found.append(table.columns(path, record))
        except UserError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize(
    ("record", "lines"),
    [
        (Sample, [SAMPLE.format(batch=1, latency="0.33471484400000375", event="1e-05")]),
        (Sample, [SAMPLE.format(batch=1, latency="1", event=""), SAMPLE.format(batch=2, latency="2", event="")]),
        (OperatorTime, ["e,m,1,fp32,step,eager,forward,,relu,1,0.5", "e,m,1,fp32,step,eager,forward,a.b,add,2,0"]),
        (
            PublishedTiming,
            [TIMING.format(device="A 1", size="", samples=""), TIMING.format(device="B", size=9, samples=3)],
        ),
        (PublishedTiming, [TIMING.format(device='"A, 1"', size=" 9", samples="")]),
        (Sample, []),
        (Sample, ["e,resnet18"]),
        (Sample, [SAMPLE.format(batch="1_0", latency="1", event="")]),
        (Sample, [SAMPLE.format(batch=1, latency="nan", event="")]),
        (Sample, [SAMPLE.format(batch=1, latency="1", event="soon")]),
        (Sample, [SAMPLE.format(batch=1, latency="1", event="").replace("eager", "eagerly")]),
        (PublishedTiming, [TIMING.format(device="A", size="1.5", samples="")]),
    ],
)
def test_both_parsers_agree(written, monkeypatch, record, lines):
    by_pandas, by_cache = both(written(record, *lines), record, monkeypatch)
    assert by_pandas == by_cache


def test_a_torn_last_line_is_skipped_except_in_hand_kept_tables(written, monkeypatch):
    sample, timing = SAMPLE.format(batch=1, latency="1", event=""), TIMING.format(device="A", size=1, samples=2)
    for record, line, rows in ((Sample, sample, 1), (PublishedTiming, timing, 2)):
        by_pandas, by_cache = both(written(record, line, line, end=""), record, monkeypatch)
        assert by_pandas == by_cache
        assert len(by_pandas["model"]) == rows


def test_tables_of_several_files_are_one_frame(written, tmp_path):
    path = written(Sample, SAMPLE.format(batch=1, latency="1", event=""))
    both_files = frames.read_frame(Sample, path, tmp_path / "missing.csv")
    pd.testing.assert_frame_equal(both_files, frames.read_frame(Sample, path))
    assert list(frames.read_frame(Sample, tmp_path / "missing.csv").columns) == list(TABLES[Sample].columns)
