"""Bad input to every command, listed: each gets one sentence that names what is wrong and says what to do."""

import dataclasses
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT

import report.engine.quarto
from measure import __main__ as measuring
from measure.cache.folders import MachineFolder
from measure.cache.records import Environment, Profile, RoofMeasurement, Run, Sample
from measure.cache.schema import TABLES
from measure.cache.workload_records import Operator, Workload
from measure.machine import devices
from report import __main__ as reporting
from report.paper.printed import PrintedModel

pytest.importorskip("torch", reason="a measurement names the version of torch")
pytest.importorskip("torchvision", reason="the models are torchvision's")

TEXTS = ROOT / "tests" / "data"

REMEDY = re.compile(
    r"\b(say|name|choose|correct|mend|delete|update|restore|give|install|move|see|use|add|save|export|count|write|exchange"
    r"|measure|leave|run|put)\b|is not one of|the nearest are|did you mean|shows them all"
)
"""What to do: an imperative, or a choice."""


class Bad(NamedTuple):
    """A command with something wrong, what its complaint names, and what has to be done to files first."""

    words: str
    culprit: str
    damage: Callable[[Path, Any], object] = lambda root, monkeypatch: None


def header(record: type) -> str:
    return ",".join(field.name for field in dataclasses.fields(record))


def text(path: str, *lines: str) -> Callable[[Path, Any], object]:
    """Puts lines into a file."""
    return put(path, ("\n".join(lines) + "\n").encode())


def put(path: str, content: bytes) -> Callable[[Path, Any], object]:
    def damage(root: Path, _monkeypatch: Any) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)

    return damage


def folder(path: str) -> Callable[[Path, Any], object]:
    """Puts a folder where a file should be."""

    def damage(root: Path, _monkeypatch: Any) -> None:
        (root / path).unlink(missing_ok=True)
        (root / path).mkdir(parents=True)

    return damage


def without(path: str) -> Callable[[Path, Any], object]:
    return lambda root, _: (root / path).unlink()


def swapped(path: str, old: str, new: str) -> Callable[[Path, Any], object]:
    """Changes a file in one place."""

    def damage(root: Path, _monkeypatch: Any) -> None:
        content = (root / path).read_text("utf-8")
        assert old in content
        (root / path).write_text(content.replace(old, new, 1), "utf-8")

    return damage


def rewritten(path: str, change: Callable[[bytes], bytes]) -> Callable[[Path, Any], object]:
    return lambda root, _: (root / path).write_bytes(change((root / path).read_bytes()))


def another_machine(root: Path, _monkeypatch: Any) -> None:
    row = dataclasses.replace(ENVIRONMENT, environment_id="e9", hardware_id="h9", name="Other Chip")
    MachineFolder(root / "data", "box").put_environment(row)


