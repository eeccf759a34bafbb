"""`python -m report` renders the paper from the cached measurements."""

import gzip
import json
import os
import re
import shlex
import shutil
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from measure.cache.project import ROOT, SETTINGS_FILE, project_folder
from measure.domain.values import SPACE, percent, plain, si
from measure.errors import UserError, as_called, unknown
from report import UNDISTURBED
from roofwright.command_line import CommandLine, answer, data_flag

FORMATS = {"render": ("html", "pdf"), "figures": ("svg", "png", "pdf", "json")}  # the formats that each verb writes


def parser() -> CommandLine:
    flags = CommandLine(
        prog=as_called("report"),
        description="Render the paper from the cached measurements, as HTML and PDF.",
        epilog="Exit codes: 0 all is written, or sound; 1 something could not be computed in a strict render; 2 bad "
        "input; 130 stopped by Ctrl-C.",
    )
    add = flags.add_argument
    text = (
        "render the paper (default), write its figures as files with their data as CSV, trace a number of the text to "
        "its source (why), only check that every table of the cache is sound, or make a new folder with a paper of "
        "your own, which renders in that folder"
    )
    add("verb", nargs="?", choices=["render", "figures", "why", "check", "new"], default="render", help=text)
    text = "with why: a fact's name, such as training.step.over_forward, or the beginning of several (docs/facts.md)"
    add("name", nargs="?", metavar="NAME", help=text)
    text = "the engine: quarto, the embedded one, or quarto if it is installed (default: auto)"
    add("--engine", choices=["auto", "quarto", "embedded"], default="auto", help=text)
    text = "the formats to write (default: all; html pdf for the paper, svg png pdf json for figures)"
    add("--formats", nargs="+", choices=list(dict.fromkeys(chain(*FORMATS.values()))), help=text)
    text = "the chapters, by their files' names such as chips (default: as in _quarto.yml, else all)"
    add("--chapters", nargs="+", default=[], metavar="NAME", help=text)
    text = (
        "the machines, by their folders in data/machines; figures show the first of each kind "
        "(default: as in _quarto.yml, else all, the newest first)"
    )
    add("--machines", nargs="+", default=[], metavar="NAME", help=text)
    text = (
        "the models, by names or globs such as 'vgg*' (default: as in _quarto.yml, else all); results published by "
        "others stay"
    )
    add("--models", nargs="+", default=[], metavar="NAME", help=text)
    text = "the chips, by names or globs such as 'NVIDIA T4' (default: as in _quarto.yml, else all in data/chips.csv)"
    add("--chips", nargs="+", default=[], metavar="NAME", help=text)
    text = "the author in the title block (default: as in _quarto.yml, else your machine)"
    add("--author", metavar="NAME", help=text)
    text = "with figures: the labels of figures, such as fig-chip-roofs (default: all)"
    add("--figures", nargs="+", default=[], metavar="LABEL", help=text)
    text = "the folder with the cached measurements (default: data, else the project's own)"
    add("--data", type=Path, metavar="DIR", help=text)
    text = (
        "stop at the first figure, table or sentence that cannot be computed; otherwise a sentence replaces it, and "
        "the rest of the paper is rendered"
    )
    add("--strict", action="store_true", help=text)
    text = "run all code again, not only the code that changed since the last render by the embedded engine"
    add("--force", action="store_true", help=text)
    add("--out", type=Path, metavar="DIR", help="the folder to write to (default: _site; for figures, _site/figures)")
    return flags


def render(project: Path, engine: str, formats: list[str], data: Path, out: Path | None) -> list[Path]:
    """Render the project with the engine that `engine` names or finds; return the files."""
    # Imported late, so that --help answers at once
    from report.engine.embedded import render_embedded
    from report.engine.project import read_project
    from report.engine.quarto import find_quarto, outdated, render_with_quarto

    out = out or Path.cwd() / read_project(project).output_folder
    _require(project, data, out)
    _progress(f"rendering the paper of {data}")
    quarto = None if engine == "embedded" else find_quarto()
    if engine == "quarto" and quarto is None:
        raise UserError(
            "there is no quarto on the PATH or next to this Python; install it with "
            "pip install 'roofwright[quarto]' or from quarto.org, or use --engine embedded, which needs no more"
        )
    if quarto and (reason := outdated(quarto)):
        if engine == "quarto":
            raise UserError(f"{reason}; update it, or use --engine embedded")
        _progress(f"{reason}: the embedded engine renders instead")
        quarto = None
    engine_render = partial(render_with_quarto, quarto) if quarto else render_embedded
    written = engine_render(project, formats, data.resolve(), out, _progress)
    return [*written, *_facts_of(written[0])]


