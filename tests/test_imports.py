"""What imports what: one way between files and between rooms, and between the two programs by the cache alone."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter

from helpers.places import ROOT

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for program in ("measure", "report", "roofwright")
    for path in sorted((ROOT / program).rglob("*.py"))
}
"""The modules of both programs, packages by the names of their folders."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every worker collects this file, but one parses all the others."""
    return {module: ast.parse(path.read_text("utf-8")) for module, path in FILES.items()}


SHARED = (
    "measure.cache", "measure.domain", "measure.errors", "measure.predicting", "measure.published.aside",
    "measure.published.kernels", "measure.published.records", "measure.published.servers", "measure.serving",
)  # fmt: skip
"""What ``report`` may import of ``measure``."""

ORDER = (
    "errors, domain, cache, serving, machine, models, counting, published, timing, roofs, traces, profiling, "
    "predicting, planning, run, verbs"
)
"""The rooms of ``measure``: each imports only from rooms on its left. The package itself and ``__main__`` come last."""


def imports(tree: ast.AST, with_types: bool) -> Iterator[str]:
    """Yield the modules that a module imports, at its top or within a function; those for types alone on request."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if isinstance(node, ast.expr) or (for_types and not with_types):
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is absolute here"
            for name in node.names:
                module = f"{node.module}.{name.name}"
                yield module if module in FILES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        yield from imports(node, with_types)


@cache
def graph(with_types: bool = False) -> dict[str, list[str]]:
    return {module: sorted(set(imports(tree, with_types)) & set(FILES) - {module}) for module, tree in trees().items()}


def edges(with_types: bool = False) -> list[tuple[str, str]]:
    return [(module, other) for module, imported in graph(with_types).items() for other in imported]


def room(module: str, depth: int = 2) -> str:
    """The package, or the file, right below ``measure`` or ``report`` that a module belongs to."""
    return ".".join(module.split(".")[:depth])


def is_in(module: str, *packages: str) -> bool:
    return f"{module}.".startswith(tuple(f"{each}." for each in packages))


def test_no_module_and_no_room_imports_itself_by_way_of_others():
    rooms: dict[str, set[str]] = {}
    of_measure = [(module, other) for module, other in edges(with_types=True) if is_in(module, "measure")]
    for module, other in (*edges(), *of_measure):
        if room(module) != room(other):
            rooms.setdefault(room(module), set()).add(room(other))
    for each in (graph(), rooms):
        TopologicalSorter(each).prepare()  # else CycleError names the circle


PLACES = {f"measure.{name}": place for place, name in enumerate(ORDER.split(", "))}


def may_know(module: str, other: str) -> bool:
    """Whether a module may import another."""
    if module == "roofwright.command_line":
        return other == "measure.errors"
    if is_in(module, "roofwright") or other == "roofwright.command_line":
        return True
    if is_in(module, "measure"):
        places = [PLACES.get(room(each), len(PLACES)) for each in (other, module)]
        return is_in(other, "measure") and places == sorted(places)
    if is_in(module, "report.chapters") and is_in(other, "report.chapters"):
        return room(module, 3) == room(other, 3)
    return is_in(other, "report", *SHARED)


def test_nothing_imports_what_it_may_not_know():
    assert [f"{module} -> {other}" for module, other in edges() if not may_know(module, other)] == []
    rooms = {room(module) for module in FILES if is_in(module, "measure")}
    assert rooms == {*PLACES, "measure", "measure.__main__"}


BELOW = {"report.stats": ("report.markdown",), "report.paper": ("report.stats", "report.markdown", "report.files")}
"""The modules of ``report`` from which these rooms may import."""


def test_the_paper_and_its_statistics_import_only_what_is_below():
    found = [
        f"{module} -> {other}"
        for module, other in edges()
        for place, below in BELOW.items()
        if is_in(module, place) and is_in(other, "report") and not is_in(other, place, *below)
    ]
    assert found == []


def test_no_class_name_stands_twice():
    names = Counter(node.name for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []
