"""What the documents say to type works: every command has a rule by which it is tried, every path and link a target.

A command in a fenced ``sh`` block, or in the line of a text where it begins with one of ``PROGRAMS``, is executed where
that takes seconds, on scratch data; the rules of the others say how they are checked instead. A command of a kind that
has no rule fails.
"""

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pandas as pd
import pytest
import yaml
from helpers import elsewhere_papers, traces
from helpers.places import ROOT, TESTS

from examples import tiny
from measure import __main__ as measure_command
from measure.cache import table
from measure.cache.hand_kept import PublishedTiming
from measure.domain.roofs import Roof
from measure.machine import devices
from measure.predicting.demand import of_chips as devices_of_chips
from measure.verbs import model as one_model
from measure.verbs.flags import VERBS, parser_of
from measure.verbs.measure import parser as measure_parser
from report import __main__ as report_command
from report import dictionary, facts
from roofwright import __main__ as roofwright

DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        ROOT / "report/chapters/machine/machine.qmd",
        ROOT / "notebooks/colab.ipynb",
    ]
)
PROGRAMS = ("python", "roofwright", "make", "pip", "quarto", "ncu", "git")

BLOCK = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)*/?")
SUFFIXES = (".py", ".md", ".csv", ".qmd", ".yml", ".toml", ".txt", ".bib", ".html", ".pdf", ".ipynb", ".cff")
PLACEHOLDER = re.compile(r"\b(NAME|X)\b|(?<=_)X\b")


