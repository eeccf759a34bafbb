"""The commands in the documents work, and their paths and links have targets.

A command is a line of a fenced ``sh`` block, or a code span that begins with one of ``PROGRAMS``. It runs on scratch
data if that takes seconds; otherwise its rule in ``RULES`` checks it in another way. A command without a rule fails.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from argparse import ArgumentParser
from functools import cache
from glob import glob
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
from helpers import traces
from helpers.places import ROOT
from helpers.world import WORLD

from examples import tiny
from measure import __main__ as measure_command
from measure.cache import table
from measure.machine import devices
from measure.published.records import Chip
from measure.verbs import model as one_model
from measure.verbs.flags import VERBS, parser_of
from measure.verbs.run_flags import parser as measure_parser
from report import __main__ as report_command
from report import dictionary, facts
from report.charts.panels import specified
from roofwright.__main__ import main as roofwright

DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
DOCUMENTS += [ROOT / "report/chapters/machine/machine.qmd", ROOT / "notebooks/colab.ipynb"]
PROGRAMS = ("python", "roofwright", "make", "pip", "quarto", "ncu", "git")
SLOW = re.compile(r"python -m measure (predict .*|--models (examples|mine|hf).*)")

BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)*/?")
SUFFIXES = (".py", ".md", ".csv", ".qmd", ".yml", ".toml", ".txt", ".bib", ".html", ".pdf", ".ipynb", ".cff")
PLACEHOLDER = re.compile(r"\b(NAME|X)\b|(?<=_)X\b")


@cache
def read(document):
    text = document.read_text("utf-8")
    if document.suffix != ".ipynb":
        return text
    return "\n\n".join(cell.source for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "markdown")


def blocks(text, kind):
    return [textwrap.dedent(body) for _, language, body in BLOCK.findall(text) if language == kind]


def modules(text):
    """The modules in a document, by the file names in their first lines."""
    return {body.partition("\n")[0].removeprefix("# "): body for body in blocks(text, "python")}


def spans(text):
    """The code spans of running text."""
    return [" ".join(span.split()) for span in SPAN.findall(BLOCK.sub("", text))]


def commands(text):
    lines = [line for block in blocks(text, "sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += [span for span in spans(text) if span.split()[0] in PROGRAMS and " " in span]
    return [shlex.join(words) for line in lines if (words := shlex.split(line, comments=True))]


ALL = list(dict.fromkeys(command for document in DOCUMENTS for command in commands(read(document))))


@pytest.fixture(scope="module")
def examples(tmp_path_factory, forked_workers):
    """A project: the world of the tests with our chips and traces, files to add, and the documents' modules."""
    folder = tmp_path_factory.mktemp("examples")
    data = shutil.copytree(WORLD, folder / "data")
    shutil.copytree(ROOT / "data" / "traces", data / "traces", dirs_exist_ok=True)
    own, chips = (folder / "chips.csv" for folder in (ROOT / "data", data))
    with chips.open("a", encoding="utf-8") as file:
        file.writelines(row for row in own.open(encoding="utf-8") if row not in chips.read_text("utf-8"))
    (folder / "handed-in").mkdir()
    shutil.make_archive(str(folder / "handed-in" / "machine"), "zip", WORLD / "machines", "example-gpu")
    traces.write(folder / "step.json.gz", traces.linear_step())
    for rank in range(2):
        info = {"distributedInfo": {"rank": rank, "world_size": 2}}
        traces.write(folder / f"rank{rank}.json.gz", traces.linear_step() | info)
    (folder / "path" / "to").mkdir(parents=True)
    (folder / "path" / "to" / "config.json").write_text('{"model_type": "gpt2"}', "utf-8")
    shutil.copytree(ROOT / "examples" / "cs336", folder / "examples" / "cs336")
    for document in DOCUMENTS:
        for name, body in modules(read(document)).items():
            (folder / name).write_text(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


# A rule gets the beginning of its command and the words after it, in the folder of examples.


def plan_it(_, words):
    """Plan instead of measuring, into a new folder, on a device that is there; read the flags of a cluster."""
    if "--cluster" in words:
        measure_parser().parse_args(words)
        return
    if "--device" in words:
        at = words.index("--device") + 1
        words[at] = words[at] if words[at] in (*devices.available_names(), "auto") else devices.available_names()[-1]
    instead = [] if {"--list", "--help"} & set(words) else ["--plan"]
    into = [] if "--data" in words else ["--data", "DIR"]
    assert roofwright(["measure", *words, *instead, *into]) == 0
    assert not Path("DIR").exists()


RUN = ("add-machine", "compare", "import-trace", "pack", "predict", "share", "show", "trace")


def run_it(beginning, words):
    """A command with names to fill in, in capitals, is parsed alone. Most verbs without words are mere mentions."""
    verb = beginning.split()[-1]
    if any(re.fullmatch(r"[A-Z_]+(\.zip)?", word) for word in words):
        parser_of(verb).parse_args(words)
    elif words or verb in ("pack", "share", "show"):
        words = [value for word in words for value in (sorted(glob(word)) or [word])]
        assert measure_command.main([verb, *words]) == 0


def parse_a_model(_, words):
    """It measures for a minute: tests/measure/verbs/test_model.py measures a small network."""
    parsed = parser_of("model").parse_args(["resnet50" if word == "NAME" else word for word in words])
    request, _ = one_model.make_request(parsed)
    assert [model.name for model in request.models] == [parsed.model]


def check_the_world(_, words):
    """tests/measure/cache/test_folders.py checks the committed tables."""
    assert report_command.main(["check", *words, "--data", str(WORLD)]) == 0


PARSED = ("add-published", "count-published", "doctor", "fit", "forget", "import-ncu")
PARSERS = {
    **{f"python -m measure {verb}": parser_of(verb) for verb in PARSED},
    "python -m report": report_command.parser(),
    "python -m report figures": report_command.parser(),
    "python -m report.dictionary": ArgumentParser(),  # tests/report/test_dictionary.py compares its output
    "roofwright report": report_command.parser(),
    "python examples/tiny.py": tiny.make_parser(),  # tests/test_tiny.py draws one network
}
"""Commands with nothing but names to fill in, of minutes, or run by other tests."""


def parse_it(beginning, words):
    PARSERS[beginning].parse_args(["1" if word == "N" else word for word in words])


def run_it_dry(_, words):
    subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, check=True)