def no_gpu(_root: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(devices, "nvidia_handles", lambda: [])


def no_pandoc(_root: Path, monkeypatch: Any) -> None:
    def missing() -> str:
        raise OSError("No pandoc was found")

    monkeypatch.setattr("pypandoc.get_pandoc_path", missing)


def no_timm(_root: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)


RUNS, BOX = "data/machines/box/runs.csv", "--machine box --plan --device cpu"
RUN_HEADER, ROOF_HEADER, SAMPLE_HEADER, PROFILE_HEADER = (
    ",".join(TABLES[record].columns) for record in (Run, RoofMeasurement, Sample, Profile)
)
RUN = "e1,alexnet,1,fp32,inference,eager,ok,,2026-01-01T00:00:00+00:00,,,,,0,,"
ROOFS = "data/machines/box/roofs.csv"
ROOF = "e1,matmul,fp32,8,1024,768,ok,,0.5,0.4,0.6,6,sustained,,,,,,"
MODELS = "data/workload/models.csv"
SAMPLE = "gpu-1,lean,1,fp32,inference,eager,0,1,{},0,,,,,,,"
TABLE, PROFILES = "data/machines/example-cpu/runs.csv", "data/machines/example-gpu/profiles.csv"
PROFILE = "gpu-1,lean,1,fp32,inference,eager,ok,,2026-01-01T00:00:00+00:00,,,,,5,0,1,,,,"
PROGRAMS, PUBLISHED = "data/workload/counting_programs.csv", "data/published/models.csv"
FLAGS = [
    Bad("--models resnet19", "'resnet19'"),
    Bad("--models xyzzy*", "'xyzzy*'"),
    Bad("--models torchvision:resnet102", "'resnet102'"),
    Bad("--models timm:resnet50", "timm", no_timm),
    Bad("--models nosuchmodule:network", "nosuchmodule"),
    Bad("--models alexnet --models vgg11", "--models: given more than once"),
    Bad("--modells alexnet", "there is no flag --modells; did you mean --models?"),
    Bad("--budget", "--budget: expected one argument"),
    Bad("--model alexnet", "there is no flag --model; did you mean --models?"),
    Bad("--machine=", "--machine: the value is empty"),
    Bad("--budget=", "--budget: the value is empty"),
    Bad("--cluster=", "--cluster: the value is empty"),
    Bad("--device gpu", "'gpu'"),
    Bad("--device cuad", "did you mean cuda?"),
    Bad("--device cuda:99", "cuda:99"),
    Bad("--device cuda", "there is no cuda on this machine", no_gpu),
    Bad("--batch-sizes 0", "--batch-sizes: '0'"),
    Bad("--batch-sizes=-1", "--batch-sizes: '-1'"),
    Bad("--batch-sizes 1.5", "--batch-sizes: '1.5'"),
    Bad("--batch-sizes 1e3", "--batch-sizes: '1e3'"),
    Bad("--batch-sizes 64,256", "--batch-sizes: '64,256'"),
    Bad("--batch-sizes nan", "--batch-sizes: 'nan'"),
    Bad("--batch-sizes 99999999999", "'99999999999'"),
    Bad("--batch-sizes ٣", "--batch-sizes: '٣'"),
    Bad("--training-batch-sizes ٣", "--training-batch-sizes: '٣'"),
    Bad("--threads ٣", "--threads: '٣'"),
    Bad("--seed ٣", "--seed: '٣'"),
    Bad("--budget ٣m", "--budget: '٣m'"),
    Bad("--target ٣%", "--target: '٣%'"),
    Bad("--variants eager+eager", "--variants: 'eager+eager' joins a part twice"),
    Bad("--variants eager+cold", "--variants: 'eager+cold' joins a part twice, or eager with another"),
    Bad("--training-batch-sizes many", "--training-batch-sizes: 'many'"),
    Bad("--optimizers lion", "--optimizers: 'lion'"),
    Bad("--precisions fp99", "--precisions: 'fp99'"),
    Bad("--precisions bf61", "did you mean bf16?"),
    Bad("--precisions tf32 --device cpu", "tf32"),
    Bad("--variants magic", "--variants: 'magic'"),
    Bad("--variants channel_last", "did you mean channels_last?"),
    Bad("--variants autocast --device cpu", "--variants: autocast"),
    Bad("--threads 0", "--threads: '0'"),
    Bad("--threads 99999", "--threads: '99999'"),
    Bad("--sections infrence", "did you mean inference?"),
    Bad("--budget 0", "--budget: '0'"),
    Bad("--budget nan", "--budget: 'nan'"),
    Bad("--budget=-5m", "--budget: '-5m'"),
    Bad(f"--budget {'9' * 5000}h", "--budget: '999"),
    Bad("--call-limit soon", "--call-limit: 'soon'"),
    Bad("--target 0%", "--target: '0%'"),
    Bad("--target nan%", "--target: 'nan%'"),
    Bad("--target 2", "--target: '2'"),
    Bad("--target 101%", "--target: '101%'"),
    Bad("--machine ../up", "--machine: '../up'"),
    Bad("--machine box", "data/machines/box is a file", put("data/machines/box", b"")),
    Bad("--machine box --device cpu", "Other Chip", another_machine),
    Bad("--native-size --quick", "--native-size"),
    Bad("--list", "--plan and --list"),
    Bad("doctor", "nothing is expected at 'doctor'"),
]
"""Of ``python -m measure --plan``, so that one that passes measures nothing."""

COMMANDS = [
    *(Bad(f"measure --plan --data {{root}}/data {words}", *rest) for words, *rest in FLAGS),
    Bad("measure compere A B", "there is no command 'compere'"),
    Bad("measure --json --data {root}/data", "--json"),
    Bad("measure --plan --data=", "--data: the value is empty"),
    Bad("measure doctor --data=", "--data: the value is empty"),
    Bad("measure --plan --data {root}/file", "{root}/file is a file", put("file", b"")),
    Bad("measure --list --data {root}/file", "{root}/file is a file", put("file", b"")),
    Bad(
        "measure --sections hardware-counters --device cpu --models alexnet --data {root}/data",
        "--sections hardware-counters",
    ),
    # What lies in the cache
    Bad(f"measure --data {{root}}/data {BOX}", "runs.csv", folder(RUNS)),
    Bad(f"measure --data {{root}}/data {BOX}", "runs.csv", put(RUNS, b"\xff\xfe\x00\n")),
    Bad(f"measure --data {{root}}/data {BOX}", "'colour'", text(RUNS, f"{RUN_HEADER},colour")),
    Bad(f"measure --data {{root}}/data {BOX}", "'batch' is missing", text(RUNS, "environment_id,model")),
    Bad(f"measure --data {{root}}/data {BOX}", "duplicate column 'model' in the header", text(RUNS, "model,model")),
    Bad(f"measure --data {{root}}/data {BOX}", "line 2", text(RUNS, RUN_HEADER, "e1,alexn", RUN)),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "line 3, column batch: the cell is '-1'",
        text(RUNS, RUN_HEADER, RUN, RUN.replace(",1,", ",-1,", 1)),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column batch: the cell is 'one'",
        text(RUNS, RUN_HEADER, RUN.replace(",1,", ",one,", 1)),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column batch: the cell is empty",
        text(RUNS, RUN_HEADER, RUN.replace(",1,", ",,", 1)),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column status: the cell is 'fine'",
        text(RUNS, RUN_HEADER, RUN.replace("ok", "fine")),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column phase: the cell is '<script>'",
        text(RUNS, RUN_HEADER, RUN.replace("inference", "<script>")),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column latency_s: the cell is 'nan'",
        text(ROOFS, ROOF_HEADER, ROOF.replace("0.5", "nan")),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "column latency_low_s: the cell is '0'",
        text(ROOFS, ROOF_HEADER, ROOF.replace("0.4", "0")),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        f"column size: the cell is '-{'9' * 59}…'",
        text(ROOFS, ROOF_HEADER, ROOF.replace(",8,", f",-{'9' * 400},")),
    ),
    Bad(f"measure --data {{root}}/data {BOX}", "models.csv", folder(MODELS)),
    Bad(
        "report check --data {root}/data",
        "operators.csv, line 2",
        text("data/workload/operators.csv", header(Operator), "alexnet,torn"),
    ),
    Bad(
        f"measure --data {{root}}/data {BOX}",
        "models.csv, line 2: field larger than field limit",
        text(MODELS, header(Workload), "x" * 200_000),
    ),
    Bad(
        "measure --data {root}/data --plan --machine example-cpu",
        "column device: the cell is 'tpu'",
        swapped("data/machines/example-cpu/machine.csv", ",cpu,", ",tpu,"),
    ),
    # compare
    Bad("measure compare", "A, B"),
    Bad("measure compare example-cpu --data {root}/data", "B"),
    Bad("measure compare example-cpu nowhere --data {root}/data", "nowhere"),
    Bad("measure compare example-cpu exmple-gpu --data {root}/data", "did you mean example-gpu?"),
    Bad("measure compare example-cpu example-cpu --data {root}/data", "are the same measurements"),
    Bad("measure compare example-cpu example-gpu@zzz --data {root}/data", "'zzz'"),
    Bad("measure compare example-cpu example-gpu --data {root}/data --fail-on-regression 5", "'5'"),
    Bad("measure compare example-cpu example-gpu --data {root}/data --fail-on-regression nan%", "'nan%'"),
    Bad("measure compare example-cpu example-gpu --data {root}/data --csv - --json", "--csv - and --json"),
    Bad("measure compare example-cpu example-gpu --data {root}/data --csv {root}/no/rows.csv", "no/rows.csv"),
    Bad("measure compare example-cpu example-gpu --data {root}/data --jsn", "did you mean --json?"),
    Bad("measure compare example-cpu example-gpu three --data {root}/data", "three is neither"),
    Bad("measure compare example-cpu example-gpu --data {root}/file", "{root}/file is a file", put("file", b"")),
    Bad(
        "measure compare example-cpu example-gpu --data {root}/data",
        "column latency_s: the cell is '0'",
        text("data/machines/example-gpu/samples.csv", SAMPLE_HEADER, SAMPLE.format(0)),
    ),
    Bad(
        "measure compare example-cpu example-gpu --data {root}/data",
        "machine.csv has no environment",
        text("data/machines/example-gpu/machine.csv", header(Environment)),
    ),
    # show
    Bad("measure show resnet51 --data {root}/data", "'resnet51'"),
    Bad("measure show --machine exmple-cpu --data {root}/data", "did you mean example-cpu?"),
    Bad("measure show --json --csv --data {root}/data", "--json and --csv"),
    Bad("measure show --data {root}/file", "{root}/file is a file", put("file", b"")),
    Bad(
        "measure show --data {root}/data",
        "machine.csv has no environment",
        text("data/machines/example-gpu/machine.csv", header(Environment)),
    ),
    # model
    Bad("measure model resnet51 --data {root}/data", "NAME: no model is called 'resnet51'"),
    Bad("measure model vgg* --data {root}/data", "'vgg*' selects 3 models"),
    Bad("measure model resnet50 --batch-sizes 0 --data {root}/data", "--batch-sizes: '0'"),
    Bad("measure model resnet50 --json --markdown --data {root}/data", "--json and --markdown"),
    Bad("measure model resnet50 --data {root}/file", "{root}/file is a file", put("file", b"")),
    # doctor
    Bad("measure doctor --data {root}/file", "{root}/file is a file", put("file", b"")),
    Bad("measure doctor --fix", "there is no flag --fix"),
    # import-ncu
    *(
        Bad(f"measure import-ncu {words} --data {{root}}/data", *rest)
        for words, *rest in [
            ("{root}/none.csv --model resnet50 --batch 64 --device-name T4", "none.csv"),
            ("{root}/data --model resnet50 --batch 64 --device-name T4", "{root}/data: cannot be read"),
            (
                "{root}/ncu.csv --model resnet50 --batch 64 --device-name T4",
                "ncu.csv: no table of kernels; export it with ncu",
                put("ncu.csv", b"\xff\xfe"),
            ),
            (
                "{root}/ncu.csv --model resnet50 --batch 64 --device-name T4",
                "ncu.csv: no table of kernels",
                text("ncu.csv", "hello"),
            ),
            (
                "{root}/ncu.csv --model resnet50 --batch 64 --device-name T4",
                "ncu.csv: no table of kernels",
                text("ncu.csv", '"ID","Kernel Name","Metric Name"', '"","",""', '"0","a","b"'),
            ),
            (
                "{root}/ncu.csv --model resnet50 --batch 64 --device-name T4",
                "ncu.csv: kernel 1",
                swapped("ncu.csv", '"50.00"', '"fifty"'),
            ),
            ("{root}/ncu.csv --model resnet5 --batch 64 --device-name T4", "'resnet5'"),
            ("{root}/ncu.csv --model vgg* --batch 64 --device-name T4", "'vgg*' selects 3 models"),
            ("{root}/ncu.csv --model resnet50 --batch 0 --device-name T4", "--batch: '0'"),
            ("{root}/ncu.csv --model resnet50 --batch 64 --steps -1 --device-name T4", "--steps"),
            ("{root}/ncu.csv --model resnet50 --batch 64 --phase stop --device-name T4", "did you mean step?"),
            ("{root}/ncu.csv --model resnet50 --batch 64", "--device-name"),
            ("{root}/ncu.csv --model resnet50 --batch 64 --machine example-cpu", "Example CPU"),
            ("{root}/ncu.csv --batch 64", "--model"),
        ]
    ),
    # report
    Bad("report --data {root}/nowhere", "{root}/nowhere"),
    Bad("report chek", "'chek' is not one of"),
    Bad("report --engine latex", "--engine: 'latex'"),
    Bad("report --fromats html", "did you mean --formats?"),
    *(
        Bad(f"report {flag}= --engine embedded", f"{flag}: the value is empty")
        for flag in ("--data", "--chapters", "--machines", "--figures", "--out")
    ),
    Bad("report --data {root}/data --engine embedded --out {root}/index.qmd", "--out: {root}/index.qmd is a file"),
    Bad("report figures --data {root}/data --out {root}/index.qmd/figures", "--out: {root}/index.qmd is a file"),
    Bad("report --formats docx", "--formats: 'docx'"),
    Bad("report --engine quarto --data {root}/data", "no quarto"),
    *(
        Bad("report --engine embedded --data {root}/data", *rest)
        for rest in [
            ("_quarto.yml", without("_quarto.yml")),
            ("_quarto.yml", folder("_quarto.yml")),
            ("_quarto.yml", put("_quarto.yml", b"title: \xff\n")),
            ("_quarto.yml", put("_quarto.yml", b"title: A\x00B\n")),
            ("_quarto.yml:3", text("_quarto.yml", "title: T", "format: [")),
            ("'number-sections' cannot be 'maybe'", text("_quarto.yml", "number-sections: maybe")),
            ("_quarto.yml", text("_quarto.yml", "date: 2026-13-45")),
            ("index.qmd", without("index.qmd")),
            ("index.qmd", put("index.qmd", b"\xff\n")),
            ("pandoc", no_pandoc),
        ]
    ),
    # report check
    *(
        Bad("report check --data {root}/data", *rest)
        for rest in [
            ("chips.csv, line 2, column year", swapped("data/chips.csv", ",2020,", ",MMXX,")),
            ("'tpu', not one of cpu", swapped("data/chips.csv", ",cpu,", ",tpu,")),
            (
                "not a number of at least 1e+09 FLOP/s",
                swapped("data/chips.csv", ",1e12,", ",1,"),
            ),  # TFLOP/s, as others write
            ("'-1e12', not a number of at least", swapped("data/chips.csv", ",1e12,", ",-1e12,")),
            ("'nan', not a number of at least", swapped("data/chips.csv", ",1e12,", ",nan,")),
            ("column chip", swapped("data/chips.csv", "Abacus 1,", ",")),
            ("sparse peak is below", swapped("data/chips.csv", ",1e12,,", ",1e12,1e11,")),
            ("'nobody_2020' is not in the bibliography", swapped("data/chips.csv", "epoch_hw", "nobody_2020")),
            ("chips.csv, line 1", swapped("data/chips.csv", "bandwidth_byte_per_s", "bandwidth_gb_per_s")),
            ("chips.csv: cannot be read", folder("data/chips.csv")),
            ("chips.csv: is not UTF-8", put("data/chips.csv", "chip,é\n".encode("latin-1"))),
            ("chips.csv, line 2: 2 cells", swapped("data/chips.csv", "Abacus 1,", "Abacus 1,torn\n")),
            ("flop_per_cycle.csv, line 2, column models", swapped("data/flop_per_cycle.csv", "4-6", "6-4")),
            ("training_steps.csv, line 1", text("data/published/training_steps.csv", "study,colour")),
            ("references.bib", folder("bib/references.bib")),
            ("references.bib", put("bib/references.bib", b"@book{\xff,}\n")),
            *(
                (f"column flop: the cell is '{flop}'", text(PUBLISHED, header(PrintedModel), f"a_2024,a,{flop},1,1,"))
                for flop in ("1e400", "nan")
            ),
            ("column forward_mac: the cell is '0'", swapped(PROGRAMS, ",1000,2000400000,", ",1000,0,")),
            ("column published_mac: the cell is '0'", swapped(PROGRAMS, ",2000000000,", ",0,")),
            ("column plain_s: the cell is '0'", text(PROFILES, PROFILE_HEADER, PROFILE)),
            (
                "column latency_s: the cell is 'inf'",
                text("data/machines/example-gpu/samples.csv", SAMPLE_HEADER, SAMPLE.format("inf")),
            ),
            (
                "column caches: the cell is '1:2'",
                swapped("data/machines/example-cpu/machine.csv", "1:65536:2;2:2097152:2;3:16777216:1", "1:2"),
            ),
        ]
    ),
    # what is cut off, empty or no file, in the cache or handed in
    *(
        Bad(command, *rest)
        for command in (
            "report check --data {root}/data",
            "measure add-machine {root}/data/machines/example-cpu --data {root}/new",
        )
        for rest in [
            ("runs.csv, line 11: incomplete row", rewritten(TABLE, lambda content: content[:-1])),
            ("runs.csv: has no complete line", rewritten(TABLE, lambda content: content.replace(b"\n", b"\r"))),
            ("runs.csv: has no complete line", put(TABLE, b"")),
            ("runs.csv: has no row", rewritten(TABLE, lambda content: content[: content.index(b"\n") + 1])),
            ("runs.csv: ", folder(TABLE)),
        ]
    ),
]