def _facts_of(page: Path) -> list[Path]:
    """Write the facts in a page next to it as ``facts.json``; nothing without facts, or for a PDF."""
    from report.files import write_file

    found = re.search(r'<script type="application/gzip" id="facts">(.*?)</script>', page.read_text("utf-8", "ignore"))
    if not found:
        return []
    path = page.with_name("facts.json")
    write_file(
        path, f"{json.dumps(json.loads(gzip.decompress(b64decode(found[1]))), indent=1, ensure_ascii=False)}\n".encode()
    )
    return [path]


def closing_lines(written: Sequence[Path], data: Path) -> list[str]:
    """Return the files, the page's address, the headline, and commands to continue with."""
    lines = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in written]
    lines += [f"Open {path.resolve().as_uri()}" for path in written if path.suffix == ".html"]
    facts = [json.loads(path.read_text("utf-8")) for path in written if path.suffix == ".json"]
    about = headline(facts[0]) if facts else []
    if not about:
        return lines
    following = {
        "measure model resnet50": "the bottlenecks of one model, layer by layer",
        "measure --budget 20m": "more models and rounds; render again afterwards",
        "measure doctor": "conditions on this machine that would spoil a measurement",
    }
    python, flag = f"{_python()} -m", data_flag(data)
    commands = [as_called(words).replace("python -m", python) + flag for words in following]
    width = max(map(len, commands))
    pairs = zip(commands, following.values(), strict=True)
    return [*lines, "", *about, "", "Next:", *(f"  {command:<{width}}  {purpose}" for command, purpose in pairs)]


def headline(facts: dict[str, dict[str, Any]]) -> list[str]:
    """Return at most two lines about the machine at hand, none without a machine."""
    # Undisturbed facts come last, and win.
    of = {key.removeprefix(UNDISTURBED): fact["value"] for key, fact in facts.items()}
    if not (machine := of.get("machine.at_hand.name")):
        return []
    first = f"{machine}: its roof was not measured, or not with enough certainty"
    peak, bandwidth = of["utilisation.roofs.peak"], of["utilisation.roofs.bandwidth"]
    if peak and bandwidth:
        first = f"{machine}: {si(peak, 'FLOP/s')} at fp32 and {si(bandwidth, 'B/s')} from memory"
    kinds = [kind for kind in ("processor", "gpu") if of[f"utilisation.{kind}.device"] == machine]
    if kinds and (share := of[f"utilisation.{kinds[0]}.layers"]):
        first += f"; the layer-by-layer bound is {percent(share)} of the latency in the median network"
    lines = [first]
    ratio, fewer = of["puzzle.here.ratio"], of["puzzle.needs.fewer"]
    if ratio and fewer:
        lines.append(
            f"At batch {of['puzzle.here.batch']}, MobileNet-v2 needs {plain(fewer)} times fewer FLOP than ResNet-18 "
            f"and takes {plain(ratio)} times as long"
        )
    return lines


def _python() -> str:
    """Return the command of this Python: ``python`` if the PATH finds it, else its path from this folder."""
    there = Path(sys.executable)
    found = shutil.which("python")
    if found and os.path.samefile(found, there) and Path(found).parent == there.parent:
        return "python"
    return str(there.relative_to(Path.cwd())) if there.is_relative_to(Path.cwd()) else str(there)


def figures(project: Path, labels: list[str], formats: list[str], data: Path, out: Path | None) -> list[Path]:
    from report.engine.project import read_project
    from report.figure_files import write_figures

    out = out or Path.cwd() / read_project(project).output_folder / "figures"
    _require(project, data, out)
    _progress(f"drawing the figures of {data}")
    return write_figures(project, labels, formats, out, _progress)


