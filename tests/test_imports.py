"""What imports what: one way between files and between rooms, and between the two programs by the cache alone."""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter

import pytest
from helpers.places import ROOT

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for program in ("measure", "report", "roofwright")
    for path in sorted((ROOT / program).rglob("*.py"))
}
"""The modules of both programs, packages by the names of their folders."""

TREES = {module: ast.parse(path.read_text("utf-8")) for module, path in FILES.items()}

SHARED = ("measure.cache", "measure.domain", "measure.errors", "measure.predicting")
"""What ``report`` may import of ``measure``."""

ORDER = "errors, domain, cache, machine, models, counting, timing, roofs, traces, profiling, predicting, run, verbs"
"""The rooms of ``measure``: each imports only from rooms on its left. The package itself and ``__main__`` come last."""


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a module imports when it runs, at its top or within a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is absolute here"
            for name in node.names:
                module = f"{node.module}.{name.name}"
                yield module if module in FILES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        yield from imports(node)


GRAPH = {module: sorted(set(imports(tree)) & set(FILES) - {module}) for module, tree in TREES.items()}
EDGES = [(module, other) for module, imported in GRAPH.items() for other in imported]


def room(module: str, depth: int = 2) -> str:
    """The package, or the file, right below ``measure`` or ``report`` that a module belongs to."""
    return ".".join(module.split(".")[:depth])


def is_in(module: str, packages: str | tuple[str, ...]) -> bool:
    return f"{module}.".startswith(
        tuple(f"{each}." for each in ([packages] if isinstance(packages, str) else packages))
    )


def test_no_module_and_no_room_imports_itself_by_way_of_others():
    rooms: dict[str, set[str]] = {}
    for module, other in EDGES:
        if room(module) != room(other):
            rooms.setdefault(room(module), set()).add(room(other))
    for graph in (GRAPH, rooms):
        TopologicalSorter(graph).prepare()  # else CycleError names the circle


PLACES = {f"measure.{name}": place for place, name in enumerate(ORDER.split(", "))}
CHAPTERS = "report.chapters"


def place(module: str) -> int:
    return PLACES.get(room(module), len(PLACES))


@pytest.mark.parametrize(
    "is_wrong",
    [
        pytest.param(
            lambda module, other: is_in(module, "measure") and is_in(other, "measure") and place(other) > place(module),
            id="a room of measure imports from one on its right",
        ),
        pytest.param(lambda module, other: is_in(module, "measure") and is_in(other, "report"), id="measure, report"),
        pytest.param(
            lambda module, other: is_in(module, "report") and is_in(other, "measure") and not is_in(other, SHARED),
            id="the report knows how it was measured",
        ),
        pytest.param(
            lambda module, other: is_in(module, CHAPTERS) and is_in(other, CHAPTERS)
            and room(module, 3) != room(other, 3),
            id="a chapter imports another",
        ),
        pytest.param(
            lambda module, other: module == "roofwright.command_line" and other != "measure.errors",
            id="the shared command line knows more than the error of both",
        ),
        pytest.param(
            lambda module, other: not is_in(module, "roofwright") and is_in(other, "roofwright")
            and other != "roofwright.command_line",
            id="a program knows the other's entry",
        ),
    ],
)  # fmt: skip
def test_nothing_imports_what_it_may_not_know(is_wrong):
    assert [f"{module} -> {other}" for module, other in EDGES if is_wrong(module, other)] == []


def test_every_room_of_measure_has_its_place():
    rooms = {room(module) for module in FILES if is_in(module, "measure")}
    assert rooms == {*PLACES, "measure", "measure.__main__"}


def test_imports_are_found_wherever_they_stand():
    text = "import measure.errors\ndef f():\n    from measure.cache import records, nothing\n"
    text += "if TYPE_CHECKING:\n    import report\n"
    assert sorted(imports(ast.parse(text))) == ["measure.cache", "measure.cache.records", "measure.errors"]


def test_no_class_name_stands_twice():
    names = Counter(node.name for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    assert [name for name, times in names.items() if times > 1] == []
