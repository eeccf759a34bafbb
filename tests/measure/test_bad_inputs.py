"""Bad input to every command that measures, listed: each gets one sentence that names what is wrong and what to do.

``tests/report/test_bad_inputs.py`` has the commands of the paper, and damaged tables that both programs refuse.
"""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from helpers import traces
from helpers.places import TESTS
from helpers.rows import ENVIRONMENT
from helpers.traces import kernel
from helpers.world import Bad, check, folder, make_project, put, swapped, text

from measure.cache.folders import MachineFolder
from measure.domain.records import Environment, RoofMeasurement, Run, Sample
from measure.domain.schema import TABLES
from measure.domain.trace_records import TraceOperator
from measure.domain.workload_records import Workload
from measure.machine import devices
from measure.published.records import PublishedTiming

DATA, RUNS, ROOFS = Path("data"), "data/machines/box/runs.csv", "data/machines/box/roofs.csv"
CPU, GPU, MODELS = "data/machines/example-cpu", "data/machines/example-gpu", "data/workload/models.csv"
RUN = "e1,alexnet,1,fp32,inference,eager,ok,,2026-01-01T00:00:00+00:00,,,,,0,,,,"
ROOF = "e1,matmul,fp32,8,1024,768,ok,,0.5,0.4,0.6,6,sustained,,,,,,,,,,"
SAMPLE = "gpu-1,lean,1,fp32,inference,eager,0,1,0,0,,,,,,,"
BEAD = "src,a.csv,Bead 2,inference,resnet50,8,224,fp32,,contiguous,,2.4,12.4,0.02,,,40,400,no,yes,mean,"
FILE = put("file", b"")


def another_machine(_monkeypatch):
    row = dataclasses.replace(ENVIRONMENT, environment_id="e9", hardware_id="h9", name="Other Chip")
    MachineFolder(DATA, "box").put_environment(row)


def table(path, record, *rows):
    return text(path, ",".join(TABLES[record].columns), *rows)


def trace(document):
    return put("t.json", (document if isinstance(document, str) else json.dumps(document)).encode())


VALUES = {
    "--batch-sizes": "0 -1 1.5 1e3 64,256 nan 99999999999 ٣", "--training-batch-sizes": "0 many ٣",
    "--threads": "0 99999 none ٣", "--seed": "x ٣", "--budget": f"0 nan soon -5m ٣m {'9' * 70}h",
    "--call-limit": "soon", "--target": "0% nan% 2 101% tight ٣%", "--max-rounds": "0", "--device": "gpu",
    "--wait": "soon",
    "--machine": "../up", "--optimizers": "lion", "--precisions": "fp99", "--variants": "magic", "--sections": "magic",
}  # fmt: skip
"""Values that a flag of ``python -m measure`` refuses, each of which its sentence names."""

FLAGS = [
    *((f"{flag}={value}", f"{flag}: '{value}'") for flag, values in VALUES.items() for value in values.split()),
    *((f"{flag}=", f"{flag}: the value is empty") for flag in ("--machine", "--budget", "--cluster", "--data")),
    ("--cluster auto --wait 2m", "--wait: watches this machine alone"),
    ("--models resnet19", "the nearest are resnet18"),
    ("--models resnet18,vgg11", "write several with spaces: resnet18 vgg11"),
    ("--sections roofs,workload", "write several with spaces: roofs workload"),
    ("--models timm:resnet50", "timm", lambda monkeypatch: monkeypatch.setitem(sys.modules, "timm", None)),
    ("--models nosuchmodule:network", "nosuchmodule"),
    ("--models alexnet --models vgg11", "--models: given more than once"),
    ("--modells alexnet", "there is no flag --modells; did you mean --models?"),
    ("--budget", "--budget: expected one argument"),
    ("--device cuda", "there is no cuda on this machine",
     lambda monkeypatch: monkeypatch.setattr(devices, "nvidia_handles", lambda: [])),
    ("--precisions tf32 --device cpu", "tf32"),
    ("--variants autocast --device cpu", "--variants: autocast"),
    ("--machine box", "data/machines/box is a file", put("data/machines/box", b"")),
    ("--machine box --device cpu", "Other Chip", another_machine),
    ("--native-size --quick", "--native-size"),
    ("--list", "--plan and --list"),
    ("--data file", "file is a file", FILE),
    ("doctor", "nothing is expected at 'doctor'"),
]  # fmt: skip
"""Of ``python -m measure --plan``, so that one that passes measures nothing."""


