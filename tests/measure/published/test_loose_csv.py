"""Published tables as others write them; each file below says the same as ``PLAIN``."""

import csv
import io

import pytest

from measure.domain.schema import TABLES
from measure.errors import UserError
from measure.published import loose_csv
from measure.published.records import PublishedBandwidth, PublishedProduct, PublishedTiming

RECORDS = (PublishedTiming, PublishedBandwidth, PublishedProduct)
COLUMNS = list(TABLES[PublishedTiming].columns)
LINE = "src,a.csv,Bead 2,inference,resnet50,8,224,fp32,,contiguous,,2.4,12.4,0.02,,,40,400.5,no,yes,mean,25560000"
ROW = LINE.split(",")
PLAIN = [COLUMNS, ROW]


def written(rows, **dialect):
    text = io.StringIO()
    csv.writer(text, **dialect).writerows(rows)
    return text.getvalue()


def changed(header=None, cells=None, rows=PLAIN):
    return [[(header or {}).get(name, name) for name in rows[0]], [(cells or {}).get(cell, cell) for cell in rows[1]]]


def indexed(name, start):
    return [[name, *COLUMNS], [start, *ROW]]


ALL = {"quoting": csv.QUOTE_ALL}
PRESENT = [place for place, cell in enumerate(ROW) if cell]  # others are unknown, and may be left out

DIALECTS = {
    "plain": written(PLAIN),
    "quoted": written(PLAIN, **ALL),
    "R's write.csv": written(indexed("", "1"), **ALL).replace('""', "NA").replace("NA,", '"",', 1),
    "R's write.table": written([COLUMNS, ["1", *(cell or "NA" for cell in ROW)]], delimiter=" ", **ALL),
    "pandas": written(indexed("", "0")),
    "pandas, read and written again": written(indexed("Unnamed: 0", "0")),
    "semicolons": written(PLAIN, delimiter=";"),
    "tabs": written(PLAIN, delimiter="\t"),
    "blank lines and capitals": written([[name.upper() for name in COLUMNS], [], ROW, []]),
    "milliseconds": written(changed({"latency_s": "latency_ms"}, {"0.02": "20"})),
    "microseconds": written(changed({"latency_s": "latency_us"}, {"0.02": "2e4"})),
    "without the unknown": written([[row[place] for place in PRESENT] for row in PLAIN]),
}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", DIALECTS)
def test_any_dialect_says_the_same(tmp_path, name, encoding):
    file = tmp_path / "table.csv"
    file.write_bytes(DIALECTS[name].encode(encoding))
    record, [(_, row)] = loose_csv.read(file, RECORDS)
    assert record is PublishedTiming
    assert (row.source, row.device, row.batch, row.autocast, row.printed) == ("src", "Bead 2", 8, None, "mean")
    # 20 ms and 20,000 us are 0.02 s
    assert (row.latency_s, row.latency_min_s, row.throughput_per_s) == (pytest.approx(0.02, rel=1e-12), None, 400.5)


RATE = ["src", "a.txt", "Bead 2", "gpu-cache", "read", "2048", "", "1e12", "0.3"]


@pytest.mark.parametrize(
    ("column", "other", "old", "new"),
    [
        ("working_set_byte", "working_set_kib", "2048", "2"),  # 2 x 1024 B
        ("working_set_byte", "working_set_kb", "2048", "2.048"),
        ("byte_per_s", "gb_per_s", "1e12", "1000"), ("byte_per_s", "tbyte_per_s", "1e12", "1"),
    ],
)  # fmt: skip
def test_bytes_in_other_units(tmp_path, column, other, old, new):
    file = tmp_path / "table.csv"
    columns = list(TABLES[PublishedBandwidth].columns)
    file.write_text(written(changed({column: other}, {old: new}, [columns, RATE])))
    record, [(_, row)] = loose_csv.read(file, RECORDS)
    assert record is PublishedBandwidth
    assert (row.working_set_byte, row.byte_per_s) == (2048, 1e12)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (written(changed({"latency_s": "latency"})), "line 1: unknown column 'latency'"),
        (written(PLAIN) + "src,a.csv\n", "line 3: 2 cells where the header has 22"),
        (written(changed(cells={"0.02": "0,02"}), delimiter=";"), "line 2, column latency_s: the cell is '0,02'"),
        (written(changed({"latency_s": "latency_ms"}, {"0.02": "fast"})), "column latency_s: the cell is 'fast'"),
        (written(changed({"latency_s": "latency_ms", "latency_min_s": "latency_s"})), "duplicate column 'latency_s'"),
        (written(changed(cells={"0.02": "1e999"})), "column latency_s: the cell is '1e999'"),
        # Beyond the exponents of decimal numbers too, in whatever unit
        (written(changed(cells={"0.02": "1e9999999"})), "line 2, column latency_s: the cell is '1e9999999'"),
        (
            written(changed({"latency_s": "latency_ms"}, {"0.02": "1e9999999"})),
            "line 2, column latency_s: the cell is '1e9999999'",
        ),
        (written([["x" * 500], ["1"]]), f"unknown column '{'x' * 40}…'"),
        (b"source,device\n\xff\xfe\n", "is not UTF-8 text"),
        ("", "is missing"),
    ],
)
def test_an_unreadable_table_is_named_with_its_place(tmp_path, content, words):
    file = tmp_path / "table.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=r"table\.csv") as problem:
        loose_csv.read(file, RECORDS)
    assert words in str(problem.value)