def pack_the_repository(_, words):
    words[words.index("--output") + 1] = os.devnull
    subprocess.run(["git", "archive", *words], cwd=ROOT, check=True)


def find_its_words(beginning, words):
    """A command that cannot run here, or takes minutes, names existing flags, files, marks and extras."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    if beginning == "pip install":
        name, extras = re.fullmatch(r"([\w.-]+)\[([\w,]+)\]", words[-1]).groups()
        assert name in (".", "roofwright")
        assert set(extras.split(",")) <= set(settings["project"]["optional-dependencies"])
    elif beginning == "python -m report why":  # the name of a fact, or the beginning of several
        assert words == ["NAME"] or re.search(rf"`{re.escape(words[0])}[.`]", facts.dictionary())
    elif beginning == "ncu":  # ``import-ncu`` reads the output of these flags
        assert f"ncu {shlex.join(words)}" in parser_of("import-ncu").description
    elif words[:1] == ["-m"]:
        declared = {marker.partition(":")[0] for marker in settings["tool"]["pytest"]["ini_options"]["markers"]}
        assert set(re.findall(r"\w+", words[1])) - {"not", "and", "or"} <= declared
    else:  # files, and flags of the first file
        files = [word for word in words if not word.startswith("-")]
        assert all((ROOT / file).is_file() for file in files)
        flags = [word for word in words if word.startswith("--")] if beginning == "python" else []
        assert all(f'"{flag}"' in (ROOT / files[0]).read_text("utf-8") for flag in flags)


RULES = {
    **{f"python -m measure {verb}": run_it for verb in RUN},
    **dict.fromkeys(PARSERS, parse_it),
    "python -m measure": plan_it,
    "roofwright measure": plan_it,
    "python -m measure model": parse_a_model,
    "python -m report check": check_the_world,
    "make": run_it_dry,
    "git archive": pack_the_repository,
    **dict.fromkeys(("python -m report why", "python -m pytest", "python", "pip install", "ncu"), find_its_words),
    **dict.fromkeys(("quarto render", "quarto publish gh-pages"), find_its_words),
}


def rule_of(command):
    return max((each for each in RULES if f"{command} ".startswith(f"{each} ")), key=len, default=None)


@pytest.mark.parametrize(
    "command",
    [pytest.param(command, marks=pytest.mark.slow if SLOW.match(command) else ()) for command in ALL],
    ids=str,
)
def test_commands(command, examples, tmp_path, monkeypatch):
    beginning = rule_of(command)
    assert beginning, f"no rule says how to try {command!r}"
    rule = RULES[beginning]  # only one rule writes files
    monkeypatch.chdir(shutil.copytree(examples, tmp_path / "examples") if rule is run_it else examples)
    rule(beginning, shlex.split(command.removeprefix(beginning)))


@pytest.mark.usefixtures("roof")
def test_the_network_at_hand_is_answered_for(capsys):
    exec(modules(read(ROOT / "docs" / "extending.md"))["at_hand.py"], {})
    assert capsys.readouterr().out.startswith("Sequential on ")


def test_the_chapter_to_write_has_its_value_and_its_figure():
    chips = pd.DataFrame({"chip": ["A", "B"], "year": [2020, 2022], "bandwidth_byte_per_s": [1e12, 3e12]})
    paper, written = SimpleNamespace(chips=chips), {}
    for body in blocks(read(ROOT / "docs" / "extending.md"), "py"):
        if body.startswith(("from ", "import altair")):
            exec(body, written)
    most = written["of"](paper).most
    assert (str(most), most.name) == ("3.00\u00a0TB/s", "B")
    figure = written["years"].__wrapped__(paper)
    assert [len(rows) for rows in specified(figure)["datasets"].values()] == [2]


def test_the_verb_to_write_takes_a_file_and_a_line(tmp_path):
    for room in ("measure", "roofwright"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    written = blocks(read(ROOT / "docs" / "extending.md"), "py")
    (module,), (line,) = ([each for each in written if each.startswith(start)] for start in ('"""Print', '"rounds"'))
    (tmp_path / "measure" / "verbs" / "rounds.py").write_text(module)
    flags = tmp_path / "measure" / "verbs" / "flags.py"
    flags.write_text(re.sub("(?m)^VERBS = {.*\n", lambda found: f"{found[0]}    {line}", flags.read_text("utf-8")))

    def run(*words):
        command, environment = [sys.executable, "-m", "measure", *words], os.environ | {"PYTHONPATH": "."}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    machines = ((each, WORLD / "machines" / each / "runs.csv") for each in ("example-cpu", "example-gpu"))
    lines = [f"{name}: {len(path.read_text().splitlines()) - 1}" for name, path in machines]  # but for the header
    assert run("rounds", "--data", str(WORLD)).stdout.splitlines() == lines
    assert "how many rounds were measured on each machine" in run("--help").stdout
    refused = run("rounds", "--machine", "example-cpo", "--data", str(WORLD))
    assert (refused.returncode, "did you mean example-cpu" in refused.stderr) == (2, True)