TABLE = [
    ("runs.csv", folder(RUNS)),
    ("runs.csv", put(RUNS, b"\xff\xfe\x00\n")),
    ("'colour'", text(RUNS, "environment_id,colour")),
    ("'batch' is missing", text(RUNS, "environment_id,model")),
    ("duplicate column 'model' in the header", text(RUNS, "model,model")),
    ("line 2", table(RUNS, Run, "e1,alexn", RUN)),
    ("line 3, column batch: the cell is '-1'", table(RUNS, Run, RUN, RUN.replace(",1,", ",-1,", 1))),
    ("column batch: the cell is empty", table(RUNS, Run, RUN.replace(",1,", ",,", 1))),
    ("column phase: the cell is '<script>'", table(RUNS, Run, RUN.replace("inference", "<script>"))),
    ("column latency_s: the cell is 'nan'", table(ROOFS, RoofMeasurement, ROOF.replace("0.5", "nan"))),
    ("line 3, column flop: the cell is '0'", table(ROOFS, RoofMeasurement, ROOF, ROOF.replace(",1024,", ",0,"))),
    (
        "line 2, column byte: the cell is '0'",
        table(ROOFS, RoofMeasurement, ROOF.replace("matmul,fp32,8,1024,768", "stream_read,fp32,8,0,0")),
    ),
    (f"column size: the cell is '-{'9' * 39}…'", table(ROOFS, RoofMeasurement, ROOF.replace(",8,", f",-{'9' * 400},"))),
    ("models.csv, line 2: field larger than field limit", table(MODELS, Workload, "x" * 200_000)),
]
"""What lies in the cache that a run would go on with."""

TWO_CHIPS = [traces.DEVICE, traces.DEVICE | {"id": 1, "name": "Example 9"}]
T4 = "--device-name 'NVIDIA T4'"
NCU, ONE = "ncu.csv --model resnet50 --batch 64 --phase step", "resnet50 --chip 'Bead 2' --precision bf16"
FORMAT = (TESTS / "data" / "ncu-raw-format.csv").read_text()
LONG = next(cell for cell in FORMAT.split('"') if cell.startswith("sm80_xmma"))