def read(document):
    """A document's Markdown."""
    text = document.read_text("utf-8")
    if document.suffix != ".ipynb":
        return text
    cells = nbformat.reads(text, as_version=4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def outside_blocks(text):
    return BLOCK.sub("", text)


def blocks(text, kind):
    """The fenced blocks of a kind."""
    return [textwrap.dedent(body) for _, said, body in BLOCK.findall(text) if said == kind]


def modules(text):
    """The modules that a document shows, by the file names in their first lines."""
    return {body.partition("\n")[0].removeprefix("# "): body for body in blocks(text, "python")}


def spans(text):
    """What stands between backticks in running text."""
    return [" ".join(span.split()) for span in SPAN.findall(outside_blocks(text))]


def commands(text):
    """Every command of a document, split into words, without comments."""
    lines = [line for block in blocks(text, "sh") for line in block.replace("\\\n", " ").splitlines()]
    lines += [span for span in spans(text) if span.split()[0] in PROGRAMS and " " in span]
    return [words for line in lines if (words := shlex.split(line, comments=True))]


ALL = {shlex.join(words): words for document in DOCUMENTS for words in commands(read(document))}

RULES = {}


def rule(*beginning):
    """Makes a function the rule of commands that begin with these words; of several rules the longest holds."""

    def keep(check):
        RULES[beginning] = check
        return check

    return keep


def filled(words, values):
    """The words with a document's placeholders filled in."""
    return [str(values.get(word, word)) for word in words]


@rule("python", "-m", "measure")
def plan_it(words, scratch):
    """Plans instead of measuring, into a scratch folder, on a device that is there; flags of a cluster are read."""
    config = scratch.with_name("config.json")
    config.write_text('{"model_type": "gpt2"}', "utf-8")
    words = [word.replace("path/to/config.json", str(config)) for word in filled(words, {"DIR": scratch})]
    if "--cluster" in words:
        measure_parser().parse_args(words)
        return
    if "--device" in words:
        at = words.index("--device") + 1
        there = devices.available_names()
        words[at] = words[at] if words[at] in (*there, "auto") else there[-1]
    instead = [] if {"--list", "--help"} & set(words) else ["--plan"]
    into = [] if "--data" in words else ["--data", str(scratch)]
    assert measure_command.main([*words, *instead, *into]) == 0
    assert not scratch.exists()


@rule("python", "-m", "measure", "compare")
def compare_an_example_with_its_copy(words, scratch):
    """Compares three copies of a machine, or two of the project's traces."""
    shutil.copytree(ROOT / "data" / "traces", scratch / "traces")
    for name in "ABC":
        shutil.copytree(TESTS / "data" / "machines" / "example-cpu", scratch / "machines" / name)
    if "data/machines/*" in words:  # as the shell writes it out
        words = [str(scratch / "machines" / name) for name in "ABC"]
    assert measure_command.main(["compare", *words, "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "predict")
def parse_what_is_predicted(words, _scratch):
    said = parser_of("predict").parse_args(words)
    chips = {chip.name for chip in devices_of_chips(ROOT / "data").values()}
    assert set(said.chip or ()) <= {*chips, "NAME"}


@rule("python", "-m", "measure", "fit")
def parse_what_is_fitted(words, _scratch):
    parser_of("fit").parse_args(words)


@rule("python", "-m", "measure", "model")
def ask_for_what_is_named(words, _scratch):
    """It measures for a minute: tests/measure/verbs/test_one_model.py asks for a small network."""
    said = parser_of("model").parse_args(filled(words, {"NAME": "resnet50"}))
    request, _ = one_model.make_request(said)
    assert [model.name for model in request.models] == [said.model]


@rule("python", "-m", "measure", "show")
def show_an_example(words, scratch):
    shutil.copytree(TESTS / "data", scratch)
    words = filled(words, {"resnet18": "lean", "resnet50": "lean"})
    assert measure_command.main(["show", *words, "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "doctor")
def parse_what_watches_the_machine(words, _scratch):
    """It watches the machine and tries its libraries: tests/measure/verbs/test_doctor.py has its findings."""
    parser_of("doctor").parse_args(words)


@rule("python", "-m", "measure", "import-ncu")
def import_the_example(words, scratch):
    values = {"FILE": TESTS / "data" / "ncu-raw-format.csv", "NAME": "resnet50", "N": "64"}
    gpu = ["--device-name", "NVIDIA T4", "--data", str(scratch)]
    assert measure_command.main(["import-ncu", *filled(words, values), *gpu]) == 0


@rule("python", "-m", "measure", "import-trace")
def import_a_made_trace(words, scratch):
    scratch.mkdir()
    made = traces.write(scratch / "made.json.gz", traces.linear_step())
    words = filled(words or [made], {"FILE": made, "step.json.gz": made})  # the verb alone is its name
    assert measure_command.main(["import-trace", *words, "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "trace")
def read_a_trace(words, _scratch):
    words = filled(words or ["NAME"], {"NAME": "nvidia-h100-sxm-vit-base"})  # the verb alone is its name
    assert measure_command.main(["trace", *words, "--data", str(ROOT / "data")]) == 0


@rule("python", "-m", "measure", "pack")
def pack_an_example(words, scratch):
    shutil.copytree(TESTS / "data" / "machines" / "example-cpu", scratch / "machines" / "example-cpu")
    words = [str(scratch / word) for word in words] or [str(scratch / "example-cpu.zip")]  # the verb alone is its name
    assert measure_command.main(["pack", *words, "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "forget")
def forget_an_example(words, scratch):
    shutil.copytree(TESTS / "data", scratch)
    assert measure_command.main(["forget", *filled(words, {"MODEL": "lean"}), "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "add-machine")
def add_an_example(words, scratch):
    machine = TESTS / "data" / "machines" / "example-cpu"
    packed = shutil.make_archive(str(scratch / machine.name), "zip", machine.parent, machine.name)
    values = {"FOLDER_OR_ZIP": machine, "FILE.zip": packed, "handed-in/*.zip": packed}
    words = filled(words or [machine], values)  # the verb alone is its name
    assert measure_command.main(["add-machine", *words, "--data", str(scratch / "data")]) == 0


@rule("python", "-m", "measure", "add-published")
def add_a_made_table(words, scratch):
    scratch.mkdir()
    shutil.copy(TESTS / "data" / "chips.csv", scratch)
    file = scratch / "made.csv"
    table.write(file, PublishedTiming, [elsewhere_papers.timing("alexnet", 0.5)])
    words = filled(words or [file], {"FILE": file})  # the verb alone is its name
    assert measure_command.main(["add-published", *words, "--data", str(scratch)]) == 0


@rule("python", "-m", "measure", "count-published")
def parse_what_is_counted(words, _scratch):
    """All of them take a quarter of an hour: tests/measure/verbs/test_count_published.py counts some."""
    parser_of("count-published").parse_args(words)


@rule("python", "examples/tiny.py")
def parse_what_is_drawn(words, _scratch):
    """tests/test_tiny.py draws one network."""
    tiny.make_parser().parse_args(words)


@rule("python", "-m", "report.dictionary")
def compare_what_is_written(words, _scratch):
    """tests/report/test_dictionary.py compares the files with what the command writes."""
    assert words == []


@rule("python", "-m", "report")
def parse_what_renders(words, _scratch):
    """The browser tests have the paper rendered once by the same command; here its flags are read."""
    assert report_command.parser().parse_args(words).verb == "render"


@rule("roofwright", "measure")
def plan_it_by_the_other_name(words, scratch):
    assert roofwright.PARTS["measure"]([*words, "--plan", "--data", str(scratch)]) == 0


@rule("roofwright", "report")
def parse_what_renders_by_the_other_name(words, scratch):
    """tests/test_roofwright.py renders with it."""
    parse_what_renders(words, scratch)


@rule("python", "-m", "report", "figures")
def write_named_figures(words, scratch):
    """All of them take a minute: without names the flags are read."""
    flags = report_command.parser().parse_args(["figures", *filled(words, {"DIR": scratch})])
    if flags.figures:
        assert report_command.main(["figures", *filled(words, {"DIR": scratch})]) == 0
        assert {file.stem for file in scratch.iterdir()} == set(flags.figures)


@rule("python", "-m", "report", "why")
def find_the_facts(words, _scratch):
    """tests/report/test_facts.py prints one; here the name is that of a fact, or the beginning of several."""
    (name,) = filled(words, {"NAME": "puzzle"})
    assert re.search(rf"`{re.escape(name)}[.`]", facts.dictionary())


@rule("python", "-m", "report", "check")
def check_the_data(words, _scratch):
    assert report_command.main(["check", *words]) == 0


@rule("python", "-m", "pytest")
def find_the_tests(words, _scratch):
    """Files of tests are there, and marks are declared."""
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    declared = {marker.partition(":")[0] for marker in markers}
    if words[0] == "-m":
        (marks,) = words[1:]
        assert set(re.findall(r"\w+", marks)) - {"not", "and", "or"} <= declared
    else:
        assert all((ROOT / file).is_file() for file in words)


@rule("python")
def find_the_program(words, _scratch):
    """A program of benchmarks/, which takes minutes: it is there, and names its flags."""
    file, *flags = words
    assert file.startswith("benchmarks/")
    assert all(f'"{flag}"' in (ROOT / file).read_text("utf-8") for flag in flags)


@rule("make")
def say_what_it_would_do(words, _scratch):
    done = subprocess.run(["make", "--dry-run", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@rule("pip", "install")
def find_the_extras(words, _scratch):
    """Nothing is installed: the project is named, and its extras are declared."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (project,) = [word for word in words if word != "-e"]
    name, extras = re.fullmatch(r"([\w.-]+)\[([\w,]+)\]", project).groups()
    assert name in (".", "roofwright")
    assert set(extras.split(",")) <= set(declared)


@rule("quarto", "render")
def find_the_project(words, _scratch):
    """There may be no Quarto here: without a name it renders what the project's settings name."""
    assert words == []
    assert "index.qmd" in yaml.safe_load((ROOT / "_quarto.yml").read_text())["project"]["render"]


@rule("quarto", "publish", "gh-pages")
def find_the_document(words, _scratch):
    """A project that is no website is published by the name of its document."""
    assert set(words) < set(yaml.safe_load((ROOT / "_quarto.yml").read_text())["project"]["render"])


@rule("ncu")
def find_it_in_our_own_words(words, _scratch):
    """NVIDIA's program is not here: the flags are those whose output ``import-ncu`` reads."""
    assert f"ncu {shlex.join(words)}" in parser_of("import-ncu").description


def test_the_network_at_hand_is_answered_for(monkeypatch, capsys):
    monkeypatch.setattr(one_model, "_roof", lambda *_: Roof({"fp32": 1e12}, 1e11))
    exec(modules(read(ROOT / "docs" / "extending.md"))["at_hand.py"], {})
    assert capsys.readouterr().out.startswith("Sequential on ")


def test_the_chapter_to_write_has_its_value_and_its_figure():
    chips = pd.DataFrame({"chip": ["A", "B"], "year": [2020, 2022], "bandwidth_byte_per_s": [1e12, 3e12]})
    paper, written = SimpleNamespace(chips=chips), {}
    for body in blocks(read(ROOT / "docs" / "extending.md"), "py"):
        if body.startswith("from "):
            exec(body, written)
    most = written["of"](paper).most
    assert (str(most), most.name) == ("3.00\u00a0TB/s", "B")
    figure = written["years"].__wrapped__(paper)
    assert [len(rows) for rows in figure["datasets"].values()] == [2]


@pytest.mark.parametrize("text", ALL)
def test_commands(text, tmp_path, monkeypatch):
    words = ALL[text]
    for document in DOCUMENTS:
        for name, body in modules(read(document)).items():
            (tmp_path / name).write_text(body)
            monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    beginnings = [known for known in RULES if tuple(words[: len(known)]) == known]
    assert beginnings, f"no rule says how to try {text!r}"
    longest = max(beginnings, key=len)
    RULES[longest](words[len(longest) :], tmp_path / "scratch")


def test_every_rule_is_for_a_command_that_is_documented():
    for beginning in RULES:
        assert any(tuple(words[: len(beginning)]) == beginning for words in ALL.values()), beginning


def test_a_command_of_an_unknown_kind_is_found():
    assert commands("```sh\nrm -rf DIR  # all of it\n```\n") == [["rm", "-rf", "DIR"]]
    assert ("rm",) not in RULES
    assert commands("Say `make report`, not `make`,\nnor `python -m\nreport`; `fp32 or less` is none.") == [
        ["make", "report"],
        ["python", "-m", "report"],
    ]


def options(parser):
    return set(parser._option_string_actions)  # argparse has no public way


def test_every_flag_in_the_text_is_one_that_is_offered():
    offered = set().union(*map(options, [measure_parser(), report_command.parser(), *map(parser_of, VERBS)]))
    for document in DOCUMENTS:
        for span in spans(read(document)):
            if span.startswith("--"):
                assert span.split()[0] in offered, f"{document.name}: {span}"


def test_every_verb_is_documented():
    readme = (ROOT / "README.md").read_text("utf-8") + (ROOT / "docs" / "extending.md").read_text("utf-8")
    for verb in VERBS:
        assert f"python -m measure {verb}" in readme, verb


GENERATED = ("_site/", ".venv", "_figures", "facts.json", "published.html")
TO_WRITE = ("report/chapters/memory/", "memory.qmd")  # by a reader of docs/extending.md
TABLES = {facts.name for facts in dictionary.TABLES.values()}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_paths_in_the_text_are_there(document):
    for span in spans(read(document)):
        is_path = PATH.fullmatch(span) and ("/" in span or span.endswith(SUFFIXES))
        if not is_path or span.startswith(("/", *GENERATED, *TO_WRITE)) or span in (*TABLES, *SUFFIXES):
            continue
        pattern = PLACEHOLDER.sub("*", span.rstrip("/"))
        if pattern != span.rstrip("/"):  # what is yet to be made lies in a folder that is there
            pattern = (Path("*") / pattern).parent.as_posix()
            assert any(ROOT.parent.glob(pattern)), f"{document.name}: there is no folder for {span}"
        else:
            everywhere = "" if "/" in span else "report/**/"  # `facts.py` is that of any chapter
            assert any(ROOT.glob(everywhere + pattern)) or (ROOT / pattern).exists(), f"{document.name}: no {span}"


def anchor(heading):
    """A heading's anchor, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_somewhere(document):
    for target in LINK.findall(outside_blocks(read(document))):
        if re.match(r"https?://", target):
            continue
        path, _, name = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), f"{document.name}: {target}"
        headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE) if name else []
        assert not name or name in map(anchor, headings), f"{document.name}: {target}"


PUBLIC = (*DOCUMENTS, *ROOT.glob("*.cff"), *ROOT.glob("*.toml"), *ROOT.glob(".github/**/*.yml"))


def test_no_placeholder_stands_for_an_address():
    for file in PUBLIC:
        assert "OWNER" not in file.read_text("utf-8"), file.name
