"""Bad input to the commands of the paper and damaged tables; ``tests/measure/test_bad_inputs.py`` has more."""

from pathlib import Path

import pytest
from helpers.world import Bad, check, folder, make_project, put, swapped, text

import report.engine.quarto
from measure.domain.records import Sample
from measure.domain.schema import TABLES
from measure.published.records import PrintedModel

MACHINE = "data/machines/example-cpu"
TABLE = f"{MACHINE}/runs.csv"
SAMPLE_HEADER, PRINTED_HEADER = (",".join(TABLES[record].columns) for record in (Sample, PrintedModel))
SAMPLE = "cpu-new,lean,1,fp32,inference,eager,0,1,inf,0,,,,,,,"


def without(path):
    return lambda _monkeypatch: Path(path).unlink()


def rewritten(path, change):
    return lambda _monkeypatch: Path(path).write_bytes(change(Path(path).read_bytes()))


def again(name, column, value):
    """Repeats a table's first row with another value."""

    def change(content):
        head, first, *_ = content.decode().splitlines()
        cells = first.split(",")
        cells[head.split(",").index(column)] = value
        return content + (",".join(cells) + "\n").encode()

    return rewritten(f"{MACHINE}/{name}", change)


def looped(path):
    """Makes a link to itself of a path, which no user can read, not even root."""

    def do(_monkeypatch):
        Path(path).rename(f"{path}-away")
        Path(path).symlink_to(Path(path).name)

    return do


def no_pandoc(monkeypatch):
    monkeypatch.setattr("report.engine.embedded.shutil.which", lambda *_, **__: None)


CHIPS = "data/chips.csv"
FLAGS = [
    ("--data nowhere", "nowhere"),
    ("chek", "'chek' is not one of"),
    ("--engine latex", "--engine: 'latex'"),
    ("--fromats html", "did you mean --formats?"),
    ("--formats docx", "--formats: 'docx'"),
    ("figures --formats html --data data", "--formats of figures: 'html'"),
    ("--machines x --data data", "'x' is not one of example-cpu, example-gpu"),
    ("--models lea --data data", "did you mean lean?"),
    ("why --data data", "training.step.over_forward"),
    ("--engine quarto --data data", "no quarto"),
    *((f"{flag}= --engine embedded", f"{flag}: the value is empty")
      for flag in ("--data", "--chapters", "--machines", "--figures", "--out")),
    ("--data data --engine embedded --out index.qmd", "--out: index.qmd is a file"),
    *(("--engine embedded --data data", *rest) for rest in (
        ("_quarto.yml", without("_quarto.yml")),
        ("_quarto.yml", put("_quarto.yml", b"title: \xff\n")),
        ("_quarto.yml:3", text("_quarto.yml", "title: T", "format: [")),
        ("'x' is not one of example-cpu", text("_quarto.yml", "roofwright:", "  machines: [x]")),
        ("index.qmd", without("index.qmd")),
        ("pandoc", no_pandoc),
    )),
]  # fmt: skip

DAMAGED = [
    ("chips.csv, line 2, column year", swapped(CHIPS, ",2020,", ",MMXX,")),
    ("'tpu', not one of cpu", swapped(CHIPS, ",cpu,", ",tpu,")),
    # A peak in TFLOP/s, as others write it
    ("'1', not a number of at least 1e+09 FLOP/s", swapped(CHIPS, ",1e12,", ",1,")),
    ("sparse peak is below", swapped(CHIPS, ",1e12,,", ",1e12,1e11,")),
    ("'nobody_2020' is not in the bibliography", swapped(CHIPS, "epoch_hw", "nobody_2020")),
    ("duplicate of line 2", rewritten(CHIPS, lambda content: content + content.splitlines()[1] + b"\n")),
    ("chips.csv, line 1", swapped(CHIPS, "bandwidth_byte_per_s", "bandwidth_gb_per_s")),
    ("chips.csv: cannot be read", folder(CHIPS)),
    ("flop_per_cycle.csv, line 2, column models", swapped("data/flop_per_cycle.csv", "4-6", "6-4")),
    ("references.bib", folder("bib/references.bib")),
    ("this is not valid BibTeX", rewritten("bib/references.bib", lambda content: content + b"@misc{cut, note = {")),
    ("column flop: the cell is '1e400'", text("data/published/models.csv", PRINTED_HEADER, "a_2024,a,1e400,1,1,")),
    ("column forward_mac: the cell is '0'",
     swapped("data/workload/counting_programs.csv", ",1000,2000400000,", ",1000,0,")),
    ("column latency_s: the cell is 'inf'", text("data/machines/example-cpu/samples.csv", SAMPLE_HEADER, SAMPLE)),
    ("samples.csv, line 701, column latency_s: contradicts line 2", again("samples.csv", "latency_s", "5.5")),
    ("runs.csv, line 265, column status: contradicts line 2", again("runs.csv", "status", "oom")),
    ("column caches: the cell is '1:2'",
     swapped("data/machines/example-cpu/machine.csv", "1:65536:2;2:2097152:2;3:16777216:1", "1:2")),
    (": is not the sum of the model's layers in layers.csv",
     rewritten("data/workload/layers.csv", lambda content: b"".join(content.splitlines(True)[:-1]))),
]  # fmt: skip

CUT = [
    ("runs.csv, line 264: incomplete row", rewritten(TABLE, lambda content: content[:-1])),
    ("runs.csv: has no complete line", rewritten(TABLE, lambda content: content.replace(b"\n", b"\r"))),
    ("runs.csv: has no row", rewritten(TABLE, lambda content: content[: content.index(b"\n") + 1])),
    ("runs.csv: ", folder(TABLE)),
]
"""Cut, empty and missing files, in the cache or from a user."""

CASES = [
    *(Bad(f"report {words}", *rest) for words, *rest in FLAGS),
    *(Bad("report check --data data", *rest) for rest in [*DAMAGED, *CUT]),
    *(Bad(f"report {verb} --data data", *CUT[0])
      for verb in ("why machine", "figures", "--engine embedded --formats html")),
    *(Bad(f"{words} --data data", f"{MACHINE}: cannot be read", looped(MACHINE))
      for words in ("report check", "report --engine embedded", "measure show")),
    *(Bad("measure add-machine data/machines/example-cpu --data new", *rest) for rest in CUT),
]  # fmt: skip


@pytest.mark.parametrize("bad", CASES, ids=[f"{bad.words[:40]}-{bad.culprit[:40]}" for bad in CASES])
def test_bad_input_gets_one_sentence_and_changes_nothing(tmp_path, capsys, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: None)
    check(bad, capsys, monkeypatch)