VERBS = {
    "": [
        ("compere A B", "there is no command 'compere'"),
        ("--json", "--json"),
        ("--list --data file", "file is a file", FILE),
        ("--sections hardware-counters --device cpu --models alexnet", "--sections hardware-counters"),
        ("--machine example-cpu --plan", "device: the cell is 'tpu'", swapped(f"{CPU}/machine.csv", ",cpu,", ",tpu,")),
    ],
    "compare": [
        ("", "A, B"),
        ("example-cpu", "B"),
        ("example-cpu nowhere", "nowhere is neither"),
        ("example-cpu example-cpu", "are the same measurements"),
        ("example-cpu@cpu-old example-cpu@cpu", "name one of cpu-old, cpu-new"),
        ("example-cpu example-gpu@zzz", "'zzz'"),
        ("data data", "data has example-cpu, example-gpu; name the one"),
        ("example-cpu box", "have no cell, roof or collective with a result in common", another_machine),
        ("example-cpu example-gpu --fail-on-regression 5", "--fail-on-regression: '5'"),
        ("example-cpu example-gpu --csv - --json", "--csv - and --json"),
        ("example-cpu example-gpu --csv no/rows.csv", "no/rows.csv"),
        ("example-cpu example-gpu", "latency_s: the cell is '0'", table(f"{GPU}/samples.csv", Sample, SAMPLE)),
        ("example-cpu example-gpu", "machine.csv has no environment", table(f"{GPU}/machine.csv", Environment)),
        ("images-1 images-2 --fail-on-regression 5%", "two traces are compared"),
        ("images-1 images-2 --fail-on-growth", "two traces are compared"),
        ("example-cpu example-gpu --fail-on-growth", "have no counts of their own in common"),
        ("example-cpu@cpu-old example-cpu@cpu-new --why", "have no profiled cell with a latency in common"),
    ],
    "show": [
        ("resnet51", "MODEL: 'resnet51'"),
        ("--machine exmple-cpu", "did you mean example-cpu?"),
        ("--json --csv", "--json and --csv"),
        ("--data none", "no measurements in none; run python -m measure --data none"),
    ],
    "model": [
        ("resnet51", "NAME: no model is called 'resnet51'"),
        ("vgg*", "NAME: 'vgg*' selects 3 models"),
    ],
    "doctor": [("--data file", "file is a file", FILE), ("--data=", "the value is empty"), ("--fix", "no flag --fix")],
    "trace": [
        ("image-1", "did you mean images-1?"),
        ("images-1", "nothing ran within its steps", table("data/traces/images-1/operators.csv", TraceOperator)),
        ("images-1 --data none", "no traces in none"),
    ],
    "import-ncu": [
        (f"none.csv --model resnet50 --batch 64 --phase step {T4}", "none.csv: cannot be read"),
        (f"ncu.csv --model resnet5 --batch 64 --phase step {T4}", "'resnet5'"),
        (f"ncu.csv --model vgg* --batch 64 --phase step {T4}", "--model: 'vgg*' selects 3 models"),
        (f"ncu.csv --model resnet50 --batch 64 {T4}", "--phase"),
        (f"ncu.csv --model resnet50 --batch 64 --phase stop {T4}", "did you mean step?"),
        (f"{NCU} {T4} --steps 3", "--steps: 3 does not divide the launches of sm80_xmma"),
        *((f"{NCU} {T4} {flag}", culprit) for flag, culprit in (
            ("--steps none", "--steps: 'none'"), ("--steps -1", "--steps"),
            ("--input-shape 3*8", "--input-shape: '3*8'"), ("--precision fp1", "--precision: 'fp1'"),
            ("--machine ../up", "--machine: '../up'"), ("--machine example-gpu", "Example GPU"),
            ("--machine example-cpu", "Example CPU"),
        )),
        (f"{NCU} --machine new", "--device-name"),
        *((f"{NCU} {T4}", f"ncu.csv: {culprit}", damage) for culprit, damage in (
            ("no table of kernels", text("ncu.csv", "hello")),
            ("no table of kernels", text("ncu.csv", '"ID","Kernel Name","Metric Name"', '"","",""', '"0","a","b"')),
            ("no table of kernels", swapped("ncu.csv", '"sm80_xmma', '"' + 131_100 * "x")),
            ("kernel 1", swapped("ncu.csv", '"50.00"', '"fifty"')),
            ("kernel 1 is incomplete", swapped("ncu.csv", f'"{LONG}"', '" "')),
            *(("", swapped("ncu.csv", '"54.00"', f'"{cell}"')) for cell in ("nan", "inf", "1e400", "1,5", "1.234,5")),
        )),
    ],
    "import-trace": [
        ("t.json", "t.json: ", trace('{"traceEvents": []}')),
        ("t.json", "ends in the middle of the JSON", trace('{"traceEvents": [{"ph": "X"')),
        ("t.json", "is not JSON", trace("name,value\n")),
        ("t.json --chip 'NVIDIA T4'", "--chip: no GPU ran anything in t.json", trace(traces.trace(traces.addmm(10)))),
        ("t.json", "Example 9 and NVIDIA H100", trace(
            traces.trace(kernel("k", 5, 5, 1), kernel("k", 5, 5, 2, device=1), deviceProperties=TWO_CHIPS)
        )),
        ("t.json t.json", "named twice"),
        ("t.json --chip 'NVIDIA H1000'", "--chip: 'NVIDIA H1000'", trace(traces.linear_step())),
        ("t.json --name 'a\nb'", "--name: 'a\\nb'", trace(traces.linear_step())),
    ],
    "add-machine": [
        (f"{CPU} --machine ../up", "--machine: '../up'"),
        (f"{CPU}/runs.csv", f"{CPU}/runs.csv: cannot be read"),
        (f"{CPU} {GPU} --machine box", "--machine: names one machine"),
        (f"{GPU} --machine example-cpu", "data/machines/example-cpu: holds another machine ('Example CPU')"),
        (f"{CPU} --machine box", "data/machines/box is a file", put("data/machines/box", b"")),
        (CPU, "runs.csv, line 1: unknown column '<b>'", swapped(f"{CPU}/runs.csv", "variant", "<b>")),
    ],
    "add-published": [
        *(("table.csv", f"table.csv, {culprit}", damage) for culprit, damage in (
            ("line 2, column device: 'Bead 9'", table("table.csv", PublishedTiming, BEAD.replace("Bead 2", "Bead 9"))),
            ("line 3: has the key of line 2", table("table.csv", PublishedTiming, BEAD, BEAD)),
            ("line 2, column latency_s: the", table("table.csv", PublishedTiming, BEAD.replace("0.02", "x"))),
            ("line 1: unknown column 'speed'", text("table.csv", "source,device,speed", "a,b,1")),
        )),
    ],
    "predict": [
        ("resnet50 --chip 'Bed 2'", "--chip: 'Bed 2'"),
        ("resnet50 --chip 'Dial 4'", "--precision: no rate of Dial 4 at fp16"),
        ("resnet50 --known resnet50 8 1ms", "--known: is a latency of one chip"),
        (f"{ONE} --known resnet50 8 0ms", "--known: '0ms'"),
        (f"{ONE} --training", "--chip: nobody timed a training step at bf16"),
    ],
    "fit": [("--data none", "none holds no latency"), ("now", "nothing is expected at 'now'")],
    "count-published": [("--models resnex*", "--models: 'resnex*'"), ("--budget soon", "--budget: 'soon'")],
    "forget": [
        ("leam", "MODEL: 'leam' is not one of"),
    ],
    "pack": [
        ("nowhere/box.zip", "nowhere/box.zip cannot be written"),
        ("--machine box", "data/machines/box: nothing was measured", another_machine),
        *((words, "no measurements in none") for words in ("--data none", "--machine box --data none")),
    ],
}  # fmt: skip

CASES = [
    *(Bad(f"measure --plan {words}", *rest) for words, *rest in FLAGS),
    *(Bad("measure --machine box --plan --device cpu", *rest) for rest in TABLE),
    *(Bad(f"measure {verb} {words}", *rest) for verb, rows in VERBS.items() for words, *rest in rows),
]


@pytest.mark.parametrize("bad", CASES, ids=[f"{bad.words[8:60]}-{bad.culprit[:40]}" for bad in CASES])
def test_bad_input_gets_one_sentence_and_changes_nothing(tmp_path, capsys, monkeypatch, bad):
    monkeypatch.chdir(tmp_path)
    make_project(tmp_path)
    check(bad, capsys, monkeypatch)
