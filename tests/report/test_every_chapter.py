"""Every chapter shows large and small data alike, and its text and its facts agree."""

import inspect
import re
import shlex
from functools import cache
from importlib import import_module

import pytest
from helpers.places import ROOT
from helpers.world import CPU, GPU, WORLD, mutated, nothing, world

from measure.verbs.flags import VERBS, parser_of
from measure.verbs.run_flags import make_request, parser
from report import facts
from report.display import Missing
from report.stats.value import agreement, waits_for

INLINE = re.compile(r"`\{python\} ([^`]+)`")
NOTHING = re.compile(r"\b(?:None|nan|NaN|inf)\b")


def shown():
    """Return the functions of all figures, tables and other parts of chapters, as ``chapter.module.function``."""
    found = {}
    for path in sorted((ROOT / "report" / "chapters").glob("*/*.py")):
        name = path.parent.name
        module = import_module(f"report.chapters.{name}.{path.stem}")
        for key, made in inspect.getmembers(module, inspect.isfunction):
            if made.__module__ == module.__name__ and inspect.getsource(made).startswith("@display."):
                found[f"{name}.{path.stem}.{key}"] = made.__wrapped__
    return found


SHOWN = shown()
NO_KEPT_MEMORY = {
    f"utilisation.{key}" for key in ("figures.kept", "figures.sweep", "figures.throughput", "tables.gains")
}
LACKING = {
    "cause.figures.sizes",  # of two GPUs that differ in memory alone
    "energy.figures.efficiency", "energy.tables.prices", "energy.tables.joules",  # no GPU counts its energy
    "tokens.tables.measured",  # of language models
    "prediction.served.chooser", "prediction.served.table",  # the world has no fit of servers
}  # fmt: skip
GAPS = {
    "everything": LACKING, "a GPU at hand": NO_KEPT_MEMORY | LACKING | {"machine.tables.peaks"},
    "no GPU": {
        "cause.figures.single",
        "latency.figures.ranks",  # most of its intervals contain zero
    } | LACKING,
    "nothing": SHOWN.keys() - {"counting.tables.costs", "puzzle.figures.life"},
}  # fmt: skip
"""What cannot be shown, by what was measured."""


@pytest.fixture(scope="module")
def paper_of(tmp_path_factory):
    """Returns the world, or what is left of it."""

    def alone(row):
        return row if row.get("model", "lean") == "lean" and row.get("batch", "1") == "1" else None

    def one_network():
        paths = [str(path.relative_to(WORLD)) for path in WORLD.rglob("*.csv")]
        return world(mutated(tmp_path_factory.mktemp("one") / "network", dict.fromkeys(paths, alone)), (CPU,))

    papers = {
        "everything": world, "a GPU at hand": lambda: world(chosen=(GPU, CPU)), "no GPU": lambda: world(chosen=(CPU,)),
        "one network": cache(one_network), "nothing": nothing,
    }  # fmt: skip
    return lambda name: papers[name]()


@pytest.mark.slow
@pytest.mark.parametrize("paper", [*GAPS, "one network"])
def test_figures_and_tables_are_whole_or_gaps_with_a_command(paper_of, paper):
    gaps, wrong = set(), []
    for key, make in SHOWN.items():
        _, *more = (each for each in inspect.signature(make).parameters.values() if each.default is each.empty)
        try:
            made = make(paper_of(paper), *(["chips"] if more else []))
        except Missing as gap:
            gaps.add(key)
            wrong += [] if (gap.command or "python").startswith("python") else [(key, gap.command)]
        else:
            text = made if isinstance(made, str) else made.description
            wrong += [] if text and not NOTHING.search(text) else [(key, text)]
    assert wrong == []
    assert gaps == GAPS.get(paper, gaps)


@pytest.mark.parametrize("paper", ["one network", "nothing"])
def test_the_text_names_facts_that_exist_whatever_was_measured(paper_of, paper):
    chapters = {name: facts.of_chapter(name, paper_of(paper)) for name in facts.CHAPTERS}
    files = [ROOT / "index.qmd", ROOT / "published.qmd", *(ROOT / "report" / "chapters").glob("*/*.qmd")]
    names = [name for file in files for name in INLINE.findall(file.read_text("utf-8"))]
    assert len(names) > 400
    for name in names:
        eval(name, chapters | {"agreement": agreement, "waits_for": waits_for})  # raises for a name that is no fact


def test_every_command_of_a_fact_can_be_typed():
    found = [entry for name in facts.CHAPTERS for entry in facts.entries(name, facts.of_chapter(name, nothing()))]
    commands = {value.source.command for _, value, _ in found if value.source and value.source.command}
    flags = {command.removeprefix("python -m measure") for command in commands} - commands
    assert len(flags) > 10
    for words in map(shlex.split, flags):
        if words[:1] and words[0] in VERBS:
            parser_of(words.pop(0)).parse_args(words)
        else:
            make_request(parser().parse_args(words))


def test_of_nothing_no_value_is_printed():
    """But for the program's own rules, and counts of nothing."""
    found = [entry for name in facts.CHAPTERS for entry in facts.entries(name, facts.of_chapter(name, nothing()))]
    printed = {key for key, value, _ in found if str(value) not in ("–", "0")}
    rules = ("method.protocol.", "remedies.threshold", "training.problems.memory", "training.step.tolerance")
    assert {key for key in printed if not key.startswith((*rules, "published."))} == set()
