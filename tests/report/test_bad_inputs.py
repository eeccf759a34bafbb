"""Bad input to the commands of the paper and damaged tables; ``tests/measure/test_bad_inputs.py`` has more."""

from pathlib import Path

import pytest
from helpers.bad_inputs import Bad, check, folder, make_project, put, swapped, text

import report.engine.quarto
from measure.cache.records import Profile, Sample
from measure.cache.schema import TABLES
from measure.cache.workload_records import Operator
from report.paper.printed import PrintedModel

GPU, TABLE = "data/machines/example-gpu", "data/machines/example-cpu/runs.csv"
PROFILE_HEADER, SAMPLE_HEADER, OPERATOR_HEADER, PRINTED_HEADER = (
    ",".join(TABLES[record].columns) for record in (Profile, Sample, Operator, PrintedModel)
)
PROFILE = "gpu-1,lean,1,fp32,inference,eager,ok,,2026-01-01T00:00:00+00:00,,,,,5,0,1,,,,"
SAMPLE = "gpu-1,lean,1,fp32,inference,eager,0,1,inf,0,,,,,,,"
PROGRAMS, PUBLISHED = "data/workload/counting_programs.csv", "data/published/models.csv"


def without(path):
    return lambda _monkeypatch: Path(path).unlink()


def rewritten(path, change):
    return lambda _monkeypatch: Path(path).write_bytes(change(Path(path).read_bytes()))


def no_pandoc(monkeypatch):
    def missing():
        raise OSError("No pandoc was found")

    monkeypatch.setattr("pypandoc.get_pandoc_path", missing)


CHIPS, CYCLES, BOOKS = "data/chips.csv", "data/flop_per_cycle.csv", "bib/references.bib"
FLAGS = [
    ("--data nowhere", "nowhere"),
    ("chek", "'chek' is not one of"),
    ("--engine latex", "--engine: 'latex'"),
    ("--fromats html", "did you mean --formats?"),
    ("--formats docx", "--formats: 'docx'"),
    ("--formats svg --data data", "--formats of render: 'svg'"),
    ("figures --formats html --data data", "--formats of figures: 'html'"),
    ("--machines x --data data", "'x' is not one of example-cpu, example-gpu"),
    ("--models lea --data data", "did you mean lean?"),
    ("why --data data", "training.step.over_forward"),
    ("--engine quarto --data data", "no quarto"),
    *((f"{flag}= --engine embedded", f"{flag}: the value is empty")
      for flag in ("--data", "--chapters", "--machines", "--figures", "--out")),
    ("--data data --engine embedded --out index.qmd", "--out: index.qmd is a file"),
    ("figures --data data --out index.qmd/figures", "index.qmd is a file"),
    *(("--engine embedded --data data", *rest) for rest in (
        ("_quarto.yml", without("_quarto.yml")),
        ("_quarto.yml", folder("_quarto.yml")),
        ("_quarto.yml", put("_quarto.yml", b"title: \xff\n")),
        ("_quarto.yml", put("_quarto.yml", b"title: A\x00B\n")),
        ("_quarto.yml:3", text("_quarto.yml", "title: T", "format: [")),
        ("'number-sections' cannot be 'maybe'", text("_quarto.yml", "number-sections: maybe")),
        ("_quarto.yml", text("_quarto.yml", "date: 2026-13-45")),
        ("'x' is not one of example-cpu", text("_quarto.yml", "roofwright:", "  machines: [x]")),
        ("index.qmd", without("index.qmd")),
        ("index.qmd", put("index.qmd", b"\xff\n")),
        ("pandoc", no_pandoc),
    )),
]  # fmt: skip

DAMAGED = [
    ("chips.csv, line 2, column year", swapped(CHIPS, ",2020,", ",MMXX,")),
    ("'tpu', not one of cpu", swapped(CHIPS, ",cpu,", ",tpu,")),
    # A peak in TFLOP/s, as others write it
    *((f"'{peak}', not a number of at least 1e+09 FLOP/s", swapped(CHIPS, ",1e12,", f",{peak},"))
      for peak in ("1", "-1e12", "nan")),
    ("column chip", swapped(CHIPS, "Abacus 1,", ",")),
    ("sparse peak is below", swapped(CHIPS, ",1e12,,", ",1e12,1e11,")),
    ("'nobody_2020' is not in the bibliography", swapped(CHIPS, "epoch_hw", "nobody_2020")),
    ("chips.csv, line 1", swapped(CHIPS, "bandwidth_byte_per_s", "bandwidth_gb_per_s")),
    ("chips.csv: cannot be read", folder(CHIPS)),
    ("chips.csv: is not UTF-8", put(CHIPS, "chip,é\n".encode("latin-1"))),
    ("chips.csv, line 2: 2 cells", swapped(CHIPS, "Abacus 1,", "Abacus 1,torn\n")),
    ("flop_per_cycle.csv, line 2, column models", swapped(CYCLES, "4-6", "6-4")),
    ("training_steps.csv, line 1", text("data/published/training_steps.csv", "study,colour")),
    ("references.bib", folder(BOOKS)),
    ("references.bib", put(BOOKS, b"@book{\xff,}\n")),
    *((f"column flop: the cell is '{flop}'", text(PUBLISHED, PRINTED_HEADER, f"a_2024,a,{flop},1,1,"))
      for flop in ("1e400", "nan")),
    ("column forward_mac: the cell is '0'", swapped(PROGRAMS, ",1000,2000400000,", ",1000,0,")),
    ("column published_mac: the cell is '0'", swapped(PROGRAMS, ",2000000000,", ",0,")),
    ("column plain_s: the cell is '0'", text(f"{GPU}/profiles.csv", PROFILE_HEADER, PROFILE)),
    ("column latency_s: the cell is 'inf'", text(f"{GPU}/samples.csv", SAMPLE_HEADER, SAMPLE)),
    ("column caches: the cell is '1:2'",
     swapped("data/machines/example-cpu/machine.csv", "1:65536:2;2:2097152:2;3:16777216:1", "1:2")),
    ("stands in line 2", rewritten(CHIPS, lambda content: content + content.splitlines()[1] + b"\n")),
    ("data/workload: the layers of ", rewritten("data/workload/layers.csv",
                                                lambda content: b"".join(content.splitlines(True)[:-1]))),
    ("operators.csv, line 2", text("data/workload/operators.csv", OPERATOR_HEADER, "alexnet,torn")),
]  # fmt: skip

CUT = [
    ("runs.csv, line 264: incomplete row", rewritten(TABLE, lambda content: content[:-1])),
    ("runs.csv: has no complete line", rewritten(TABLE, lambda content: content.replace(b"\n", b"\r"))),
    ("runs.csv: has no complete line", put(TABLE, b"")),
    ("runs.csv: has no row", rewritten(TABLE, lambda content: content[: content.index(b"\n") + 1])),
    ("runs.csv: ", folder(TABLE)),
]
"""What is cut off, empty or no file, in the cache or handed in."""

CASES = [
    *(Bad(f"report {words}", *rest) for words, *rest in FLAGS),
    *(Bad("report check --data data", *rest) for rest in [*DAMAGED, *CUT]),
    *(Bad("measure add-machine data/machines/example-cpu --data new", *rest) for rest in CUT),
]


@pytest.mark.parametrize("bad", CASES, ids=[f"{bad.words[:40]}-{bad.culprit[:40]}" for bad in CASES])
def test_bad_input_gets_one_sentence_and_changes_nothing(tmp_path, capsys, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: None)
    check(bad, capsys, monkeypatch)