def explain(project: Path, name: str | None, data: Path) -> str:
    """Describe a fact. Raises UserError without a name or for an unknown one."""
    from report import facts
    from report.options import load_paper

    if not name:
        raise UserError("why: name a fact, such as training.step.over_forward; docs/facts.md lists them")
    _require(project, data)
    with chdir(project):
        return facts.why(load_paper(), name)


def check(project: Path, data: Path) -> str:
    """Read all tables of the cache and the bibliography, and count them. Raises UserError for the first fault."""
    from report.engine.embedded import check_sources
    from report.engine.project import read_project
    from report.markdown import number
    from report.options import load_paper

    _require(project, data)
    check_cache(data)
    check_sources(read_project(project))
    with chdir(project):
        paper = load_paper(chosen=())
    cells = sum(len(machine.cells) for machine in paper.machines)
    found = (
        f"{number(len(paper.chips), 'roof')} of {number(paper.chips.chip.nunique(), 'chip')}, "
        f"{number(paper.workloads.model.nunique(), 'model')} counted, "
        f"{number(len(paper.machines), 'machine')} with {number(cells, 'cell')}"
    )
    return f"{data} is sound: {found.replace(SPACE, ' ')}"


def check_cache(data: Path) -> None:
    """Raise UserError for the first damaged table of measurements or counts. Torn and empty tables count as damaged."""
    from measure.cache.folders import FILES, Folder, Workloads

    tables = (data / "machines").glob("[!.]*/*.csv")
    machines = sorted({path.parent for path in tables if path.name in FILES.values()})
    for folder in (*Workloads(data).folders(), *map(Folder, machines)):
        folder.check()


def _require(project: Path, data: Path, out: Path | None = None) -> None:
    """Raise UserError at once for faults that the cells would find late."""
    from report.engine.project import read_project
    from report.engine.source import left_out
    from report.options import load_paper, machines

    if not data.is_dir():
        raise UserError(f"there is no data folder {data}; measure first with {as_called('measure')}, or give --data")
    _require_whole(data)
    if out:
        _require_writable(out)
        if (temporary := os.environ.get("TMPDIR")) and not Path(temporary).is_dir():
            raise UserError(f"TMPDIR: there is no folder {temporary}; make it, or unset TMPDIR")
    settings = read_project(project)
    left_out(settings)
    machines(data, project)
    if any(map(settings.chosen, ("models", "chips"))):
        with chdir(project):  # where the chapters load it
            load_paper()


def _require_whole(data: Path) -> None:
    """Raise UserError, naming the line, for a machine's table that is cut within a row."""
    from measure.cache.folders import FILES, Folder

    for path in (data / "machines").glob("[!.]*/*.csv"):
        if path.name in FILES.values() and not _is_whole(path):
            Folder(path.parent).check()


def _is_whole(path: Path) -> bool:
    try:
        return path.read_bytes().endswith(b"\n")
    except OSError:  # the check says why
        return False


