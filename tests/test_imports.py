"""What imports what: one way between files and between rooms, and between the two programs by the cache alone."""

import ast
from collections.abc import Iterator

import pytest
from helpers.places import ROOT

FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for program in ("measure", "report", "roofwright")
    for path in sorted((ROOT / program).rglob("*.py"))
}
"""The modules of both programs, packages by the names of their folders."""

SHARED = ("measure.cache", "measure.domain", "measure.errors", "measure.predicting")
"""What ``report`` may import of ``measure``."""


ROOMS = (
    "errors",
    "domain",
    "cache",
    "machine",
    "models",
    "counting",
    "timing",
    "roofs",
    "traces",
    "profiling",
    "predicting",
    "run",
    "verbs",
)
"""The rooms of ``measure``: each imports only from rooms on its left. The package itself and ``__main__`` come last."""


class WithoutTypes(ast.NodeTransformer):
    """Removes what only a type checker reads."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)


def imports(text: str) -> Iterator[str]:
    """Yield the modules that a module imports when it runs, at its top or within a function."""
    for node in ast.walk(WithoutTypes().visit(ast.parse(text))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is absolute here"
            for name in node.names:
                module = f"{node.module}.{name.name}"
                yield module if module in FILES else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


GRAPH = {
    module: sorted(set(imports(path.read_text("utf-8"))) & set(FILES) - {module}) for module, path in FILES.items()
}


def room(module: str) -> str:
    """The package, or the file, right below ``measure`` or ``report`` that a module belongs to."""
    return ".".join(module.split(".")[:2])


def circle(graph: dict[str, list[str]]) -> list[str]:
    """A way through a graph that ends where it begins; empty where there is none."""
    done: set[str] = set()

    def search(way: list[str]) -> list[str]:
        for following in graph.get(way[-1], ()):
            if following in way:
                return [*way[way.index(following) :], following]
            if following not in done and (found := search([*way, following])):
                return found
        done.add(way[-1])
        return []

    return next((found for start in graph if start not in done and (found := search([start]))), [])


def test_no_module_imports_itself_by_way_of_others():
    assert " -> ".join(circle(GRAPH)) == ""


def test_no_room_imports_itself_by_way_of_others():
    rooms: dict[str, list[str]] = {}
    for module, imported in GRAPH.items():
        rooms.setdefault(room(module), []).extend(room(other) for other in imported if room(other) != room(module))
    assert " -> ".join(circle(rooms)) == ""


def test_rooms_of_measure_import_only_from_rooms_on_their_left():
    places = {f"measure.{name}": place for place, name in enumerate(ROOMS)}
    rooms = {room(module) for module in FILES if module.startswith("measure")}
    assert rooms - set(places) == {"measure", "measure.__main__"}
    wrong = [
        f"{module} -> {other}"
        for module, imported in GRAPH.items()
        if module.startswith("measure")
        for other in imported
        if other.startswith("measure") and places.get(room(other), len(ROOMS)) > places.get(room(module), len(ROOMS))
    ]
    assert wrong == []


def test_the_report_knows_the_cache_and_nothing_of_how_it_was_measured():
    wrong = [
        f"{module} -> {other}"
        for module, imported in GRAPH.items()
        if module.startswith("report")
        for other in imported
        if other.startswith("measure") and not f"{other}.".startswith(tuple(f"{each}." for each in SHARED))
    ]
    assert wrong == []


def test_chapters_never_import_one_another():
    wrong = [
        f"{module} -> {other}"
        for module, imported in GRAPH.items()
        for other in imported
        if other.startswith("report.chapters.") and room_of_chapter(module) != room_of_chapter(other)
    ]
    assert wrong == []


def room_of_chapter(module: str) -> str:
    return ".".join(module.split(".")[:3])


def test_measuring_knows_nothing_of_the_report():
    wrong = [
        f"{module} -> {other}"
        for module, imported in GRAPH.items()
        if module.startswith("measure")
        for other in imported
        if other.startswith("report")
    ]
    assert wrong == []


def test_the_shared_command_line_knows_neither_program_but_the_error_of_both():
    assert GRAPH["roofwright.command_line"] == ["measure.errors"]
    shared = {
        other
        for module, imported in GRAPH.items()
        if not module.startswith("roofwright")
        for other in imported
        if other.startswith("roofwright")
    }
    assert shared == {"roofwright.command_line"}


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": ["b"], "b": ["c"], "c": []}, []),
        ({"a": ["b", "c"], "b": ["c"], "c": []}, []),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, ["b", "c", "b"]),
        ({"a": ["b"], "b": [], "c": ["d"], "d": ["c"]}, ["c", "d", "c"]),
    ],
)
def test_a_circle_is_found_where_there_is_one(graph, found):
    assert circle(graph) == found


def test_imports_are_found_wherever_they_stand():
    text = "import measure.errors\ndef f():\n    from measure.cache import records, nothing\n"
    assert sorted(imports(text)) == ["measure.cache", "measure.cache.records", "measure.errors"]


def test_no_class_name_stands_twice():
    places: dict[str, list[str]] = {}
    for module, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