def test_verbs_are_documented_and_written_flags_are_offered():
    assert {f"python -m measure {verb}" for verb in VERBS} <= set(RULES)
    parsers = (measure_parser(), report_command.parser(), *map(parser_of, VERBS))
    offered = set().union(*(parser._option_string_actions for parser in parsers))  # argparse has no public way
    written = {span.split()[0] for document in DOCUMENTS for span in spans(read(document)) if span.startswith("--")}
    assert written <= offered


GENERATED = ("_site/", ".venv", "_figures", "facts.json", "published.html")
TO_WRITE = ("measure/verbs/rounds.py", "report/chapters/memory/", "memory.qmd", "discussion.qmd", "own.bib", "mine/")
TABLES = {each.name for each in dictionary.TABLES.values()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_paths_in_the_text_are_there(document):
    for span in spans(read(document)):
        is_path = PATH.fullmatch(span) and ("/" in span or span.endswith(SUFFIXES))
        if not is_path or span.startswith(("/", *GENERATED, *TO_WRITE)) or span in (*TABLES, *SUFFIXES):
            continue
        pattern = PLACEHOLDER.sub("*", span.rstrip("/"))
        if pattern != span.rstrip("/"):  # a file to be made, in an existing folder
            pattern = (Path("*") / pattern).parent.as_posix()
            assert any(ROOT.parent.glob(pattern)), f"there is no folder for {span}"
        else:
            everywhere = "" if "/" in span else "report/**/"  # `facts.py` of any chapter
            assert any(ROOT.glob(everywhere + pattern)) or (ROOT / pattern).exists(), f"no {span}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    for target in LINK.findall(BLOCK.sub("", read(document))):
        if re.match(r"https?://", target):
            continue
        path, _, name = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), target
        if name:  # a heading's anchor, as GitHub makes it
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
            assert name in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}, target