def _require_writable(out: Path) -> None:
    there = next(path for path in (out, *out.absolute().parents) if os.path.exists(path))
    if not there.is_dir():
        raise UserError(f"--out: {there} is a file; name a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"--out: {there} cannot be written; name another folder")


def _formats(verb: str, chosen: list[str] | None) -> list[str]:
    """Return the chosen formats in the verb's order, all by default."""
    for name in chosen or []:
        if name not in FORMATS[verb]:
            raise unknown(f"--formats of {verb}", name, FORMATS[verb])
    return [name for name in FORMATS[verb] if name in (chosen or FORMATS[verb])]


def _progress(step: str) -> None:
    print(step, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None, project: Path | None = None) -> int:
    """Run the command line on a project, by default this one, and return the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    return answer(as_called("report"), lambda: run(words, project))


def run(words: Sequence[str], project: Path | None) -> int:
    """Run a command. Raises UserError for bad input."""
    if words[:1] == ["new"]:
        new = CommandLine(prog=as_called("report new"), description="Make a folder with a paper of your own.")
        new.add_argument("folder", type=Path, metavar="FOLDER", help="the folder, which is made or empty")
        return start(new.parse_args(words[1:]).folder)
    flags = parser().parse_args(words)
    if flags.verb == "new":
        raise UserError(f"write new before all flags: {as_called('report new FOLDER')}")
    from report import new_paper  # late, so that --help answers at once

    given, flags.named = flags.data, flags.data or Path("data")
    flags.data = flags.named
    if project:
        return carry_out(flags, project)
    with sources() as project:
        if not holds_tables(flags.data):
            if given is not None or not new_paper.stands_in(Path.cwd()):
                raise UserError(
                    f"no measurements in {flags.data}; run {as_called('measure')} --quick first, or name their "
                    "folder with --data"
                )
            flags.data = project / "data"
        return carry_out(flags, project)


def holds_tables(data: Path) -> bool:
    """Return whether a cache has any table besides the counts of ``measure predict``.

    Raises UserError for a machine's folder that cannot be read.
    """
    from measure.cache.folders import machine_names  # late, so that --help answers at once

    return bool(machine_names(data)) or any(
        path.relative_to(data).parts[0] != "prediction" for path in data.rglob("*.csv")
    )


def start(folder: Path) -> int:
    """Make a folder with a paper of a reader's own, and print the next command."""
    from report import new_paper

    made = new_paper.new(folder)
    print(*made, sep="\n")
    called = as_called("report")
    if _python() != "python":
        called = called.replace("python -m", f"{sys.executable} -m")
    print(f"Next: cd {shlex.quote(str(folder))}; {called}")
    return 0


@contextmanager
def sources() -> Iterator[Path]:
    """Yield the folder to render. Its cells run there and leave their pictures.

    That is this project, or a copy if it is installed, or the assembled files of a paper in the current folder.
    """
    from measure.cache.scratch import scratch
    from report import new_paper

    there = project_folder()
    if new_paper.stands_in(Path.cwd()):
        with alone_in(Path.cwd()):
            yield new_paper.assemble(Path.cwd())
        return
    if there == ROOT:
        yield there
        return
    with scratch() as temporary:
        root = temporary.resolve() / there.name
        shutil.copytree(there, root)
        package = Path(__file__).parent
        shutil.copytree(package, root / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        yield root


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other process renders in a folder, where cells leave pictures for the page and the PDF."""
    from measure.cache import table

    with ExitStack() as stack:
        try:
            stack.enter_context(table.held(folder / table.NAME, f"renders in {folder}: waiting for it"))
        except UserError as busy:
            _progress(str(busy))
            stack.enter_context(table.held(folder / table.NAME))
        yield


def carry_out(flags: Any, project: Path) -> int:
    """Run a verb on a project. Raises UserError for bad input."""
    # Imported late, so that --help answers at once
    from report import failures, options
    from report.engine.execution import FORCED
    from report.engine.project import read_project

    given = {"ROOFWRIGHT_DATA": str(flags.data.resolve()), options.HERE: str(Path.cwd())}
    given |= {failures.STRICT: "1"} if flags.strict else {}
    given |= {FORCED: "1"} if flags.force else {}
    if flags.author is not None:
        if "author" in read_project(project).settings:
            raise UserError(f"--author: {SETTINGS_FILE} names an author already; change it there")
        given[options.AUTHOR] = flags.author
    for name in ("chapters", "machines", "models", "chips"):
        if chosen := getattr(flags, name):
            given[f"ROOFWRIGHT_{name.upper()}"] = ",".join(chosen)
    with failures.in_environment(given):
        if flags.verb == "check":
            print(check(project, flags.data))
            return 0
        if flags.verb == "why":
            print(explain(project, flags.name, flags.data))
            return 0
        formats = _formats(flags.verb, flags.formats)
        if flags.figures and flags.verb != "figures":
            raise UserError(
                f"--figures: works with {as_called('report figures')} only; a paper has the figures of its --chapters"
            )
        with alone_in(project), failures.noted() as failed:
            if flags.verb == "figures":
                written = figures(project, flags.figures, formats, flags.data, flags.out)
                lines = [str(path) for path in written]
            else:
                written = render(project, flags.engine, formats, flags.data, flags.out)
                lines = closing_lines(written, flags.named)
        print("\n".join(lines))
        for line in failed:
            _progress(f"could not be computed: {line}")
        return 0


if __name__ == "__main__":
    sys.exit(main())