MAIN = {"measure": measuring.main, "report": reporting.main}


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A project with the tiny cache of tests/data, and without Quarto."""
    shutil.copytree(TEXTS, tmp_path / "data")
    (tmp_path / "bib").mkdir()
    shutil.copy(ROOT / "bib" / "references.bib", tmp_path / "bib")
    shutil.copy(TEXTS / "ncu-raw-format.csv", tmp_path / "ncu.csv")
    (tmp_path / "_quarto.yml").write_text("title: T\nbibliography: bib/references.bib\n")
    (tmp_path / "index.qmd").write_text("A sentence.\n")
    monkeypatch.setattr(report.engine.quarto, "find_quarto", lambda: None)
    return tmp_path


def contents(root):
    """A hash of each file."""
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_there_are_enough_of_them():
    assert len({(bad.words, bad.culprit) for bad in COMMANDS}) >= 120


@pytest.mark.parametrize("bad", COMMANDS, ids=[f"{bad.words[:60]}-{bad.culprit[:40]}" for bad in COMMANDS])
def test_bad_input_gets_one_sentence_and_changes_nothing(root, capsys, monkeypatch, bad):
    bad.damage(root, monkeypatch)
    before = contents(root)
    program, *words = (word.format(root=root) for word in bad.words.split())
    code = MAIN[program](words, root) if program == "report" else MAIN[program](words)
    printed = capsys.readouterr()
    assert printed.out == ""
    *progress, error = printed.err.splitlines()
    assert all(line.startswith("rendering the paper of ") for line in progress)
    assert code == 2
    assert error.startswith(f"python -m {program}")
    assert bad.culprit.format(root=root) in error
    assert REMEDY.search(error.partition(": ")[2])
    assert contents(root) == before


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ("measure --plan --modells alexnet", "--models"),
        ("measure compare nowhere nothing", "nowhere"),
        ("report check --data nowhere", "nowhere"),
    ],
)
def test_a_process_of_its_own_says_the_same(words, culprit):
    answer = subprocess.run(
        [sys.executable, "-m", *words.split()], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)
    assert culprit in answer.stderr