def test_the_row_of_a_chip_is_one_that_the_table_takes(tmp_path):
    (row,) = (block for block in blocks(read(ROOT / "docs/extending.md"), "") if block.startswith("Example Chip"))
    header = (ROOT / "data/chips.csv").read_text("utf-8").partition("\n")[0]
    (tmp_path / "chips.csv").write_text(f"{header}\n{row}", "utf-8")
    (chip,) = table.read(tmp_path / "chips.csv", Chip)
    assert (chip.chip, chip.peak_flop_per_s, chip.cache_byte) == ("Example Chip 9", 6e13, 5e7)


SCALED = """
from measure.roofs import processor_kernels, roofs
size = next(size for kernel, _, size, _, _ in roofs.roof_kernels("cpu", ["fp32"]) if kernel == "stream_scale")
assert roofs.flop_and_byte("stream_scale", "fp64", 3200) == (200, 3200)  # of 200 numbers read and 200 written
streams = processor_kernels.Streams("stream_scale", 2**16, processor_kernels.Team(2))
streams.run(False, 1)
assert all((a == 3 * b).all() for a, b in streams.shares)
"""


@pytest.mark.slow
def test_the_roof_kernel_to_write_takes_two_lines_and_runs(tmp_path):
    for room in ("measure", "roofwright"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    written = [block for block in blocks(read(ROOT / "docs/extending.md"), "py") if "stream_scale" in block]
    places = (
        ("measure/domain/words.py", "ROOF_KERNELS = {\n"),
        ("measure/roofs/processor_kernels.py", "    value = {\n"),
    )
    for (name, before), line in zip(places, written, strict=True):
        module = (tmp_path / name).read_text("utf-8")
        assert module.count(before) == 1
        (tmp_path / name).write_text(module.replace(before, before + line), "utf-8")
    subprocess.run([sys.executable, "-c", SCALED], cwd=tmp_path, env=os.environ | {"PYTHONPATH": "."}, check=True)


def test_an_installed_copy_has_every_trace():
    files = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["data-files"]
    installed = {Path(folder).name for folder in files if folder.startswith("share/roofwright/data/traces/")}
    assert installed == {path.parent.name for path in (ROOT / "data/traces").glob("*/trace.csv")}
