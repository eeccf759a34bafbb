import pytest

from measure.cache.columns import COLUMNS
from measure.cache.records import KEYS, Environment, Run, Workload
from measure.cache.table import _column_types, read
from measure.errors import UserError


@pytest.mark.parametrize("record", COLUMNS)
def test_columns_with_a_form_are_texts_of_their_record(record):
    types = {name: plain for name, (plain, _) in _column_types(record).items()}
    assert record in KEYS
    assert all(types[name] is str for name in COLUMNS[record])


@pytest.mark.parametrize(
    ("record", "column", "fitting", "others"),
    [
        (Run, "status", ["ok", "oom"], ["fine", "OK", "ok ", "ok;oom", "ok\n"]),
        (Run, "flags", ["wide", "wide;drifting"], ["wide,drifting", ";", "wide;", "tall"]),
        (Run, "variant", ["eager", "channels_last+compile", "compile+adam"], ["fast", "eager+", "+eager"]),
        (Environment, "device", ["cpu", "cuda"], ["tpu", "cuda:0"]),
        (Environment, "caches", ["1:65536:2;3:33554432:1"], ["1:2", "one:2:3", "1;2"]),
        (
            Environment,
            "tuning",
            ["OMP_PROC_BIND=close", "MALLOC_MMAP_MAX_=0;LD_PRELOAD=a.so,b.so"],
            ["fast", "A=", "A=1;"],
        ),
        (Workload, "uncounted", ["sort:2:0.1", "a:b:1:2e-05;sort:2:1"], ["sort", "sort:2", ";"]),
    ],
)
def test_a_form_takes_what_fits_whole(record, column, fitting, others):
    form = COLUMNS[record][column]
    assert all(map(form.fits, fitting))
    assert not any(map(form.fits, others))


WORDS = (
    "ok",
    "cpu",
    "fp32",
    "inference",
    "convolution",
    "eager",
    "matmul",
    "burst",
    "MKL_CBWR=AUTO",
    "wide",
    "1:1:1",
    "a:1:1",
)
"""One at least fits each form."""

CELLS = [(record, column) for record, columns in COLUMNS.items() for column in columns]


@pytest.mark.parametrize(
    ("record", "column"), CELLS, ids=[f"{record.__name__}-{column}" for record, column in CELLS]
)
def test_another_word_is_named_with_file_and_line(tmp_path, record, column):
    cells = {}
    for name, (plain, _) in _column_types(record).items():
        form = COLUMNS[record].get(name)
        cells[name] = next(filter(form.fits, WORDS)) if form else "1" if plain in (int, float) else "x"
    path = tmp_path / "table.csv"

    def put(text):
        path.write_text(",".join(cells) + "\n" + ",".join((cells | {column: text}).values()) + "\n")

    put(cells[column])
    assert len(read(path, record)) == 1
    put("<script>alert(1)</script>" * 9)
    with pytest.raises(UserError) as caught:
        read(path, record)
    told = str(caught.value)
    assert told.startswith(f"{path}, line 2, column {column}: the cell is '<script>")
    assert len(told) < 400 + len(str(path))
    assert told.endswith("; mend the line or delete it")
